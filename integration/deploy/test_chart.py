"""The Helm chart: what helm makes of it is what Kubernetes knows, fits together, and is understood by Upwell."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from integration.deploy.tools import helm, kubernetes_validate, run
from integration.support.certificates import certificate
from proxy.settings.config import CacheDefinition, Config, load_config
from upwell import __version__

pytestmark = pytest.mark.timeout(900)  # the first one builds helm

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/upwell"
MONITORING = ROOT / "deploy/monitoring"
OLDEST, NEWEST = "1.27", "1.37"  # versions of Kubernetes
UPSTREAM = {"upstream": {"url": "mysql://upwell:secret@db.example:3306/shop"}}
EVERYTHING: Mapping[str, Any] = {
    "upstream": {"secretName": "mysql-address", "secretKey": "url"},
    "imagePullSecrets": [{"name": "registry"}],
    "replicas": 3,
    "settings": {
        **{"memory-limit": "1GiB", "max-caches": 1000000, "auto-cache-memory": 0.25, "log-json": False},
        **{"auto-cache": True, "warm-up": False},  # as YAML reads on and off
    },
    "caches": [{"name": "story", "sql": 'SELECT `a`, "<b>" FROM s\nWHERE id = ?', "database": "shop"}],
    "env": [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector:4318"}],
    "mysql": {"tlsSecretName": "mysql-tls", "service": {"type": "LoadBalancer", "annotations": {"a": "b"}}},
    "grpc": {"enabled": True, "tlsSecretName": "grpc-tls", "tokenSecretName": "grpc-token"},
    "persistence": {"enabled": True, "size": "5Gi", "storageClassName": "fast"},
    "networkPolicy": {
        "enabled": True,
        "clients": [{"podSelector": {"matchLabels": {"app": "shop"}}}],
        "upstream": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        "upstreamPorts": [3306, 15991],
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "grafanaBoards": {"enabled": True},
    "podAnnotations": {"x": "y"},
    "podLabels": {"team": "data"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "db", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    ],
}
WITHOUT_VOLUME = UPSTREAM | {"persistence": {"enabled": False}}
CASES = {"least": UPSTREAM, "everything": EVERYTHING, "without a volume": WITHOUT_VOLUME}

Object = dict[str, Any]


def rendered(tmp_path: Path, values: Mapping[str, Any], release: str = "shop") -> str:
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))
    done = run(*helm(), "template", release, CHART, "-n", "apps", "--kube-version", NEWEST, "-f", file)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(text: str) -> list[Object]:
    return [one for one in yaml.safe_load_all(text) if one is not None]


def first(found: Sequence[Object], kind: str) -> Object:
    """The first one of this kind."""
    return next(one for one in found if one["kind"] == kind)


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_helm_has_nothing_to_say_against_it(tmp_path: Path, values: Mapping[str, Any]) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))
    done = run(*helm(), "lint", "--strict", "--kube-version", NEWEST, "-f", file, CHART)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout and "[ERROR]" not in done.stdout


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_kubernetes_knows_all_that_it_has(tmp_path: Path, values: Mapping[str, Any]) -> None:
    own = [one for one in objects(rendered(tmp_path, values)) if one["apiVersion"] != "monitoring.coreos.com/v1"]
    file = tmp_path / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(own))
    done = run(*kubernetes_validate(), "--strict", "-k", OLDEST, "-k", NEWEST, file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^INFO .* passed", done.stdout, re.M)) == 2 * len(own), done.stdout


def test_what_kubernetes_does_not_know_is_found(tmp_path: Path) -> None:
    file = tmp_path / "manifests.yaml"
    file.write_text(rendered(tmp_path, UPSTREAM).replace("podManagementPolicy:", "podManagmentPolicy:"))
    assert run(*kubernetes_validate(), "--strict", "-k", NEWEST, file).returncode != 0


def settings_of(found: Sequence[Object], tmp_path: Path) -> Config:
    """As the proxy in the pod reads them, from the volumes that the pod has."""
    pod = first(found, "StatefulSet")["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    (text,) = (one["data"]["upwell.toml"] for one in found if "upwell.toml" in one.get("data", ()))
    cert, key = certificate(tmp_path)
    contents = {
        "upstream": "mysql://upwell:secret@db.example:3306/shop",
        "token": "a-token",
        "tls.crt": cert.read_text(),
        "tls.key": key.read_text(),
    }
    for volume in pod["volumes"]:
        if "secret" in volume:
            items = [item["path"] for item in volume["secret"].get("items", [])] or ["tls.crt", "tls.key"]
            folder = tmp_path / mounts[volume["name"]].lstrip("/")
            folder.mkdir(parents=True)
            for item in items:
                (folder / item).write_text(contents[item])
    file = tmp_path / "upwell.toml"
    file.write_text(text.replace('"/etc/', f'"{tmp_path}/etc/'))
    return load_config({"config": str(file)}, {}, None)


def test_upwell_understands_its_settings(tmp_path: Path) -> None:
    config = settings_of(objects(rendered(tmp_path, EVERYTHING)), tmp_path)
    assert config.upstream == UPSTREAM["upstream"]["url"]
    assert (config.memory_limit, config.max_caches, config.log_json) == (1 << 30, 1_000_000, False)
    assert config.auto_cache is not None and not config.warm_up
    assert config.caches == (CacheDefinition("story", EVERYTHING["caches"][0]["sql"], "shop"),)
    assert (config.mysql.listen.host, config.mysql.listen.port, config.shutdown_delay) == ("0.0.0.0", 3307, 10.0)
    assert (config.grpc_listen.host, config.grpc_token) == ("0.0.0.0", "a-token")
    assert config.state_dir == Path("/var/lib/upwell")


def test_variables_are_the_containers(tmp_path: Path) -> None:
    (container,) = first(objects(rendered(tmp_path, EVERYTHING)), "StatefulSet")["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["env"] == EVERYTHING["env"]


def test_without_settings_grpc_is_the_pods_own(tmp_path: Path) -> None:
    found = objects(rendered(tmp_path, UPSTREAM))
    config = settings_of(found, tmp_path)
    assert (config.grpc_listen.host, config.log_json) == ("127.0.0.1", True)
    assert "50051" not in yaml.safe_dump_all([one for one in found if one["kind"] == "Service"])


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_its_objects_fit_together(tmp_path: Path, values: Mapping[str, Any]) -> None:
    found = objects(rendered(tmp_path, values))
    spec = first(found, "StatefulSet")["spec"]
    pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    ports = {port["name"] for port in container["ports"]}
    services = [one for one in found if one["kind"] == "Service"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    for service in services:
        assert service["spec"]["selector"].items() <= labels.items()
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    assert spec["serviceName"] in [one["metadata"]["name"] for one in services if one["spec"].get("clusterIP")]
    assert {
        container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe", "startupProbe")
    } <= ports
    volumes = {one["name"] for one in pod["volumes"]}
    volumes |= {one["metadata"]["name"] for one in spec.get("volumeClaimTemplates", ())}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    for one in found:
        if one["kind"] in ("PodDisruptionBudget", "NetworkPolicy"):
            selector = one["spec"].get("selector") or one["spec"]["podSelector"]
            assert selector["matchLabels"].items() <= labels.items()
        if one["kind"] == "ServiceMonitor":
            wanted = one["spec"]["selector"]["matchLabels"]
            (service,) = (other for other in services if wanted.items() <= other["metadata"]["labels"].items())
            named = {port["name"] for port in service["spec"]["ports"]}
            assert {endpoint["port"] for endpoint in one["spec"]["endpoints"]} <= named


def test_kinds_are_those_that_are_asked_for(tmp_path: Path) -> None:
    least = [one["kind"] for one in objects(rendered(tmp_path, UPSTREAM))]
    assert sorted(least) == ["ConfigMap", "Secret", "Service", "Service", "StatefulSet"]
    everything = {one["kind"] for one in objects(rendered(tmp_path, EVERYTHING))}
    more = {"NetworkPolicy", "PodDisruptionBudget", "ServiceMonitor", "PrometheusRule"}
    assert everything == set(least) - {"Secret"} | more


def test_alerts_and_boards_are_those_of_the_folder_for_monitoring(tmp_path: Path) -> None:
    found = objects(rendered(tmp_path, EVERYTHING))
    assert first(found, "PrometheusRule")["spec"] == yaml.safe_load((MONITORING / "alerts.yaml").read_text())
    (boards,) = (one for one in found if one["metadata"]["name"] == "shop-upwell-boards")
    read = {path.name: json.loads(path.read_text()) for path in (MONITORING / "boards").iterdir()}
    assert {name: json.loads(text) for name, text in boards["data"].items()} == read
    assert boards["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_other_settings_make_new_pods(tmp_path: Path) -> None:
    other_address = {"upstream": {"url": "mysql://upwell:other@db2.example:3306/shop"}}
    sums = [
        first(objects(rendered(tmp_path, values)), "StatefulSet")["spec"]["template"]["metadata"]["annotations"]
        for values in (UPSTREAM, UPSTREAM | {"settings": {"auto-cache": "on"}}, other_address)
    ]
    assert sums[0] != sums[1]
    assert sums[0] != sums[2], "the address of MySQL"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "upstream.secretName or upstream.url must say where MySQL is"),
        (UPSTREAM | {"setings": {}}, "setings"),
        (UPSTREAM | {"replicas": "two"}, "replicas"),
        (UPSTREAM | {"caches": [{"name": "story"}]}, "sql"),
        (UPSTREAM | {"grpc": {"enabled": True}}, "tlsSecretName"),
        ({"upstream": {"url": "postgres://db"}}, "url"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, values: Mapping[str, Any], why: str) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))
    done = run(*helm(), "template", "shop", CHART, "--kube-version", NEWEST, "-f", file)
    assert done.returncode != 0 and why in done.stderr


def test_a_release_that_is_called_upwell_does_not_repeat_it(tmp_path: Path) -> None:
    assert first(objects(rendered(tmp_path, UPSTREAM, "upwell")), "StatefulSet")["metadata"]["name"] == "upwell"


def test_its_version_is_that_of_upwell() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__
