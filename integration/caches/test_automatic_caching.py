"""Automatic caching in a whole proxy beside a real MySQL. Looks are made by the test, so that none depends on time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from external_upquery.mysql.schema_source import Name, SchemaSource
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, held_back, proxy_beside, run
from proxy.app import App
from proxy.auto.decisions import AutoCache
from proxy.mysql.session.run_command import run as run_command
from proxy.mysql.text.own_sql_syntax import Done, ResultTable, recognise
from proxy.port.made_by import Origin
from sqltypes.schema import SchemaSnapshot
from tests.support.waiting import until

STORIES = (
    "CREATE TABLE stories (id BIGINT PRIMARY KEY, author INT NOT NULL, title VARCHAR(100), INDEX (author))",
    "INSERT INTO stories VALUES (1, 1, 'one'), (2, 1, 'two'), (3, 2, NULL)",
)
SHAPE = "SELECT id, title FROM stories WHERE author = ? ORDER BY id LIMIT 10"


class Admin:
    """A session that may do everything."""

    account, is_admin, last_statement, speaks = "root@%", True, None, "MySQL"

    def __init__(self, app: App, database: str) -> None:
        self.proxied = app.router.proxied
        self.database = database

    async def may_read(self, sql: str, database: str) -> None:
        return


@asynccontextmanager
async def watching(mysql: Server, database: str, tmp_path: Path, **more: str) -> AsyncIterator[tuple[Proxy, AutoCache]]:
    options = {"auto_cache": "on", "auto_cache_reads": "20", "auto_cache_time": "10s", **more}
    async with proxy_beside(mysql, database, tmp_path, **options) as proxy:
        auto = proxy.unhurried()
        auto.policy = replace(auto.policy, every=3600.0)
        yield proxy, auto


async def ask(proxy: Proxy, times: int) -> list[str]:
    """How each was served."""
    texts = (f"select id, title from stories where author = {number} order by id limit 10" for number in range(times))
    return [(await proxy.client.query(text, database=proxy.database)).served for text in texts]


async def names(proxy: Proxy) -> list[tuple[str, Origin]]:
    return [(info.name, info.made_by.origin) for info in await proxy.app.router.caches.listed()]


def test_what_is_asked_often_becomes_a_cache_whose_reads_hit_and_stay_current(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with watching(mysql, database, tmp_path) as (proxy, auto):
            await proxy.write(*STORIES)
            assert set(await ask(proxy, 19)) == {"passed"}
            await auto.look()
            assert await names(proxy) == []
            await ask(proxy, 10)
            await auto.look()
            assert await names(proxy) == [("auto1", Origin.AUTOMATIC)]
            (info,) = await proxy.app.router.caches.listed()
            assert (info.sql, info.mode, info.database) == (SHAPE, "maintain", database)
            assert [set(await ask(proxy, 3)) for _ in range(2)] == [{"miss"}, {"hit"}]
            await proxy.write("UPDATE stories SET title = 'uno' WHERE id = 1")
            await proxy.caught_up()
            answer = await proxy.client.query(SHAPE.replace("?", "1"), database=database)
            assert (answer, answer.served) == ([(1, "uno"), (2, "two")], "hit")
            counters = (await proxy.client.status()).counters
            assert (counters["automatic_caches_made"], counters["automatic_caches_dropped"]) == (1, 0)

    run(scenario)


def test_show_caches_says_why_it_is_there(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with watching(mysql, database, tmp_path) as (proxy, auto):
            await proxy.write(*STORIES)
            await ask(proxy, 25)
            await auto.look()
            row = await only_cache(proxy)
            assert (row["name"], row["origin"], row["creator"]) == ("auto1", "automatic", None)
            assert str(row["reason"]).startswith("asked 25 times in ten minutes, MySQL took ")

    run(scenario)


async def only_cache(proxy: Proxy) -> dict[str, object]:
    """The line of SHOW CACHES."""
    command = recognise("SHOW CACHES")
    assert command is not None
    table = await run_command(command, proxy.app.router, Admin(proxy.app, proxy.database))
    assert isinstance(table, ResultTable)
    (row,) = table.rows
    return dict(zip((name for name, _ in table.columns), row, strict=True))


def test_a_restart_brings_it_back_with_its_keys_and_it_is_dropped_as_any(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with watching(mysql, database, tmp_path, warm_up="on") as (proxy, auto):
            await proxy.write(*STORIES)
            await ask(proxy, 25)
            await auto.look()
            await ask(proxy, 3)
            told = str((await only_cache(proxy))["reason"]).partition(";")[0]
        (file,) = tmp_path.glob("automatic-*.json")
        assert file.stat().st_mode & 0o77 == 0
        async with watching(mysql, database, tmp_path, warm_up="on") as (proxy, auto):
            assert await names(proxy) == [("auto1", Origin.AUTOMATIC)]
            await until(lambda: proxy.app.catalog.get("auto1").info().keys == 3)
            assert set(await ask(proxy, 3)) == {"hit"}
            assert str((await only_cache(proxy))["reason"]).startswith(told)
            auto.policy = replace(auto.policy, trial=0.0, count_every=0.0)
            await auto.look()
            assert "reads in the last minute were hits" in auto.decided("auto1")
            await proxy.write("ALTER TABLE stories ENGINE=MyISAM")
            await proxy.caught_up()
            await proxy.app.catalog.settled()
            await auto.look()
            assert await names(proxy) == []
        async with watching(mysql, database, tmp_path, warm_up="on") as (proxy, _):
            assert await names(proxy) == []

    run(scenario)


def test_what_has_become_somebodys_own_is_not_brought_back_twice(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with watching(mysql, database, tmp_path) as (proxy, auto):
            await proxy.write(*STORIES)
            await ask(proxy, 25)
            await auto.look()
        (file,) = tmp_path.glob("automatic-*.json")
        saved = file.read_text()
        async with watching(mysql, database, tmp_path) as (proxy, _):
            await proxy.app.catalog.settled()
            await proxy.client.create_cache(SHAPE, name="mine", database=database)
        file.write_text(saved)  # as if the proxy had not come to write it
        async with watching(mysql, database, tmp_path) as (proxy, _):
            assert await names(proxy) == [("mine", Origin.GRPC)]
        file.write_text("{")
        async with watching(mysql, database, tmp_path) as (proxy, _):
            assert await names(proxy) == [("mine", Origin.GRPC)]

    run(scenario)


def test_one_that_does_not_pay_is_dropped_and_its_query_passed_again(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with watching(mysql, database, tmp_path) as (proxy, auto):
            await proxy.write(*STORIES)
            await ask(proxy, 25)
            await auto.look()
            await auto.look()
            assert len(await names(proxy)) == 1, "that nobody reads it is no reason"
            auto.policy = replace(auto.policy, trial=0.0, seldom=0.0, count_every=0.0)
            for _ in range(25):
                await ask(proxy, 1)
                await proxy.write("UPDATE stories SET title = CONCAT(title, 'x') LIMIT 1000")
                await proxy.write("ALTER TABLE stories COMMENT = 'another'")
                await proxy.caught_up()
                await proxy.app.catalog.settled()
            await auto.look()
            assert await names(proxy) == [] and await ask(proxy, 1) == ["passed"]
            await ask(proxy, 50)
            await auto.look()
            assert await names(proxy) == []  # barred for some minutes

    run(scenario)


def test_who_asks_for_it_makes_it_his_own(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with watching(mysql, database, tmp_path) as (proxy, auto):
            await proxy.write(*STORIES)
            await ask(proxy, 25)
            await auto.look()
            assert [set(await ask(proxy, 3)) for _ in range(2)] == [{"miss"}, {"hit"}]
            opened = proxy.client.cache("auto1")
            command = recognise(f"CREATE CACHE FROM {SHAPE}")
            assert command is not None
            done = await run_command(command, proxy.app.router, Admin(proxy.app, database))
            assert done == Done("the query is cached already, as 'auto1' (maintain)")
            assert await names(proxy) == [("auto1", Origin.SQL)]
            assert (await opened.get(1)).served == "hit"
            auto.policy = replace(auto.policy, trial=0.0)
            await auto.look()
            assert await names(proxy) == [("auto1", Origin.SQL)]
        async with watching(mysql, database, tmp_path) as (proxy, _):
            assert await names(proxy) == [("auto1", Origin.SQL)]

    run(scenario)


def test_the_name_that_is_asked_for_it_counts(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with watching(mysql, database, tmp_path) as (proxy, auto):
            await proxy.write(*STORIES)
            await proxy.caught_up()
            await ask(proxy, 25)
            await auto.look()
            assert await ask(proxy, 1) == ["miss"]
            made = await proxy.client.create_cache(SHAPE, name="by_author", database=database)
            assert made.name == "by_author"
            assert await names(proxy) == [("by_author", Origin.GRPC)]
            assert [set(await ask(proxy, 3)) for _ in range(2)] == [{"miss"}, {"hit"}]

    run(scenario)


def test_a_table_that_changes_its_engine_takes_its_automatic_caches_along(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with watching(mysql, database, tmp_path) as (proxy, auto):
            await proxy.write(*STORIES)
            await ask(proxy, 25)
            await auto.look()
            await proxy.write("ALTER TABLE stories ENGINE=MyISAM")
            await proxy.caught_up()
            await proxy.app.catalog.settled()
            auto.policy = replace(auto.policy, count_every=0.0)
            await auto.look()
            assert await names(proxy) == []
            await ask(proxy, 50)
            await auto.look()
            assert await names(proxy) == []

    run(scenario)


def test_what_is_asked_for_five_seconds_is_cached_in_them(mysql: Server, database: str, tmp_path: Path) -> None:
    """With the thresholds that are set by default, two reads a second, and the looks that come in five seconds."""

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, auto_cache="on") as proxy:
            auto = proxy.unhurried()
            ahead = 0.0
            auto.clock = lambda: monotonic() + ahead
            await proxy.write(*STORIES)
            served = []
            for _ in range(5):
                served += await ask(proxy, 2)
                ahead += 1
                await auto.look()
            assert set(served[:2]) == {"passed"} and set(await ask(proxy, 3)) <= {"hit", "miss"}
            assert set(await ask(proxy, 3)) == {"hit"}

    run(scenario)


def test_every_shape_that_mysql_has_answered_is_judged_with_why_it_is_not_cached(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with watching(mysql, database, tmp_path) as (proxy, auto):
            await proxy.write(*STORIES, "CREATE TABLE old (id INT PRIMARY KEY) ENGINE=MyISAM")
            for number in range(150):
                await proxy.client.query(f"SELECT id, {number} FROM stories WHERE author = 1", database=database)
            await proxy.client.query("SELECT id FROM old WHERE id = 1", database=database)
            await ask(proxy, 30)
            await auto.look()
            command = recognise("SHOW PROXIED QUERIES")
            assert command is not None
            table = await run_command(command, proxy.app.router, Admin(proxy.app, database))
            assert isinstance(table, ResultTable)
            names = [name for name, _ in table.columns]
            rows = {str(row[0]): dict(zip(names, row, strict=True)) for row in table.rows}
            assert len(rows) == 152
            assert rows[SHAPE]["reason"] == "cached as 'auto1'"
            old = rows.pop("SELECT id FROM old WHERE id = ?")
            assert old["cacheable"] == "no" and str(old["reason"]).endswith(" (engine)")
            del rows[SHAPE]
            worth = "maintain; not worth it: 1 reads in the last ten minutes, 20 are needed"
            assert {(row["cacheable"], row["reason"]) for row in rows.values()} == {("yes", worth)}

    run(scenario)


def test_show_caches_says_what_is_to_become_of_it(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with watching(mysql, database, tmp_path) as (proxy, auto):
            await proxy.write(*STORIES)
            await ask(proxy, 25)
            await auto.look()
            ahead = 0.0
            auto.clock = lambda: monotonic() + ahead
            auto.policy = replace(auto.policy, count_every=0.0)

            async def reason() -> str:
                (info,) = await proxy.app.router.caches.listed()
                return info.decided

            assert (await reason()).startswith("on trial for ")
            ahead = 150.0
            assert await reason() == "kept until its place is needed: it is hardly read"
            for _ in range(5):
                await ask(proxy, 30)
            await auto.look()
            assert (await reason()).startswith("kept: ") and "reads in the last minute were hits" in await reason()

    run(scenario)


def test_statements_that_change_tables_are_counted_whether_the_tables_are_cached_or_not(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with watching(mysql, database, tmp_path) as (proxy, _):
            await proxy.write(*STORIES, "CREATE TABLE other (id INT PRIMARY KEY)")
            await proxy.client.create_cache(SHAPE, database=proxy.database)
            await proxy.caught_up()
            before = dict(proxy.app.stream.writes)
            await proxy.write(
                "UPDATE stories SET title = 'new' WHERE id < 3", "INSERT INTO other VALUES (1), (2)",
                "BEGIN", "INSERT INTO other VALUES (3)", "DELETE FROM other WHERE id = 1", "COMMIT",
                "DELETE FROM other WHERE id = 99",
            )  # fmt: skip
            await proxy.caught_up()
            now = proxy.app.stream.writes
            counted = {name: total - before.get(name, 0) for name, total in now.items()}
            assert (counted[f"{database}.stories"], counted[f"{database}.other"]) == (1, 3)

    run(scenario)


def reflected(patch: pytest.MonkeyPatch) -> list[set[Name]]:
    """What MySQL is asked for of its schema, from now on."""
    asked: list[set[Name]] = []
    snapshot = SchemaSource.snapshot

    async def counted(self: SchemaSource, names: Iterable[Name]) -> SchemaSnapshot:
        asked.append(set(names))
        return await snapshot(self, names)

    patch.setattr(SchemaSource, "snapshot", counted)
    return asked


def test_mysql_is_asked_once_for_a_table_however_many_caches_are_made_of_it(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until a DDL statement comes. What somebody names is planned as MySQL is now, whatever the stream has told."""

    async def scenario() -> None:
        async with watching(mysql, database, tmp_path) as (proxy, auto):
            await proxy.write(*STORIES)
            await proxy.caught_up()
            asked = reflected(monkeypatch)
            table = (database, "stories")
            for added in ("id", "title", "author"):
                for order in ("id", "author"):
                    for number in range(25):
                        sql = f"SELECT {added} FROM stories WHERE author = {number} ORDER BY {order} LIMIT 3"
                        await proxy.client.query(sql, database=database)
            await auto.look()
            made = await names(proxy)
            assert len(made) > 3 and asked == [{table}]
            await proxy.write("ALTER TABLE stories ADD COLUMN more INT DEFAULT 7")
            await proxy.caught_up()
            await proxy.app.catalog.settled()
            assert asked == [{table}, {table}], "once for all caches that are planned again"
            with held_back(proxy):
                await proxy.write("ALTER TABLE stories ADD COLUMN latest INT DEFAULT 8")
                told = await proxy.client.create_cache("SELECT latest FROM stories WHERE id = ?", database=database)
                assert told.state == "ready" and asked[2:3] == [{table}]
            await proxy.caught_up()
            for expected in ("miss", "hit"):
                answer = await proxy.client.cache(told.name).get(1)
                assert (answer, answer.served) == ([(8,)], expected)

    run(scenario)
