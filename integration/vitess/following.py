"""The stream of a real keyspace, followed, and what its changes make of a table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dataflow.messages import Ddl, Gap, StreamEvent, Transaction
from external_upquery.address import parse_upstream
from integration.vitess.cluster import Cluster
from integration.vitess.proxy import address
from integration.vitess.shop import ITEM, SHARDED, Writer, executed
from proxy.app import TICK
from proxy.port.accounts import Accounts
from proxy.source.history_watch import SourceWatch
from proxy.source.vitess import VitessSource
from sqltypes.expression import Row, Value
from tests.support.waiting import until
from vstream.source import NEVER, Sink
from vstream.vitess.stream import VitessStream


class Replayed:
    """`item`, by the changes alone. The old shards have told all before the `Gap` where they end, and the new ones tell
    all since: so what was there before it is still right."""

    def __init__(self) -> None:
        self.rows: dict[Value, Row] = {}
        self.gaps: list[Gap] = []
        self.seen = 0

    def __call__(self, event: StreamEvent) -> None:
        assert not isinstance(event, Ddl), event
        if isinstance(event, Gap):
            self.gaps.append(event)
        elif isinstance(event, Transaction):
            for change in event.changes:
                for before, after in change.pairs:
                    self.seen += 1
                    if before is not None:
                        assert self.rows.pop(before[0]) == before
                    if after is not None:
                        assert after[0] not in self.rows
                        self.rows[after[0]] = after

    def begin_from(self, rows: tuple[Row, ...]) -> None:
        self.rows, self.gaps = {row[0]: row for row in rows}, []


def all_rows(cluster: Cluster) -> tuple[Row, ...]:
    return cluster.execute(SHARDED, "SELECT id, n, name FROM item")


async def caught_up(cluster: Cluster, stream: VitessStream, *shards: str) -> None:
    """With these shards, or all that there are."""
    goal = await asyncio.to_thread(executed, cluster, SHARDED, *shards)
    await until(lambda: goal.issubset(stream.position))


async def some_more(*writers: Writer) -> None:
    written = [one.written for one in writers]
    await until(lambda: all(one.written > before + 50 for one, before in zip(writers, written, strict=True)))


@asynccontextmanager
async def following(cluster: Cluster, sink: Sink) -> AsyncIterator[VitessStream]:
    """A source's stream, begun, with all of `item` wanted; doubted as the proxy doubts it."""
    source = VitessSource(parse_upstream(address(cluster, SHARDED)), 2)
    stream, upqueries = source.stream, source.upqueries
    watch = SourceWatch(upqueries.history, lambda: stream.position, Accounts())

    def ended() -> bool:
        if stream.connected:
            watch.tick()
            if why := watch.doubt(stream.history, stream.lag()):
                stream.reconnect(why)
        return False

    await source.start(sink, NEVER)
    stream.want(ITEM, frozenset({"id", "n", "name"}))
    doubting = asyncio.get_running_loop().create_task(until(ended, float("inf"), TICK))
    try:
        yield stream
    finally:
        doubting.cancel()
        await asyncio.gather(doubting, return_exceptions=True)
        await watch.close()
        await source.stop(1.0)
