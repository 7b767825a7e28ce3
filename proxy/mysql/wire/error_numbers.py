"""The ERR packet of an error of Upwell's own, with a number that a server may send.

Errors of a connection to MySQL have the numbers of a client library, 2000 to 2999, because Upwell is MySQL's client
there. In an ERR packet such a number is wrong: libmariadb (mysqlclient, mariadb) calls the packet malformed (2027), and
pools take 2006 and 2013 for the loss of their own connection.

* At login the number is 1053, "Server shutdown in progress", of the class 08S01: what MySQL says while it goes away and
  comes back; drivers and pools try another host, or again. Where MySQL is there but cannot be spoken with it is 1043.
* In a session, whose own connection is well, it is 1429, "Unable to connect to foreign data source": only the
  statement has failed, and no pool drops its connection for that. (ProxySQL has 9001 there, Vitess 1105.)
"""

from __future__ import annotations

from proxy.mysql.wire.packets import error_payload
from sqltypes.errors import UpwellError

CLIENTS_OWN = range(2000, 3000)
_CANNOT_SPEAK = (2026, 2027)  # CR_SSL_CONNECTION_ERROR, CR_MALFORMED_PACKET


def login_error(error: UpwellError) -> bytes:
    """The payload of the ERR packet that refuses a login."""
    if error.errno not in CLIENTS_OWN:
        return error_payload(error.errno, error.sqlstate, error.message)
    return error_payload(1043 if error.errno in _CANNOT_SPEAK else 1053, "08S01", error.message)


def statement_error(error: UpwellError) -> bytes:
    """The payload of the ERR packet in the place of an answer; the session goes on."""
    if error.errno not in CLIENTS_OWN:
        return error_payload(error.errno, error.sqlstate, error.message)
    return error_payload(1429, "HY000", error.message)
