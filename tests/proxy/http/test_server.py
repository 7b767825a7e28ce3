"""The HTTP listener through real sockets: its pages, and clients that behave badly."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from proxy.cache.named_cache import NamedCache
from proxy.http.connection import HEAD_BYTES
from proxy.http.pages import BODY_BYTES, printable
from sqltypes.errors import ConfigError
from tests.support.fake_system import FakeCaches, FakeSystem
from tests.support.http_calls import exchange, get, listener_of, listening


def run(scenario: Coroutine[Any, Any, None]) -> None:
    uvloop.run(asyncio.wait_for(scenario, 60))


def system() -> FakeSystem:
    made = FakeSystem()
    made.caches.add("story", {})
    return made


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
        (get("/v1/caches", "POST", {"Transfer-Encoding": "chunked"}), "411 Length Required"),
        (get("/v1/caches", "POST", {"Transfer-Encoding": "chunked"}) + b"1\r\nx\r\n" * 1000, "411 Length Required"),
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
    monkeypatch.setattr("proxy.http.connection.CLIENT_SECONDS", 0.05)

    async def scenario() -> None:
        async with listening(system()) as port:
            assert (await exchange(port, b"GET / HTTP/1.1\r\n"))[0] == "408 Request Timeout"

    run(scenario())


def test_more_connections_than_accepted_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.http.connection.CONNECTIONS", 1)
    begun, going_on = asyncio.Event(), asyncio.Event()

    class Slow(FakeCaches):
        async def listed(self) -> Any:
            begun.set()
            await going_on.wait()
            return []

    async def scenario() -> None:
        async with listening(FakeSystem(Slow())) as port:
            first = asyncio.create_task(exchange(port, get("/")))
            await begun.wait()
            assert (await exchange(port, get("/healthz")))[0] == "503 Service Unavailable"
            going_on.set()
            assert (await first)[0] == "200 OK"

    run(scenario())


def test_a_connection_has_several_requests_and_ends_when_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.http.connection.CLIENT_SECONDS", 0.2)

    async def scenario() -> None:
        async with listening(system()) as port:
            status, rest = await exchange(port, get("/healthz", close=False) * 2 + get("/readyz", close=False))
            assert (status, rest.count("200 OK"), rest.count("408")) == ("200 OK", 2, 1)

    run(scenario())


def test_a_client_that_does_not_take_its_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.http.connection.CLIENT_SECONDS", 0.05)
    made = system()
    made.why_not_ready = "x" * (32 << 20)

    async def scenario() -> None:
        listener = listener_of(made)
        port = await listener.start()
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(get("/readyz"))
            assert listener.connections is not None
            while not listener.connections.state.total_requests:
                await asyncio.sleep(0)
            while listener.connections.open:
                await asyncio.sleep(0)
        await listener.stop(0)

    run(scenario())


def test_a_silent_connection_makes_room_for_one_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.http.connection.CONNECTIONS", 1)

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


def test_who_does_not_send_a_body_makes_room_for_one_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.http.connection.CONNECTIONS", 1)

    async def scenario() -> None:
        listener = listener_of(system())
        port = await listener.start()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/v1/caches", "POST", {"Content-Length": "5"}) + b"x")
        assert listener.connections is not None
        while not listener.connections.state.tasks:
            await asyncio.sleep(0)
        assert (await exchange(port, get("/healthz")))[0] == "200 OK"
        writer.transport.abort()
        await listener.stop(0)

    run(scenario())


def test_a_request_behind_another_is_being_answered_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.http.connection.CONNECTIONS", 1)
    begun, going_on = asyncio.Event(), asyncio.Event()

    class Slow(FakeCaches):
        async def listed(self) -> Any:
            begun.set()
            await going_on.wait()
            return []

    async def scenario() -> None:
        async with listening(FakeSystem(Slow())) as port:
            both = asyncio.create_task(exchange(port, get("/healthz", close=False) + get("/")))
            await begun.wait()
            assert (await exchange(port, get("/healthz")))[0] == "503 Service Unavailable"
            going_on.set()
            status, rest = await both
            assert (status, rest.count("200 OK")) == ("200 OK", 1)

    run(scenario())


def test_who_asks_again_without_taking_its_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.http.connection.CLIENT_SECONDS", 0.2)
    made = system()
    made.why_not_ready = "x" * (32 << 20)

    async def scenario() -> None:
        listener = listener_of(made)
        port = await listener.start()
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(get("/readyz", close=False))
            assert listener.connections is not None
            while not listener.connections.state.total_requests:
                await asyncio.sleep(0)
            client.sendall(get("/readyz"))
            while listener.connections.open:
                await asyncio.sleep(0)
        await listener.stop(0)

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
    async def index(host: str, token: str | None, **headers: str) -> str:
        async with listening(system(), host, token) as port:
            return (await exchange(port, get("/", headers=headers)))[1]

    async def scenario() -> None:
        assert "SELECT ..." in await index("127.0.0.1", None)
        assert "SELECT ..." not in await index("0.0.0.0", None)
        assert "SELECT ..." not in await index("0.0.0.0", "right", Authorization="Bearer wrong")
        assert "SELECT ..." in await index("0.0.0.0", "right", Authorization="Bearer right")
        assert "story" in await index("0.0.0.0", None)

    run(scenario())


def test_a_terminal_obeys_no_text_of_others() -> None:
    assert printable("a\x1b[31m\x07b\n  c\u202e") == "a [31m b\n  c "


def test_reads_that_were_no_hits_are_told_to_all_and_their_texts_with_the_token() -> None:
    async def told(host: str, token: str | None, given: str) -> str:
        """The first event of a stream."""
        made = system()
        async with listening(made, host, token) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(get("/v1/reads?outcome=miss", headers={"Authorization": f"Bearer {given}"}))
            await reader.readuntil(b": from now on\n\n")
            made.watching.missed(NamedCache("story", "SELECT 'secret'", "d"), (7,), 1500.0, hole=True)
            event = (await reader.readuntil(b"}]}\n\n")).decode()
            writer.close()
            await writer.wait_closed()
            return event

    async def scenario() -> None:
        for host, token, given, shown in (
            ("127.0.0.1", None, "", True),
            ("0.0.0.0", "right", "right", True),
            ("0.0.0.0", "right", "wrong", False),
            ("0.0.0.0", None, "", False),
        ):
            event = await told(host, token, given)
            assert '"cache":"story"' in event and ("secret" in event) is ("[7]" in event) is shown

    run(scenario())


def test_an_address_in_use_is_a_configuration_error() -> None:
    async def scenario() -> None:
        async with listening(system()) as port:
            with pytest.raises(ConfigError, match="cannot listen for HTTP on"):
                await listener_of(system(), port=port).start()

    run(scenario())


@pytest.mark.parametrize("size", [100, 70_000, 2 << 20])
def test_a_refused_request_with_a_body_gets_its_answer(size: int) -> None:
    async def scenario() -> None:
        async with listening(system()) as port:
            request = get("/metrics", "POST", {"Content-Length": str(size)}) + b"x" * size
            expected = "405 Method Not Allowed" if size <= BODY_BYTES else "413 Request Entity Too Large"
            assert (await exchange(port, request))[0] == expected

    run(scenario())


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.http.pages.CLIENT_SECONDS", 0.05)

    async def scenario() -> None:
        async with listening(system()) as port:
            request = get("/metrics", "POST", {"Content-Length": "5"}) + b"x"
            assert (await exchange(port, request))[0] == "408 Request Timeout"

    run(scenario())


def test_a_client_that_says_no_more_still_gets_its_answer() -> None:
    async def scenario() -> None:
        async with listening(system()) as port:
            assert await exchange(port, get("/healthz", close=False), end=True) == ("200 OK", "ok\n")


def test_what_is_accepted_is_said() -> None:
    async def scenario() -> None:
        async with listening(system()) as port:
            assert "GET" in (await exchange(port, get("/metrics", "POST")))[1]
            assert "/metrics" in (await exchange(port, get("/nothing")))[1]

    run(scenario())


def test_a_browser_gets_the_page_and_what_it_is_made_of() -> None:
    async def scenario() -> None:
        async with listening(system()) as port:
            browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(get("/", headers=browser))
            head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
            writer.close()
            assert "200 OK" in head and "content-type: text/html" in head and "default-src 'none'" in head
            named = re.findall(r'(?:src|href)="(/page/[^"]+)"', body)
            assert len(named) >= 5
            for path in named:
                assert (await exchange(port, get(path)))[0] == "200 OK"
            for path in ("/page/nothing.js", "/page/..%2fpages.py", "/page/../pages.py", "/page/"):
                assert (await exchange(port, get(path)))[0] == "404 Not Found"

    run(scenario())
