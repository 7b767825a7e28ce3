"""Shards that become others while an upquery runs: their servers, what these have executed, the shards themselves, and
where vtgate answers a table from. What is held is never older than what was told, and is what the servers have at rest.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from integration.scripted_vtgate.scripted_vitess import TABLES, ScriptedVitess, ShardServers, scripted_vitess
from integration.scripted_vtgate.scripted_vitess_reads import BY_ID, BY_N, at_rest
from integration.servers.mysql_server import Server
from integration.support.grpc_app import run
from tests.support.vitess_events import LEFT, RIGHT
from tests.support.vtgate_errors import REFUSED
from tests.support.vtgate_faults import Asked, Place, Refused
from tests.support.vtgate_shards import become_replica, hold_rows
from tests.support.waiting import until
from upwell.errors import SourceDown, SourceError

CACHES = {"by_id": (BY_ID, range(0, 20, 3)), "by_n": (BY_N, range(4))}
MERGED = "-"


async def cached(vitess: ScriptedVitess) -> None:
    for name, (sql, _) in CACHES.items():
        await vitess.client.create_cache(sql, name=name)


async def read_all(vitess: ScriptedVitess) -> None:
    """Answers that may be errors of vtgate's."""
    for name, (_, keys) in CACHES.items():
        for key in keys:
            try:
                await vitess.client.cache(name).get(key)
            except (SourceError, SourceDown):
                continue


@pytest.mark.parametrize("silent", [False, True], ids=["told", "silent"])
@pytest.mark.parametrize("where", [Place.STATEMENT, Place.UPPER], ids=lambda one: one.name)
def test_a_shard_fails_over_within_an_upquery(
    shard_servers: ShardServers, tmp_path: Path, where: Place, silent: bool
) -> None:
    """`silent`: vtgate goes on at the new primary as if it had been there before."""
    left, right, new = shard_servers

    async def scenario() -> None:
        async with scripted_vitess(left, right, tmp_path) as vitess:
            await cached(vitess)
            await vitess.client.cache("by_n").get(1)
            vitess.sql.silent_failover = silent
            await vitess.write(LEFT, "UPDATE item SET n = (n + 1) % 4")
            await asyncio.to_thread(become_replica, new, vitess.keyspace.shards[LEFT])
            shard = None if where is Place.STATEMENT else LEFT
            with vitess.sql.paused(where, shard=shard) as pause:
                reading = asyncio.create_task(read_all(vitess))
                await until(pause.reached.is_set)
                await asyncio.to_thread(vitess.keyspace.fail_over, LEFT, new)
                await vitess.write(LEFT, "UPDATE item SET n = (n + 1) % 4 WHERE id < 10")
            await reading
            await at_rest(vitess, CACHES)
            await vitess.write(LEFT, "UPDATE item SET n = (n + 1) % 4")
            await at_rest(vitess, CACHES)

    run(scenario)


def test_a_failover_that_loses_transactions(shard_servers: ShardServers, tmp_path: Path) -> None:
    left, right, new = shard_servers

    async def scenario() -> None:
        async with scripted_vitess(left, right, tmp_path) as vitess:
            await cached(vitess)
            vitess.sql.silent_failover = True
            await asyncio.to_thread(become_replica, new, vitess.keyspace.shards[LEFT])
            await vitess.write(LEFT, "UPDATE item SET n = (n + 1) % 4")
            await at_rest(vitess, CACHES)
            with vitess.sql.paused(Place.UPPER, shard=RIGHT) as pause:
                await vitess.client.create_cache("SELECT name FROM item WHERE n = ?", name="names")
                reading = asyncio.create_task(vitess.client.cache("names").get(1))
                await until(pause.reached.is_set)
                await asyncio.to_thread(vitess.keyspace.fail_over, LEFT, new)
            await asyncio.wait((reading,))
            await until(lambda: vitess.app.stream.position.issubset(vitess.keyspace.executed()))
            await at_rest(vitess, {**CACHES, "names": ("SELECT name FROM item WHERE n = ?", range(4))})
            await vitess.write(LEFT, "UPDATE item SET n = (n + 1) % 4")
            await at_rest(vitess, {**CACHES, "names": ("SELECT name FROM item WHERE n = ?", range(4))})

    run(scenario)


def test_a_tablet_that_is_behind_answers(shard_servers: ShardServers, tmp_path: Path) -> None:
    """What the position has is in each answer that is not vtgate's own."""
    left, right, replica = shard_servers

    async def scenario() -> None:
        async with scripted_vitess(left, right, tmp_path) as vitess:
            await cached(vitess)
            for key in CACHES["by_n"][1]:
                await vitess.client.cache("by_n").get(key)
            shard = vitess.keyspace.shards[LEFT]
            await asyncio.to_thread(become_replica, replica, shard)
            await vitess.write(LEFT, "UPDATE item SET n = (n + 1) % 4", "DELETE FROM item WHERE id = 6")
            await vitess.write(LEFT, "UPDATE item SET name = 'x' WHERE n = 2", "INSERT INTO item VALUES (30, 1, '')")
            await vitess.caught_up()
            shard.answering = replica
            expected = {key: await vitess.asked(BY_ID.replace("?", str(key))) for key in range(0, 20, 2)}
            others = await asyncio.to_thread(replica.execute, "USE shop", "SELECT id, n, name FROM item")
            served = set()
            for key, rows in expected.items():
                assert not set(rows) & set(others), "without what the position has it is another answer"
                for _ in range(2):
                    found = await vitess.client.cache("by_id").get(key)
                    served.add(found.served)
                    if found.served != "passed":
                        assert sorted(map(tuple, found)) == rows, (key, found.served)
            assert served >= {"miss", "hit"}
            shard.answering = None
            await at_rest(vitess, CACHES)

    run(scenario)


@pytest.mark.parametrize("where", [Place.LOWER, Place.STATEMENT, Place.UPPER], ids=lambda one: one.name)
def test_what_a_shard_has_executed_goes_back(shard_servers: ShardServers, tmp_path: Path, where: Place) -> None:
    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            await cached(vitess)
            for _ in range(3):
                await vitess.write(LEFT, "UPDATE item SET n = (n + 1) % 4")
            await vitess.client.cache("by_n").get(1)
            await vitess.caught_up()
            with vitess.sql.paused(where, shard=None if where is Place.STATEMENT else LEFT) as pause:
                reading = asyncio.create_task(read_all(vitess))
                await until(pause.reached.is_set)
                await asyncio.to_thread(vitess.keyspace.forget, LEFT)
                await vitess.write(LEFT, "UPDATE item SET n = (n + 1) % 4 WHERE id < 10")
            await reading
            await until(lambda: vitess.app.stream.position.issubset(vitess.keyspace.executed()))
            await at_rest(vitess, CACHES)
            await vitess.write(LEFT, "UPDATE item SET n = (n + 1) % 4")
            await at_rest(vitess, CACHES)

    run(scenario)


async def merged(vitess: ScriptedVitess, server: Server) -> None:
    """Both shards are one from now on."""
    rows = await vitess.asked("SELECT id, n FROM item")
    insert = f"INSERT INTO item (id, n) VALUES {', '.join(map(str, rows))}"
    await asyncio.to_thread(hold_rows, server, (*TABLES, insert))
    vitess.sql.place = lambda key: MERGED
    await asyncio.to_thread(vitess.keyspace.merge, (LEFT, RIGHT), MERGED, server)


@pytest.mark.parametrize("late", [False, True], ids=["told", "late"])
@pytest.mark.parametrize("where", [Place.STATEMENT, Place.UPPER], ids=lambda one: one.name)
def test_shards_are_merged_within_an_upquery(
    shard_servers: ShardServers, tmp_path: Path, where: Place, late: bool
) -> None:
    """`late`: the stream tells of it when the upquery has been answered, by the new shard."""
    left, right, new = shard_servers

    async def scenario() -> None:
        async with scripted_vitess(left, right, tmp_path) as vitess:
            await cached(vitess)
            await vitess.client.cache("by_n").get(1)
            await vitess.write(LEFT, "UPDATE item SET n = (n + 1) % 4")
            await vitess.caught_up()
            olds = [vitess.keyspace.shards[name] for name in (LEFT, RIGHT)]
            with vitess.sql.paused(where, shard=None if where is Place.STATEMENT else LEFT) as pause:
                reading = asyncio.create_task(read_all(vitess))
                await until(pause.reached.is_set)
                for old in olds:
                    old.told = len(old.history) if late else None
                await merged(vitess, new)
                await vitess.write(MERGED, "UPDATE item SET n = (n + 1) % 4 WHERE id < 10")
                if not late:
                    await vitess.caught_up()
            await reading
            await read_all(vitess)
            for key in (3, 4):  # a session sees what it has written, whatever has been told
                own = BY_ID.replace("?", str(key))
                found = await vitess.session(f"UPDATE item SET name = 'own' WHERE id = {key}", own)
                assert found == await vitess.asked(own)
            await vitess.write(MERGED, "UPDATE item SET n = (n + 1) % 4 WHERE id > 5")
            for old in olds:
                old.told = None
            await at_rest(vitess, CACHES)
            await vitess.write(MERGED, "UPDATE item SET n = (n + 1) % 4")
            await at_rest(vitess, CACHES)

    run(scenario)


@pytest.mark.parametrize("refusal", [None, REFUSED["reshard"]], ids=["elsewhere", "refused"])
def test_a_table_is_answered_from_elsewhere(
    shard_servers: ShardServers, tmp_path: Path, refusal: Refused | None
) -> None:
    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            await cached(vitess)
            await at_rest(vitess, CACHES)

            def do(asked: Asked) -> None:
                if refusal is not None:
                    raise refusal
                vitess.sql.elsewhere = "another"

            with vitess.sql.wrong(Place.PLAN, do=do) as fault:
                await until(lambda: fault.met > 0)

                async def is_passed() -> bool:
                    return (await vitess.client.cache("by_id").get(3)).served == "passed"

                await until(is_passed)
            vitess.sql.elsewhere = ""
            await at_rest(vitess, CACHES)

    run(scenario)
