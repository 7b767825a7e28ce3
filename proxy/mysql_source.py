"""One MySQL server as a source: its binlog, upqueries on connections of our own, its information_schema."""

from __future__ import annotations

import asyncio

from bulk.account import account_of
from dataflow.messages import Keyed
from dataflow.shards import Shards
from external_upquery.executor import Executor
from external_upquery.schema_source import SchemaSource
from external_upquery.upstream import Upstream
from proxy.prepared_watch import PreparedWatch, ask
from vstream.binlog import BinlogSource
from vstream.source import Sink


class MysqlSource:
    """Lives on one event loop: make it there."""

    session_trackers = True
    find_shards = None

    def __init__(self, upstream: Upstream, connections: int) -> None:
        """`connections`: for upqueries; one more follows the binlog."""
        self.upstream = upstream
        self.stream = BinlogSource(account_of(upstream))
        self.upqueries = Executor(upstream, connections=connections)
        self.schema = SchemaSource(upstream)
        self.prepared = PreparedWatch(lambda: ask(self.upqueries), self.stream)

    def shards_of(self, rows: Keyed) -> Shards:
        return None  # there are none

    async def start(self, sink: Sink) -> str:
        version = await self.upqueries.start()
        await self.stream.start(sink)
        return version

    def tick(self) -> None:
        self.prepared.tick()

    async def stop(self, patience: float) -> None:
        await self.prepared.close()
        await self.stream.close()
        await self.upqueries.stop(patience)
        await asyncio.to_thread(self.schema.close)
