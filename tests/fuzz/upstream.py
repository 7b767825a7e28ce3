"""A MySQL for one session on the bench: knows what the session asks for itself, answers the rest at random, and, as far
as it is told to be wild, sends what no MySQL sends.

In each of its answers to a client's command is `tag(the command)`, so that an answer in the wrong place is known.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

from proxy.mysql.session.questions_to_mysql import ASK_TRACKS
from proxy.mysql.state.session_variables import APART, ASK, BETWEEN, PINNED_VALUES, TOGETHER, TRACKS, switched_on
from proxy.mysql.wire.packets import (
    COM_CHANGE_USER,
    COM_FIELD_LIST,
    COM_QUERY,
    COM_QUIT,
    COM_RESET_CONNECTION,
    COM_STMT_CLOSE,
    COM_STMT_EXECUTE,
    COM_STMT_FETCH,
    COM_STMT_PREPARE,
    COM_STMT_SEND_LONG_DATA,
    EOF,
    OK,
    STATUS_CURSOR_EXISTS,
    STATUS_MORE_RESULTS,
    STATUS_PS_OUT_PARAMS,
    STATUS_SESSION_STATE_CHANGED,
    OkAnswer,
    lenenc,
    ok_bytes,
)
from tests.fuzz.bench import BenchTransport
from tests.fuzz.payloads import mutated, numbered, pieces
from tests.fuzz.system import DEFINITIONS, SERVER
from tests.support.mysql_packets import column, eof, error, packet, prepared, text

LIKE_CACHES = {
    "time_zone": "+00:00",
    "transaction_isolation": "REPEATABLE-READ",
    "transaction_read_only": "0",
    "max_allowed_packet": "67108864",
    "wait_timeout": "28800",
    **switched_on({}),
}
NOT_TRACKED = {
    "session_track_gtids": "OFF",
    "session_track_schema": "1",
    "session_track_state_change": "0",
    "session_track_system_variables": "time_zone,autocommit",
    "session_track_transaction_info": "OFF",
}
# The end of a text -> the status flags from then on.
TURNS = {b"BEGIN": 3, b"COMMIT": 2, b"autocommit = 0": 0, b"autocommit = 1": 2}
UNANSWERED = frozenset({COM_STMT_CLOSE, COM_STMT_SEND_LONG_DATA})
TEXT = column("?", 0xFD, charset=255)


def tag(payload: bytes) -> bytes:
    """Of a command's payload. An execution may reach MySQL with the types in it that hits have kept from it. What a
    session asks about itself is answered as the same text was before, whatever attributes are in front of it."""
    if payload[:1] == bytes((COM_STMT_EXECUTE,)):
        payload = payload[:5] + payload[-4:]
    elif payload[:1] == bytes((COM_QUERY,)):
        payload = payload[max(0, payload.find(b"SELECT")) :]
    return b"tag:%08x" % crc32(payload)


def is_cached(text: bytes) -> bool:
    return b" FROM item WHERE " in text and b"FOR UPDATE" not in text


def variable(name: str, value: str) -> bytes:
    return b"\0" + lenenc(lenenc(name.encode()) + lenenc(value.encode()))


STATES = (
    variable("autocommit", "ON"),
    variable("sql_mode", "ANSI_QUOTES"),
    variable("sql_mode", ""),
    variable("character_set_client", "utf8mb4") + variable("character_set_results", "latin1"),
    variable("session_track_gtids", "OFF") + variable("session_track_system_variables", "*"),
    variable("wait_timeout", "60"),
    variable("an unknown one", "1"),
    b"\1" + lenenc(lenenc(b"other")),
    b"\1" + lenenc(lenenc(b"d")),
    b"\2" + lenenc(b"1"),
    b"\3" + lenenc(b"\0" + lenenc(f"{SERVER}:9".encode())),
    b"\4" + lenenc(lenenc(b"SET TRANSACTION READ ONLY;")),
    b"\5" + lenenc(lenenc(b"T______L")),
    b"\5" + lenenc(lenenc(b"________")),
    b"\7" + lenenc(b"of another kind"),
)
WILD_STATES = (b"\3" + lenenc(b"\0" + lenenc(b"nonsense")), b"\1", b"\1\2\5", b"\0\0", b"\3\1\0")


@dataclass
class ScriptedUpstream:
    """`eof`: the session's client has no CLIENT_DEPRECATE_EOF. `wild`: the share of answers that are none."""

    rng: random.Random
    eof: bool
    wild: float
    commands: int = 0
    transport: BenchTransport | None = None
    quiet: bool = False  # answers nothing any more
    endless: bool = False  # sends events
    in_file: bool = False
    in_login: bool = False
    isolation: str = "REPEATABLE-READ"
    _held: bytearray = field(default_factory=bytearray)
    _large: bytearray = field(default_factory=bytearray)
    _tracked: bool = False  # the session's trackers are on
    _statement: int = 0
    _of_caches: set[bytes] = field(default_factory=set)  # numbers of statements with queries of the caches
    _tells: float = 0.0  # the shares of OKs that tell of changes, and of statements that are refused
    _refuses: float = 0.0
    _status: int = 2  # whether a transaction is under way
    _tag: bytes = b""  # of the command that is being answered

    def __post_init__(self) -> None:
        self._tells = self.rng.choice((0.0, 0.0, 0.02, 0.15))
        self._refuses = self.rng.choice((0.0, 0.0, 0.1))

    @property
    def waits(self) -> bool:
        """Whether it owes no answer though a command is under way."""
        return self.quiet or self.endless or self.in_file or self.in_login or bool(self._held or self._large)

    def be_quiet(self) -> None:
        self.quiet = True

    def heard(self, data: bytes) -> None:
        """Bytes of the session."""
        self._held += data
        while len(self._held) >= 4:
            size = int.from_bytes(self._held[:3], "little")
            if len(self._held) < 4 + size:
                return
            payload, sequence = bytes(self._held[4 : 4 + size]), self._held[3]
            del self._held[: 4 + size]
            self._large += payload
            if size < 0xFFFFFF:
                whole, self._large = bytes(self._large), bytearray()
                self._on_command(whole, sequence)

    def say(self, data: bytes) -> None:
        assert self.transport is not None
        rng = self.rng
        if rng.random() < self.wild:
            less = data[: rng.randrange(len(data) + 1)]
            farewell = packet(error(4031, "HY000", "The client was disconnected"), 0)
            odd = mutated(rng, data)
            data = rng.choice((odd, odd + farewell, less, data + data, data + farewell, b""))
        for piece in pieces(rng, data):
            self.transport.deliver(piece)
        if rng.random() < self.wild / 4:
            rng.choice((self.transport.end, self.transport.reset))()

    def _on_command(self, payload: bytes, sequence: int) -> None:
        self.commands += 1
        if self.quiet or self.endless:
            return
        if self.in_file:
            if not payload:
                self.in_file = False
                self.say(packet(self.ok(), sequence + 1))
            return
        if self.in_login:
            self._log_in(sequence + 1)
            return
        self._tag = tag(payload)
        command = payload[0] if payload else 0
        if sequence:
            self.say(packet(error(1156, "08S01", "Got packets out of order"), sequence + 1))
        if sequence or command == COM_QUIT:
            assert self.transport is not None
            self.transport.end()
        elif command not in UNANSWERED:
            self.say(self._answer(command, payload))

    def _log_in(self, sequence: int) -> None:
        """Another account's answer."""
        self.in_login = False
        answers = [[self.ok()], [self.ok()], [b"\1\3", self.ok()], [error(1045, "28000", "denied")]]
        if self.wild:
            answers += [[b"\1\4"], [b"\xfesha256_password\0" + b"m" * 20], [b""], [b"\2x\0y"]]
        chosen = self.rng.choice(answers)
        self.in_login = chosen[-1][:1] in (b"\1", b"\xfe")
        self.say(numbered(chosen, sequence))

    # -- answers -------------------------------------------------------------------------------------------------------

    def _answer(self, command: int, payload: bytes) -> bytes:
        if command == COM_CHANGE_USER:
            self._status, self._tracked = 2, False
            self.in_login = not self.wild or self.rng.random() < 0.9
            asked = b"\xfecaching_sha2_password\0" + b"m" * 20 + b"\0"
            return packet(asked if self.in_login else self.ok())
        if command == COM_STMT_PREPARE:
            return self._prepared(payload[1:])
        if command in (COM_STMT_FETCH, COM_FIELD_LIST):
            rows = [b"\0\0" + lenenc(self._tag)] * self.rng.randrange(4)
            return numbered([*rows, self._end()])
        if command in (0x12, 0x1E):  # the binlog
            self.endless = True
            return numbered([b"\0" + b"e" * 50, b"\0" + b"e" * 70_000])
        if command == COM_STMT_EXECUTE:
            return self.anything(cached=payload[1:5] in self._of_caches)
        if command == COM_QUERY:
            return self._of_text(payload)
        if command == COM_RESET_CONNECTION:
            self._status, self._tracked = 2, False
        answers = (
            self.ok(),
            self.ok(),
            error(1047, "08S01", f"Unknown command {self._tag!r}"),
            b"Uptime: 7 " + self._tag,
        )
        return packet(self.rng.choice(answers))  # fmt: skip

    def _of_text(self, payload: bytes) -> bytes:
        if ASK_TRACKS.encode() in payload:
            return self._row([NOT_TRACKED[name] for name in TRACKS])
        if ASK.encode() in payload:
            tracks = LIKE_CACHES if self._tracked else NOT_TRACKED
            known = {**PINNED_VALUES, **LIKE_CACHES, **tracks, "transaction_isolation": self.isolation}
            told = (*(known.get(name, "1") for name in APART), BETWEEN.join(known.get(name, "1") for name in TOGETHER))
            return self._row(["app@%", "app@%", "NONE", "d", *told])
        if b"gtid_owned" in payload:
            return self._row([f"{SERVER}:8#5", f"{SERVER}:1-7"])
        if b"gtid_executed" in payload:
            return self._row([f"{SERVER}:1-7"])
        if b"SHOW CREATE TABLE" in payload:
            return self._row(["item", self.rng.choice(("CREATE TABLE", "CREATE TEMPORARY TABLE"))])
        if b"SET SESSION session_track" in payload or b"DO " in payload:
            self._tracked |= b"track" in payload
            return packet(self.ok())
        if b"LOAD DATA" in payload:
            self.in_file = True
            return packet(b"\xfbfile.csv")
        for end, status in TURNS.items():
            if payload.endswith(end):
                self._status = status
        return self.anything(cached=is_cached(payload))

    def anything(self, *, cached: bool = False) -> bytes:
        """`cached`: to a query of the caches, which has their columns."""
        rng = self.rng
        payloads: list[bytes] = []
        if cached and rng.random() >= self.wild:
            return numbered(self._rows(0, DEFINITIONS[0]))
        while True:
            more = STATUS_MORE_RESULTS if rng.random() < 0.2 else 0
            kind = rng.randrange(10)
            if kind == 0 and rng.random() < 0.5:
                return numbered([*payloads, error(1064, "42000", f"You have an error {self._tag!r}")])
            if kind == 1 and self.wild:
                self.in_file = True
                return numbered([*payloads, b"\xfbfile.csv"])
            payloads += [self.ok(more)] if kind < 4 else self._rows(more)
            if not more or payloads[-1][:1] == b"\xff":
                return numbered(payloads)

    def _rows(self, more: int, named: bytes = b"") -> list[bytes]:
        """A result with rows."""
        rng = self.rng
        named = named or column(self._tag.decode(), 0xFD, charset=255)
        row = text(self._tag) + text(rng.choice((None, b"x" * rng.choice((1, 300, 70_000, 300_000)))))
        rows = [row] * rng.choice((0, 1, 1, 2, 9))
        odd = rng.random()
        middle = []
        if self.eof:
            flags = STATUS_PS_OUT_PARAMS if odd < 0.05 else STATUS_CURSOR_EXISTS if odd < 0.1 and not more else 0
            middle = [eof(more | flags | self._status)]
            if flags == STATUS_CURSOR_EXISTS:
                return [b"\2", named, DEFINITIONS[1], *middle]
        if odd > 0.95:
            return [
                b"\2",
                named,
                DEFINITIONS[1],
                *middle,
                *rows,
                error(1317, "70100", "Query execution was interrupted"),
            ]
        return [b"\2", named, DEFINITIONS[1], *middle, *rows, self._end(more)]

    def _prepared(self, text: bytes) -> bytes:
        if self.rng.random() < self._refuses:
            return packet(error(1142, "42000", "SELECT command denied"))
        self._statement += 1
        if is_cached(text):
            self._of_caches.add(self._statement.to_bytes(4, "little"))
        columns = DEFINITIONS if b" FROM item" in text else [TEXT] * self.rng.randrange(3)
        return prepared(self._statement, columns, [TEXT] * text.count(b"?"), deprecate_eof=not self.eof)

    def _row(self, values: Sequence[str]) -> bytes:
        row = b"".join(lenenc(value.encode()) for value in values)
        middle = [eof(self._status)] if self.eof else []
        return numbered([bytes((len(values),)), *[TEXT] * len(values), *middle, row, self._end()])

    def ok(self, status: int = 0, first: int = OK) -> bytes:
        rng = self.rng
        states: tuple[bytes, ...] = (*STATES, *WILD_STATES) if self.wild else STATES
        chosen = (
            b"".join(rng.choice(states) for _ in range(rng.choice((1, 1, 3)))) if rng.random() < self._tells else b""
        )
        status |= self._status | (STATUS_SESSION_STATE_CHANGED if chosen else 0)
        answer = OkAnswer(rng.choice((0, 3, 70_000)), 0, status, rng.choice((0, 2)), self._tag, chosen)
        return ok_bytes(answer, first, session_track=True)

    def _end(self, status: int = 0) -> bytes:
        return eof(status | self._status) if self.eof else self.ok(status, EOF)
