"""What the change stream learns of the server when it logs in."""

from __future__ import annotations

import time
from collections.abc import Callable

from bulk.account import account_of
from external_upquery.address import parse_upstream
from integration.servers.mysql_server import Server
from vstream.binlog.connection import log_in


def test_the_servers_clock_is_read_in_utc(own_mysql: Callable[..., Server]) -> None:
    """In its local time an hour comes twice each year, and the clock would seem to be an hour wrong."""
    server = own_mysql("--default-time-zone=+05:30")
    session = log_in(account_of(parse_upstream(server.url)))
    with session.connection.cursor() as cursor:
        cursor.execute("SELECT @@session.time_zone")
        assert cursor.fetchone() == ("+00:00",)
    session.close()
    assert abs(session.skew) < 60
    assert session.started < time.time() + 60
