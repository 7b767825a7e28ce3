"""A whole proxy before the tests' Vitess, in the test's own process, with a client of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pymysql

from gtid_tracker.gtid import GtidSet
from integration.vitess.cluster import Cluster
from integration.vitess.shop import executed
from proxy.app import App, running
from proxy.settings.config import load_config
from tests.support.waiting import until
from upwell.aio import Client


def address(cluster: Cluster, keyspace: str) -> str:
    return f"vitess://root@127.0.0.1:{cluster.sql}/{keyspace}?grpc=127.0.0.1:{cluster.grpc}"


@dataclass
class VitessProxy:
    """A running proxy, its client, and the Vitess behind it."""

    app: App
    client: Client
    cluster: Cluster
    keyspace: str

    async def write(self, *statements: str) -> None:
        """Through vtgate, and not through the proxy; returns when the proxy has applied it."""
        await asyncio.to_thread(self.cluster.execute, self.keyspace, *statements)
        await self.caught_up()

    async def asked(self, sql: str) -> tuple[tuple[Any, ...], ...]:
        """vtgate's own answer."""
        return await asyncio.to_thread(self.cluster.execute, self.keyspace, sql)

    async def caught_up(self) -> None:
        goal = await asyncio.to_thread(executed, self.cluster, self.keyspace)
        await until(lambda: goal.issubset(self.position), 60)
        await self.app.catalog.settled()

    @property
    def position(self) -> GtidSet:
        return self.app.stream.position

    def session(self, **options: Any) -> pymysql.Connection[Any]:
        """A client of the proxy by MySQL's protocol. It blocks: use it in a thread."""
        given: dict[str, Any] = {
            "user": "root",
            "autocommit": True,
            "charset": "utf8mb4",
            "ssl_disabled": True,
            **options,
        }
        given.setdefault("database", self.keyspace)
        return pymysql.connect(host="127.0.0.1", port=self.app.mysql_port, **given)


@asynccontextmanager
async def proxy_before(cluster: Cluster, keyspace: str, state_dir: Path, **options: str) -> AsyncIterator[VitessProxy]:
    """`options`: settings by name, `_` for `-`."""
    given: dict[str, str | None] = {
        "upstream": address(cluster, keyspace),
        "grpc-listen": "127.0.0.1:0",
        "http-listen": "127.0.0.1:0",
        "mysql-listen": "127.0.0.1:0",
        "state-dir": str(state_dir),
        "check": "true",
        "snapshot": "off",
        "warm-up": "off",
        **{name.replace("_", "-"): text for name, text in options.items()},
    }
    # A process freezes what it has, which here is the tests'. Where a comparison is not waited for, vtgate answers.
    with patch("proxy.app.freeze"), patch("proxy.checking.auditor.PATIENCE", 10.0):
        config = load_config(given, {}, state_dir)
        async with running(config) as app, Client(f"127.0.0.1:{app.grpc_port}", token=app.grpc_token) as client:
            await app.catalog.settled()
            yield VitessProxy(app, client, cluster, keyspace)
            if app.failed_look is not None:
                raise app.failed_look
