"""A table is altered on one shard after another: by hand, and by Vitess' own online DDL with its cut-overs."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

from dataflow.messages import Ddl, Gap, Progress, StreamEvent, Transaction
from integration.support.grpc_app import run
from integration.vitess.cluster import Cluster
from integration.vitess.shop import SHARDED, SHARDS, TABLES, VSCHEMA, executed
from sqltypes.expression import Row
from sqltypes.schema import Column, SqlType, Table
from tests.support.waiting import until
from vstream.vitess.stream import VitessStream

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it
IDS = range(20)  # some on each shard


class Altered:
    """A table that is followed, and what came of each shard since it was looked at last."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.shards = {cluster.mysqls[SHARDED, shard].execute("SELECT @@server_uuid")[0][0]: shard for shard in SHARDS}
        self.ddl: dict[str, list[str]] = {}  # by shard: statements that made holes of the table
        self.rows: dict[str, list[Row]] = {}  # by shard, as they became
        self.stream = VitessStream(f"127.0.0.1:{cluster.grpc}", SHARDED)
        cluster.apply_vschema(SHARDED, {**VSCHEMA, "tables": {**TABLES, name: TABLES["item"]}})
        values = ", ".join(f"({number}, 0)" for number in IDS)
        cluster.execute(
            SHARDED,
            f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, n INT)",
            f"INSERT INTO {name} (id, n) VALUES {values}",
        )

    async def begin(self) -> None:
        await self.stream.start(self._sink)
        self.want("id", "n")

    def want(self, *names: str) -> None:
        types = {"id": SqlType("bigint"), "n": SqlType("int"), "more": SqlType("int")}
        columns = [Column(name, types[name], name != "id", at) for at, name in enumerate(names)]
        self.stream.want(Table(SHARDED, self.name, tuple(columns), ("id",)), frozenset(names))

    def _sink(self, event: StreamEvent) -> None:
        assert not isinstance(event, Gap), event
        if isinstance(event, Ddl):
            assert event.gtid is not None and event.tables is not None and event.schema
            if f"{SHARDED}.{self.name}" in event.tables:
                self.ddl.setdefault(self.shards[event.gtid.source], []).append(event.statement)
        elif isinstance(event, Transaction):
            for change in event.changes:
                rows = [after for _, after in change.pairs if after is not None]
                self.rows.setdefault(self.shards[event.gtid.source], []).extend(rows)
        else:
            assert isinstance(event, Progress)

    async def written(self, target: str, statement: str) -> None:
        """And all that came of it."""
        self.ddl.clear()
        self.rows.clear()
        await asyncio.to_thread(self.cluster.execute, target, statement)
        goal = await asyncio.to_thread(executed, self.cluster, SHARDED)
        await until(lambda: goal.issubset(self.stream.position))

    async def all_updated(self) -> None:
        await self.written(SHARDED, f"UPDATE {self.name} SET n = n + 1")

    async def all_is_decoded(self) -> None:
        """As the shards have it: of which columns `*` is, vtgate itself learns a moment later."""
        await self.all_updated()
        rows: list[tuple[object, ...]] = []
        for shard in SHARDS:
            target, read = f"USE `{SHARDED}:{shard}`", f"SELECT * FROM {self.name}"
            rows += await asyncio.to_thread(self.cluster.execute, "", target, read)
        found = [row for shard in SHARDS for row in self.rows[shard]]
        assert sorted(found, key=repr) == sorted(rows, key=repr) and len(found) == len(IDS) and not self.ddl


def test_shards_are_altered_one_after_another(vitess: Cluster) -> None:
    """Rows of one shard are as they were before, and those of another as they are afterwards. Whatever is wanted, no
    row is taken for what it is not."""
    altered = Altered(vitess, "altered")
    first, second = SHARDS

    async def scenario() -> None:
        await altered.begin()
        await altered.all_is_decoded()
        alter = "ALTER TABLE altered ADD COLUMN more INT DEFAULT 5 AFTER id"
        await altered.written(f"{SHARDED}:{first}", alter)
        ((shard, statements),) = altered.ddl.items()
        assert shard == first and len(statements) == 1 and "more" in statements[0]
        await altered.all_updated()
        ((shard, (why,)),) = altered.ddl.items()
        assert shard == first and "rows not decoded" in why and altered.rows.keys() == {second}
        altered.want("id", "more", "n")
        await altered.all_updated()
        ((shard, (why,)),) = altered.ddl.items()
        assert shard == second and "rows not decoded" in why and altered.rows.keys() == {first}
        await altered.written(f"{SHARDED}:{second}", alter)
        ((shard, statements),) = altered.ddl.items()
        assert shard == second and len(statements) == 1
        await altered.all_is_decoded()
        await altered.stream.close()

    run(scenario)


def test_online_ddl_while_rows_change(vitess: Cluster) -> None:
    """Each shard has its cut-over, a RENAME of the table and the one that was made beside it, of whose rows nothing
    comes before."""
    altered = Altered(vitess, "online")

    def begin() -> str:
        with closing(vitess.connect(SHARDED)) as connection, connection.cursor() as cursor:
            cursor.execute("SET @@ddl_strategy = 'vitess'")
            cursor.execute("ALTER TABLE online ADD COLUMN more INT DEFAULT 5 AFTER id")
            return str(cursor.fetchall()[0][0])

    async def scenario() -> None:
        await altered.begin()
        migration = await asyncio.to_thread(begin)
        before: dict[str, list[str]] = {}
        while before.keys() != set(SHARDS):
            await altered.all_updated()
            for shard, statements in altered.ddl.items():
                before.setdefault(shard, []).extend(statements)
        for shard in SHARDS:
            assert before[shard][0].startswith("RENAME TABLE `online` TO")
            assert all("rows not decoded" in statement for statement in before[shard][1:])
        altered.want("id", "more", "n")
        await altered.all_is_decoded()

        def complete() -> bool:
            states = vitess.execute(SHARDED, f"SHOW VITESS_MIGRATIONS LIKE '{migration}'")
            return len(states) == len(SHARDS) and all("complete" in state for state in states)

        await until(lambda: asyncio.to_thread(complete))
        await altered.stream.close()

    run(scenario)
