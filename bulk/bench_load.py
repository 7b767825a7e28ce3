"""The load of `upwell bench --mysql`: one process that asks on several connections, each as soon as it has its answer.

It decodes nothing: it looks for an answer's end alone, so that the client costs little beside what it measures. The
process is told over a pipe what to do (`Order`), and tells what it saw (`Seen`). A byte on the pipe while it asks ends
the slice early; so does the end of the pipe.
"""

from __future__ import annotations

import select
import signal
import ssl
import struct
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from random import Random

import pymysql
from pymysql.connections import Connection as PyMySQLConnection

from external_upquery.address import Upstream
from external_upquery.login import CLIENT_DEPRECATE_EOF, CUT_OFF, reached, take_socket
from external_upquery.protocol import COM_QUERY, COM_STMT_PREPARE, EOF, ERR, command
from sqltypes.errors import SourceDown, UpwellError
from upwell.spread import Key, drawing

COM_STMT_EXECUTE = 0x17
CHUNK = 256 << 10
CONNECT_SECONDS = 10.0
PATIENCE = 30.0  # seconds in which an answer must come
HEADER = struct.Struct("<IB").unpack_from  # of a packet: length and sequence number; its first byte
CONTINUED = 0xFFFFFF  # the length of a packet that goes on in the next one
NO_CURSOR_ONCE = b"\0\1\0\0\0"
NO_HEAD, NEVER = -1, b"\xff\xff\xff\xff"
LONGLONG, DOUBLE, NULL, VAR_STRING = b"\x08\0", b"\x05\0", b"\x06\0", b"\xfd\0"


@dataclass(frozen=True, slots=True)
class Load:
    """What a process is to do. `sides`: servers by name, each with `connections` sessions of this process. `pieces`:
    the statement's text around its parameters."""

    sides: dict[str, Upstream]
    connections: int
    pieces: tuple[str, ...]
    prepared: bool
    keys: Sequence[Key]
    spread: str
    seed: int


@dataclass(frozen=True, slots=True)
class Order:
    side: str
    seconds: float


@dataclass(slots=True)
class Seen:
    """Of one slice, or of several together.

    `times`: how many answers took so many microseconds. `errors`: how many answers were MySQL's errors, by their text,
    and how many connections were lost. `seconds`: by the clock. `cpu`: of each process that asked, for which part of
    the time it had a processor.
    """

    times: Counter[int] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    cpu: list[float] = field(default_factory=list)

    def beside(self, other: Seen) -> None:
        """Adds what another process saw in the same slice."""
        self.times.update(other.times)
        self.errors.update(other.errors)
        self.seconds = max(self.seconds, other.seconds)
        self.cpu += other.cpu

    def then(self, other: Seen) -> None:
        """Adds a slice that came later."""
        self.cpu = self.cpu or [0.0] * len(other.cpu)
        whole = self.seconds + other.seconds or 1.0
        parts = zip(self.cpu, other.cpu, strict=True)
        self.cpu = [(mine * self.seconds + its * other.seconds) / whole for mine, its in parts]
        self.times.update(other.times)
        self.errors.update(other.errors)
        self.seconds = whole


def session(upstream: Upstream, flags: int = 0) -> PyMySQLConnection:
    """A session as a driver has it, in the address's database. Raises UpwellError."""
    connection = reached(upstream, CONNECT_SECONDS, flags)
    try:
        if upstream.database:
            connection.select_db(upstream.database)
    except (pymysql.err.Error, *CUT_OFF) as error:
        raise SourceDown(f"no session at {upstream.redacted}: {error.args[-1] if error.args else error}") from None
    return connection


class Asker:
    """A session that asks one statement.

    `sent`: when the question went out whose answer is under way, else 0. `error`: MySQL's, of the answer that came
    last; "" where it is none.

    Invariants: 1. `_held` is what has come of an answer that is not whole; its first `_at` bytes are read, and `_left`
    definitions of columns are to come behind them (NO_HEAD: all of the answer is).
    """

    def __init__(self, upstream: Upstream, pieces: tuple[str, ...], *, prepared: bool) -> None:
        """Logs in, and prepares. Raises UpwellError."""
        login = take_socket(session(upstream, CLIENT_DEPRECATE_EOF))
        if not login.deprecate_eof:
            raise SourceDown(f"{upstream.redacted} does not end rows as MySQL 5.7 and newer do")
        self.socket = login.socket
        self.sent = 0.0
        self.error = ""
        self._pending = getattr(self.socket, "pending", None)  # of TLS: bytes that the socket does not announce
        self._pieces = [piece.encode() for piece in pieces]
        self._types: list[bytes] = []  # as the server was told them last
        self._held, self._at, self._left, self._continued = b"", 0, NO_HEAD, False
        self._known = NEVER  # what the last answer began with, until its first row
        self._statement = self._prepared("?".join(pieces).encode()) if prepared else b""

    def ask(self, key: Key) -> None:
        """Raises OSError where the connection has ended."""
        packets = self._execution(key) if self._statement else command(COM_QUERY, self._text(key))
        self.sent = time.perf_counter()
        try:
            done = self.socket.send(packets)
        except (BlockingIOError, ssl.SSLWantWriteError):
            done = 0
        if done < len(packets):
            self.socket.settimeout(PATIENCE)
            self.socket.sendall(packets[done:])
            self.socket.setblocking(False)

    def answered(self) -> bool:
        """Takes what has come; whether the answer is whole. Raises OSError where the connection has ended."""
        try:
            data = self.socket.recv(CHUNK)
            while self._pending is not None and self._pending():
                data += self.socket.recv(CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        if not data:
            raise OSError("the server closed it")
        if self._held:
            data = self._held + data
        else:
            self.error = ""
            if data.startswith(self._known):
                self._at, self._left = len(self._known), 0
        if not self._ends(data):
            self._held = data
            return False
        self._held, self._at, self._left = b"", 0, NO_HEAD
        return True

    def _ends(self, data: bytes) -> bool:
        """Reads the packets that are whole; whether the answer ends with the last of them."""
        at, size = self._at, len(data)
        while at + 5 <= size:
            header, first = HEADER(data, at)
            length = header & CONTINUED
            end = at + 4 + length
            if end > size:
                break
            if first == ERR and not self._continued and self._left <= 0:
                self.error = _error(data[at + 4 : end])
                return True
            if self._left > 0:
                self._left -= 1
                if not self._left:
                    self._known = data[:end]
            elif self._left == NO_HEAD:
                if first == 0:  # OK: it has no rows
                    return True
                self._left = first if first < 0xFB else int.from_bytes(data[at + 5 : at + 7], "little")
            elif first == EOF and length < CONTINUED and not self._continued:
                return True
            else:
                self._continued = length == CONTINUED
            at = end
        self._at = at
        return False

    # -- statements ----------------------------------------------------------------------------------------------------

    def _prepared(self, text: bytes) -> bytes:
        """What each execution begins with. Raises SourceDown."""
        self.socket.settimeout(CONNECT_SECONDS)
        try:
            self.socket.sendall(command(COM_STMT_PREPARE, text))
            head = self._payload()
            if head[0] == ERR:
                raise SourceDown(f"the statement cannot be prepared: {_error(head)}")
            columns, parameters = int.from_bytes(head[5:7], "little"), int.from_bytes(head[7:9], "little")
            for _ in range(columns + parameters):
                self._payload()
        except OSError as error:
            raise SourceDown(f"the statement cannot be prepared: {error}") from None
        self.socket.setblocking(False)
        return head[1:5] + NO_CURSOR_ONCE

    def _payload(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(4)[:3], "little"))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise OSError("the server closed the connection")
            data += more
        return data

    def _execution(self, key: Key) -> bytes:
        """COM_STMT_EXECUTE; with the types of its parameters where they are others than before, as drivers do."""
        nulls = bytearray((len(key) + 7) // 8)
        types, values = [], []
        for place, value in enumerate(key):
            if isinstance(value, int):
                types.append(LONGLONG)
                values.append(value.to_bytes(8, "little", signed=True))
            elif isinstance(value, str):
                types.append(VAR_STRING)
                values.append(_counted(value.encode()))
            elif isinstance(value, float):
                types.append(DOUBLE)
                values.append(struct.pack("<d", value))
            else:
                nulls[place // 8] |= 1 << place % 8
                types.append(NULL)
        known = b"\0"
        if types != self._types:
            self._types, known = types, b"\1" + b"".join(types)
        bound = bytes(nulls) + known if key else b""
        return command(COM_STMT_EXECUTE, b"".join((self._statement, bound, *values)))

    def _text(self, key: Key) -> bytes:
        parts = [self._pieces[0]]
        for value, piece in zip(key, self._pieces[1:], strict=True):
            parts += (literal(value).encode(), piece)
        return b"".join(parts)


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    return repr(value)


def _counted(text: bytes) -> bytes:
    """A string behind its length."""
    size = len(text)
    if size < 0xFB:
        return bytes((size,)) + text
    return (b"\xfc" + size.to_bytes(2, "little") if size < 1 << 16 else b"\xfd" + size.to_bytes(3, "little")) + text


def _error(payload: bytes) -> str:
    """MySQL's sentence and number."""
    text = payload[9:] if payload[3:4] == b"#" else payload[3:]
    return f"{text.decode(errors='replace')} ({int.from_bytes(payload[1:3], 'little')})"


class Process:
    """One process's sessions, and its slices."""

    def __init__(self, load: Load, pipe: Connection) -> None:
        self._load, self._pipe = load, pipe
        self._draw = drawing(load.keys, load.spread, Random(load.seed))
        self._askers: dict[str, list[Asker]] = {
            side: [Asker(upstream, load.pieces, prepared=load.prepared) for _ in range(load.connections)]
            for side, upstream in load.sides.items()
        }

    def slice(self, order: Order) -> Seen:
        """Asks for so long, then waits for the answers that are under way."""
        seen = Seen()
        poll = select.epoll()
        poll.register(self._pipe.fileno(), select.EPOLLIN)
        asking: dict[int, Asker] = {}
        began, processor = time.perf_counter(), time.process_time()
        until = began + order.seconds
        for asker in list(self._askers[order.side]):
            poll.register(asker.socket.fileno(), select.EPOLLIN)
            if self._turn(asker, order.side, until, seen):
                asking[asker.socket.fileno()] = asker
        while asking:
            ready = poll.poll(PATIENCE)
            if not ready:
                seen.errors[f"no answer within {PATIENCE:.0f} s"] += len(asking)
                for asker in asking.values():
                    self._forget(order.side, asker)
                break
            for number, _ in ready:
                if number == self._pipe.fileno():  # somebody wants to end
                    poll.unregister(number)
                    until = 0.0
                elif number in asking and not self._turn(asking[number], order.side, until, seen):
                    del asking[number]
        poll.close()
        seen.seconds = time.perf_counter() - began
        seen.cpu.append((time.process_time() - processor) / seen.seconds)
        return seen

    def _turn(self, asker: Asker, side: str, until: float, seen: Seen) -> bool:
        """Takes what has come, and asks unless an answer is to come; whether one is to come then."""
        try:
            if asker.sent:
                if not asker.answered():
                    return True
                took = time.perf_counter() - asker.sent
                if asker.error:
                    seen.errors[asker.error] += 1
                else:
                    seen.times[int(took * 1e6)] += 1
            asker.sent = 0.0
            if time.perf_counter() < until:
                asker.ask(self._draw())
                return True
        except OSError as error:
            seen.errors[f"a connection was lost: {error.strerror or error}"] += 1
            self._forget(side, asker)
        return False

    def _forget(self, side: str, asker: Asker) -> None:
        self._askers[side].remove(asker)
        asker.socket.close()


def main(load: Load, pipe: Connection) -> None:
    """Tells "" once it is logged in, or why it is not; then does what it is ordered."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    try:
        process = Process(load, pipe)
    except UpwellError as error:
        pipe.send(str(error))
        return
    pipe.send("")
    try:
        while isinstance(order := pipe.recv(), Order | str):
            if isinstance(order, Order):  # a word only ends a slice
                pipe.send(process.slice(order))
    except (EOFError, OSError):
        return
