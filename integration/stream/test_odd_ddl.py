"""DDL statements that are easily misread: whatever they are written like, no hit is older than they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside
from tests.support.waiting import until
from upwell.errors import UnsupportedQuery
from upwell.rows import Answer

PARTED = "CREATE TABLE {} (id INT PRIMARY KEY, v INT) PARTITION BY HASH(id) PARTITIONS 1"
WHOLE = "CREATE TABLE {} (id INT PRIMARY KEY, v INT)"
# By name: what makes the tables, and what then is done to them; between two of these the proxy catches up.
CASES: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "dashes before a line's end": (
        [WHOLE.format("a"), WHOLE.format("c")],
        ["UPDATE c SET v = 77", "RENAME TABLE a TO b --\n, c TO d --\n, b TO c", "CREATE TABLE a LIKE c"],
    ),
    "dashes before a table": (
        [PARTED.format("a"), WHOLE.format("c")],
        ["UPDATE a SET v = 77", "ALTER TABLE a EXCHANGE PARTITION p0 WITH --\r\n TABLE c"],
    ),
    "a table called only": ([PARTED.format("`only`")], ["ALTER TABLE only TRUNCATE PARTITION ALL"]),
    "only and others": (
        [WHOLE.format("`only`"), WHOLE.format("c")],
        ["UPDATE c SET v = 77", "RENAME TABLE only TO x, c TO only, x TO c"],
    ),
    "a letter that is an I in capitals": (
        [WHOLE.format("`\u0131f`")],
        ["ALTER TABLE \u0131f RENAME COLUMN v TO w, ADD COLUMN v INT DEFAULT 5"],
    ),
    "double quotes": ([WHOLE.format('`a"b`')], ['SET sql_mode = \'ANSI_QUOTES\';; TRUNCATE TABLE "a""b"']),
    "a back slash": (
        [WHOLE.format("a"), WHOLE.format("c")],
        [
            "DROP TABLE c",
            "SET sql_mode = 'NO_BACKSLASH_ESCAPES';; ALTER TABLE a COMMENT 'x\\', RENAME TO c, ALTER v SET DEFAULT '3'",
            "CREATE TABLE a LIKE c",
        ],
    ),
    "what a view shows is another table's": (
        [WHOLE.format("a"), WHOLE.format("c"), "CREATE VIEW v AS SELECT id, v FROM a"],
        [
            "CREATE OR REPLACE VIEW v AS SELECT id, v FROM c;; ALTER TABLE c DROP COLUMN v",
            "ALTER TABLE c ADD COLUMN v INT DEFAULT 8",
        ],
    ),
}


async def read_until_hit(proxy: Proxy, name: str) -> tuple[list[tuple[object, ...]], str]:
    """The rows of keys 1 to 3, and how the last was served: all as hits, unless that does not come."""
    cache = proxy.client.cache(name)
    answers: list[Answer] = []

    async def all_are_hits() -> bool:
        answers[:] = [await cache.get(key) for key in (1, 2, 3)]
        return {answer.served for answer in answers} == {"hit"}

    with suppress(TimeoutError):
        await until(all_are_hits, seconds=3.0)
    return sorted(tuple(row) for answer in answers for row in answer), answers[-1].served


@pytest.mark.parametrize("case", CASES)
def test_no_hit_is_older_than_the_statement(mysql: Server, database: str, tmp_path: Path, case: str) -> None:
    make, change = CASES[case]
    relations = {statement.split()[2]: statement.split()[1] for statement in make}

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*make)
            tables = [name for name, kind in relations.items() if kind == "TABLE"]
            await proxy.write(*(f"INSERT INTO {table} VALUES (1, 10), (2, 10)" for table in tables))
            await proxy.caught_up()
            for number, name in enumerate(relations):
                sql = f"SELECT id, v FROM {name} WHERE id = ?"
                await proxy.client.create_cache(sql, name=f"c{number}", database=database)
                assert (await read_until_hit(proxy, f"c{number}"))[1] == "hit"
            for statements in change:
                await proxy.write(*statements.split(";; "))
                await proxy.caught_up()
            for number, name in enumerate(relations):
                found, served = await read_until_hit(proxy, f"c{number}")
                expected = await asyncio.to_thread(mysql.execute, f"SELECT id, v FROM {database}.{name}")
                assert (found, served) == (sorted(expected), "hit"), name

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_names_with_dots_are_not_cached(mysql: Server, database: str, tmp_path: Path) -> None:
    """`a.b`.c and a.`b.c` would be one."""
    other = f"{database}.x"
    mysql.execute(f"DROP DATABASE IF EXISTS `{other}`", f"CREATE DATABASE `{other}`")

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(
                "CREATE TABLE `x.y` (id INT PRIMARY KEY)", f"CREATE TABLE `{other}`.y (id INT PRIMARY KEY)"
            )
            for table in ("`x.y`", f"`{other}`.y"):
                with pytest.raises(UnsupportedQuery, match="has a dot in it"):
                    await proxy.client.create_cache(f"SELECT id FROM {table} WHERE id = ?", database=database)

    try:
        asyncio.run(asyncio.wait_for(scenario(), 120))
    finally:
        mysql.execute(f"DROP DATABASE `{other}`")
