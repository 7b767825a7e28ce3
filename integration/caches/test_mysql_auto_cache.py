"""Automatic caching as a client of the MySQL listener meets it: it does nothing, and its reads become hits."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import proxy_beside, run
from integration.support.mysql_clients import connected


def test_what_is_read_often_is_cached_by_itself(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        options = {"auto_cache": "on", "auto_cache_reads": "10", "auto_cache_time": "0.001ms"}
        async with proxy_beside(mysql, database, tmp_path, **options) as proxy:
            proxy.unhurried()
            asker = await connected(proxy)
            served = ""
            while served != "hit":
                rows, served, _ = await asker.read("SELECT name FROM item WHERE id = %s", 1)
                assert rows == (("one",),)
            (cache,) = await asker.ask("SHOW CACHES")
            assert "automatic" in cache
            await asker.close()

    mysql.execute(
        f"USE `{database}`", "CREATE TABLE item (id INT PRIMARY KEY, name TEXT)", "INSERT INTO item VALUES (1, 'one')"
    )
    run(scenario)


EAGER = {"auto_cache": "on", "auto_cache_reads": "2", "auto_cache_time": "0ms"}
NAMED = "SELECT DATE_FORMAT(at, '%M') FROM item WHERE id = "


def items(mysql: Server, database: str) -> None:
    mysql.execute(
        f"USE `{database}`",
        "CREATE TABLE item (id INT PRIMARY KEY, at DATETIME)",
        "INSERT INTO item VALUES (1, '2024-03-01'), (2, '2024-05-01')",
    )


def test_no_cache_is_made_that_the_sessions_which_read_it_cannot_use(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    """A query may be another one in their language; another query is the same, and one session that can is enough."""

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, **EAGER) as proxy:
            auto = proxy.unhurried()
            german, english = await connected(proxy), await connected(proxy)
            await german.ask("SET lc_time_names = 'de_DE'")
            for number in range(40):
                rows, served, _ = await german.read(f"{NAMED}{number % 2 + 1}")
                assert (rows, served) == (((("März", "Mai")[number % 2],),), "passed")
                await german.read(f"SELECT id FROM item WHERE id = {number % 2 + 1}")
                await auto.look()
            made = [info.sql for info in await proxy.app.router.caches.listed()]
            assert made == ["SELECT id FROM item WHERE id = ?"]
            listed = await english.ask("SHOW PROXIED QUERIES")
            (reason,) = (str(row) for row in listed if "DATE_FORMAT" in str(row))
            assert "lc_time_names is 'de_DE' in this session" in reason
            served = ""
            while served != "hit":  # of texts that differ in more than their values one in sixteen is noted
                _, served, _ = await english.read(f"{NAMED}1")
                await auto.look()
            rows, served, _ = await german.read(f"{NAMED}1")
            assert (rows, served) == ((("März",),), "passed")
            for asker in (german, english):
                await asker.close()

    items(mysql, database)
    run(scenario)


@pytest.mark.parametrize(
    ("mode", "isolation", "is_made"),
    [
        ("off", "READ COMMITTED", False),
        ("strict", "REPEATABLE READ", False),
        ("strict", "READ COMMITTED", True),
        ("on", "REPEATABLE READ", True),
    ],
)
def test_no_cache_is_made_for_transactions_that_are_to_have_no_hits(
    mysql: Server, database: str, tmp_path: Path, mode: str, isolation: str, is_made: bool
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, **EAGER, transactions=mode) as proxy:
            auto = proxy.unhurried()
            asker = await connected(proxy)
            await asker.ask(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
            for _ in range(10):
                await asker.ask("BEGIN")
                await asker.read("SELECT at FROM item WHERE id = 1")
                await asker.ask("COMMIT")
                await auto.look()
            assert bool(await proxy.app.router.caches.listed()) is is_made
            await asker.close()

    items(mysql, database)
    run(scenario)
