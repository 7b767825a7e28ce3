"""A whole proxy beside a real MySQL in the test's own process, with a client of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import uvloop

from integration.servers.mysql_server import Server
from proxy.app import App, running
from proxy.auto.decisions import AutoCache
from proxy.settings.config import load_config
from proxy.settings.quantities import parse_size
from tests.support.waiting import until
from upwell.aio import Client
from vstream.binlog.source import BinlogSource


def binlog_of(app: App) -> BinlogSource:
    """Its change stream, for tests that hold it up, or look into it."""
    stream = app.stream
    assert isinstance(stream, BinlogSource)
    return stream


@dataclass
class Proxy:
    """A running proxy, its client, and the MySQL behind it."""

    app: App
    client: Client
    mysql: Server
    database: str

    @property
    def binlog(self) -> BinlogSource:
        return binlog_of(self.app)

    async def write(self, *statements: str) -> None:
        """Runs statements in the test's database, not through the proxy. Tables that they make are known to the proxy
        then: a CREATE TABLE that the stream brings later plans a cache anew, and its keys are holes again."""
        await asyncio.to_thread(self.mysql.execute, f"USE `{self.database}`", *statements)
        if any(statement.lstrip().upper().startswith("CREATE TABLE") for statement in statements):
            await self.caught_up()

    def unhurried(self) -> AutoCache:
        """Automatic caching, which from now on takes no notice of how busy this machine is, and drops nothing for
        that."""
        found = self.app.router.auto_cache
        assert found is not None
        found.load = None
        return found

    async def settled(self) -> None:
        """Returns when each difference from MySQL's answers is explained, and no cache is to be planned again."""
        suspicions = self.app.router.sampler.comparer.suspicions
        await until(lambda: not suspicions.running)
        await self.app.catalog.settled()

    async def caught_up(self) -> None:
        """Returns when the proxy has applied all that MySQL has committed, and has planned again what that concerns."""
        executed = (await asyncio.to_thread(self.mysql.execute, "SELECT @@GLOBAL.gtid_executed"))[0][0]
        while True:
            position = (await self.client.status()).position
            ask = f"SELECT GTID_SUBSET('{executed}', '{position}')"
            if (await asyncio.to_thread(self.mysql.execute, ask))[0][0]:
                break
        await self.app.catalog.settled()


@asynccontextmanager
async def proxy_beside(mysql: Server, database: str, state_dir: Path, **options: str) -> AsyncIterator[Proxy]:
    """A proxy whose upstream names no database. `options`: settings by name, `_` for `-`; `memory_limit` may be less
    than a user may give, so that keys are evicted all the time."""
    memory = options.pop("memory_limit", None)
    given: dict[str, str | None] = {
        "upstream": mysql.url,
        "grpc-listen": "127.0.0.1:0",
        "http-listen": "127.0.0.1:0",
        "mysql-listen": "127.0.0.1:0",
        "state-dir": str(state_dir),
        "check": "true",
        "check-sample": "off",  # so that a test can count what MySQL is asked
        "verify-new-caches": "off",
        "snapshot": "off",
        "warm-up": "off",
        "own-writes-wait": "30s",  # on a busy machine the stream may be late by more than a second
        **{name.replace("_", "-"): text for name, text in options.items()},
    }
    config = load_config(given, {}, state_dir)
    if memory is not None:
        config = replace(config, memory_limit=parse_size(memory))
    with patch("proxy.app.freeze"):  # of its process, which here is the tests': each time all that they have loaded
        async with running(config) as app, Client(f"127.0.0.1:{app.grpc_port}", token=app.grpc_token) as client:
            await app.catalog.settled()
            yield Proxy(app, client, mysql, database)
            if app.failed_look is not None:  # a broken invariant, or an error that nobody waits for
                raise app.failed_look
            if config.check:
                app.engine.check_invariants()


@contextmanager
def held_back(proxy: Proxy) -> Iterator[None]:
    """The proxy does not look at its change stream meanwhile."""
    loop, reader = asyncio.get_running_loop(), proxy.binlog._reader
    assert reader is not None
    socket = reader._socket.fileno()
    loop.remove_reader(socket)
    try:
        yield
    finally:
        loop.add_reader(socket, reader._on_readable)


def run(scenario: Callable[[], Coroutine[Any, Any, None]], seconds: float = 270) -> None:
    """Runs a test's coroutine on the loop that the proxy runs on. `seconds`: what it may take where ten others run
    beside it."""
    uvloop.run(asyncio.wait_for(scenario(), seconds))
