"""A client of MySQL's protocol that decodes next to nothing: what it is sent can be compared byte by byte.

It finds the end of an answer by itself, so that what it says does not rest on the code that it is there to judge; only
packets and the login are built with that. Everything it receives is noted in `transcript`, under the step's name.
"""

from __future__ import annotations

import io
import re
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from pymysql._auth import scramble_caching_sha2

from proxy.mysql.login.login_packets import Greeting, HandshakeResponse, encode_handshake_response, parse_greeting
from proxy.mysql.wire.packets import (
    CLIENT_CONNECT_WITH_DB,
    CLIENT_DEPRECATE_EOF,
    CLIENT_LOCAL_FILES,
    CLIENT_MULTI_RESULTS,
    CLIENT_PLUGIN_AUTH,
    CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA,
    CLIENT_PROTOCOL_41,
    CLIENT_PS_MULTI_RESULTS,
    CLIENT_QUERY_ATTRIBUTES,
    CLIENT_SECURE_CONNECTION,
    CLIENT_SESSION_TRACK,
    CLIENT_TRANSACTIONS,
    COM_CHANGE_USER,
    COM_FIELD_LIST,
    COM_INIT_DB,
    COM_PING,
    COM_QUERY,
    COM_QUIT,
    COM_RESET_CONNECTION,
    COM_STMT_CLOSE,
    COM_STMT_EXECUTE,
    COM_STMT_FETCH,
    COM_STMT_PREPARE,
    COM_STMT_RESET,
    COM_STMT_SEND_LONG_DATA,
    EOF,
    ERR,
    LARGEST,
    LOCAL_INFILE,
    MORE_AUTH,
    OK,
    STATUS_CURSOR_EXISTS,
    STATUS_MORE_RESULTS,
    STATUS_PS_OUT_PARAMS,
    lenenc,
    ok_bytes,
    packet,
    parse_ok,
    read_lenenc_int,
)
from proxy.mysql.wire.tracker_entries import CHARACTERISTICS, GTIDS, TRANSACTION, VARIABLE, entries

ALWAYS = (
    0b101  # LONG_PASSWORD, LONG_FLAG
    | CLIENT_LOCAL_FILES
    | CLIENT_PROTOCOL_41
    | CLIENT_TRANSACTIONS
    | CLIENT_SECURE_CONNECTION
    | CLIENT_MULTI_RESULTS
    | CLIENT_PS_MULTI_RESULTS
    | CLIENT_PLUGIN_AUTH
    | CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
)
CACHING_SHA2 = b"caching_sha2_password"
PATIENCE = 60.0  # seconds in which an answer must begin to come
GTID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+")
TRANSACTION_INFO = (CHARACTERISTICS, TRANSACTION)
UTF8MB4 = 255  # utf8mb4_0900_ai_ci


class Ended(Exception):
    """The other side has closed the connection."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement's number; `error` is MySQL's, then the rest says nothing."""

    id: int
    columns: int
    parameters: int
    error: bool = False


def payloads_of(answer: bytes) -> list[bytes]:
    """Of all packets of an answer, in their order."""
    found, at = [], 0
    while at < len(answer):
        size = int.from_bytes(answer[at : at + 3], "little")
        found.append(answer[at + 4 : at + 4 + size])
        at += 4 + size
    return found


class RawClient:
    """Invariant: nothing is read beyond the packet that is asked for but by the stream's own buffer."""

    login_tail = b""  # of the handshake's answer, behind the fields that are encoded here

    def __init__(
        self,
        host: str,
        port: int,
        *,
        capabilities: int = CLIENT_DEPRECATE_EOF,
        user: str = "root",
        password: str = "",
        database: str = "",
        collation: int = UTF8MB4,
        receive_buffer: int = 0,
    ) -> None:
        self.transcript: list[tuple[str, bytes]] = []
        self.tracks_transactions = False
        self.collation = collation
        self.files: list[bytes] = []  # what is sent for the next LOAD DATA LOCAL, one packet each
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE)
        if receive_buffer:  # before connecting, or the window is agreed on already
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = io.BufferedReader(socket.SocketIO(self.socket, "r"), receive_buffer or 1 << 16)
        self.greeting = self._greeting()
        with_database = CLIENT_CONNECT_WITH_DB if database else 0
        self.capabilities = (capabilities | ALWAYS | with_database) & self.greeting.capabilities
        self.eof = not self.capabilities & CLIENT_DEPRECATE_EOF
        self.attributes = bool(self.capabilities & CLIENT_QUERY_ATTRIBUTES)
        response = HandshakeResponse(
            self.capabilities,
            1 << 30,
            collation,
            user.encode(),
            scrambled(password, self.greeting.nonce),
            database.encode(),
            CACHING_SHA2,
            b"",
        )
        self.write(packet(encode_handshake_response(response, self.capabilities) + self.login_tail, 1))
        self.login_answer = self.authenticated(password)

    def _greeting(self) -> Greeting:
        payload = self.packet()[4:]
        if payload[:1] == bytes((ERR,)):
            self.close()
            raise ConnectionRefusedError(payload)
        return parse_greeting(payload)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        stream = getattr(self, "stream", None)
        if stream is not None:
            stream.close()
        self.socket.close()

    def quit(self) -> None:
        """Ends the session as drivers do, and waits for the other side's end."""
        self.write(packet(bytes((COM_QUIT,)), 0))
        assert self.at_end()
        self.close()

    def authenticated(self, password: str | None = None) -> bytes:
        """What decides a login or COM_CHANGE_USER: an OK or ERR packet. `password`: for a nonce that is sent anew;
        None: no further question is answered."""
        while True:
            found = self.packet()
            if found[4] == EOF and password is not None:
                nonce = found[5:].split(b"\0", 1)[1].removesuffix(b"\0")
                self.write(packet(scrambled(password, nonce), found[3] + 1))
            elif found[4] != MORE_AUTH:
                return found

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def packet(self) -> bytes:
        """The next packet with its header. Raises Ended."""
        try:
            header = self.stream.read(4)
            if len(header) < 4:
                raise Ended(header)
            return header + self.stream.read(int.from_bytes(header[:3], "little"))
        except ConnectionResetError as error:
            raise Ended(str(error)) from None

    def at_end(self) -> bool:
        """Waits for something: whether it is the connection's end."""
        try:
            return not self.stream.read(1)
        except ConnectionResetError:
            return True

    # -- answers -------------------------------------------------------------------------------------------------------

    def note(self, step: str, data: bytes) -> bytes:
        self.transcript.append((step, data))
        return data

    def one(self) -> bytes:
        return self.packet()

    def rows(self) -> bytes:
        """Packets until one that ends rows."""
        found: list[bytes] = []
        self._until_the_end(found)
        return b"".join(found)

    def result(self) -> bytes:
        """OK, an error, or rows, and whatever results follow; sends files where they are asked for."""
        found: list[bytes] = []
        more = True
        while more:
            found.append(self.packet())
            first = found[-1][4]
            if first == ERR:
                break
            if first == OK:
                found[-1] = self._masked(found[-1])
            if first == LOCAL_INFILE:
                self._send_file(found[-1][3] + 1)
                continue
            status = self._ok_status(found[-1]) if first == OK else self._set(found)
            more = bool(status & STATUS_MORE_RESULTS)
        return b"".join(found)

    def _set(self, found: list[bytes]) -> int:
        """A result set behind its first packet; the flags at its end."""
        columns, _ = read_lenenc_int(found[-1], 4)
        found += [self.packet() for _ in range(columns)]
        if self.eof:
            found.append(self.packet())
            status = int.from_bytes(found[-1][7:9], "little")
            if status & STATUS_CURSOR_EXISTS:
                return status
            if status & STATUS_PS_OUT_PARAMS:  # the packet behind the rows does not say that more follows
                return self._until_the_end(found) | status & STATUS_MORE_RESULTS
        return self._until_the_end(found)

    def _until_the_end(self, found: list[bytes]) -> int:
        goes_on = False
        while True:
            found.append(self.packet())
            size, first = len(found[-1]) - 4, found[-1][4:5]
            if not goes_on and first == bytes((ERR,)):
                return 0
            if not goes_on and first == bytes((EOF,)) and size < (9 if self.eof else LARGEST):
                if self.eof:
                    return int.from_bytes(found[-1][7:9], "little")
                found[-1] = self._masked(found[-1])
                return self._ok_status(found[-1])
            goes_on = size == LARGEST

    def _ok_status(self, data: bytes) -> int:
        _, at = read_lenenc_int(data, 5)
        _, at = read_lenenc_int(data, at)
        return int.from_bytes(data[at : at + 2], "little")

    def _masked(self, data: bytes) -> bytes:
        """An OK packet in which what differs from run to run is only named: GTIDs, the statement's number. Without the
        tracker of transactions, unless the session has asked for it: newer servers tell of BEGIN and COMMIT even where
        session_track_transaction_info is OFF."""
        if not self.capabilities & CLIENT_SESSION_TRACK:
            return data
        answer = parse_ok(data[4:], session_track=True)
        kept = b""
        for kind, entry in entries(answer.state):
            if kind == GTIDS and GTID.search(entry):
                entry = b"GTIDs"
            if kind == VARIABLE and entry[1:].startswith(b"statement_id"):
                entry = b"statement_id"
            if self.tracks_transactions or kind not in TRANSACTION_INFO:
                kept += bytes((kind,)) + lenenc(entry)
        return packet(ok_bytes(replace(answer, state=kept), data[4], session_track=True), data[3])

    def _send_file(self, sequence: int) -> None:
        for piece in self.files:
            data = packet(piece, sequence)
            self.write(data)
            sequence += 1 + len(piece) // LARGEST
        self.files = []
        self.write(packet(b"", sequence))

    # -- commands ------------------------------------------------------------------------------------------------------

    def text(self, sql: str | bytes, attributes: bytes = b"\0\1") -> bytes:
        """The payload of a COM_QUERY. `attributes`: what stands before the text, where the protocol has them."""
        raw = sql.encode() if isinstance(sql, str) else sql
        return bytes((COM_QUERY,)) + (attributes if self.attributes else b"") + raw

    def query(self, sql: str | bytes, step: str = "", attributes: bytes = b"\0\1") -> bytes:
        self.write(packet(self.text(sql, attributes), 0))
        return self.note(step or str(sql)[:60], self.result())

    def prepare(self, sql: str) -> Prepared:
        self.write(packet(bytes((COM_STMT_PREPARE,)) + sql.encode(), 0))
        return self.prepared(sql)

    def prepared(self, sql: str) -> Prepared:
        """The answer to COM_STMT_PREPARE; the transcript has no number, which differs from session to session."""
        head = self.packet()
        if head[4] == ERR:
            self.note(f"prepare {sql[:60]}", head)
            return Prepared(0, 0, 0, error=True)
        number, columns, parameters = struct.unpack_from("<IHH", head, 5)
        found = [head[:5] + b"numb" + head[9:]]
        found += [self.packet() for _ in range(columns + parameters)]
        if self.eof:
            found += [self.packet() for _ in range((columns > 0) + (parameters > 0))]
        self.note(f"prepare {sql[:60]}", b"".join(found))
        return Prepared(number, columns, parameters)

    def execution(self, statement: int, parameters: bytes = b"", flags: int = 0) -> bytes:
        """The payload of a COM_STMT_EXECUTE; `parameters`: all from the bitmap of NULLs on."""
        return bytes((COM_STMT_EXECUTE,)) + struct.pack("<IBI", statement, flags, 1) + parameters

    def execute(self, statement: int, parameters: bytes = b"", flags: int = 0, step: str = "execute") -> bytes:
        self.write(packet(self.execution(statement, parameters, flags), 0))
        return self.note(step, self.result())

    def fetch(self, statement: int, count: int) -> bytes:
        self.write(packet(bytes((COM_STMT_FETCH,)) + struct.pack("<II", statement, count), 0))
        return self.note("fetch", self.rows())

    def long_data(self, statement: int, parameter: int, data: bytes) -> None:
        self.write(packet(bytes((COM_STMT_SEND_LONG_DATA,)) + struct.pack("<IH", statement, parameter) + data, 0))

    def close_statement(self, statement: int) -> None:
        self.write(packet(bytes((COM_STMT_CLOSE,)) + struct.pack("<I", statement), 0))

    def reset_statement(self, statement: int) -> bytes:
        self.write(packet(bytes((COM_STMT_RESET,)) + struct.pack("<I", statement), 0))
        return self.note("reset statement", self.one())

    def command(self, code: int, rest: bytes = b"", step: str = "") -> bytes:
        """A command that is answered by one packet."""
        self.write(packet(bytes((code,)) + rest, 0))
        return self.note(step or f"command {code} {rest[:30]!r}", self.one())

    def ping(self) -> bytes:
        return self.command(COM_PING, step="ping")

    def use(self, database: str) -> bytes:
        return self.command(COM_INIT_DB, database.encode())

    def begin_anew(self, database: str, *, change_user: bool = False) -> None:
        """COM_RESET_CONNECTION, or COM_CHANGE_USER to root without a password. Asserts that MySQL does it."""
        if not change_user:
            assert self.command(COM_RESET_CONNECTION)[4] == OK
            return
        account = b"root\0" + b"\0" + database.encode() + b"\0" + bytes((self.collation, 0)) + CACHING_SHA2 + b"\0"
        self.write(packet(bytes((COM_CHANGE_USER,)) + account, 0))
        answer = self.authenticated()
        if answer[4] == EOF:  # another way to log in: there is no password
            self.write(packet(b"", answer[3] + 1))
            answer = self.authenticated()
        assert answer[4] == OK

    def fields(self, table: str) -> bytes:
        self.write(packet(bytes((COM_FIELD_LIST,)) + table.encode() + b"\0", 0))
        return self.note(f"fields of {table}", self.rows())


def scrambled(password: str, nonce: bytes) -> bytes:
    return scramble_caching_sha2(password.encode(), nonce) if password else b""


def bound(types: Sequence[int], values: Sequence[bytes | None]) -> bytes:
    """Parameters of an execution that tells their types; None is NULL, the others are as the protocol writes them."""
    return nulls(values) + b"\1" + b"".join(struct.pack("<H", type_) for type_ in types) + joined(values)


def bound_before(values: Sequence[bytes | None]) -> bytes:
    """Parameters of an execution whose types were told before."""
    return nulls(values) + b"\0" + joined(values)


def nulls(values: Sequence[bytes | None]) -> bytes:
    bits = sum(1 << number for number, value in enumerate(values) if value is None)
    return bits.to_bytes((len(values) + 7) // 8, "little")


def joined(values: Sequence[bytes | None]) -> bytes:
    return b"".join(value for value in values if value is not None)
