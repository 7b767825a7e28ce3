"""A client of MySQL's protocol, in either of its dialects, as plain blocking calls: text and prepared statements.

PyMySQL logs in; what follows is sent and read here, because PyMySQL speaks neither the binary protocol nor the dialect
in which rows end with an OK packet (CLIENT_DEPRECATE_EOF), which is the one in which MySQL tells with rows too what has
changed in the session.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, BinaryIO

import pymysql
from pymysql.constants import CLIENT

from proxy.mysql.wire.packets import (
    CLIENT_DEPRECATE_EOF,
    COM_CHANGE_USER,
    COM_QUERY,
    COM_RESET_CONNECTION,
    COM_STMT_CLOSE,
    COM_STMT_EXECUTE,
    COM_STMT_PREPARE,
    EOF,
    ERR,
    LARGEST,
    OK,
    STATUS_MORE_RESULTS,
    packet,
    parse_error,
    parse_ok,
    read_lenenc,
    read_lenenc_int,
)

Row = tuple[Any, ...]
LONGLONG, VAR_STRING = 0x08, 0xFD
_INTEGERS = {0x01: "<b", 0x02: "<h", 0x03: "<i", 0x08: "<q", 0x09: "<i", 0x0D: "<h"}
UNSIGNED = 0x20  # of a column's flags


@dataclass(slots=True)
class Result:
    """One result of a statement. `status`: MySQL's flags; `state`: what the session trackers told."""

    rows: list[Row]
    status: int
    state: bytes = b""


@dataclass(frozen=True, slots=True)
class Prepared:
    id: int
    parameters: int


class WireClient:
    """Values of rows are int, str or None. Errors are PyMySQL's.

    Invariants:
    1. Nothing is read ahead of the answer to the last command.
    """

    def __init__(
        self, *, eof: bool = False, flags: int = CLIENT.MULTI_STATEMENTS, patience: float | None = None, **options: Any
    ) -> None:
        """`eof`: rows end with an EOF packet. `flags`: capabilities beyond PyMySQL's. `patience`: seconds in which an
        answer must come, else TimeoutError. The rest is PyMySQL's."""
        flags |= 0 if eof else CLIENT_DEPRECATE_EOF
        connection: Any = pymysql.connect(client_flag=flags, autocommit=None, **options)
        self.eof = eof
        self.tracks = bool(flags & CLIENT.SESSION_TRACK)
        self._sequence = 0  # of the packet that came last
        self._socket = connection._sock
        self._socket.settimeout(patience)
        self._stream: BinaryIO = connection._rfile
        self._connection = connection  # or it would close them

    def close(self) -> None:
        """Without a goodbye: MySQL and the proxy see the connection end."""
        self._stream.close()
        self._socket.close()

    # -- commands ------------------------------------------------------------------------------------------------------

    def query(self, sql: str | bytes) -> list[Row]:
        """The rows of a text's last result."""
        return self.results(sql)[-1].rows

    def results(self, sql: str | bytes) -> list[Result]:
        self._send(bytes((COM_QUERY,)) + _encoded(sql))
        return self._results(binary=False)

    def prepare(self, sql: str | bytes) -> Prepared:
        self._send(bytes((COM_STMT_PREPARE,)) + _encoded(sql))
        head = self._payload()
        number, columns, parameters = struct.unpack_from("<IHH", head, 1)
        for count in (parameters, columns):
            for _ in range(count + (self.eof and count > 0)):
                self._payload()
        return Prepared(number, parameters)

    def execute(self, statement: Prepared, *values: int | str, typed: bool = True) -> list[Row]:
        """The rows of an execution. `typed` False: the values' types are those that were sent before."""
        assert len(values) == statement.parameters
        types = [LONGLONG if isinstance(value, int) else VAR_STRING for value in values]
        bound = b""
        if values:
            bound = bytes((len(values) + 7) // 8) + bytes((typed,))
            bound += b"".join(struct.pack("<H", type_) for type_ in types if typed)
        for value in values:
            bound += struct.pack("<q", value) if isinstance(value, int) else bytes((len(value),)) + value.encode()
        self._send(bytes((COM_STMT_EXECUTE,)) + struct.pack("<IBI", statement.id, 0, 1) + bound)
        return self._results(binary=True)[-1].rows

    def close_statement(self, statement: Prepared) -> None:
        self._send(bytes((COM_STMT_CLOSE,)) + struct.pack("<I", statement.id))

    def reset(self) -> None:
        """COM_RESET_CONNECTION."""
        self._send(bytes((COM_RESET_CONNECTION,)))
        self._payload()

    def change_user(self, user: str, database: str) -> None:
        """COM_CHANGE_USER to an account without a password."""
        rest = user.encode() + b"\0\0" + database.encode() + b"\0" + struct.pack("<H", 255)
        self._send(bytes((COM_CHANGE_USER,)) + rest + b"caching_sha2_password\0")
        while self._payload()[0] != OK:  # another plugin may be named: an empty password answers any
            self._socket.sendall(packet(b"", self._sequence + 1))

    # -- packets -------------------------------------------------------------------------------------------------------

    def _send(self, payload: bytes) -> None:
        self._socket.sendall(packet(payload, 0))

    def _payload(self) -> bytes:
        """Raises OperationalError where the connection has ended, MySQL's error where it is one."""
        header = self._stream.read(4)
        size, self._sequence = int.from_bytes(header[:3], "little"), header[3] if len(header) == 4 else 0
        payload = self._stream.read(size) if len(header) == 4 else b""
        if len(header) < 4 or len(payload) < size:
            raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")
        if payload[0] == ERR:
            error = parse_error(payload)
            raise pymysql.err.OperationalError(error.errno, error.message)
        return payload

    def _results(self, *, binary: bool) -> list[Result]:
        found: list[Result] = []
        while not found or found[-1].status & STATUS_MORE_RESULTS:
            payload = self._payload()
            if payload[0] == OK:
                found.append(self._ended(payload, []))
            else:
                columns, _ = read_lenenc_int(payload, 0)
                found.append(self._rows([column_type(self._payload()) for _ in range(columns)], binary=binary))
        return found

    def _rows(self, types: list[tuple[int, bool]], *, binary: bool) -> Result:
        if self.eof:
            self._payload()
        rows: list[Row] = []
        while True:
            payload = self._payload()
            if payload[0] == EOF and len(payload) < (9 if self.eof else LARGEST):
                return self._ended(payload, rows)
            rows.append(binary_row(payload, types) if binary else text_row(payload, types))

    def _ended(self, payload: bytes, rows: list[Row]) -> Result:
        if payload[0] == EOF and self.eof:
            return Result(rows, int.from_bytes(payload[3:5], "little"))
        ok = parse_ok(payload, session_track=self.tracks)
        return Result(rows, ok.status, ok.state)


def column_type(definition: bytes) -> tuple[int, bool]:
    """(MySQL's type code, unsigned) of a column's definition."""
    at = 0
    for _ in range(6):
        _, at = read_lenenc(definition, at)
    _, at = read_lenenc_int(definition, at)
    flags = int.from_bytes(definition[at + 7 : at + 9], "little")
    return definition[at + 6], bool(flags & UNSIGNED)


def value_of(raw: bytes, type_: int) -> int | str:
    return int(raw) if type_ in _INTEGERS or type_ == 0xF6 else raw.decode("utf-8", "replace")


def text_row(payload: bytes, types: list[tuple[int, bool]]) -> Row:
    row: list[int | str | None] = []
    at = 0
    for type_, _ in types:
        if payload[at] == 0xFB:
            row.append(None)
            at += 1
        else:
            raw, at = read_lenenc(payload, at)
            row.append(value_of(raw, type_))
    assert at == len(payload), f"a row of {len(payload)} bytes for {len(types)} columns"
    return tuple(row)


def binary_row(payload: bytes, types: list[tuple[int, bool]]) -> Row:
    row: list[int | str | None] = []
    nulls, at = payload[1:], 1 + (len(types) + 9) // 8
    for number, (type_, unsigned) in enumerate(types, 2):
        if nulls[number >> 3] >> (number & 7) & 1:
            row.append(None)
        elif (form := _INTEGERS.get(type_)) is not None:
            row.append(struct.unpack_from(form.upper() if unsigned else form, payload, at)[0])
            at += struct.calcsize(form)
        else:
            raw, at = read_lenenc(payload, at)
            row.append(value_of(raw, type_))
    assert at == len(payload), f"a row of {len(payload)} bytes for {len(types)} columns"
    return tuple(row)


def _encoded(sql: str | bytes) -> bytes:
    """A text as it is sent: bytes stay as they are."""
    return sql if isinstance(sql, bytes) else sql.encode()
