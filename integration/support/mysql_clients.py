"""Clients of a proxy's MySQL listener for tests: PyMySQL in threads, and bare packets."""

from __future__ import annotations

import asyncio
from typing import Any

import pymysql
from pymysql.connections import Connection

from integration.support.grpc_app import Proxy
from integration.support.served import Reads

Rows = tuple[tuple[Any, ...], ...]


class Asker:
    """A PyMySQL connection through the proxy, whose calls run in threads."""

    def __init__(self, connection: Connection[Any]) -> None:
        self.connection = connection

    async def ask(self, sql: str, *values: object) -> Rows:
        """The rows of a statement."""

        def run() -> Rows:
            with self.connection.cursor() as cursor:
                cursor.execute(sql, values or None)
                return tuple(cursor.fetchall())

        return await asyncio.to_thread(run)

    async def read(self, sql: str, *values: object) -> tuple[Rows, str, str]:
        """The rows, how they were served, and why."""
        rows = await self.ask(sql, *values)
        served, _, reason, _ = (await self.ask("EXPLAIN LAST STATEMENT"))[0]
        return rows, served, reason or ""

    async def served(self, sql: str, *values: object) -> str:
        return (await self.read(sql, *values))[1]

    async def until_hit(self, sql: str, *values: object) -> None:
        """Reads until the read is a hit (`integration/support/served.py`)."""
        reads = Reads("hit")
        while not reads.done(await self.served(sql, *values)):
            pass

    async def close(self) -> None:
        await asyncio.to_thread(self.connection.close)


async def connected(proxy: Proxy, **options: Any) -> Asker:
    """A client in autocommit, in the proxy's database, unless `options` (PyMySQL's) say otherwise."""
    given = {
        "host": "127.0.0.1",
        "port": proxy.app.mysql_port,
        "user": proxy.mysql.user,
        "password": proxy.mysql.password,
        "database": proxy.database,
        "autocommit": True,
        **options,
    }
    return Asker(await asyncio.to_thread(lambda: pymysql.connect(**given)))
