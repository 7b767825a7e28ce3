"""Upwell's own SQL against a whole proxy and a real MySQL, whose rights decide who makes a cache."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pymysql
import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from proxy.auto.passed_reads import ProxiedQueries
from proxy.mysql.session.run_command import run as run_command
from proxy.mysql.text.own_sql_syntax import Cell, Done, LastStatement, ResultTable, recognise
from sqltypes.errors import SourceError, UnsupportedQuery

TABLES = (
    "CREATE TABLE stories (id BIGINT PRIMARY KEY, author INT NOT NULL, title VARCHAR(100), INDEX (author))",
    "INSERT INTO stories VALUES (1, 1, 'one'), (2, 1, 'two'), (3, 2, NULL)",
    "CREATE TABLE salaries (id BIGINT PRIMARY KEY, pay INT)",
)


@dataclass
class Session:
    """A session as the listener would be: a connection of the account's own asks for its rights."""

    mysql: Server
    user: str
    database: str
    is_admin: bool = False
    speaks: str = "MySQL"
    last_statement: LastStatement | None = None
    proxied: ProxiedQueries = field(init=False)

    @property
    def account(self) -> str:
        return f"{self.user}@%"

    async def may_read(self, sql: str, database: str) -> None:
        await asyncio.to_thread(self._prepare, sql, database)

    def _prepare(self, sql: str, database: str) -> None:
        try:
            with (
                closing(pymysql.connect(host=self.mysql.host, port=self.mysql.port, user=self.user)) as connection,
                connection.cursor() as cursor,
            ):
                if database:
                    connection.select_db(database)
                cursor.execute("SET @text = %s", (sql,))
                cursor.execute("PREPARE statement FROM @text")
        except pymysql.MySQLError as error:
            raise SourceError(error.args[0], "HY000", error.args[1]) from None


@pytest.fixture
def reader(mysql: Server) -> Iterator[str]:
    """An account that may read `stories` alone."""
    name = f"r{os.getpid()}"
    mysql.execute(f"DROP USER IF EXISTS {name}", f"CREATE USER {name}")
    yield name
    mysql.execute(f"DROP USER {name}")


async def answer(text: str, proxy: Proxy, session: Session) -> ResultTable | Done:
    command = recognise(text)
    assert command is not None
    session.proxied = proxy.app.router.proxied
    return await run_command(command, proxy.app.router, session)


async def rows(text: str, proxy: Proxy, session: Session) -> list[dict[str, Cell]]:
    table = await answer(text, proxy, session)
    assert isinstance(table, ResultTable)
    names = [name for name, _ in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def test_who_may_read_a_table_makes_caches_of_it_and_of_no_other(
    mysql: Server, database: str, reader: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*TABLES, f"GRANT SELECT ON `{database}`.stories TO {reader}")
            await proxy.caught_up()
            session = Session(mysql, reader, database)
            made = await answer("CREATE CACHE story FROM SELECT title FROM stories WHERE id = ?", proxy, session)
            assert made == Done("cache 'story' (maintain)")
            for verb in ("CREATE CACHE", "EXPLAIN CREATE CACHE"):
                with pytest.raises(SourceError, match="SELECT command denied") as failed:
                    await answer(f"{verb} FROM SELECT pay FROM salaries WHERE id = ?", proxy, session)
                assert failed.value.errno == 1142
            with pytest.raises(SourceError) as failed:
                await answer(
                    "CREATE CACHE FROM SELECT title FROM stories WHERE id = ?", proxy, Session(mysql, reader, "")
                )
            assert failed.value.errno == 1046  # no database selected
            with pytest.raises(UnsupportedQuery) as refused:
                await answer("CREATE CACHE FROM SELECT RAND() FROM stories", proxy, session)
            assert refused.value.code == "nondeterministic"
            listed = await rows("SHOW CACHES", proxy, session)
            assert [(row["name"], row["database"], row["origin"], row["creator"]) for row in listed] == [
                ("story", database, "SQL", f"{reader}@%")
            ]
            assert await proxy.client.cache("story").get(1) == [("one",)]

    run(scenario)


def test_a_shape_that_was_passed_through_is_listed_and_cached_as_it_stands_there(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*TABLES)
            admin = Session(mysql, "root", database, is_admin=True)
            for author in (1, 2, 3):
                sql = f"select id from stories where author in ({author}, 9) and title like 't%' order by 1 limit 5"
                answered = await proxy.client.query(sql, database=database)
                assert answered.served == "passed"
            await proxy.client.query("SELECT RAND() FROM stories", database=database)
            listed = {row["query"]: row for row in await rows("SHOW PROXIED QUERIES", proxy, admin)}
            shape = "SELECT id FROM stories WHERE author IN (?) AND title LIKE ? ORDER BY 1 LIMIT 5"
            assert (listed[shape]["count"], listed[shape]["cacheable"]) == (3, "yes")
            refused = listed["SELECT RAND() FROM stories"]
            assert refused["cacheable"] == "no" and str(refused["reason"]).endswith(" (nondeterministic)")
            await answer(f"CREATE CACHE mine FROM {shape}", proxy, admin)
            (row,) = await rows("SHOW PROXIED QUERIES LIKE '%like%'", proxy, admin)
            assert row["reason"] == "cached as 'mine'"
            assert (await proxy.client.query(sql, database=database)).served == "miss"
            await proxy.caught_up()  # keys of an IN-list are held when the stream has brought what their answer has
            while (await proxy.client.query(sql, database=database)).served != "hit":
                pass

    run(scenario)


def test_a_judgement_is_made_anew_after_a_table_has_changed(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write("CREATE TABLE logs (id INT PRIMARY KEY, line TEXT) ENGINE=MyISAM")
            admin = Session(mysql, "root", database, is_admin=True)
            await proxy.client.query("SELECT line FROM logs WHERE id = 1", database=database)
            (row,) = await rows("SHOW PROXIED QUERIES", proxy, admin)
            assert (row["cacheable"], str(row["reason"])[-9:]) == ("no", " (engine)")
            await proxy.write("ALTER TABLE logs ENGINE=InnoDB")
            await proxy.caught_up()
            (row,) = await rows("SHOW PROXIED QUERIES", proxy, admin)
            assert (row["cacheable"], row["reason"]) == ("yes", "maintain")

    run(scenario)


def test_who_made_a_cache_is_known_after_a_restart(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        admin = Session(mysql, "root", database, is_admin=True)
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            await answer("CREATE CACHE story FROM SELECT title FROM stories WHERE id = ?", proxy, admin)
            await proxy.client.create_cache("SELECT id FROM stories WHERE author = ?", name="other", database=database)
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            listed = [(row["name"], row["origin"], row["creator"]) for row in await rows("SHOW CACHES", proxy, admin)]
            assert listed == [("story", "SQL", "root@%"), ("other", "gRPC", None)]
            assert await answer("DROP CACHE story", proxy, admin) == Done("cache 'story' is dropped")
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            assert [row["name"] for row in await rows("SHOW CACHES", proxy, admin)] == ["other"]

    run(scenario)


def test_explanations_and_the_status_of_a_running_proxy(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            admin = Session(mysql, "root", database, is_admin=True)
            text = "EXPLAIN CREATE CACHE FROM SELECT title FROM stories WHERE id IN (?...)"
            plan = [row["explanation"] for row in await rows(text, proxy, admin)]
            assert plan[:2] == ["query: SELECT title FROM stories WHERE id IN (?...)", "mode: maintain"]
            await proxy.caught_up()
            status = {row["name"]: row["value"] for row in await rows("SHOW UPWELL STATUS", proxy, admin)}
            position = proxy.app.router.position.text().replace("\n", "")
            assert status["position"] == position and status["ready"] == "yes"
            assert [name for name, value in status.items() if value == ""] == [], "the fakes of unit tests fill in all"
            assert {"memory_limit", "lag_seconds", "hit_rate", "upqueries_in_flight", "conflicts"} <= status.keys()

    run(scenario)


def test_what_caches_have_answered_counts_when_they_are_dropped(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*TABLES)
            await proxy.client.create_cache("SELECT title FROM stories WHERE id = ?", name="s", database=database)
            for _ in range(5):
                await proxy.client.cache("s").get(1)
            before = await proxy.client.status()
            assert before.hits >= 3 and before.misses >= 1
            await proxy.client.drop_cache("s")
            after = await proxy.client.status()
            assert (after.hits, after.misses) == (before.hits, before.misses)

    run(scenario)
