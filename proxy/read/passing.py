"""Reads that MySQL answers, in a READ ONLY transaction on a connection of Upwell's own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from dataflow.engine import Engine
from gtid_tracker.gtid import GtidSet
from proxy.auto.passed_reads import ProxiedQueries
from proxy.cache.named_cache import NamedCache
from proxy.loop.slices import encode_in_slices
from proxy.port.api import Answer, ParameterValue, Served
from proxy.port.reasons import Why
from proxy.pump.wire_formats import WireFormats
from proxy.read.freshness import CallDemand
from proxy.read.literals import substituted_in_slices
from proxy.source.source import Upqueries
from sqltypes.errors import TooStale

VISIBLE_SOON = 0.05  # seconds that a transaction of the stream may need to become visible
LEAST_PATIENCE = 0.05  # seconds that MySQL may take to execute what the stream has brought already
WIDE = 200  # columns


class Passing:
    """Passes reads of gRPC; those of sessions have connections of their own. `count`: how many, until now."""

    def __init__(
        self,
        engine: Engine,
        executor: Upqueries,
        formats: WireFormats,
        proxied: ProxiedQueries,
        caches: Mapping[str, NamedCache],
    ) -> None:
        self.count = 0
        self._engine = engine
        self._ask = executor.read
        self._formats = formats
        self._proxied = proxied
        self._caches = caches

    def note(self, cache: str, why: Why) -> None:
        """MySQL answers a read of the cache of this name, or of none (""), for this reason."""
        self._proxied.passed(why)
        if (found := self._caches.get(cache)) is not None:
            found.passed.add(why)

    async def read_cache(
        self,
        cache: NamedCache,
        parameters: Sequence[ParameterValue],
        format_: int,
        why: Why,
        demand: CallDemand | None = None,
    ) -> Answer:
        """The cache's query with these parameters. Raises TooStale where MySQL itself lacks what is demanded."""
        self.note(cache.name, why)
        text = await substituted_in_slices(cache.text, parameters)
        return await self.read(text, cache.database, format_, why, cache.name, demand, cache.tables)

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
        """Any text that only reads. Raises as `read_cache`."""
        self.count += 1
        read = partial(self._ask, sql, database, tables=tables)
        since = self._engine.state.ring.position.freeze()
        passed = await read()
        if not since.issubset(GtidSet.parse(passed.executed)):
            # The stream tells of a transaction before it is visible: hits may have shown what this lacks.
            passed = await read(after=since, patience=VISIBLE_SOON)
        if demand is not None and not demand.met_by_source(passed.executed):
            # The stream is waited for first, for it takes no connection; it brings what is about to be executed.
            if await demand.reached():
                after, patience = demand.needed, max(demand.seconds_left, LEAST_PATIENCE)
                passed = await read(after=after, patience=patience)
            if not demand.met_by_source(passed.executed):
                raise TooStale(f"MySQL has not executed {demand.lacking(passed.executed)}, which the read asks for")
        if len(passed.columns) > WIDE:  # to name the columns, to make the encoders and to encode are three steps
            await asyncio.sleep(0)
        encode = self._formats.encoder(format_, passed.columns)
        if len(passed.columns) > WIDE:
            await asyncio.sleep(0)
        body = await encode_in_slices(encode, self._formats.joins[format_], passed.rows)
        return Answer(Served.PASSED, passed.columns, body, passed.executed, cache, why, passed.horizon)
