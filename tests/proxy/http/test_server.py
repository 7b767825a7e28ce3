"""The HTTP listener through real sockets: its pages, and clients that behave badly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from proxy.http.server import HEAD_BYTES, BadRequest, HttpListener, Request, parse_head
from proxy.settings.config import Config, Listen
from sqltypes.errors import ConfigError
from tests.support.fake_system import FakeCaches, FakeSystem


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


def config(host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> Config:
    return Config(
        upstream="", grpc_listen=Listen("127.0.0.1", 0), http_listen=Listen(host, port), memory_limit=1,
        max_staleness=1, upquery_connections=1, upquery_timeout=1, state_dir=Path(), grpc_token=token,
    )  # fmt: skip


def system() -> FakeSystem:
    made = FakeSystem()
    made.caches.add("story", {})
    return made


@asynccontextmanager
async def listening(made: FakeSystem) -> AsyncIterator[int]:
    listener = HttpListener(made, config())
    port = await listener.start()
    try:
        yield port
    finally:
        await listener.stop(0)


async def exchange(port: int, request: bytes, end: bool = False) -> tuple[str, str]:
    """(status line, body) of what comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    if end:
        writer.write_eof()
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    return head.split("\r\n")[0].removeprefix("HTTP/1.1 "), body


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def test_the_four_pages() -> None:
    async def scenario() -> None:
        async with listening(system()) as port:
            status, index = await exchange(port, get("/?a=b"))
            assert status == "200 OK"
            assert all(text in index for text in ("/metrics", "/healthz", "/readyz", "story", "SELECT ..."))
            assert await exchange(port, get("/healthz")) == ("200 OK", "ok\n")
            assert await exchange(port, get("/readyz")) == ("200 OK", "ready\n")
            assert await exchange(port, get("/readyz", "HEAD")) == ("200 OK", "")

    run(scenario())


def test_not_ready_is_503_with_the_reason_while_the_process_is_healthy() -> None:
    async def scenario() -> None:
        made = system()
        made.why_not_ready = "the source has not been reached for 31 s"
        async with listening(made) as port:
            status, body = await exchange(port, get("/readyz"))
            assert (status, body) == ("503 Service Unavailable", f"not ready: {made.why_not_ready}\n")
            assert (await exchange(port, get("/healthz")))[0] == "200 OK"

    run(scenario())


def test_metrics_are_what_the_system_says_now() -> None:
    async def scenario() -> None:
        made = system()
        async with listening(made) as port:
            status, text = await exchange(port, get("/metrics"))
            assert status == "200 OK"
            lines = text.splitlines()
            for line in (
                "upwell_ready 1.0",
                "upwell_hits_total 7.0",
                "upwell_lag_seconds 0.25",
                "upwell_memory_limit_bytes 2000.0",
                'upwell_events_total{event="transactions"} 12.0',
                'upwell_cache_hits_total{cache="story"} 7.0',
                'upwell_cache_p50_seconds{cache="story",served="hit"} 3.5e-06',
            ):
                assert line in lines
            assert any(line.startswith("process_resident_memory_bytes") for line in lines)
            made.why_not_ready = "x"
            assert "upwell_ready 0.0" in (await exchange(port, get("/metrics")))[1]

    run(scenario())


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\r\n\r\n", "400 Bad Request"),
        (b"GET /\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/2\r\n\r\n", "400 Bad Request"),
        (b"\xff\xfe / HTTP/1.1\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/1.1\r\n a: b\r\n\r\n", "400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400 Bad Request"),
        (get("/nothing"), "404 Not Found"),
        (get("/metrics", "POST"), "405 Method Not Allowed"),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 2 * HEAD_BYTES + b"\r\n\r\n", "431 Request Header Fields Too Large"),
    ],
)
def test_a_bad_request_is_told_so_and_the_listener_goes_on(request_bytes: bytes, status: str) -> None:
    async def scenario() -> None:
        async with listening(system()) as port:
            assert (await exchange(port, request_bytes))[0] == status
            assert await exchange(port, get("/healthz")) == ("200 OK", "ok\n")

    run(scenario())


def test_a_request_that_ends_in_its_middle() -> None:
    async def scenario() -> None:
        async with listening(system()) as port:
            assert (await exchange(port, b"GET / HT", end=True))[0] == "400 Bad Request"

    run(scenario())


def test_a_client_that_does_not_finish_its_request_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.http.server.CLIENT_SECONDS", 0.05)

    async def scenario() -> None:
        async with listening(system()) as port:
            assert (await exchange(port, b"GET / HTTP/1.1\r\n"))[0] == "408 Request Timeout"

    run(scenario())


def test_more_connections_than_accepted_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.http.server.CONNECTIONS", 1)

    async def scenario() -> None:
        async with listening(system()) as port:
            reader, first = await asyncio.open_connection("127.0.0.1", port)
            first.write(get("/nothing"))
            assert b"404" in await reader.readline()  # it may stay for a second to say more
            assert (await exchange(port, get("/healthz")))[0] == "503 Service Unavailable"
            first.close()
            await first.wait_closed()


def test_a_silent_connection_makes_room_for_one_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.http.server.CONNECTIONS", 1)

    async def scenario() -> None:
        async with listening(system()) as port:
            reader, first = await asyncio.open_connection("127.0.0.1", port)
            assert (await exchange(port, get("/healthz")))[0] == "200 OK"
            with suppress(ConnectionError):
                assert await reader.read() == b""
            first.close()
            with suppress(ConnectionError):
                await first.wait_closed()

    run(scenario())


def test_a_page_that_cannot_be_made_tells_nothing() -> None:
    class Broken(FakeCaches):
        async def listed(self) -> Any:
            raise ZeroDivisionError("secret detail")

    async def scenario() -> None:
        async with listening(FakeSystem(Broken())) as port:
            status, body = await exchange(port, get("/"))
            assert (status, "secret" in body) == ("500 Internal Server Error", False)
            assert (await exchange(port, get("/healthz")))[0] == "200 OK"

    run(scenario())


def test_query_texts_are_for_loopback_or_for_the_token() -> None:
    def index(host: str, token: str | None, **headers: str) -> str:
        page = HttpListener(system(), config(host, token=token)).answer(Request("GET", "/", headers))
        return asyncio.run(page).body.decode()

    assert "SELECT ..." in index("127.0.0.1", None)
    assert "SELECT ..." not in index("0.0.0.0", None)
    assert "SELECT ..." not in index("0.0.0.0", "right", authorization="Bearer wrong")
    assert "SELECT ..." in index("0.0.0.0", "right", authorization="Bearer right")
    assert "story" in index("0.0.0.0", None)


def test_an_address_in_use_is_a_configuration_error() -> None:
    async def scenario() -> None:
        async with listening(system()) as port:
            with pytest.raises(ConfigError, match="cannot listen for HTTP on"):
                await HttpListener(system(), config(port=port)).start()

    run(scenario())


def test_header_names_compare_without_case_and_values_lose_their_blanks() -> None:
    request = parse_head(b"GET /a?b HTTP/1.1\r\nAuthorization:  Bearer x \r\nX:\r\n\r\n")
    assert request == Request("GET", "/a", {"authorization": "Bearer x", "x": ""})
    with pytest.raises(BadRequest):
        parse_head(b"GET / HTTP/1.1\r\na : b\r\n\r\n")
