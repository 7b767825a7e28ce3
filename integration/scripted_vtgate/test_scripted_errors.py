"""Each error of vtgate's at each command of an upquery: the answer is right, or it is vtgate's own error; nothing stale
is held, and once the error is over the key is held as ever."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pymysql
import pytest

from integration.scripted_vtgate.scripted_vitess import ShardServers, scripted_vitess
from integration.scripted_vtgate.scripted_vitess_reads import BY_ID, asked, fill, healed, right
from integration.support.grpc_app import run
from tests.support.vitess_events import LEFT
from tests.support.vtgate_errors import REFUSED
from tests.support.vtgate_faults import UPQUERY, Asked, Place, refused
from tests.support.waiting import until
from upwell.errors import UnsupportedQuery


@pytest.mark.parametrize("where", [*UPQUERY, Place.VINDEX], ids=lambda place: place.name)
def test_an_error_of_vtgate_is_its_own_and_passes(shard_servers: ShardServers, tmp_path: Path, where: Place) -> None:
    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            await fill(vitess)
            met = 0
            errors = list(REFUSED.values())[:: 1 if where is Place.STATEMENT else 5]  # the others are told by no number
            for number, error in enumerate(errors):
                for cache, key in (("by_id", 100 + number), ("by_n", 200 + number)):
                    with vitess.sql.wrong(where, do=refused(error.errno, error.sqlstate, error.message)) as fault:
                        await asked(vitess, cache, key, error)
                        await right(vitess, cache, key)
                    met += fault.met
                    await healed(vitess, cache, key)
            assert met >= len(errors)

    run(scenario)


@pytest.mark.parametrize("where", [Place.BACK, Place.COMMIT], ids=lambda place: place.name)
def test_a_connection_that_is_not_as_it_was_is_used_no_more(
    shard_servers: ShardServers, tmp_path: Path, where: Place
) -> None:
    """It may be at a shard, or in a transaction yet."""

    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            await fill(vitess)
            of: list[int] = []
            behind: list[Asked] = []

            def do(asked: Asked) -> None:
                of.append(asked.session)
                behind[:] = vitess.sql.asked
                raise REFUSED["reparent"]

            with vitess.sql.wrong(where, do=do, times=1):
                await asked(vitess, "by_id", 100, REFUSED["reparent"])
                await until(lambda: bool(of))
            for key in range(101, 120):
                await healed(vitess, "by_id", key)
            again = [one.place for one in vitess.sql.asked[len(behind) :] if one.session == of[0]]
            assert again == ([Place.COMMIT] if where is Place.BACK else [])

    run(scenario)


def test_a_session_gets_the_error_of_vtgate_itself(shard_servers: ShardServers, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            await fill(vitess)
            for key, said in enumerate(REFUSED.values(), 300):
                do = refused(said.errno, said.sqlstate, said.message)
                with vitess.sql.wrong(Place.ROWS, Place.STATEMENT, do=do, clients=True):
                    for sql in (BY_ID.replace("?", str(key)), f"SELECT id FROM item WHERE id + 0 = {key}"):
                        with pytest.raises(pymysql.err.MySQLError) as raised:
                            await vitess.session(sql)
                        assert raised.value.args == (said.errno, said.message)
                await right(vitess, "by_id", key)
                await healed(vitess, "by_id", key)

    run(scenario)


SCHEMA = (Place.LOGIN, Place.SETTING, Place.TO_KEYSPACE, Place.TO_SHARD, Place.PLAN, Place.VSCHEMA)


@pytest.mark.parametrize("where", SCHEMA, ids=lambda place: place.name)
def test_a_table_that_could_not_be_looked_at_is_looked_at_again(
    shard_servers: ShardServers, tmp_path: Path, where: Place
) -> None:
    """What vtgate refuses for a moment is nothing that its VSchema lacks."""

    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            await vitess.client.create_cache(BY_ID, name="by_id")
            for said in (REFUSED["reparent"], REFUSED["deadline"]):
                await healed(vitess, "by_id", 4)
                do = refused(said.errno, said.sqlstate, said.message)
                with vitess.sql.wrong(where, do=do, clients=where is Place.LOGIN) as fault:
                    await asyncio.to_thread(vitess.keyspace.shards[LEFT].alter, "ALTER TABLE item COMMENT 'x'")
                    await until(lambda fault=fault: fault.met > 0)  # type: ignore[misc]
                    await asked(vitess, "by_id", 4, said)
                await healed(vitess, "by_id", 4)

    run(scenario)


def test_a_table_that_the_vschema_lacks_is_refused(shard_servers: ShardServers, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            for shard in vitess.keyspace.shards.values():
                await asyncio.to_thread(shard.alter, "CREATE TABLE lacking (id BIGINT PRIMARY KEY)")
            with pytest.raises(UnsupportedQuery, match="the VSchema of keyspace shop has no table lacking"):
                await vitess.client.create_cache("SELECT id FROM lacking WHERE id = ?", name="lacks")

    run(scenario)
