"""A whole proxy beside a real MySQL, on a loop in a thread of its own, for tests whose clients block.

What the loop could not handle is kept, and fails the test: an exception that nobody catches is never an outcome.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside
from integration.support.raw_client import RawClient
from proxy.mysql.session.listener import MysqlListener
from proxy.mysql.session.shared import Shared
from tests.support.waiting import until

T = TypeVar("T")
START = 60.0  # seconds


@dataclass
class Beside:
    """The proxy `through` whose port clients reach MySQL; `unhandled`: what its loop has complained of."""

    proxy: Proxy
    loop: asyncio.AbstractEventLoop
    unhandled: list[dict[str, Any]] = field(default_factory=list)

    @property
    def mysql(self) -> Server:
        return self.proxy.mysql

    @property
    def port(self) -> int:
        return self.proxy.app.mysql_port

    @property
    def listener(self) -> MysqlListener:
        assert self.proxy.app.mysql is not None
        return self.proxy.app.mysql

    @property
    def shared(self) -> Shared:
        return self.listener.shared

    def client(self, **options: Any) -> RawClient:
        """A client of the proxy, in its database. `options`: of RawClient."""
        return RawClient("127.0.0.1", self.port, **{"database": self.proxy.database, **options})

    def direct(self, **options: Any) -> RawClient:
        """A client of MySQL itself."""
        return RawClient(self.mysql.host, self.mysql.port, **{"database": self.proxy.database, **options})

    def call(self, function: Callable[[], T]) -> T:
        """What a function says that is called on the loop."""

        async def called() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(START)

    def until(self, condition: Callable[[], bool]) -> None:
        """Returns when it is so; looked at on the loop. Raises TimeoutError."""
        asyncio.run_coroutine_threadsafe(until(condition, START), self.loop).result(2 * START)

    def caught_up(self) -> None:
        asyncio.run_coroutine_threadsafe(self.proxy.caught_up(), self.loop).result(START)

    def at_rest(self) -> None:
        """Returns when no session is left, neither open nor closing."""
        shared = self.shared
        self.until(lambda: not shared.sessions and not shared.sessions.closing and not shared.sessions.orphans)


@contextmanager
def proxy_in_thread(mysql: Server, database: str, state: Path, **options: str) -> Iterator[Beside]:
    """`options`: settings by name, `_` for `-`. Raises AssertionError at the end where the loop has complained."""
    started = threading.Event()
    made: list[Beside] = []
    failed: list[BaseException] = []

    async def serve() -> None:
        ending = asyncio.Event()
        async with proxy_beside(mysql, database, state, **options) as proxy:
            loop = asyncio.get_running_loop()
            beside = Beside(proxy, loop)
            loop.set_exception_handler(lambda _, context: beside.unhandled.append(context))
            made.append(beside)
            stops.append(lambda: loop.call_soon_threadsafe(ending.set))
            started.set()
            await ending.wait()

    def run() -> None:
        try:
            uvloop.run(serve())
        except BaseException as error:  # noqa: BLE001  # handed to the test's own thread
            failed.append(error)
        started.set()

    stops: list[Callable[[], object]] = []
    thread = threading.Thread(target=run, name="proxy")
    thread.start()
    started.wait(START)
    try:
        if made:
            yield made[0]
    finally:
        for stop in stops:
            stop()
        thread.join(START)
    if failed:
        raise failed[0]
    for context in made[0].unhandled:
        raise AssertionError(context) from context.get("exception")


@contextmanager
def beside_database(mysql: Server, database: str, state: Path, *statements: str, **options: str) -> Iterator[Beside]:
    """A proxy beside a database that is made for it by these statements, and dropped behind it. `options`: as of
    `proxy_in_thread`."""
    mysql.execute(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}", f"USE {database}", *statements)
    with proxy_in_thread(mysql, database, state, **options) as found:
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {database}")
