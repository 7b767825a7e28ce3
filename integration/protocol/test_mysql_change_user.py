"""Clients that leave in the middle of COM_CHANGE_USER: MySQL must not count them as errors of the address that it sees,
or it would shut out Upwell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.conftest import OwnMySQL
from integration.support.addresses import this_machines_address
from integration.support.proxy_thread import Beside, proxy_in_thread
from proxy.mysql.login.login_packets import ChangeUser, encode_change_user
from proxy.mysql.wire.packets import CLIENT_PLUGIN_AUTH, packet

CHANGES = 4
SWITCH, ASK_IN_FULL = b"\xfe", b"\x01\x04"
HOST = """SELECT COUNT_AUTHENTICATION_ERRORS + COUNT_AUTH_PLUGIN_ERRORS, COUNT_HANDSHAKE_ERRORS, SUM_CONNECT_ERRORS
    FROM performance_schema.host_cache"""


@pytest.fixture
def far(own_mysql: OwnMySQL, tmp_path: Path) -> Iterator[Beside]:
    """A proxy that MySQL sees at an address whose errors it counts, and shuts out after the second."""
    address = this_machines_address()
    server = own_mysql(f"--bind-address=127.0.0.1,{address}", "--max-connect-errors=2")
    server.execute(
        f"CREATE USER 'root'@'{address}'",
        f"GRANT ALL ON *.* TO 'root'@'{address}' WITH GRANT OPTION",
        "CREATE USER 'guest' IDENTIFIED BY 'x'",
        "CREATE DATABASE d",
    )
    local, server.host = server.host, address
    with proxy_in_thread(server, "d", tmp_path) as beside:
        server.host = local
        yield beside


@pytest.mark.parametrize("last_word", [b"", SWITCH, ASK_IN_FULL])
def test_clients_that_leave_in_a_change_of_user_do_not_shut_out_the_others(far: Beside, last_word: bytes) -> None:
    """`last_word`: of MySQL, that the client still hears."""
    change = encode_change_user(
        ChangeUser(b"guest", b"y" * 32, b"", 255, b"caching_sha2_password", b""), CLIENT_PLUGIN_AUTH
    )
    clients = [far.client() for _ in range(CHANGES)]  # before: each login lets MySQL forget the errors
    # A session that is still being got to know keeps a command back, and a client that leaves then has asked nothing.
    far.until(lambda: len(far.shared.sessions) == CHANGES and not any(one.relay.busy for one in far.shared.sessions))
    for client in clients:
        client.write(packet(change, 0))
        if last_word:
            assert client.packet()[4:].startswith(SWITCH)
        if last_word == ASK_IN_FULL:
            client.write(packet(b"z" * 32, 2))
            assert client.packet()[4:] == ASK_IN_FULL
        client.close()
    far.at_rest()
    denied, left, counted = 0, 0, 0
    while denied + left < CHANGES:
        ((denied, left, counted),) = far.mysql.execute(HOST)
    assert (denied, left, counted) == (CHANGES, 0, 0)
    with far.client() as later:
        assert later.ping()
