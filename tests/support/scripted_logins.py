"""Logins of clients by hand through `log_in`, between real sockets and a scripted MySQL."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from external_upquery.address import parse_upstream
from proxy.mysql.login.certificate import server_context
from proxy.mysql.login.handshake import login_settings
from proxy.mysql.wire.packets import error_payload, parse_error
from tests.support.login_proxy import LoginProxy, login_proxy
from tests.support.scripted_mysql import (
    Script,
    ScriptedMySQL,
    Wire,
    greeting,
    scripted_mysql,
    wire_to,
)

CAPS = 1 << 9 | 1 << 15 | 1 << 19  # 4.1, one answer, named plugins
DENIED = error_payload(1045, "28000", "Access denied for user 'ann'@'localhost' (using password: YES)")
SOON = 0.3  # seconds


@contextmanager
def between(
    script: Script,
    *,
    tls: bool = False,
    tls_required: bool = False,
    seconds: float = 20,
    url: Callable[[ScriptedMySQL], str] = lambda server: server.url,
) -> Iterator[LoginProxy]:
    with scripted_mysql(script) as server:
        context = server_context() if tls else None
        upstream = parse_upstream(url(server))
        settings = login_settings(upstream, context, client_tls_required=tls_required, seconds=seconds)
        with login_proxy(settings) as proxy:
            yield proxy


def unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def greeted(proxy: LoginProxy) -> Wire:
    """A client that has read the greeting."""
    wire = wire_to(proxy.port)
    assert wire.receive()[:1] == b"\x0a"
    return wire


def told(wire: Wire) -> tuple[int, str]:
    """The ERR that a client gets; its connection is closed behind it."""
    error = parse_error(wire.receive())
    assert wire.is_closed()
    wire.sock.close()
    return error.errno, error.message


def expect_goodbye(wire: Wire) -> None:
    """What MySQL gets of a client that never said who it is: a login that it denies and counts as one."""
    response = wire.receive()
    assert response[32:].startswith(b"upwell-client-left\0\0")
    wire.sequence += 1  # MySQL's question, not asked here
    assert wire.receive() == b"\xff"
    assert wire.is_closed()


def greet_and_expect_goodbye(wire: Wire) -> None:
    wire.send(greeting())
    expect_goodbye(wire)
