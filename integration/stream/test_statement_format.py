"""Rows that were written without row events: what a statement may have changed is forgotten, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import proxy_beside, run
from integration.support.raw_client import RawClient
from proxy.mysql.wire.packets import COM_RESET_CONNECTION, OK

DATABASES = ("a", "b", "c", "d")


@pytest.fixture
def databases(mysql: Server, database: str) -> Iterator[list[str]]:
    """Four, with a table in each. What is written in the first is written by a trigger in the second, too; a function
    writes in the third; a row of the fourth goes with its parent in the first."""
    names = [f"{database[:40]}_{letter}" for letter in DATABASES]
    a, b, c, d = names
    mysql.execute(
        *(f"DROP DATABASE IF EXISTS `{name}`" for name in reversed(names)),
        *(f"CREATE DATABASE `{name}`" for name in names),
        *(f"CREATE TABLE `{name}`.t (id INT PRIMARY KEY, v INT)" for name in names),
        *(f"INSERT INTO `{name}`.t VALUES (1, 10), (2, 20), (3, 30)" for name in names),
        f"CREATE TABLE `{a}`.parent (id INT PRIMARY KEY)",
        f"INSERT INTO `{a}`.parent VALUES (1), (2), (3)",
        f"ALTER TABLE `{d}`.t ADD FOREIGN KEY (id) REFERENCES `{a}`.parent (id) ON DELETE CASCADE",
        f"CREATE TRIGGER `{a}`.noted AFTER UPDATE ON `{a}`.t FOR EACH ROW UPDATE `{b}`.t SET v = v + 1 WHERE id = 1",
        f"CREATE FUNCTION `{a}`.f() RETURNS INT DETERMINISTIC BEGIN UPDATE `{c}`.t SET v = v + 1; RETURN 1; END",
    )
    yield names
    mysql.execute(*(f"DROP DATABASE `{name}`" for name in reversed(names)))


OF_A_PARENT = "DELETE FROM `{a}`.parent WHERE id = 1"
STATEMENTS = {
    "UPDATE `{a}`.t SET v = v + 1 WHERE id = 1": "ab",
    "UPDATE `{b}`.t SET v = v + 1 WHERE id = 1": "b",
    "INSERT INTO `{b}`.t SELECT id + 100, v FROM `{c}`.t": "bc",
    OF_A_PARENT: "abcd",  # MySQL does not tell where the children are
    "DO `{a}`.f()": "c",
    "TRUNCATE TABLE `{c}`.t": "c",
}


@pytest.mark.parametrize(
    ("statement", "anew"), [*((statement, False) for statement in STATEMENTS), (OF_A_PARENT, True)]
)
def test_what_a_statement_may_have_changed_is_forgotten_and_nothing_else(
    mysql: Server, databases: list[str], tmp_path: Path, statement: str, anew: bool
) -> None:
    """`anew`: in a session that COM_RESET_CONNECTION has begun anew, in which MySQL 9 has InnoDB follow the keys."""
    a, b, c, d = databases

    async def scenario() -> None:
        async with proxy_beside(mysql, a, tmp_path) as proxy:
            caches = {}
            for letter, name in zip(DATABASES, databases, strict=True):
                await proxy.client.create_cache("SELECT v FROM t WHERE id = ?", name=letter, database=name)
                caches[letter] = proxy.client.cache(letter)
                while (await caches[letter].get(1)).served != "hit":
                    pass
            planned = {name: cache.generation for name, cache in proxy.app.catalog.caches.items()}
            with RawClient(mysql.host, mysql.port, user=mysql.user, password=mysql.password) as client:
                assert not anew or client.command(COM_RESET_CONNECTION)[4] == OK
                assert client.query("SET SESSION binlog_format = STATEMENT")[4] == OK
                assert client.query(statement.format(a=a, b=b, c=c, d=d))[4] == OK
            await proxy.caught_up()
            for letter, name in zip(DATABASES, databases, strict=True):
                rows = await asyncio.to_thread(mysql.execute, f"SELECT v FROM `{name}`.t WHERE id = 1")
                found = await caches[letter].get(1)
                assert found == list(rows)
                assert (found.served == "hit") == (letter not in STATEMENTS[statement])
            assert {name: cache.generation for name, cache in proxy.app.catalog.caches.items()} == planned

    run(scenario)
