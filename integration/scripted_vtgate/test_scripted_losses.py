"""Connections to vtgate that end at each command of an upquery, or within its answer; a shard that does nothing. What
is answered is right, nothing stale is held, and when it is over all is held as ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.scripted_vtgate.scripted_vitess import ShardServers, scripted_vitess
from integration.scripted_vtgate.scripted_vitess_reads import AWAY, asked, fill, healed, right
from integration.support.grpc_app import run
from sqltypes.errors import SourceError
from tests.support.vitess_events import LEFT, RIGHT
from tests.support.vtgate_faults import UPQUERY, Asked, Place, Refused, cut, lost
from tests.support.waiting import until


@pytest.mark.parametrize("how", [lost, cut])
def test_a_connection_ends_anywhere(
    shard_servers: ShardServers, tmp_path: Path, how: Callable[[Asked], bytes | None]
) -> None:
    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            await fill(vitess)
            key = 100
            for where in (*UPQUERY, Place.VINDEX):
                for cache, times in (("by_id", 1), ("by_id", 1000), ("by_n", 1)):
                    key += 1
                    with vitess.sql.wrong(where, do=how, times=times) as fault:
                        await asked(vitess, cache, key, AWAY)
                        await right(vitess, cache, key)
                    assert fault.met or (where, cache) == (Place.VINDEX, "by_n")
                    await healed(vitess, cache, key)

    run(scenario)


@pytest.mark.parametrize("where", [Place.LOWER, Place.UPPER], ids=["before", "behind"])
def test_a_shard_does_nothing_while_the_other_serves(shard_servers: ShardServers, tmp_path: Path, where: Place) -> None:
    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            await fill(vitess)
            for key in (101, 103):
                await healed(vitess, "by_id", key)
            with vitess.sql.paused(where, shard=RIGHT, times=1000) as pause:
                waiting = asyncio.create_task(vitess.client.cache("by_id").get(105))
                await until(pause.reached.is_set)
                for key in (100, 102):
                    await healed(vitess, "by_id", key)
                    await vitess.write(LEFT, f"UPDATE item SET n = 7 WHERE id = {key}")
                    await vitess.caught_up()
                    assert await asked(vitess, "by_id", key) == "hit"
                await vitess.write(RIGHT, "UPDATE item SET n = 8 WHERE id IN (101, 105)")
                await vitess.caught_up()
                assert await asked(vitess, "by_id", 101) == "hit"
                assert not waiting.done()
            assert [row.n for row in await waiting] in ([52], [8])  # it was asked before that was written
            for key in (101, 105):
                await healed(vitess, "by_id", key)

    run(scenario)


def test_sessions_of_vtgate_that_go_on_asking_a_tablet_that_is_gone(
    shard_servers: ShardServers, tmp_path: Path
) -> None:
    """As v24.0.4's do now and then, where the tablet ended within their transaction: new ones ask the next tablet."""
    stuck: set[int] = set()
    ends = asyncio.Event()

    def do(asked: Asked) -> None:
        if ends.is_set():
            stuck.add(asked.session)
        if asked.session in stuck:
            raise Refused(
                1105, "HY000", 'target: shop.-80.primary: tablet: cell:"zone1" uid:102 is either down or nonexistent'
            )

    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path, upquery_connections="1") as vitess:
            await fill(vitess)
            executor = vitess.app.executor
            with vitess.sql.wrong(Place.LOWER, Place.UPPER, shard=LEFT, do=do):
                ends.set()
                with pytest.raises(SourceError, match="nonexistent"):
                    await executor.executed()
                ends.clear()
                assert len(stuck) == 1
                await executor.executed()
                ends.set()
                await asked(vitess, "by_id", 100, AWAY)
                ends.clear()
                for key in (100, 102, 104):
                    await healed(vitess, "by_id", key)

    run(scenario)


def test_vtgate_is_away_and_comes_back(shard_servers: ShardServers, tmp_path: Path) -> None:
    """Its port for queries only: what is held is kept current meanwhile."""

    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            await fill(vitess)
            for key in (100, 101):
                await healed(vitess, "by_id", key)
            await asyncio.to_thread(vitess.sql.stop)
            assert await asked(vitess, "by_id", 102, AWAY) == "error"
            await vitess.write(LEFT, "UPDATE item SET n = 7 WHERE id IN (100, 102)")
            await until(lambda: vitess.keyspace.executed().issubset(vitess.app.stream.position))
            for key in (100, 101):
                assert await asked(vitess, "by_id", key) == "hit"
            assert await asked(vitess, "by_id", 103, AWAY) == "error"
            vitess.sql.start()
            for key in (100, 101, 102, 103):
                await healed(vitess, "by_id", key)

    run(scenario)
