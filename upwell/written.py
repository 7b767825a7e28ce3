"""The GTIDs of what an application wrote, from its own connection to MySQL: for `Session.wrote`.

    connection = TrackingConnection(host=..., user=..., ...)     # a PyMySQL connection that listens
    with connection.cursor() as cursor:
        cursor.execute("UPDATE stories SET title = %s WHERE id = %s", ("new", 1))
    connection.commit()
    session.wrote(gtids(connection))

MySQL sends a transaction's GTID with the answer to its COMMIT if the session asks for it (`session_track_gtids`).
PyMySQL ignores that; `TrackingConnection` reads it. With any other driver `gtids` asks MySQL for all executed GTIDs.
That costs a round trip, and later reads may wait for other sessions' transactions, too.

Needs PyMySQL, which the rest of the client does not.
"""

from __future__ import annotations

from typing import Any

from pymysql.connections import Connection
from pymysql.constants import CLIENT

_CHANGED = 0x4000  # SERVER_SESSION_STATE_CHANGED
_GTIDS = 3  # SESSION_TRACK_GTIDS


_Plain: Any = Connection  # the stubs lack what is overridden here


class TrackingConnection(_Plain):  # type: ignore[misc]  # of no declared class
    """A PyMySQL connection. `gtid`: of the last transaction that it committed, "" while there is none.

    A statement that writes nothing, such as an update that changes no row, has no GTID and leaves it unchanged.
    """

    gtid = ""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options["client_flag"] = options.get("client_flag", 0) | CLIENT.SESSION_TRACK
        super().__init__(*arguments, **options)

    def connect(self, sock: Any = None) -> None:
        super().connect(sock)
        self.query("SET SESSION session_track_gtids = OWN_GTID")

    def _read_ok_packet(self) -> Any:
        ok = super()._read_ok_packet()
        self._note(ok.server_status, ok.message)
        return ok

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        affected = super()._read_query_result(unbuffered=unbuffered)
        result: Any = self._result
        if result.server_status is not None and isinstance(result.message, bytes):
            self._note(result.server_status, result.message)
        return affected

    def _note(self, status: int, message: bytes) -> None:
        if status & _CHANGED:
            self.gtid = own_gtid(message) or self.gtid


def own_gtid(message: bytes) -> str:
    """The GTID in the part of an OK packet after the warnings (a text, then the changes of state); "" if there
    is none."""
    _, at = _text(message, 0)
    changes, _ = _text(message, at)
    at = 0
    while at < len(changes):
        kind = changes[at]
        data, at = _text(changes, at + 1)
        if kind == _GTIDS:
            return _text(data, 1)[0].decode()  # behind the number of its encoding
    return ""


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    """A text behind its length, and where it ends."""
    if at >= len(data):
        return b"", at
    size, at = data[at], at + 1
    if size > 250:
        width = {252: 2, 253: 3, 254: 8}[size]
        size, at = int.from_bytes(data[at : at + width], "little"), at + width
    return data[at : at + size], at + size


def gtids(connection: Any) -> str:
    """The GTIDs that have all that this connection committed. Any DB-API connection; to be called after the commit."""
    if isinstance(connection, TrackingConnection):
        return connection.gtid
    cursor = connection.cursor()
    try:
        cursor.execute("SELECT @@GLOBAL.gtid_executed")
        return str(cursor.fetchone()[0])
    finally:
        cursor.close()
