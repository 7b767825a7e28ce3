"""Spans of misses and of reads that MySQL has answered, for OpenTelemetry: by OTLP over HTTP, where OTEL_* says so.

A read that is no hit is told when it has been answered, with its times; a thread of OpenTelemetry's sends what was
told. What it cannot send as fast as it comes is dropped: nobody waits. No span has a value of a read's parameters.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from time import monotonic, time_ns
from typing import TYPE_CHECKING

import structlog

import upwell
from proxy.port.reasons import Why
from proxy.port.tracing import Noted, Trace
from upwell.extras import how_to_install

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

log = structlog.get_logger("upwell.spans")

WHERE = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SPOKEN = "http/protobuf"
AT_ONCE = 128  # spans that are sent together: to write so many takes the thread, and so Python, 3 ms
MOST = 1_000  # in a second: each takes the loop 50 us
FAREWELL = 2.0  # seconds in which the last ones are sent
SAID_EVERY = 60.0  # seconds from one complaint of OpenTelemetry's to the next
LOGGERS = ("opentelemetry.sdk._shared_internal", "opentelemetry.exporter.otlp.proto.http.trace_exporter")


def wanted(environment: Mapping[str, str]) -> bool:
    """Whether OTEL_* asks for spans, and says where to send them."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    return exporter == "otlp" or (not exporter and any(environment.get(name) for name in WHERE))


def spans_of(environment: Mapping[str, str], *, texts: bool) -> SentSpans | None:
    """None where no spans are wanted, or OpenTelemetry is not installed. `texts`: spans have the queries' texts.
    Requires: it is this process's environment, which OpenTelemetry reads itself."""
    if not wanted(environment):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        why = f"OTEL_* asks for spans, and {error.name!r} is not installed ({how_to_install('otel')})"
        log.warning("no_spans", why=why)
        return None
    protocol = next((environment[name] for name in PROTOCOLS if environment.get(name)), SPOKEN)
    if protocol != SPOKEN:
        log.warning("spans_protocol", why=f"spans are sent as {SPOKEN}, and not as {protocol}")
    for name in LOGGERS:
        logging.getLogger(name).addFilter(Seldom())
    own = Resource.create({"service.name": "upwell", "service.version": upwell.__version__})
    provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    size = None if environment.get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") else AT_ONCE
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), max_export_batch_size=size))
    return SentSpans(provider, texts=texts)


class Seldom(logging.Filter):
    """Lets a logger's lines through now and then: where spans cannot be sent there is one of each try."""

    def __init__(self) -> None:
        super().__init__()
        self._said_at = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        now = monotonic()
        if now - self._said_at < SAID_EVERY:
            return False
        self._said_at = now
        return True


class SentSpans:
    """Implements `proxy.port.tracing.Spans`. `dropped`: spans that were not made, for so many came in one second."""

    def __init__(self, provider: TracerProvider, *, texts: bool) -> None:
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.texts = texts
        self.dropped = 0
        self._provider = provider
        self._tracer = provider.get_tracer("upwell", upwell.__version__)
        self._extract = TraceContextTextMapPropagator().extract
        self._kind = SpanKind.SERVER
        self._second, self._made = 0, 0

    def missed(self, started: int, noted: Noted, trace: Trace, *, cache: str, database: str, query: str = "") -> None:
        self._add("miss", started, noted, trace, "", cache, database, query)

    def passed(
        self,
        started: int,
        noted: Noted,
        trace: Trace,
        why: Why,
        *,
        cache: str,
        database: str,
        query: str = "",
    ) -> None:
        self._add("passed", started, noted, trace, why.reason.value, cache, database, query)

    def _add(
        self,
        outcome: str,
        started: int,
        noted: Noted,
        trace: Trace,
        reason: str,
        cache: str,
        database: str,
        query: str,
    ) -> None:
        now = time_ns()
        if now // 1_000_000_000 != self._second:
            self._second, self._made = now // 1_000_000_000, 0
        self._made += 1
        if self._made > MOST:
            self.dropped += 1
            return
        told: dict[str, str | int | float | None] = {
            "db.system.name": "mysql",
            "db.namespace": database or None,
            "db.query.text": query or None,
            "db.response.returned_rows": noted.rows,
            "upwell.outcome": outcome,
            "upwell.cache": cache or None,
            "upwell.reason": reason or None,
            "upwell.mysql_ms": noted.mysql_ms,
        }
        attributes = {name: value for name, value in told.items() if value is not None}
        parent = self._extract(trace) if trace else None
        span = self._tracer.start_span(
            f"upwell {outcome}", context=parent, kind=self._kind, attributes=attributes, start_time=started
        )
        span.end(now)

    async def close(self) -> None:
        """Sends what is left, for a short time at most."""
        ended = threading.Thread(target=self._provider.shutdown, name="upwell-spans", daemon=True)
        ended.start()
        deadline = monotonic() + FAREWELL
        while ended.is_alive() and monotonic() < deadline:
            await asyncio.sleep(0.01)
