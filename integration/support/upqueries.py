"""Running an executor inside a synchronous test."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import uvloop

from dataflow.messages import Statement, UpqueryAnswer, UpqueryFailed, UpqueryRequest
from external_upquery.address import Upstream, parse_upstream
from external_upquery.executor import Executor
from integration.servers.private_mysql import Server
from sqltypes.errors import UpwellError

T = TypeVar("T")
LONG = 30.0  # seconds: how long a test waits for what should come at once
numbers = itertools.count(1)


def run(server: Server | Upstream, body: Callable[[Executor], Awaitable[T]], **options: Any) -> T:
    """The result of `body` with an executor on that server, on the loop that the proxy uses."""
    upstream = server if isinstance(server, Upstream) else parse_upstream(server.url)

    async def whole() -> T:
        executor = Executor(upstream, **options)
        try:
            return await asyncio.wait_for(body(executor), 4 * LONG)
        finally:
            executor.close()

    return uvloop.run(whole())


def request(*sql: str, database: str = "", tables: tuple[str, ...] = (), slow: bool = False) -> UpqueryRequest:
    return UpqueryRequest(next(numbers), tuple(map(Statement, sql)), tables, database, slow)


async def outcome(
    executor: Executor, wanted: UpqueryRequest, deadline: float | None = None
) -> UpqueryAnswer | UpqueryFailed:
    future: asyncio.Future[UpqueryAnswer | UpqueryFailed] = asyncio.get_running_loop().create_future()
    executor.submit(wanted, future.set_result, deadline)
    return await future


async def answer(executor: Executor, wanted: UpqueryRequest, deadline: float | None = None) -> UpqueryAnswer:
    found = await outcome(executor, wanted, deadline)
    assert isinstance(found, UpqueryAnswer), found
    return found


async def failure(executor: Executor, wanted: UpqueryRequest, deadline: float | None = None) -> UpwellError:
    found = await outcome(executor, wanted, deadline)
    assert isinstance(found, UpqueryFailed), found
    return found.error


async def turn() -> None:
    """Until the loop has been round once."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(future.set_result, None)
    await future


@contextmanager
def writing(server: Server, statement: str, writers: int = 2) -> Iterator[None]:
    """Runs a statement over and over beside the test, on connections of its own; each has run once when it begins."""
    stop = threading.Event()
    begun = threading.Barrier(writers + 1, timeout=LONG)

    def write() -> None:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            begun.wait()
            while not stop.is_set():
                cursor.execute(statement)

    threads = [threading.Thread(target=write) for _ in range(writers)]
    for thread in threads:
        thread.start()
    begun.wait()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
