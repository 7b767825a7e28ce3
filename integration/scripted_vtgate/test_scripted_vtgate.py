"""A proxy before a scripted vtgate, of two real MySQLs, where all is well: what is held is what their servers have."""

from __future__ import annotations

import asyncio
from pathlib import Path

from integration.scripted_vtgate.scripted_vitess import ShardServers, scripted_vitess
from integration.support.grpc_app import run
from tests.support.vitess_events import LEFT, RIGHT
from tests.support.vtgate_faults import UPQUERY, Place

QUERIES = {
    "by_id": ("SELECT id, n, name FROM item WHERE id = ?", range(24)),
    "by_n": ("SELECT id, name FROM item WHERE n = ?", range(6)),
}


def test_answers_are_held_and_kept_current(shard_servers: ShardServers, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            for name, (sql, _) in QUERIES.items():
                await vitess.client.create_cache(sql, name=name)
            for number in range(3):
                await vitess.write(LEFT, f"UPDATE item SET n = {number} WHERE id < 8", "DELETE FROM item WHERE id = 10")
                await vitess.write(RIGHT, f"INSERT INTO item VALUES ({21 + 2 * number}, 3, 'é')")
                await vitess.caught_up()
                for name, (sql, keys) in QUERIES.items():
                    for key in keys:
                        await vitess.client.cache(name).get(key)
                        found = await vitess.client.cache(name).get(key)
                        assert sorted(map(tuple, found), key=repr) == await vitess.asked(sql.replace("?", str(key)))
                        assert found.served == "hit", (name, key, found.why)
                        assert await vitess.session(sql.replace("?", str(key))) == sorted(map(tuple, found), key=repr)
            asked = {one.place for one in vitess.sql.asked if one.own}
            assert asked >= {*UPQUERY, Place.VINDEX, Place.PLAN}, "each place of the upqueries is known"

    run(scenario)


def test_an_answer_by_a_lookup_is_none_to_hold(shard_servers: ShardServers, tmp_path: Path) -> None:
    """vtgate finds no row by the lookup, whatever the shards have. A question of ours does not look up by it, nor does
    the one that an answer is compared with."""

    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path, verify_new_caches="4") as vitess:
            vitess.sql.lookup = "n"
            for name, (sql, _) in QUERIES.items():
                await vitess.client.create_cache(sql, name=name)
            for name, (sql, keys) in QUERIES.items():
                for key in keys:
                    async with asyncio.timeout(60):
                        while (found := await vitess.client.cache(name).get(key)).served != "hit":
                            pass
                    assert sorted(map(tuple, found), key=repr) == await vitess.asked(sql.replace("?", str(key)))

    run(scenario)


def test_an_audit_compares_what_is_held_of_every_shard(shard_servers: ShardServers, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            for name, (sql, keys) in QUERIES.items():
                await vitess.client.create_cache(sql, name=name)
                for key in keys:
                    await vitess.client.cache(name).get(key)
            done = {one.cache: one async for one in vitess.client.audit() if one.done}
            for name, (_, keys) in QUERIES.items():
                assert (done[name].compared, done[name].left) == (len(keys), 0), done[name]
                assert done[name].different == (), done[name]

    run(scenario)
