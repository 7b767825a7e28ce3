"""Requests to a listener's port, as bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

from proxy.grpc.service import UpwellService
from proxy.http.server import HttpListener
from proxy.settings.config import Listen
from tests.support.fake_system import FakeSystem

NO_HEADERS: Mapping[str, str] = {}


def listener_of(
    made: FakeSystem, host: str = "127.0.0.1", port: int = 0, token: str | None = None, *, own_sql: bool = True
) -> HttpListener:
    return HttpListener(made, Listen(host, port), UpwellService(made, 1 << 20, token, own_sql=own_sql))


@asynccontextmanager
async def listening(
    made: FakeSystem, host: str = "127.0.0.1", token: str | None = None, *, own_sql: bool = True
) -> AsyncIterator[int]:
    listener = listener_of(made, host, token=token, own_sql=own_sql)
    port = await listener.start()
    try:
        yield port
    finally:
        await listener.stop(0)


def get(path: str, method: str = "GET", headers: Mapping[str, str] = NO_HEADERS, *, close: bool = True) -> bytes:
    more = {"Connection": "close"} if close else {}
    lines = "".join(f"{name}: {value}\r\n" for name, value in {"Host": "localhost", **more, **headers}.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode()


async def exchange(port: int, request: bytes, end: bool = False) -> tuple[str, str]:
    """(status line, body) of what comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    if end:
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        body = unchunked(body)
    return head.decode().split("\r\n")[0].removeprefix("HTTP/1.1 "), body.decode()


def unchunked(body: bytes) -> bytes:
    """Requires: it is whole."""
    found, at = list[bytes](), 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end], 16)
        if not size:
            return b"".join(found)
        found.append(body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2


async def chunks(reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
    """Those of a body that goes on, until it or its connection ends."""
    with suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
        while size := int(await reader.readline(), 16):
            yield await reader.readexactly(size)
            await reader.readexactly(2)


async def call(
    port: int,
    method: str,
    path: str,
    body: object = None,
    token: str = "",
    kind: str = "application/json",
    more: Mapping[str, str] = NO_HEADERS,
) -> tuple[int, Any]:
    """A request with a JSON body, or none, and what comes back: the status and the JSON."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": kind, "Content-Length": str(len(data))} if body is not None else {}
    headers |= ({"Authorization": f"Bearer {token}"} if token else {}) | dict(more)
    status, answer = await exchange(port, get(path, method, headers) + data)
    return int(status.split()[0]), json.loads(answer) if answer else None


@asynccontextmanager
async def events(port: int, path: str, token: str = "") -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    """The events of a stream: their kinds and their data. The connection is dropped at the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(get(path, headers={"Authorization": f"Bearer {token}"} if token else {}))
    assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")

    async def each() -> AsyncGenerator[tuple[str, Any], None]:
        kind, rest = "", b""
        async for chunk in chunks(reader):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                name, _, value = line.decode().partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, json.loads(value)

    try:
        async with aclosing(each()) as found:
            yield found
    finally:
        writer.transport.abort()
