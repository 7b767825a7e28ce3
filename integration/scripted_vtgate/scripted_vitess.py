"""A whole proxy before a scripted vtgate, in the test's own process: its answers are compared with what the servers of
the shards have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pymysql

from integration.servers.mysql_server import Server
from proxy.app import App, running
from proxy.settings.config import load_config
from tests.support.scripted_vtgate import ScriptedVtgate
from tests.support.vitess_events import KEYSPACE, LEFT, RIGHT
from tests.support.vtgate_shards import Keyspace, hold_rows
from tests.support.vtgate_sql import SqlHalf
from tests.support.waiting import until
from upwell.aio import Client

ShardServers = tuple[Server, Server, Server]
TABLES = ("CREATE TABLE item (id BIGINT PRIMARY KEY, n INT, name VARCHAR(20))",)
ROWS = tuple(f"INSERT INTO item VALUES {', '.join(f'({key}, {key % 4}, NULL)' for key in keys)}"
             for keys in (range(0, 20, 2), range(1, 20, 2)))  # fmt: skip


def place(key: int) -> str:
    """On which shard a key is."""
    return RIGHT if key % 2 else LEFT


@dataclass
class ScriptedVitess:
    """A running proxy, its client, and both halves of the vtgate before it: `sql`, and VStream, `grpc`."""

    app: App
    client: Client
    keyspace: Keyspace
    sql: SqlHalf
    grpc: ScriptedVtgate

    async def write(self, shard: str, *statements: str) -> None:
        """One transaction on a shard."""
        await asyncio.to_thread(self.keyspace.shards[shard].write, *statements)

    async def asked(self, sql: str) -> list[tuple[Any, ...]]:
        """What the servers of the shards have, sorted."""
        (found,) = await asyncio.to_thread(self.keyspace.asked, sql)
        return found

    async def caught_up(self) -> None:
        """Returns when the proxy has applied all that the shards have committed."""
        goal = await asyncio.to_thread(self.keyspace.executed)
        await until(lambda: goal.issubset(self.app.stream.position))
        await self.app.catalog.settled()

    async def session(self, *statements: str) -> list[tuple[Any, ...]]:
        """The last one's rows, sorted, in a session of its own through the proxy. Raises MySQLError."""
        return sorted(await asyncio.to_thread(self._session, statements), key=repr)

    def _session(self, statements: Sequence[str]) -> Sequence[tuple[Any, ...]]:
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return tuple(cursor.fetchall())

    def connect(self) -> pymysql.Connection[Any]:
        return pymysql.connect(
            host="127.0.0.1",
            port=self.app.mysql_port,
            user="root",
            database=KEYSPACE,
            autocommit=True,
            charset="utf8mb4",
            ssl_disabled=True,
        )


@asynccontextmanager
async def scripted_vitess(
    left: Server, right: Server, state_dir: Path, tables: Sequence[str] = TABLES, **options: str
) -> AsyncIterator[ScriptedVitess]:
    """Two shards with some rows each. `options`: settings by name, `_` for `-`."""
    for server, rows in zip((left, right), ROWS, strict=True):
        await asyncio.to_thread(hold_rows, server, (*tables, rows))
    keyspace = Keyspace({LEFT: left, RIGHT: right}, ("item",))
    sql, grpc = SqlHalf(keyspace, place), ScriptedVtgate(keyspace.stream)
    sql.start()
    await grpc.start()
    given: dict[str, str | None] = {
        "upstream": f"vitess://root@127.0.0.1:{sql.port}/{KEYSPACE}?grpc={grpc.address}",
        "grpc-listen": "127.0.0.1:0",
        "http-listen": "127.0.0.1:0",
        "mysql-listen": "127.0.0.1:0",
        "state-dir": str(state_dir),
        "check": "true",
        "check-sample": "off",
        "verify-new-caches": "off",
        "snapshot": "off",
        "warm-up": "off",
        "own-writes-wait": "30s",
        **{name.replace("_", "-"): text for name, text in options.items()},
    }
    try:
        with patch("proxy.app.freeze"):
            config = load_config(given, {}, state_dir)
            async with running(config) as app, Client(f"127.0.0.1:{app.grpc_port}", token=app.grpc_token) as client:
                await app.catalog.settled()
                yield ScriptedVitess(app, client, keyspace, sql, grpc)
                if app.failed_look is not None:
                    raise app.failed_look
    finally:
        await asyncio.to_thread(sql.stop)
        await grpc.stop()
    assert not sql.errors, sql.errors
    grpc.check()
