"""Logins through `log_in` of clients that behave badly, and that nothing of a login that fails is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
import threading

import pymysql
import pytest
import uvloop

from external_upquery.address import parse_upstream
from proxy.mysql.login.certificate import server_context
from proxy.mysql.login.handshake import log_in, login_settings
from proxy.mysql.login.login_packets import tls_request
from proxy.mysql.wire.packet_stream import LARGEST_LOGIN
from proxy.mysql.wire.packets import packet
from sqltypes.errors import (
    ClientLeft,
    DeadlinePassed,
    MalformedRequest,
    Unauthenticated,
    UpwellError,
)
from tests.support.scripted_logins import (
    CAPS,
    DENIED,
    SOON,
    between,
    greet_and_expect_goodbye,
    greeted,
    told,
    unchecked,
)
from tests.support.scripted_mysql import (
    CAPABILITIES,
    NONCE,
    ScriptedMySQL,
    Wire,
    greeting,
    handshake_response,
    scripted_mysql,
    wire_to,
)

# -- clients that behave badly -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "number"),
    [
        (packet(b"GET / HTTP/1.1", 1), 1251),
        (packet(b"", 1), 1043),
        (packet(struct.pack("<IIB23x", CAPS, 0, 0), 1), 1043),
        (packet(struct.pack("<IIB23x", CAPS, 0, 0) + b"no end", 1), 1043),
        (packet(handshake_response(), 2), 1156),
        ((LARGEST_LOGIN + 1).to_bytes(3, "little") + b"\x01", 1153),
        (packet(tls_request(CAPS, 0, 0), 1), 1043),
        (packet(b"\x85\x24" + b"\0\0\0ann\0password", 1), 1251),
    ],
)
def test_what_is_no_login_is_told_so_and_closed(sent: bytes, number: int) -> None:
    with between(greet_and_expect_goodbye) as proxy:
        client = greeted(proxy)
        client.sock.sendall(sent)
        client.sequence = errors_number(sent)
        assert told(client)[0] == number
        assert isinstance(proxy.failure(), MalformedRequest | Unauthenticated)


def errors_number(sent: bytes) -> int:
    """The sequence number of the ERR: a packet that was refused for its head alone does not count."""
    size = int.from_bytes(sent[:3], "little")
    return 1 if sent[3] != 1 or size > LARGEST_LOGIN else 2


def test_a_client_without_tls_is_refused_where_tls_is_required() -> None:
    with between(greet_and_expect_goodbye, tls=True, tls_required=True) as proxy:
        with pytest.raises(pymysql.err.OperationalError, match=r"3159.*without TLS"):
            pymysql.connect(host="127.0.0.1", port=proxy.port, user="ann", ssl_disabled=True)
        assert isinstance(proxy.failure(), Unauthenticated)


def test_a_client_that_says_nothing_is_let_go() -> None:
    with between(greet_and_expect_goodbye, seconds=SOON) as proxy:
        client = greeted(proxy)
        assert told(client) == (1159, f"the login took longer than {SOON} s")
        assert isinstance(proxy.failure(), DeadlinePassed)


def test_a_mysql_that_says_nothing_is_given_up() -> None:
    def script(wire: Wire) -> None:
        assert wire.is_closed(discard=True)

    with between(script, seconds=SOON) as proxy:
        assert told(wire_to(proxy.port))[0] == 1159
        assert isinstance(proxy.failure(), DeadlinePassed)


def test_a_client_silent_in_its_tls_handshake_is_let_go() -> None:
    with between(greet_and_expect_goodbye, tls=True, seconds=SOON) as proxy:
        client = greeted(proxy)
        client.send(tls_request(CAPS, 0, 0))
        assert client.is_closed()
        client.sock.close()
        assert isinstance(proxy.failure(), DeadlinePassed)


def test_a_client_that_breaks_its_tls_handshake_is_closed() -> None:
    with between(greet_and_expect_goodbye, tls=True) as proxy:
        client = greeted(proxy)
        client.send(tls_request(CAPS, 0, 0))
        client.sock.sendall(b"this is no ClientHello")
        while client.sock.recv(100):
            pass
        client.sock.close()
        assert isinstance(proxy.failure(), ClientLeft)


def test_a_client_that_leaves_after_the_greeting_is_no_connection_error_of_mysqls() -> None:
    with between(greet_and_expect_goodbye) as proxy:
        greeted(proxy).sock.close()
        assert isinstance(proxy.failure(), ClientLeft)


@pytest.mark.parametrize("question", [b"\x01\x04", b"\xfecaching_sha2_password\0" + NONCE + b"\0"])
def test_a_client_that_leaves_at_mysqls_question_is_denied_there(question: bytes) -> None:
    def script(wire: Wire) -> None:
        wire.send(greeting())
        wire.receive()
        wire.send(question)
        assert wire.receive() == b"\xff"
        assert wire.is_closed()

    with between(script) as proxy:
        client = greeted(proxy)
        client.send(handshake_response(answer=b"x" * 32))
        assert client.receive() == question
        client.sock.close()
        assert isinstance(proxy.failure(), ClientLeft)


def test_a_client_that_leaves_while_mysql_thinks_is_noticed() -> None:
    def script(wire: Wire) -> None:
        wire.send(greeting())
        wire.receive()
        wire.sequence += 1
        assert wire.receive() == b"\xff"
        assert wire.is_closed()

    with between(script) as proxy:
        client = greeted(proxy)
        client.send(handshake_response())
        client.sock.close()
        assert isinstance(proxy.failure(), ClientLeft)


# -- nothing is left behind --------------------------------------------------------------------------------------------


def open_sockets() -> int:
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return found


async def tcp_pair() -> tuple[socket.socket, socket.socket]:
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        far = socket.socket()
        far.setblocking(False)
        await loop.sock_connect(far, listener.getsockname())
        near, _ = await loop.sock_accept(listener)
    return near, far


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        unchecked().wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


FIRST_WORDS = {
    "nothing": b"",
    "half a packet": packet(handshake_response(), 1)[:20],
    "a TLS request": packet(tls_request(CAPS, 0, 0), 1) + client_hello(),
    "a login": packet(handshake_response(), 1),
}


@pytest.mark.parametrize("upstream_tls", ["disabled", "required"])
@pytest.mark.parametrize("said", FIRST_WORDS)
def test_a_cancelled_login_closes_both_sides(said: str, upstream_tls: str) -> None:
    heard = threading.Event()

    def script(wire: Wire) -> None:
        with contextlib.suppress(AssertionError):  # TLS that begins is no packet
            wire.send(greeting(CAPABILITIES))
            first = wire.receive()
            heard.set()  # the login, or a TLS request
            if len(first) > 32:
                wire.send(b"\x01\x04")
        assert wire.is_closed(discard=True)

    async def scenario(server: ScriptedMySQL) -> None:
        loop = asyncio.get_running_loop()
        settings = login_settings(parse_upstream(f"{server.url}?tls={upstream_tls}"), server_context())
        before = open_sockets()
        near, far = await tcp_pair()
        with far:
            login = asyncio.create_task(log_in(near, settings))
            assert await loop.sock_recv(far, 4096)
            await loop.sock_sendall(far, FIRST_WORDS[said])
            if said == "a TLS request":
                assert await loop.sock_recv(far, 4096)
            elif said == "a login":
                assert await asyncio.to_thread(heard.wait, 20)
            login.cancel()
            with pytest.raises(asyncio.CancelledError):
                await login
            while await loop.sock_recv(far, 4096):
                pass
        while open_sockets() > before:
            await asyncio.sleep(0)

    with scripted_mysql(script) as server:
        uvloop.run(asyncio.wait_for(scenario(server), 60))


def test_logins_that_fail_leave_nothing_open() -> None:
    async def scenario(server: ScriptedMySQL) -> None:
        loop = asyncio.get_running_loop()
        settings = login_settings(parse_upstream(server.url), server_context(), seconds=SOON)
        before = open_sockets()
        for said in FIRST_WORDS.values():
            near, far = await tcp_pair()
            login = asyncio.create_task(log_in(near, settings))
            assert await loop.sock_recv(far, 4096)
            await loop.sock_sendall(far, said)
            far.close()
            with pytest.raises(UpwellError):
                await login
        while open_sockets() > before:
            await asyncio.sleep(0)

    def script(wire: Wire) -> None:
        wire.send(greeting())
        wire.receive()
        wire.send(DENIED)

    with scripted_mysql(script) as server:
        uvloop.run(asyncio.wait_for(scenario(server), 60))
