"""Logs in to MySQL and asks for its binlog. Blocking: called in a thread; the socket then belongs to the event loop."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.err import MySQLError

from gtid_tracker.gtid import Gtid, GtidSet
from sqltypes.errors import ConfigError, SourceDown, SourceError
from sqltypes.source_checks import (
    BINLOG_STATUS,
    NAMED,
    NAMES,
    REPLICA_STATUS,
    REPLICAS,
    VARIABLES,
    Finding,
    Severity,
    SourceFacts,
    as_granted,
    judged,
    stream_findings,
    why_unfit,
)
from vstream.history import PLANNED_BY

_COM_BINLOG_DUMP_GTID = 0x1E
_FIRST_POSITION = 4
_TOLD = "SELECT @@server_uuid, @@global.gtid_executed, @@global.gtid_purged, UNIX_TIMESTAMP(SYSDATE(6)), CURRENT_USER()"
_STATUS = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Uptime', 'Com_reset')"
_VARIABLES = f"SHOW GLOBAL VARIABLES WHERE Variable_name IN {(*VARIABLES, *PLANNED_BY)}"
_SYNTAX_ERROR = 1064
_ACCESS_DENIED = 1227
# What PyMySQL raises where a connection ends: it asserts, or cannot read on, if that is in the middle of an answer.
_FAILURES = (MySQLError, OSError, AssertionError, ValueError, LookupError, struct.error)


@dataclass(frozen=True)
class Account:
    """How to reach the source. `options`: further arguments for PyMySQL (ssl, unix_socket, ...)."""

    host: str
    port: int
    user: str
    password: str = field(default="", repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    connect_timeout: float = 10.0  # seconds, for each step of the login


@dataclass
class Session:
    """A login that can ask for a dump, and the server's own description."""

    connection: Any  # PyMySQL's, whose parts for a dump have no public names
    server_uuid: str
    executed: GtidSet
    purged: GtidSet
    skew: float  # seconds by which the server's clock is ahead of ours
    started: float  # when the server was started, by its own clock
    charsets: Mapping[int, str]
    findings: Sequence[Finding] = ()  # what it should be and is not, though it can be followed
    no_right: str = ""  # why it will refuse the dump
    settings: tuple[str, ...] = ()  # of PLANNED_BY
    names: Finding = NAMED  # whether the binlog names columns now
    resets: int = 0  # RESET statements since its start
    newest: Gtid | None = None  # its own last transaction, which its binlog has; None where it is a replica, too

    @property
    def socket(self) -> socket.socket:
        found: socket.socket = self.connection._sock
        return found

    def request_dump(self, position: GtidSet, server_id: int, heartbeat: float) -> None:
        """Asks for everything that is not in `position`. `heartbeat`: seconds of silence before the server speaks.

        Raises SourceDown or SourceError.
        """
        try:
            self._request_dump(position, server_id, heartbeat)
        except _FAILURES as error:
            raise translate(error) from error

    def _request_dump(self, position: GtidSet, server_id: int, heartbeat: float) -> None:
        reader = str(uuid.uuid4())
        with self.connection.cursor() as cursor:
            # Both spellings: servers before 8.0.26 know only the older one.
            for name in ("source", "master"):
                cursor.execute(f"SET @{name}_binlog_checksum = @@global.binlog_checksum")
                cursor.execute(f"SET @{name}_heartbeat_period = {int(heartbeat * 1e9)}")
            cursor.execute("SET @replica_uuid = %s, @slave_uuid = %s", (reader, reader))
        gtids = position.encode()
        self.connection._execute_command(
            _COM_BINLOG_DUMP_GTID,
            struct.pack("<HIIQI", 0, server_id, 0, _FIRST_POSITION, len(gtids)) + gtids,
        )
        sock = self.socket
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        sock.setblocking(False)

    def close(self) -> None:
        self.connection._force_close()


@dataclass(frozen=True)
class Replica:
    """As which a server sees us. `server_id`: must be used by no other reader of that server. `heartbeat`: seconds."""

    account: Account
    server_id: int
    heartbeat: float

    async def log_in(self) -> Session:
        """Raises as `log_in`."""
        return await asyncio.get_running_loop().run_in_executor(None, log_in, self.account)

    async def request_dump(self, session: Session, position: GtidSet) -> None:
        """Raises as `Session.request_dump`."""
        request = session.request_dump
        await asyncio.get_running_loop().run_in_executor(None, request, position, self.server_id, self.heartbeat)


def log_in(account: Account) -> Session:
    """Raises SourceDown (try again), SourceError (MySQL's refusal) or ConfigError (cannot be followed as it is)."""
    try:
        connection: Any = pymysql.connect(
            host=account.host,
            port=account.port,
            user=account.user,
            password=account.password,
            charset="utf8mb4",
            autocommit=True,
            init_command="SET time_zone = '+00:00'",  # a local time is two moments in the hour that clocks are set back
            connect_timeout=account.connect_timeout,
            read_timeout=account.connect_timeout,
            write_timeout=account.connect_timeout,
            **account.options,
        )
    except _FAILURES as error:
        raise translate(error) from error
    try:
        return _ask(connection)
    except _FAILURES as error:
        connection._force_close()
        raise translate(error) from error
    except ConfigError:
        connection._force_close()
        raise


def _ask(connection: Any) -> Session:
    with connection.cursor() as cursor:
        before = time.time()
        cursor.execute(_TOLD)
        row = cursor.fetchone()
        assert row is not None
        server_uuid, executed, purged, server_time, account = row
        skew = float(server_time) - (before + time.time()) / 2
        cursor.execute(_STATUS)
        status = {str(name): int(value) for name, value in cursor.fetchall()}
        started = float(server_time) - status["Uptime"]
        variables = _variables(cursor)
        facts = _facts(cursor, str(account), variables)
        findings = _judge(facts)
        no_right = _no_right(cursor, str(account))
        cursor.execute("SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS")
        charsets = {int(number): str(name) for number, name in cursor.fetchall() if number is not None}
    history = GtidSet.parse(executed), GtidSet.parse(purged)
    settings = tuple(variables.get(name, "") for name in PLANNED_BY)
    uuid_ = str(server_uuid).lower()
    newest = newest_of(uuid_, *history) if facts.replica_status == [] else None
    return Session(
        connection,
        uuid_,
        *history,
        skew,
        started,
        charsets,
        findings,
        no_right,
        settings,
        names=judged(NAMES, variables),
        resets=status["Com_reset"],
        newest=newest,
    )


def newest_of(source: str, executed: GtidSet, purged: GtidSet) -> Gtid | None:
    """The last of a server's own transactions, where its binlog still has it."""
    logged = executed.difference(purged).intervals.get(source)
    return Gtid(source, logged[-1] - 1) if logged else None


def _variables(cursor: Any) -> dict[str, str]:
    cursor.execute(_VARIABLES)
    return {str(name).lower(): str(value) for name, value in cursor.fetchall()}


def _facts(cursor: Any, account: str, variables: dict[str, str]) -> SourceFacts:
    logged = variables.get("log_bin") == "ON"
    return SourceFacts(
        as_granted(account),
        variables,
        _rows(cursor, BINLOG_STATUS) if logged else [],
        _rows(cursor, REPLICA_STATUS),
    )


def _judge(facts: SourceFacts) -> list[Finding]:
    """What the doctor would find wrong with the stream. Raises ConfigError where it would lack changes."""
    found = stream_findings(facts)
    why = why_unfit(found)
    if why:
        raise ConfigError(f"this source cannot be followed: {why}")
    return [one for one in found if one.severity is not Severity.OK]


def _no_right(cursor: Any, account: str) -> str:
    if _rows(cursor, REPLICAS) is not None:
        return ""
    name = as_granted(account)
    return f"{name} may not read the binlog (GRANT REPLICATION SLAVE ON *.* TO {name})"


def _rows(cursor: Any, spellings: Sequence[str]) -> list[dict[str, Any]] | None:
    """The rows of the first spelling that this version knows, by column name; None where they may not be seen."""
    for sql in spellings:
        try:
            cursor.execute(sql)
        except MySQLError as error:
            if error.args[0] == _ACCESS_DENIED:
                return None
            if error.args[0] != _SYNTAX_ERROR:
                raise
            continue
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return None


def translate(error: Exception) -> SourceDown | SourceError:
    """A driver's error as one of ours: numbers from 2000 to 2999 are the client's own, so the source is not reached."""
    number = error.args[0] if isinstance(error, MySQLError) and error.args else 0
    if isinstance(number, int) and number and not 2000 <= number < 3000:
        return SourceError(number, "HY000", str(error.args[1] if len(error.args) > 1 else error))
    text = error.args[1] if isinstance(error, MySQLError) and len(error.args) > 1 else str(error) or repr(error)
    return SourceDown(f"the source cannot be reached: {text}")
