"""Logging in: PyMySQL does the handshake, blocking, in a thread; what comes out is a bare socket in a pinned session.

A session is pinned so that an answer never depends on the server's defaults or on an earlier user of the connection.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.connections import Connection as PyMySQLConnection
from pymysql.constants import CR

from external_upquery import shard_pin
from external_upquery.address import Upstream
from sqltypes.errors import ConfigError, SourceDown

CONNECT_SECONDS = 5.0
CLIENT_DEPRECATE_EOF = 1 << 24
# What PyMySQL raises beside errors of its own where a connection ends in the middle of an answer: it asserts there, or
# cannot read on.
CUT_OFF = (OSError, AssertionError, LookupError, TypeError, ValueError, struct.error)

# The default of MySQL 8.0 and later, written out.
SQL_MODE = (
    "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
)
PINNED = {
    "autocommit": "1",
    "time_zone": "'+00:00'",
    "sql_mode": f"'{SQL_MODE}'",
    "transaction_isolation": "'REPEATABLE-READ'",
    "transaction_read_only": "1",  # nothing on these connections writes
    "completion_type": "'NO_CHAIN'",  # COMMIT must end the snapshot
    "sql_select_limit": "18446744073709551615",
    "collation_connection": "'utf8mb4_0900_ai_ci'",  # of literals, as the planner takes them (`sqltypes/build.py`)
    "max_join_size": "18446744073709551615",
    "max_execution_time": "0",
    "group_concat_max_len": "1024",
    "div_precision_increment": "4",
    "cte_max_recursion_depth": "1000",
    "lc_time_names": "'en_US'",
    "default_week_format": "0",
    "windowing_use_high_precision": "1",
    "sql_auto_is_null": "0",
    "block_encryption_mode": "'aes-128-ecb'",
    "resultset_metadata": "'FULL'",
    "session_track_gtids": "'OFF'",
    "session_track_schema": "0",
    "session_track_state_change": "0",
    "session_track_transaction_info": "'OFF'",
    "session_track_system_variables": "''",
}
PIN_SESSION = "SET " + ", ".join(f"{name}={value}" for name, value in PINNED.items())
# What vtgate does not let be set, or takes for another number: `SELECT`s there go by what the tablets' MySQLs say.
NOT_AT_VTGATE = frozenset(
    {"sql_select_limit", "cte_max_recursion_depth", "windowing_use_high_precision", "resultset_metadata"}
)
PINS = {
    "mysql": PIN_SESSION,
    "vitess": "SET " + ", ".join(f"{name}={value}" for name, value in PINNED.items() if name not in NOT_AT_VTGATE),
}


@dataclass(slots=True)
class Login:
    """A logged-in, non-blocking socket. `thread_id`: the connection's id at the source, for KILL."""

    socket: socket.socket
    thread_id: int
    server_version: str
    deprecate_eof: bool


def log_in(upstream: Upstream, connect_seconds: float = CONNECT_SECONDS) -> Login:
    """Blocks until logged in. Raises SourceDown (unreachable, or the login is refused; its errno is MySQL's) or
    ConfigError (TLS files, or a source without the TLS that is asked for).
    """
    # PyMySQL itself reads no result set during login; afterwards our own decoder knows the shorter form.
    return take_socket(connect(upstream, connect_seconds, CLIENT_DEPRECATE_EOF))


def connect(upstream: Upstream, connect_seconds: float = CONNECT_SECONDS, flags: int = 0) -> PyMySQLConnection:
    """A blocking PyMySQL connection in a pinned session, autocommitting, which reads only. Raises as `log_in`."""
    if upstream.kind == "mysql":
        return _pinned(upstream, connect_seconds, flags)
    first = reached(upstream, connect_seconds, 0)
    try:
        keyspace = upstream.database
        first.query(shard_pin.shards_question(keyspace))
        shards = shard_pin.shards_told(keyspace, first._result.rows or ())  # type: ignore[attr-defined]
    except pymysql.err.ProgrammingError:
        shards = []  # it is no vtgate, which is found out
    except (pymysql.err.Error, *CUT_OFF) as error:
        raise _source_down(upstream, error) from error
    finally:
        first._force_close()  # type: ignore[attr-defined]
    for target, soon in shard_pin.ORDER.of(f"{keyspace}:{shard}" for shard in shards):
        try:
            seconds = min(shard_pin.SOON, connect_seconds) if soon else connect_seconds
            return _pinned(upstream, connect_seconds, flags, target, seconds)
        except SourceDown:
            if not soon:
                raise
            shard_pin.ORDER.was_late(target)
    return _pinned(upstream, connect_seconds, flags)  # the keyspace has no shard, or is none


def reached(upstream: Upstream, connect_seconds: float, flags: int) -> PyMySQLConnection:
    """A blocking PyMySQL connection with the server's defaults, autocommitting. Raises as `log_in`."""
    context = upstream.ssl_context()
    try:
        connection = _connect(upstream, context, connect_seconds, flags)
    except (pymysql.err.Error, *CUT_OFF) as error:
        raise _source_down(upstream, error) from error
    if upstream.tls in ("required", "verify") and not isinstance(_socket(connection), ssl.SSLSocket):
        connection.close()
        raise ConfigError(f"{upstream.redacted} offers no TLS, and the upstream's tls is {upstream.tls!r}")
    return connection


def _pinned(
    upstream: Upstream, connect_seconds: float, flags: int, target: str = "", seconds: float = 0.0
) -> PyMySQLConnection:
    """`target`: where vtgate asks about variables, in so many `seconds`; "": anywhere."""
    connection = reached(upstream, connect_seconds, flags)
    try:
        if target:
            connection._read_timeout = seconds  # type: ignore[attr-defined]  # it sets the socket's before each answer
            connection.query(f"USE `{target}`")
        connection.query(PINS[upstream.kind])
        if target:
            connection.query(f"USE `{upstream.database}`")
            connection._read_timeout = connect_seconds  # type: ignore[attr-defined]
    except (pymysql.err.Error, *CUT_OFF) as error:
        connection._force_close()  # type: ignore[attr-defined]  # a QUIT may have no connection to go by
        raise _source_down(upstream, error) from error
    return connection


def _connect(upstream: Upstream, context: ssl.SSLContext | None, seconds: float, flags: int) -> PyMySQLConnection:
    try:
        return _open(upstream, context, seconds, flags)
    except pymysql.err.OperationalError as error:
        if context is None or upstream.tls != "preferred" or error.args[0] != CR.CR_SSL_CONNECTION_ERROR:
            raise
        return _open(upstream, None, seconds, flags)


def arguments(upstream: Upstream) -> dict[str, Any]:
    """PyMySQL's arguments to reach the server, TLS aside."""
    return {
        "host": upstream.host,
        "port": upstream.port,
        "unix_socket": upstream.unix_socket or None,
        "user": upstream.user,
        "password": upstream.password.encode(),  # as bytes: PyMySQL would encode it as latin1
        "program_name": "upwell",
    }


def _open(upstream: Upstream, context: ssl.SSLContext | None, seconds: float, flags: int) -> PyMySQLConnection:
    return PyMySQLConnection(
        **arguments(upstream),
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=seconds,
        read_timeout=seconds,
        write_timeout=seconds,
        client_flag=flags,
        ssl=context,
        ssl_disabled=context is None,
    )


_NOISE = re.compile(r"\[Errno -?\d+\] ")


def _source_down(upstream: Upstream, error: Exception) -> SourceDown:
    told = isinstance(error, pymysql.err.Error) and error.args and isinstance(error.args[0], int)
    number = error.args[0] if told else CR.CR_CONN_HOST_ERROR
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    if isinstance(error, pymysql.err.InternalError) or "Packet sequence number wrong" in text:
        text = f"what answers there is no MySQL: is {upstream.port} its port?"
    said = " ".join(_NOISE.sub("", text).split())  # vtgate's errors have lines
    down = SourceDown(f"no connection to {upstream.redacted}: {said} ({number})")
    down.errno = number
    return down


def _socket(connection: PyMySQLConnection) -> socket.socket:
    sock: socket.socket = connection._sock  # type: ignore[attr-defined]  # PyMySQL keeps it to itself
    return sock


def take_socket(connection: PyMySQLConnection) -> Login:
    """The socket of a connection that nothing is read on; the connection is of no use then."""
    sock = _socket(connection)
    capabilities = connection.server_capabilities  # type: ignore[attr-defined]
    thread_id = connection.server_thread_id[0]  # type: ignore[attr-defined]
    version = connection.server_version  # type: ignore[attr-defined]
    # Its reader holds a count on the socket, its finaliser would close it.
    connection._rfile.close()  # type: ignore[attr-defined]
    connection._sock = connection._rfile = None  # type: ignore[attr-defined]
    sock.setblocking(False)
    asked = connection.client_flag
    return Login(sock, thread_id, version, bool(capabilities & asked & CLIENT_DEPRECATE_EOF))
