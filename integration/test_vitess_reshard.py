"""Shards are split and merged while others write, and the stream of the keyspace goes on."""

from __future__ import annotations

import asyncio
import random
from contextlib import ExitStack

import pytest

from dataflow.messages import Ddl, Gap, StreamEvent, Transaction
from integration.grpc_app import run
from integration.vitess.cluster import Cluster
from integration.vitess.operations import FOUR, Reshard
from integration.vitess.shop import ITEM, SHARDED, SHARDS, Writer, executed
from sqltypes.expression import Row, Value
from tests.support.waiting import until
from vstream.vitess import VitessStream

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it


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


async def caught_up(cluster: Cluster, stream: VitessStream) -> None:
    goal = await asyncio.to_thread(executed, cluster, SHARDED)
    await until(lambda: goal.issubset(stream.position))


async def some_more(*writers: Writer) -> None:
    written = [one.written for one in writers]
    await until(lambda: all(one.written > before + 50 for one, before in zip(writers, written, strict=True)))


def test_two_shards_become_four_while_others_write(own_vitess: Cluster) -> None:
    rng, replayed = random.Random(3), Replayed()
    split = Reshard(own_vitess, SHARDED)

    async def scenario() -> None:
        stream = VitessStream(f"127.0.0.1:{own_vitess.grpc}", SHARDED)
        await stream.start(replayed)
        stream.want(ITEM, frozenset({"id", "n", "name"}))

        async def cut() -> None:
            before = stream.reconnects
            stream.reconnect("a test")
            await until(lambda: stream.reconnects > before and stream.connected)

        async def something_seen(changes: int) -> None:
            before = replayed.seen
            await until(lambda: replayed.seen > before + changes)

        async def cut_now_and_then() -> None:
            while True:
                await cut()
                await something_seen(rng.randrange(200))

        with ExitStack() as stack:
            writers = [stack.enter_context(Writer(own_vitess, seed)) for seed in (1, 2)]
            cutting = asyncio.create_task(cut_now_and_then())
            await asyncio.to_thread(split.begin)
            cutting.cancel()
            await until(lambda: stream.connected)
            await asyncio.to_thread(split.switch)
            await until(lambda: bool(replayed.gaps))
            cutting = asyncio.create_task(cut_now_and_then())
            await some_more(*writers)
            await asyncio.to_thread(split.complete)
            await some_more(*writers)
            cutting.cancel()
        await caught_up(own_vitess, stream)
        rows = await asyncio.to_thread(all_rows, own_vitess)
        assert replayed.rows == {row[0]: row for row in rows} and len(rows) > 5
        (gap,) = replayed.gaps
        assert gap.reason == f"shards were split or merged: {SHARDED}/-80, {SHARDED}/80- end here"
        assert set(stream.shards) == set(FOUR)
        await stream.close()

    run(scenario)


def test_shards_that_were_merged_while_nothing_was_followed(own_vitess: Cluster) -> None:
    """The old ones are gone when the stream would go on: it begins anew."""
    replayed = Replayed()
    merge = Reshard(own_vitess, SHARDED, SHARDS)

    async def scenario() -> None:
        stream = VitessStream(f"127.0.0.1:{own_vitess.grpc}", SHARDED)
        await stream.start(replayed)
        stream.want(ITEM, frozenset({"id", "n", "name"}))
        await asyncio.to_thread(merge.begin)
        await asyncio.to_thread(own_vitess.stop_vtgate)
        await asyncio.to_thread(merge.switch)
        await asyncio.to_thread(merge.complete)
        await asyncio.to_thread(own_vitess.start_vtgate)
        await until(lambda: stream.connected)
        assert (
            len(replayed.gaps) == 2 and "not found in" in replayed.gaps[0].reason
        )  # when it was lost, and when it began
        replayed.begin_from(await asyncio.to_thread(all_rows, own_vitess))
        with Writer(own_vitess, 4) as writer:
            await some_more(writer)
        await caught_up(own_vitess, stream)
        rows = await asyncio.to_thread(all_rows, own_vitess)
        assert replayed.rows == {row[0]: row for row in rows} and len(rows) > 5 and replayed.seen
        assert not replayed.gaps and set(stream.shards) == set(SHARDS)
        await stream.close()

    run(scenario)
