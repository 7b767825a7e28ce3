"""A receiver of OpenTelemetry's spans by OTLP over HTTP, on a thread of its own."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Span:
    """Times in nanoseconds since 1970; ids in hexadecimal digits."""

    name: str
    trace: str
    parent: str
    started: int
    ended: int
    attributes: dict[str, str | int | float]
    resource: dict[str, str | int | float]


@dataclass
class Receiver:
    """`held`: while it is not set no request is answered."""

    port: int = 0
    spans: list[Span] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)

    @property
    def environment(self) -> dict[str, str]:
        """What has spans sent here soon."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "OTEL_BSP_SCHEDULE_DELAY": "20",
        }

    def took(self, body: bytes) -> None:
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = attributes(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    ids, times = (
                        (span.trace_id.hex(), span.parent_span_id.hex()),
                        (
                            span.start_time_unix_nano,
                            span.end_time_unix_nano,
                        ),
                    )
                    self.spans.append(Span(span.name, *ids, *times, attributes(span.attributes), resource))


def attributes(found: object) -> dict[str, str | int | float]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in found}  # type: ignore[attr-defined]


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.held.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.held.wait(60)
            receiver.took(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.held.set()
        server.shutdown()
        server.server_close()
        thread.join()
