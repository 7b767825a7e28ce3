"""Large answers over HTTP: written in short steps, and kept for slow clients within a limit."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from proxy.grpc.service import UpwellService
from proxy.http.pieces import PIECE, STEP, in_pieces
from proxy.http.server import HttpListener
from proxy.port.api import SubscriptionEvent
from proxy.settings.config import Listen
from sqltypes.expression import Row
from sqltypes.schema import ResultColumn, SqlType
from tests.support.fake_system import FakeSystem
from tests.support.http_calls import call, events, get
from tests.support.waiting import until

LIMIT = 16 << 20
COLUMNS = tuple(ResultColumn(name, SqlType(name), True) for name in ("bigint", "text", "blob", "json"))
LETTERS = 'a"b\\s\u00fc\u20ac\U0001f600\x00'  # of one byte to four, and what JSON escapes
RAW = bytes(range(256)) * 3
WIDE: Row = (7, LETTERS * 40_000, RAW * 1_000 + b"x", f'["{"y" * STEP}"]')
TOLD = [7, WIDE[1], base64.b64encode(RAW * 1_000 + b"x").decode(), WIDE[3]]
MANY: list[Row] = [(number, "x" * 100, b"y" * 90, None) for number in range(30_000)]


def run(scenario: Coroutine[Any, Any, None]) -> None:
    uvloop.run(asyncio.wait_for(scenario, 120))


def listening_to(scenario: Callable[[HttpListener, int, FakeSystem], Awaitable[None]]) -> None:
    async def body() -> None:
        made = FakeSystem()
        made.caches.add("story", {1: MANY, 2: [WIDE, (8, "", b"", "1"), WIDE], 3: []}, COLUMNS)
        listener = HttpListener(made, Listen("127.0.0.1", 0), UpwellService(made, LIMIT))
        port = await listener.start()
        try:
            await scenario(listener, port, made)
        finally:
            await listener.stop(0)

    run(body())


def test_long_values_and_many_rows_are_what_they_were() -> None:
    async def scenario(listener: HttpListener, port: int, made: FakeSystem) -> None:
        wide, many = [TOLD, [8, "", "", "1"], TOLD], [[n, "x" * 100, "eXl5" * 30, None] for n, *_ in MANY]
        many = [[n, x, base64.b64encode(b"y" * 90).decode(), none] for n, x, _, none in many]
        for key, rows in ((1, many), (2, wide), (3, [])):
            for _ in ("miss", "hit"):
                status, answer = await call(port, "GET", f"/v1/caches/story?key={key}")
                assert status == 200 and answer["rows"] == rows
        status, answer = await call(port, "POST", "/v1/caches/story", {"keys": [3, 2, 1]})
        assert [one["rows"] for one in answer["answers"]] == [[], wide, many]
        assert {one["served"] for one in answer["answers"]} == {"hit"}
        changed = [WIDE, (None, None, None, None)]
        made.events = [SubscriptionEvent(added=MANY, snapshot=True), SubscriptionEvent(removed=changed, added=changed)]
        async with events(port, "/v1/caches/story/changes?key=1") as found:
            (_, snapshot), (_, change) = [event async for event in found]
        assert snapshot["rows"] == many and change["added"] == change["removed"] == [TOLD, [None] * 4]

    listening_to(scenario)


def test_a_large_answer_is_many_steps_of_some_kilobytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written in one step is a piece, and others have their turn between two."""
    turns = 0
    written: list[tuple[int, int]] = []  # bytes, and the loop's turns until then

    async def counted(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
        async for piece in in_pieces(parts):
            written.append((len(piece), turns))
            yield piece

    monkeypatch.setattr("proxy.http.calls.in_pieces", counted)

    async def turning() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scenario(listener: HttpListener, port: int, made: FakeSystem) -> None:
        await call(port, "GET", "/v1/caches/story?key=1")
        turner = asyncio.create_task(turning())
        for key in (1, 2):
            await call(port, "GET", f"/v1/caches/story?key={key}")
            written.clear()
            await call(port, "GET", f"/v1/caches/story?key={key}")
            size = sum(length for length, _ in written)
            assert size > 1 << 20 and max(length for length, _ in written) < 2 * PIECE
            assert len({turn for _, turn in written}) > size >> 20, "a megabyte is several milliseconds"
        turner.cancel()

    listening_to(scenario)


def slow_client(port: int, key: int = 1) -> socket.socket:
    """Asks, and takes nothing."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.sendall(get(f"/v1/caches/story?key={key}"))
    return client


@pytest.mark.parametrize("stalled", [0.0, 3600.0])
def test_what_slow_clients_have_not_taken_is_limited_for_all_together(
    monkeypatch: pytest.MonkeyPatch, stalled: float
) -> None:
    """The slowest is left for the next; where none is that slow the next is refused."""
    monkeypatch.setattr("proxy.http.kept.OF_ANSWERS", 1)
    monkeypatch.setattr("proxy.http.kept.KEPT_BYTES", 0)
    monkeypatch.setattr("proxy.http.kept.STALLED_SECONDS", stalled)

    async def scenario(listener: HttpListener, port: int, made: FakeSystem) -> None:
        assert listener.connections is not None
        kept = listener.connections.kept
        assert (await call(port, "GET", "/v1/caches/story?key=1"))[0] == 200
        with slow_client(port) as first:
            await until(lambda: len(kept.stalled) == 1)
            with slow_client(port) as second:
                await until(lambda: len(kept.stalled) == 2)
                before = kept.size()
                assert LIMIT // 3 < before <= LIMIT
                status, answer = await call(port, "GET", "/v1/caches/story?key=1")
                assert kept.size() <= before
                figures = listener.figures()
                if stalled:
                    assert status == 503 and "not taken" in answer["error"]["message"]
                    assert figures == {"http_clients_left": 0, "http_answers_refused": 1}
                else:
                    assert status == 200 and len(answer["rows"]) == len(MANY)
                    assert figures == {"http_clients_left": 1, "http_answers_refused": 0}
                    with suppress(ConnectionError):
                        while first.recv(1 << 20):
                            pass
                second.settimeout(60)
                data = b""
                while not data.endswith(b"0\r\n\r\n"):
                    data = data[-4:] + await asyncio.to_thread(second.recv, 1 << 20)
        await until(lambda: not kept.size() and not kept.stalled)
        assert (await call(port, "GET", "/v1/caches/story?key=1"))[0] == 200

    listening_to(scenario)
