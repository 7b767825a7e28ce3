"""Reads over gRPC and HTTP where spans are made: each that is no hit becomes one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from time import perf_counter_ns, time_ns
from typing import Any

from external_upquery.passed import Passed
from proxy.auto.passed_reads import shape_of
from proxy.cache.named_cache import NamedCache
from proxy.port.api import Answer, Demand, ParameterValue, Served
from proxy.port.reasons import Why
from proxy.port.tracing import CALLER, NOTED, Noted, Spans
from proxy.read.freshness import CallDemand
from proxy.read.host import ReadHost
from proxy.read.open_cache import OpenCache
from proxy.read.passing import Passing

Ask = Callable[..., Coroutine[Any, Any, Passed]]


class TracedCache(OpenCache):
    """A cache for one wire format. Reads of sessions (`fill`) are their sessions' to tell."""

    def __init__(self, spans: Spans, host: ReadHost, cache: NamedCache, format_: int) -> None:
        super().__init__(host, cache, format_)
        self._spans = spans

    def read(
        self, parameters: Sequence[ParameterValue], demand: Demand | None = None, text: str = ""
    ) -> Coroutine[None, None, Answer]:
        return self._told(super().read(parameters, demand, text))

    async def _told(self, reading: Coroutine[None, None, Answer]) -> Answer:
        started, noted, spans, cache = time_ns(), Noted(), self._spans, self._cache
        token = NOTED.set(noted)
        try:
            answer = await reading
        finally:
            NOTED.reset(token)
        if answer.served is Served.MISS:
            query = cache.sql if spans.texts else ""
            spans.missed(started, noted, CALLER.get()(), cache=cache.name, database=cache.database, query=query)
        return answer


class TracedPassing(Passing):
    """Passes reads of gRPC."""

    def __init__(self, spans: Spans, *given: Any) -> None:
        super().__init__(*given)
        self._spans = spans
        self._ask = noting(self._ask)

    async def read(
        self,
        sql: str,
        database: str,
        format_: int,
        why: Why,
        cache: str,
        demand: CallDemand | None,
        tables: Sequence[str] = (),
    ) -> Answer:
        started, noted, spans = time_ns(), Noted(), self._spans
        token = NOTED.set(noted)
        try:
            answer = await super().read(sql, database, format_, why, cache, demand, tables)
        finally:
            NOTED.reset(token)
        query = shape_of(sql) if spans.texts else ""
        spans.passed(started, noted, CALLER.get()(), why, cache=cache, database=database, query=query)
        return answer


def noting(ask: Ask) -> Ask:
    """Asks MySQL, and notes what that took, and how many rows it gave."""

    async def asked(*given: Any, **more: Any) -> Passed:
        started = perf_counter_ns()
        passed = await ask(*given, **more)
        noted = NOTED.get()
        if noted is not None:
            noted.rows, noted.mysql_ms = len(passed.rows), (perf_counter_ns() - started) / 1e6
        return passed

    return asked
