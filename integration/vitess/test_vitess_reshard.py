"""Shards are split and merged while others write, and the stream of the keyspace goes on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager

import pytest

from integration.support.grpc_app import run
from integration.vitess.cluster import Cluster
from integration.vitess.following import Replayed, all_rows, caught_up, following, some_more
from integration.vitess.operations import FOUR, Reshard
from integration.vitess.shop import SHARDED, SHARDS, Writer
from tests.support.waiting import until
from vstream.vitess.stream import VitessStream

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it


@asynccontextmanager
async def cut_now_and_then(stream: VitessStream, replayed: Replayed, rng: random.Random) -> AsyncIterator[None]:
    """Its connection; behind the context it has one."""

    async def cut() -> None:
        before = stream.pauses.count
        stream.reconnect("a test")
        await until(lambda: stream.pauses.count > before and stream.connected)

    async def cutting() -> None:
        while True:
            await cut()
            seen = replayed.seen + rng.randrange(200)
            await until(lambda seen=seen: replayed.seen > seen)  # type: ignore[misc]

    task = asyncio.create_task(cutting())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await until(lambda: stream.connected)


def test_two_shards_become_four_while_others_write(own_vitess: Cluster) -> None:
    rng, replayed = random.Random(3), Replayed()
    split = Reshard(own_vitess, SHARDED)

    async def scenario() -> None:
        async with following(own_vitess, replayed) as stream:
            with ExitStack() as stack:
                writers = [stack.enter_context(Writer(own_vitess, seed)) for seed in (1, 2)]
                async with cut_now_and_then(stream, replayed, rng):
                    await asyncio.to_thread(split.begin)
                # Who connects while they are switched finds no tablet of the old ones any more: history is lost then.
                await asyncio.to_thread(split.switch)
                await until(lambda: bool(replayed.gaps))
                async with cut_now_and_then(stream, replayed, rng):
                    await some_more(*writers)
                    await asyncio.to_thread(split.complete)
                    await some_more(*writers)
            await caught_up(own_vitess, stream)
            ended = f"shards were split or merged: {SHARDED}/-80, {SHARDED}/80- end here"
            assert [gap.reason for gap in replayed.gaps] == [ended]
            rows = await asyncio.to_thread(all_rows, own_vitess)
            assert replayed.rows == {row[0]: row for row in rows} and len(rows) > 5
            assert set(stream.shards) == set(FOUR)

    run(scenario)


def test_shards_are_merged_and_split_again(own_vitess: Cluster) -> None:
    """The old ones have followed the new ones meanwhile, and their history goes on behind that. At the end they are
    merged for good, while nothing is followed: the old ones are gone when the stream would go on."""
    replayed = Replayed()
    merge = Reshard(own_vitess, SHARDED, SHARDS)

    async def switched(stream: VitessStream, switch: Callable[[], None], shards: Sequence[str], gaps: int) -> None:
        with Writer(own_vitess, gaps) as writer:
            await some_more(writer)
            await asyncio.to_thread(switch)
            await until(lambda: len(replayed.gaps) == gaps)
            await some_more(writer)
        await caught_up(own_vitess, stream, *shards)
        rows = await asyncio.to_thread(all_rows, own_vitess)
        assert replayed.rows == {row[0]: row for row in rows} and len(rows) > 5
        assert set(stream.shards) == set(shards) and len(replayed.gaps) == gaps

    async def scenario() -> None:
        async with following(own_vitess, replayed) as stream:
            replayed.begin_from(await asyncio.to_thread(all_rows, own_vitess))
            await asyncio.to_thread(merge.begin)
            await switched(stream, merge.switch, SHARDS, 1)
            await switched(stream, merge.switch_back, FOUR, 2)
            await asyncio.to_thread(own_vitess.stop_vtgate)
            await asyncio.to_thread(merge.switch)
            await asyncio.to_thread(merge.complete)
            await asyncio.to_thread(own_vitess.start_vtgate)
            await until(lambda: stream.connected)
            assert (
                len(replayed.gaps) == 4 and "not found in" in replayed.gaps[2].reason
            )  # when it was lost, and when it began
            replayed.begin_from(await asyncio.to_thread(all_rows, own_vitess))
            with Writer(own_vitess, 4) as writer:
                await some_more(writer)
            await caught_up(own_vitess, stream)
            rows = await asyncio.to_thread(all_rows, own_vitess)
            assert replayed.rows == {row[0]: row for row in rows} and len(rows) > 5
            assert not replayed.gaps and set(stream.shards) == set(SHARDS)

    run(scenario)
