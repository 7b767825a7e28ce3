"""A table moves from one keyspace to another: what the streams of both tell, and what vtgate's plans do."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

from dataflow.messages import Ddl, Progress, StreamEvent, Transaction
from external_upquery.vitess.routes import Routes, Rows, explain, keyspaces
from integration.support.grpc_app import run
from integration.vitess.cluster import Cluster
from integration.vitess.operations import MoveTables
from integration.vitess.proxy import proxy_before
from integration.vitess.shop import PLAIN, SHARDED, SHARDS, TABLES, VSCHEMA, executed
from sqltypes.errors import SourceError
from sqltypes.schema import Column, SqlType, Table
from tests.support.waiting import until
from upwell.errors import UnsupportedQuery
from vstream.vitess.stream import VitessStream

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it
COLUMNS = (
    Column("id", SqlType("bigint"), False, 0),
    Column("n", SqlType("int"), True, 1),
)


class Keyspace:
    """One that is followed: the table's rows as its stream has them, and where vtgate answers from."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name, self.cluster = name, cluster
        self.stream = VitessStream(f"127.0.0.1:{cluster.grpc}", name)
        self.routes = Routes(name)
        self.written: list[int] = []  # ids of the table, as they come
        self.events: list[StreamEvent] = []

    async def begin(self) -> None:
        await self.stream.start(self._sink)
        self.stream.want(Table(self.name, "note", COLUMNS, ("id",)), frozenset({"id", "n"}))

    def _sink(self, event: StreamEvent) -> None:
        if isinstance(event, Transaction):
            self.written += [int(str(after[0])) for one in event.changes for _, after in one.pairs if after is not None]
        elif not isinstance(event, Progress):
            self.events.append(event)

    def asked(self) -> Ddl | None:
        """What vtgate says of the table now."""
        answer: Rows | SourceError
        try:
            answer = self.cluster.execute("", self.routes.asked("note"))
        except pymysql.err.MySQLError as error:
            answer = SourceError(error.args[0], "HY000", error.args[1])
        return self.routes.told({"note": answer})

    async def until_answered_from(self, other: str) -> Ddl:
        """From its own where `other` is empty. vtgate hears of new rules some milliseconds after they are made."""
        found: list[Ddl] = []
        elsewhere = {f"{self.name}.note": f"answered from {other}"} if other else {}

        def moved() -> bool:
            if (event := self.asked()) is not None:
                found.append(event)
            return self.routes.elsewhere == elsewhere

        await until(moved, between=0.05)
        (one,) = found
        assert one.tables == frozenset({f"{self.name}.note"}) and one.schema
        return one

    async def caught_up(self) -> None:
        goal = await asyncio.to_thread(executed, self.cluster, self.name)
        await until(lambda: goal.issubset(self.stream.position))


async def moves(source: Keyspace, target: Keyspace, move: MoveTables, number: int) -> None:
    """What is written then goes to the target. Neither stream tells that the table has moved."""
    source.events.clear()
    target.events.clear()
    await asyncio.to_thread(move.switch)
    await source.until_answered_from(target.name)
    await target.until_answered_from("")
    both = source.cluster.execute(source.name, explain("SELECT * FROM note JOIN kept ON note.id = kept.id"))[0][0]
    assert keyspaces(both) == {source.name, target.name}
    source.cluster.execute(source.name, f"INSERT INTO note (id, n) VALUES ({number}, 0)")
    await source.caught_up()
    await target.caught_up()
    assert number in target.written and not source.events and not target.events


def test_a_shard_moves_to_another_keyspace(own_vitess: Cluster, tmp_path: Path) -> None:
    """vtgate's plans are what they were, and the stream goes on: a tablet alone tells that it is of another keyspace.
    Nothing that is held of any shard is a hit meanwhile."""
    cluster, keys, apart = own_vitess, range(20), "apart"
    cluster.add_keyspace(apart, SHARDS)
    cluster.execute(SHARDED, f"INSERT INTO item (id, n) VALUES {', '.join(f'({key}, 0)' for key in keys)}")
    move = MoveTables(cluster, SHARDED, apart, shards=("-80",))
    flags = ("--mysql-auth-server-impl", "none", "--enable-partial-keyspace-migration")

    async def scenario(sql: int, grpc: int) -> None:
        def vtgate(statement: str) -> tuple[tuple[Any, ...], ...]:
            with cluster.connect(SHARDED, port=sql) as connection, connection.cursor() as cursor:
                cursor.execute(statement)
                return tuple(cursor.fetchall())

        address = f"vitess://root@127.0.0.1:{sql}/{SHARDED}?grpc=127.0.0.1:{grpc}"
        options = {"verify_new_caches": "off", "check_sample": "off", "upstream": address}
        async with proxy_before(cluster, SHARDED, tmp_path, **options) as proxy:
            await proxy.client.create_cache("SELECT id, n FROM item WHERE id = ?", name="items")
            await proxy.client.create_cache("SELECT SUM(n) FROM item WHERE id >= ?", name="sums")
            questions = [("items", key) for key in keys] + [("sums", 0)]

            async def all_are(number: int, served: str) -> None:
                expected = [[(key, number)] for key in keys] + [[(number * len(keys),)]]

                async def so() -> bool:
                    answers = [await proxy.client.cache(name).get(key) for name, key in questions]
                    found = [[tuple(row) for row in answer] for answer in answers]
                    return found == expected and {answer.served for answer in answers} == {served}

                await until(so, 20)

            await all_are(0, "hit")
            await asyncio.to_thread(move.begin)
            await all_are(0, "hit")
            for number in (1,):
                await asyncio.to_thread(move.switch)
                for more in range(2):
                    await asyncio.to_thread(vtgate, f"UPDATE item SET n = {number + more}")
                    await all_are(number + more, "passed")
                    assert f"shard -80 is answered from {apart}" in (await proxy.client.cache("items").get(0)).why
                await asyncio.to_thread(move.switch_back)
                for more in (2, 3):
                    await asyncio.to_thread(vtgate, f"UPDATE item SET n = {number + more}")
                    await all_are(number + more, "hit")

    with cluster.another_vtgate(*flags) as (sql, grpc):
        run(lambda: scenario(sql, grpc))
    move.cancel()


def test_a_table_moves_to_another_keyspace_and_back(own_vitess: Cluster) -> None:
    cluster = own_vitess
    cluster.execute(PLAIN, "CREATE TABLE note (id BIGINT PRIMARY KEY, n INT)", "CREATE TABLE kept (id INT PRIMARY KEY)")
    cluster.execute(PLAIN, "INSERT INTO note (id, n) VALUES (1, 1), (2, 2)")
    vschema = {**VSCHEMA, "tables": {**TABLES, "note": TABLES["item"]}}
    move = MoveTables(cluster, PLAIN, SHARDED, "note")

    async def scenario() -> None:
        source, target = Keyspace(cluster, PLAIN), Keyspace(cluster, SHARDED)
        await source.begin()
        await target.begin()
        assert source.asked() is None and target.asked() is not None  # which has no such table
        assert list(target.routes.elsewhere) == [f"{SHARDED}.note"]
        await asyncio.to_thread(cluster.apply_vschema, SHARDED, vschema)
        await asyncio.to_thread(move.begin)
        await until(lambda: sorted(target.written) == [1, 2])  # its stream has the rows, and the source still answers
        assert source.asked() is None
        target.asked()
        assert target.routes.elsewhere == {f"{SHARDED}.note": f"answered from {PLAIN}"}
        await moves(source, target, move, 10)
        await asyncio.to_thread(move.switch_back)
        await source.until_answered_from("")
        await target.until_answered_from(PLAIN)
        await moves(source, target, move, 11)
        await asyncio.to_thread(move.complete)
        await source.caught_up()
        assert [event.tables for event in source.events if isinstance(event, Ddl)] == [frozenset({f"{PLAIN}.note"})]
        await source.stream.close()
        await target.stream.close()

    run(scenario)


def test_a_proxy_does_not_hold_what_has_moved(own_vitess: Cluster, tmp_path: Path) -> None:
    cluster = own_vitess
    cluster.execute(
        PLAIN, "CREATE TABLE sheet (id BIGINT PRIMARY KEY, n INT)", "INSERT INTO sheet (id, n) VALUES (1, 1)"
    )
    cluster.apply_vschema(SHARDED, {**VSCHEMA, "tables": {**TABLES, "sheet": TABLES["item"]}})
    move = MoveTables(cluster, PLAIN, SHARDED, "sheet")

    async def scenario() -> None:
        async with proxy_before(cluster, PLAIN, tmp_path, verify_new_caches="off", check_sample="off") as proxy:
            await proxy.client.create_cache("SELECT id, n FROM sheet WHERE id = ?", name="sheets")
            cache = proxy.client.cache("sheets")

            async def reads(number: int, served: str) -> None:
                """Once the proxy knows where the table is, and has what was written."""

                async def so() -> bool:
                    answer = await cache.get(1)
                    return answer.served == served and [row.n for row in answer] == [number]

                await until(so)

            await reads(1, "hit")
            await asyncio.to_thread(move.begin)
            await reads(1, "hit")
            for number in (2, 4):
                await asyncio.to_thread(move.switch)
                await asyncio.to_thread(cluster.execute, PLAIN, f"UPDATE sheet SET n = {number} WHERE id = 1")
                await reads(number, "passed")
                await asyncio.to_thread(move.switch_back)
                await asyncio.to_thread(cluster.execute, PLAIN, f"UPDATE sheet SET n = {number + 1} WHERE id = 1")
                await reads(number + 1, "hit")
        async with proxy_before(cluster, SHARDED, tmp_path / "target", verify_new_caches="off") as target:
            with pytest.raises(UnsupportedQuery, match=f"answered from {PLAIN}"):
                await target.client.create_cache("SELECT id, n FROM sheet WHERE id = ?", name="moved")
            await asyncio.to_thread(move.switch)

            async def is_cached() -> bool:
                with suppress(UnsupportedQuery):
                    await target.client.create_cache("SELECT id, n FROM sheet WHERE id = ?", name="moved")
                    await target.client.cache("moved").get(1)
                    return (await target.client.cache("moved").get(1)).served == "hit"
                return False

            await until(is_cached)

    run(scenario)
