"""What a real MySQL sends, byte by byte: a session whose packets nobody decodes, in the text and binary protocols."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from integration.servers.mysql_server import Server
from proxy.mysql.wire.packets import (
    CLIENT_DEPRECATE_EOF,
    COM_QUERY,
    COM_STMT_CLOSE,
    COM_STMT_EXECUTE,
    COM_STMT_PREPARE,
    EOF,
    ERR,
    LARGEST,
    packet,
    parse_error,
    read_lenenc_int,
)


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """A result set as it came. `head`: the packets before the rows; `body`: those of the rows and of their end.
    `definitions`: payloads."""

    head: bytes
    body: bytes
    definitions: tuple[bytes, ...]

    def with_status(self, status: int, *, eof: bool) -> bytes:
        """`body`, with these flags in the packet that ends it: MySQL also tells there how it ran the statement."""
        flags = status.to_bytes(2, "little")
        return self.body[:-2] + flags if eof else self.body[:-4] + flags + self.body[-2:]


class RawSession:
    """A logged-in connection. `eof`: the client has no CLIENT_DEPRECATE_EOF."""

    def __init__(self, connection: Any, eof: bool) -> None:
        self.eof = eof
        self._socket = connection._sock
        self._stream: BinaryIO = connection._rfile

    def text(self, sql: str) -> RawAnswer:
        """The answer to COM_QUERY."""
        self._send(bytes((COM_QUERY,)) + sql.encode())
        return self._result_set()

    def binary(self, sql: str) -> RawAnswer:
        """The answer to COM_STMT_EXECUTE of this statement, which has no parameters."""
        self._send(bytes((COM_STMT_PREPARE,)) + sql.encode())
        prepared = self._payload()
        statement, columns, parameters = struct.unpack_from("<IHH", prepared, 1)
        assert parameters == 0
        for _ in range(columns + self.eof):
            self._payload()
        self._send(bytes((COM_STMT_EXECUTE,)) + struct.pack("<IBI", statement, 0, 1))
        answer = self._result_set()
        self._send(bytes((COM_STMT_CLOSE,)) + struct.pack("<I", statement))
        return answer

    def _send(self, payload: bytes) -> None:
        self._socket.sendall(packet(payload, 0))

    def _packet(self) -> bytes:
        header = self._stream.read(4)
        return header + self._stream.read(int.from_bytes(header[:3], "little"))

    def _payload(self) -> bytes:
        payload = self._packet()[4:]
        if payload[0] == ERR:
            raise AssertionError(parse_error(payload))
        return payload

    def _result_set(self) -> RawAnswer:
        head = [self._packet()]
        if head[0][4] == ERR:
            raise AssertionError(parse_error(head[0][4:]))
        columns, _ = read_lenenc_int(head[0], 4)
        head += [self._packet() for _ in range(columns + self.eof)]
        definitions = tuple(item[4:] for item in head[1 : 1 + columns])
        return RawAnswer(b"".join(head), b"".join(self._until_the_end()), definitions)

    def _until_the_end(self) -> Iterator[bytes]:
        goes_on = False
        while True:
            found = self._packet()
            yield found
            size = len(found) - 4
            if not goes_on and found[4] == ERR:
                raise AssertionError(parse_error(found[4:]))
            if not goes_on and found[4] == EOF and size < (9 if self.eof else LARGEST):
                return
            goes_on = size == LARGEST


@contextmanager
def raw_session(mysql: Server, database: str, *, eof: bool) -> Iterator[RawSession]:
    """In UTC, with utf8mb4, as upqueries are."""
    flags = 0 if eof else CLIENT_DEPRECATE_EOF
    with closing(mysql.connect(database=database, charset="utf8mb4", client_flag=flags)) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
        yield RawSession(connection, eof)
