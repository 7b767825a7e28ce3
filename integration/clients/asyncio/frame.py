"""What the steps of asyncmy and aiomysql stand on: the two share their interface but for what is here."""

from __future__ import annotations

import contextlib
import importlib
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from integration.clients.canonical import address

NAME = sys.argv[1]  # asyncmy or aiomysql
ADDRESS = address()
MODULE: Any = importlib.import_module(NAME)
# What the other cannot, by faults of its own: asyncmy 0.2.18 reads no packets behind the first 16 MB and hands the
# name of a local file on as bytes; aiomysql 0.3.2 cannot escape bytes with a PyMySQL of today.
CAN = {"asyncmy": {"prepared", "bytes"}, "aiomysql": {"huge_reads", "local_infile"}}[NAME]
# aiomysql raises PyMySQL's errors; asyncmy has its own.
Error: type[Exception] = importlib.import_module("asyncmy.errors" if NAME == "asyncmy" else "pymysql.err").MySQLError
STREAMING: Any = importlib.import_module(f"{NAME}.cursors").SSCursor
MULTI_STATEMENTS = 1 << 16

AsyncStep = Callable[[], Awaitable[object]]
STEPS: list[AsyncStep] = []


def step(needs: str = "") -> Callable[[AsyncStep], AsyncStep]:
    """Puts the function among the steps, unless the driver cannot do what it needs."""

    def put(function: AsyncStep) -> AsyncStep:
        if not needs or needs in CAN:
            STEPS.append(function)
        return function

    return put


async def connect(tls: bool = False, **special: Any) -> Any:
    """As the driver does by default, which is without TLS."""
    it = ADDRESS
    usual = {"host": it.host, "port": it.port, "user": it.user, "password": it.password, "db": it.database}
    if tls:
        special["ssl"] = unchecked()
    return await MODULE.connect(**(usual | special))


@contextlib.asynccontextmanager
async def session(**special: Any) -> AsyncIterator[tuple[Any, Any]]:
    connection = await connect(**special)
    try:
        yield connection, await cursor_of(connection)
    finally:
        connection.close()


async def cursor_of(connection: Any, kind: Any = None) -> Any:
    """aiomysql's is to be awaited, asyncmy's is not."""
    cursor = connection.cursor(kind) if kind else connection.cursor()
    return await cursor if NAME == "aiomysql" else cursor


async def all_of(cursor: Any, sql: str, values: Any = None) -> list[tuple[Any, ...]]:
    await cursor.execute(sql, values)
    return [tuple(row) for row in await cursor.fetchall()]


async def tried(action: Awaitable[object]) -> object:
    """What `action` gives, or what the driver shows of the error that it ends in."""
    try:
        return await action
    except Error as error:
        text = error.args[1] if len(error.args) > 1 else ""
        return {"class": type(error).__name__, "number": error.args[0], "text": text}


async def shown(action: Awaitable[object]) -> object:
    """What the driver shows of the error that `action` ends in."""

    async def without_result() -> object:
        await action
        return "no error"

    return await tried(without_result())


def unchecked() -> ssl.SSLContext:
    """TLS with whoever answers."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
