"""Where MySQL takes names in any letter case (Windows, macOS), a change is one however its statement spells them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from integration.servers.mysql_server import Server
from integration.support.grpc_app import proxy_beside, run

CHANGES = (
    "UPDATE Shop.USERS SET v = 11 WHERE ID = 1",
    "SET SESSION binlog_format = STATEMENT; UPDATE Shop.USERS SET v = 12 WHERE ID = 1",
    "TRUNCATE TABLE Shop.Users",
    "INSERT INTO SHOP.Users VALUES (1, 13)",
    "USE SHOP; TRUNCATE USERS",
    "INSERT INTO shop.users VALUES (1, 14)",
    "ALTER TABLE Shop.Users ADD COLUMN more INT",
    "USE Shop; UPDATE Users SET V = 15",
    "RENAME TABLE Shop.Users TO Shop.Others, Shop.More TO SHOP.USERS",
    "DROP DATABASE SHOP; CREATE DATABASE SHOP; CREATE TABLE SHOP.Users (id INT PRIMARY KEY, v INT)",
    "INSERT INTO Shop.Users VALUES (1, 16)",
)


def test_names_are_the_same_in_any_letters(own_mysql: Callable[..., Server], tmp_path: Path) -> None:
    mysql = own_mysql("--lower-case-table-names=1")
    mysql.execute(
        "CREATE DATABASE Shop",
        "CREATE TABLE Shop.Users (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE Shop.More LIKE Shop.Users",
        "INSERT INTO Shop.Users VALUES (1, 10)",
        "INSERT INTO Shop.More VALUES (1, 20)",
    )

    async def scenario() -> None:
        async with proxy_beside(mysql, "shop", tmp_path) as proxy:
            await proxy.client.create_cache("SELECT v FROM Users WHERE id = ?", name="by_id", database="Shop")
            cache = proxy.client.cache("by_id")
            for change in CHANGES:
                while (await cache.get(1)).served != "hit":
                    pass
                await proxy.write(*change.split("; "))
                await proxy.caught_up()
                rows = await asyncio.to_thread(mysql.execute, "SELECT v FROM shop.users WHERE id = 1")
                assert list(await cache.get(1)) == list(rows), change

    run(scenario)
