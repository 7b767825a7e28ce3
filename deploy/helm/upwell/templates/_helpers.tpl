{{- define "upwell.name" -}}
{{- if contains "upwell" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-upwell" (.Release.Name | trunc 43 | trimSuffix "-") -}}
{{- end -}}
{{- end }}

{{- define "upwell.selector" -}}
app.kubernetes.io/name: upwell
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "upwell.labels" -}}
{{ include "upwell.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "upwell.upstreamSecret" -}}
{{- if .Values.upstream.secretName -}}
{{- .Values.upstream.secretName -}}
{{- else -}}
{{- $_ := required "upstream.secretName or upstream.url must say where MySQL is" .Values.upstream.url -}}
{{- printf "%s-upstream" (include "upwell.name" .) -}}
{{- end -}}
{{- end }}

{{/* The file of settings. What `settings` has goes before what the chart sets. */}}
{{- define "upwell.settings" -}}
{{- $settings := dict
      "upstream-file" "/etc/upwell/upstream/upstream"
      "state-dir" "/var/lib/upwell"
      "mysql-listen" (printf "0.0.0.0:%d" (int .Values.mysql.port))
      "http-listen" (printf "0.0.0.0:%d" (int .Values.http.port))
      "grpc-listen" (printf "%s:%d" (ternary "0.0.0.0" "127.0.0.1" .Values.grpc.enabled) (int .Values.grpc.port))
      "shutdown-delay" "10s"
      "log-json" true -}}
{{- if .Values.mysql.tlsSecretName }}
{{- $_ := set $settings "mysql-tls-cert" "/etc/upwell/mysql-tls/tls.crt" }}
{{- $_ := set $settings "mysql-tls-key" "/etc/upwell/mysql-tls/tls.key" }}
{{- end }}
{{- if .Values.grpc.enabled }}
{{- $_ := set $settings "grpc-tls-cert" "/etc/upwell/grpc-tls/tls.crt" }}
{{- $_ := set $settings "grpc-tls-key" "/etc/upwell/grpc-tls/tls.key" }}
{{- $_ := set $settings "grpc-token-file" "/etc/upwell/grpc-token/token" }}
{{- end }}
{{- range $name, $value := .Values.settings }}
{{- $_ := set $settings $name $value }}
{{- end }}
{{- range $name, $value := $settings }}
{{ $name }} = {{ if kindIs "string" $value }}{{ toJson $value }}{{ else }}{{ toJson $value | quote }}{{ end }}
{{- end }}
{{- range .Values.caches }}

[[cache]]
name = {{ toJson .name }}
sql = {{ toJson .sql }}
{{- with .database }}
database = {{ toJson . }}
{{- end }}
{{- end }}
{{- end }}
