"""Logins through `log_in` between real sockets and a scripted MySQL: what is relayed, and bad servers."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pymysql
import pytest

from external_upquery.address import parse_upstream
from proxy.mysql.login.certificate import server_context
from proxy.mysql.login.handshake import login_settings
from proxy.mysql.login.login_packets import tls_request
from proxy.mysql.wire.packets import ok_payload, packet
from sqltypes.errors import (
    SourceDown,
    SourceError,
    Unauthenticated,
)
from tests.support.login_proxy import login_proxy
from tests.support.scripted_logins import (
    CAPS,
    DENIED,
    between,
    greet_and_expect_goodbye,
    greeted,
    told,
    unchecked,
)
from tests.support.scripted_mysql import (
    CAPABILITIES,
    NONCE,
    Wire,
    greeting,
    handshake_response,
    native_scramble,
    wire_to,
)

# -- logins ------------------------------------------------------------------------------------------------------------


def test_native_passwords_are_relayed() -> None:
    def script(wire: Wire) -> None:
        wire.send(greeting(plugin=b"mysql_native_password"))
        if native_scramble(b"secret", NONCE) not in wire.receive():
            wire.send(DENIED)
            return
        wire.send(ok_payload(2))
        wire.answer_commands()

    with between(script) as proxy:
        pymysql.connect(host="127.0.0.1", port=proxy.port, user="ann", password="secret").close()
        session = proxy.logged_in()
        assert (session.user, session.connection_id, session.greeting.version) == ("ann", 77, "9.7.0")
        assert (session.client_tls, session.server_secure) == (False, False)
        with pytest.raises(pymysql.err.OperationalError, match=r"1045.*Access denied for user 'ann'"):
            pymysql.connect(host="127.0.0.1", port=proxy.port, user="ann", password="wrong")
        assert isinstance(proxy.failure(), SourceError)


@pytest.mark.parametrize("flag", [1 << 5, 1 << 26], ids=["zlib", "zstd"])
def test_a_client_that_would_compress_though_that_was_not_offered_does_not(flag: int) -> None:
    """So it is with MySQL."""

    def script(wire: Wire) -> None:
        wire.send(greeting(CAPABILITIES & ~flag))
        assert not int.from_bytes(wire.receive()[:4], "little") & flag
        wire.send(ok_payload(2))

    with between(script) as proxy:
        client = greeted(proxy)
        client.send(struct.pack("<IIB23x", CAPS | flag, 12345, 45) + b"joe\0\x03abcplug\0")
        assert proxy.logged_in().compression is None
        client.sock.close()


def test_what_the_client_says_of_itself_reaches_mysql() -> None:
    heard: list[bytes] = []

    def script(wire: Wire) -> None:
        wire.send(greeting())
        heard.append(wire.receive())
        wire.send(ok_payload(2))
        assert wire.is_closed()

    with between(script) as proxy:
        client = greeted(proxy)
        capabilities = 1 << 3 | CAPS | 1 << 20 | 1 << 25
        response = struct.pack("<IIB23x", capabilities, 12345, 8) + b"j\xf6rg\0\x03abcshop\0plug\0\x04\x01a\x01b"
        client.send(response)
        assert client.receive()[:1] == b"\0"
        session = proxy.logged_in()
        client.sock.close()
    asked = 1 << 3 | CAPS | 1 << 20
    assert (session.user, session.database, session.collation) == ("jörg", "shop", 8)
    assert session.capabilities == asked
    assert session.server_capabilities == asked | 1 << 23
    assert heard == [(asked | 1 << 23).to_bytes(4, "little") + response[4:]]


def test_a_command_sent_together_with_the_login_is_not_lost() -> None:
    def script(wire: Wire) -> None:
        wire.send(greeting())
        wire.receive()
        wire.send(b"\x01\x03", ok_payload(2))
        wire.sequence = 0
        assert wire.receive() == b"\x0e"
        wire.send(ok_payload(2, affected=7))
        assert wire.is_closed()

    with between(script, tls=True) as proxy:
        for tls in (False, True):
            client = greeted(proxy)
            if tls:
                client.send(tls_request(CAPS, 1 << 24, 255))
                client.sock = unchecked().wrap_socket(client.sock)
            client.sock.sendall(packet(handshake_response(), client.sequence) + packet(b"\x0e", 0))
            client.sequence += 1
            assert client.receive() == b"\x01\x03"
            assert client.receive()[:1] == b"\0"
            client.sequence = 1
            assert client.receive() == ok_payload(2, affected=7)
            client.sock.close()


def test_a_client_that_writes_byte_by_byte_gets_in() -> None:
    def script(wire: Wire) -> None:
        wire.send(greeting())
        wire.receive()
        wire.send(ok_payload(2))
        assert wire.is_closed()

    with between(script) as proxy:
        client = greeted(proxy)
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in packet(handshake_response(), 1):
            client.sock.send(bytes((byte,)))
        client.sequence += 1
        assert client.receive()[:1] == b"\0"
        client.sock.close()


def test_a_client_in_the_open_shows_its_password_to_upwells_key_where_mysql_has_tls() -> None:
    password = "ein langes Passwort, länger als die Nonce".encode()
    pem = server_context()

    def script(wire: Wire) -> None:
        wire.send(greeting(CAPABILITIES))
        assert len(wire.receive()) == 32
        wire.sock = pem.wrap_socket(wire.sock, server_side=True)
        wire.receive()
        wire.send(b"\x01\x04")
        assert wire.receive() == password + b"\0"
        wire.send(ok_payload(2))
        wire.answer_commands()

    with between(script, url=lambda server: server.url + "?tls=required") as proxy:
        pymysql.connect(host="127.0.0.1", port=proxy.port, user="ann", password=password).close()
        assert proxy.logged_in().server_secure


def test_what_mysql_says_in_the_open_is_not_taken_for_what_it_says_on_tls() -> None:
    """Somebody between the two may have put it there."""

    def script(wire: Wire) -> None:
        wire.sock.sendall(packet(greeting(CAPABILITIES), 0) + packet(ok_payload(2), 3))
        assert wire.is_closed(discard=True)

    with between(script, url=lambda server: server.url + "?tls=required") as proxy:
        client = greeted(proxy)
        client.send(handshake_response())
        assert told(client)[0] == 1043
        assert isinstance(proxy.failure(), SourceDown)


def test_mysql_is_asked_as_soon_as_it_has_accepted_the_account() -> None:
    heard: list[bytes] = []

    def script(wire: Wire) -> None:
        wire.send(greeting())
        wire.receive()
        wire.send(b"\x01\x03")
        wire.sock.settimeout(0)
        with pytest.raises(BlockingIOError):
            wire.sock.recv(100)
        wire.sock.settimeout(60)
        wire.send(ok_payload(2))
        wire.sequence = 0
        heard.append(wire.receive())
        assert wire.is_closed()

    with between(script) as proxy:
        proxy.ahead = lambda capabilities: packet(b"a question", 0)
        client = greeted(proxy)
        client.send(handshake_response())
        assert (client.receive(), client.receive()[:1]) == (b"\x01\x03", b"\0")
        client.sock.close()
        proxy.wait_until_ended()
    assert heard == [b"a question"]


# -- MySQL that says no, or nothing ------------------------------------------------------------------------------------


def test_an_error_in_the_place_of_the_greeting_is_handed_on_as_it_is() -> None:
    error = b"\xff\x10\x04Too many connections"
    with between(lambda wire: wire.send(error)) as proxy:
        client = wire_to(proxy.port)
        assert client.receive() == error
        assert client.is_closed()
        client.sock.close()
        failure = proxy.failure()
        assert isinstance(failure, SourceError) and failure.errno == 1040


def test_commands_after_a_denied_login_are_not_answered() -> None:
    def script(wire: Wire) -> None:
        wire.send(greeting())
        wire.receive()
        wire.send(DENIED)
        assert wire.is_closed()

    with between(script) as proxy:
        client = greeted(proxy)
        client.send(handshake_response(answer=b"x" * 32))
        assert client.receive() == DENIED
        assert isinstance(proxy.failure(), SourceError)
        try:
            client.sequence = 0
            client.send(b"\x03SELECT 1")
        except ConnectionError:
            pass
        assert client.is_closed()
        client.sock.close()


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_mysql_that_cannot_be_reached_is_named() -> None:
    port = closed_port()
    with login_proxy(login_settings(parse_upstream(f"mysql://root@127.0.0.1:{port}"))) as proxy:
        with pytest.raises(pymysql.err.OperationalError) as raised:
            pymysql.connect(host="127.0.0.1", port=proxy.port, user="ann")
        assert raised.value.args == (1053, f"Can't connect to MySQL server on '127.0.0.1:{port}' (111)")
        assert isinstance(proxy.failure(), SourceDown)


def test_a_socket_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mysql.sock"
    with login_proxy(login_settings(parse_upstream(f"mysql://root@localhost?unix_socket={path}"))) as proxy:
        client = wire_to(proxy.port)
        assert told(client) == (1053, f"Can't connect to local MySQL server through socket '{path}' (2)")
        assert isinstance(proxy.failure(), SourceDown)


@pytest.mark.parametrize(
    ("said", "number"),
    [(b"", 1053), (packet(b"\x09ancient\0", 0), 1043), (packet(greeting(), 5), 1043), (b"HTTP/1.1 400\r\n", 1043)],
)
def test_a_server_that_is_no_mysql_is_no_login(said: bytes, number: int) -> None:
    with between(lambda wire: wire.sock.sendall(said)) as proxy:
        assert told(wire_to(proxy.port))[0] == number
        assert isinstance(proxy.failure(), SourceDown)


def test_a_mysql_that_dies_in_the_middle_ends_the_login() -> None:
    def script(wire: Wire) -> None:
        wire.send(greeting())
        wire.receive()

    with between(script) as proxy:
        client = greeted(proxy)
        client.send(handshake_response())
        assert told(client)[0] == 1053
        assert isinstance(proxy.failure(), SourceDown)


def test_a_mysql_without_tls_is_refused_where_tls_is_asked_for() -> None:
    with between(greet_and_expect_goodbye, url=lambda server: server.url + "?tls=required") as proxy:
        client = greeted(proxy)
        client.send(handshake_response())
        assert told(client) == (1043, "MySQL offers no TLS, and the upstream's tls is 'required'")
        assert isinstance(proxy.failure(), SourceDown)


def test_a_mysql_without_tls_serves_a_client_with_tls_where_nothing_is_asked_for() -> None:
    def script(wire: Wire) -> None:
        wire.send(greeting())
        assert len(wire.receive()) > 32
        wire.send(ok_payload(2))
        wire.answer_commands()

    with between(script, tls=True) as proxy:
        pymysql.connect(host="127.0.0.1", port=proxy.port, user="ann", ssl=unchecked()).close()
        session = proxy.logged_in()
        assert (session.client_tls, session.server_secure) == (True, False)


def test_a_password_shown_on_tls_never_leaves_in_the_open() -> None:
    heard: list[bytes] = []

    def script(wire: Wire) -> None:
        wire.send(greeting())
        heard.append(wire.receive())
        wire.send(b"\xfemysql_clear_password\0")
        heard.append(wire.receive())
        assert wire.is_closed()

    with between(script, tls=True) as proxy:
        with pytest.raises(pymysql.err.OperationalError, match="mysql_clear_password"):
            pymysql.connect(host="127.0.0.1", port=proxy.port, user="ann", password="secret", ssl=unchecked())
        assert isinstance(proxy.failure(), Unauthenticated)
    assert heard[1] == b"\xff"
    assert b"secret" not in b"".join(heard)
