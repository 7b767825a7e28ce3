"""A session's reads where spans are made: each that is no hit becomes one, of the trace that its text tells.

Sessions have these parts in the place of the others from their beginning on, so without spans nothing is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any

from proxy.auto.passed_reads import shape_of
from proxy.mysql.reads.cached_read import CachedRead
from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.reads.routes import Route
from proxy.mysql.session.cached_reads import CachedReads
from proxy.mysql.session.pass_through import Passing, PassThrough
from proxy.mysql.wire.responses import Exchange, Outcome
from proxy.port.api import ParameterValue, Served
from proxy.port.reasons import Why
from proxy.port.tracing import NOTED, Noted, Spans, trace_of

if TYPE_CHECKING:
    from proxy.mysql.session.shared import Shared


class TracedReads(CachedReads):
    """Reads that a cache may answer; those that MySQL answers are `TracedPassThrough`'s to tell."""

    async def _miss(self, read: CachedRead) -> None:
        started, noted = time_ns(), Noted()
        token = NOTED.set(noted)
        try:
            await super()._miss(read)
        finally:
            NOTED.reset(token)
        last = self._context.last
        if last is not None and last[0] == Served.MISS.value:
            spans, text = spans_of(self._shared), read.sent
            if isinstance(read.kind, PreparedStatement):
                text = read.kind.text
            cache, query = read.cache.name, _shape(text, spans)
            spans.missed(started, noted, trace_of(text), cache=cache, database=read.database, query=query)


class TracedPassThrough(PassThrough):
    """Statements that MySQL answers; those that are reads are told."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._data = b""  # the last one

    def statement(
        self,
        data: bytes,
        route: Route,
        why: Why,
        *,
        cache: str = "",
        values: Sequence[ParameterValue] | None = None,
        noted: bytes | None = None,
        watched: Callable[[Callable[[Outcome], None]], Exchange] | None = None,
    ) -> None:
        self._data = data
        super().statement(data, route, why, cache=cache, values=values, noted=noted, watched=watched)

    def _note(self, passing: Passing) -> None:
        super()._note(passing)
        if passing.cache or passing.route.noted is not None:
            took, spans = perf_counter_ns() - passing.at, spans_of(self._shared)
            text = passing.noted or (passing.executed.text if passing.executed is not None else self._text(self._data))
            spans.passed(
                time_ns() - took,
                Noted(mysql_ms=took / 1e6),
                trace_of(self._upstream.text_of(self._data)),
                passing.why,
                cache=passing.cache,
                database=self._state.database,
                query=_shape(text, spans),
            )


def spans_of(shared: Shared) -> Spans:
    assert shared.spans is not None, "sessions have these parts where there are spans"
    return shared.spans


def _shape(text: bytes, spans: Spans) -> str:
    return shape_of(text.decode("utf-8", "replace")) if spans.texts else ""
