"""What a client that keeps to the protocol must see: each of its commands answered, in order, by the answer that is its
own, or the end of its connection, and nothing else. Takes answers apart without any of the proxy's code.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tests.fuzz.payloads import cut
from tests.fuzz.upstream import tag

UNANSWERED = (0x01, 0x18, 0x19)  # quit, long data, close
WITH_ROWS = (0x03, 0x17)
PREPARE, CHANGE_USER, FETCH, FIELD_LIST = 0x16, 0x11, 0x1C, 0x04
MORE, CURSOR = 0x08, 0x40
TAG = re.compile(rb"tag:[0-9a-f]{8}")
KEY = re.compile(rb"key ([^;]*);")


class CutOff(Exception):
    """The bytes end within an answer, or before it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """`answers`: of how many commands. `missing`: of how many there is none. `left`: bytes behind all answers."""

    answers: int
    missing: int
    left: int


def commands_of(sent: bytes) -> list[bytes]:
    """The payloads of the commands that are answered: all packets but pieces of files and of logins."""
    return [
        payload for number, payload in cut(sent) if number == 0 and not (payload and payload[0] in UNANSWERED)
    ]  # fmt: skip


class StrictClient:
    """`eof`: without CLIENT_DEPRECATE_EOF."""

    def __init__(self, *, eof: bool) -> None:
        self._eof = eof
        self._expected = 0  # number of the next packet; -1: it is not known

    def see(self, sent: bytes, received: bytes) -> Seen:
        """Raises AssertionError for an answer that is not the command's, or no answer."""
        packets = cut(received)
        size = 0
        first = self._take(packets)  # the OK of the login
        if first is None:
            return Seen(0, len(commands_of(sent)), len(received))
        size += 4 + len(first[1])
        commands = commands_of(sent)
        for done, command in enumerate(commands):
            self._expected = 1
            self._answer: list[bytes] = []
            try:
                ended = self._read(command, packets)
            except CutOff:
                return Seen(done, len(commands) - done, 0)
            size += sum(4 + len(payload) for payload in self._answer)
            if command[:1] != b"\x11":  # which MySQL does not get as it was sent
                self._compare(command, b"".join(self._answer))
            if ended:
                return Seen(done + 1, 0, len(received) - size)
        return Seen(len(commands), 0, len(received) - size)

    # -- one answer ----------------------------------------------------------------------------------------------------

    @staticmethod
    def _take(packets: Iterator[tuple[int, bytes]]) -> tuple[int, bytes] | None:
        return next(packets, None)

    def _next(self, packets: Iterator[tuple[int, bytes]]) -> bytes:
        found = self._take(packets)
        if found is None:
            raise CutOff
        number, payload = found
        assert self._expected < 0 or number == self._expected & 0xFF or (number == 0 and payload[:1] == b"\xff"), (
            f"a packet has number {number}, expected {self._expected & 0xFF}"
        )
        if self._expected >= 0:
            self._expected += 1
        self._answer.append(payload)
        return payload

    def _read(self, command: bytes, packets: Iterator[tuple[int, bytes]]) -> bool:
        """One whole answer. Whether it says that the session is over."""
        kind = command[0] if command else 0
        if kind == CHANGE_USER:
            return self._account(packets)
        if kind in (FETCH, FIELD_LIST):
            self._rows(packets)
            return self._farewell()
        if kind in WITH_ROWS:
            while self._result(packets):
                pass
            return self._farewell()
        head = self._next(packets)
        if kind == PREPARE and head[:1] == b"\0":
            columns, parameters = struct.unpack_from("<HH", head, 5)
            assert parameters == command.count(b"?"), "the answer is to another text"
            for count in (parameters, columns):
                for _ in range(count + (self._eof and count > 0)):
                    self._next(packets)
        return self._farewell()

    def _farewell(self) -> bool:
        """An error that is about the session, and no answer."""
        last = self._answer[-1]
        return last[:1] == b"\xff" and struct.unpack_from("<H", last, 1)[0] in (4031, 1153, 1835)

    def _account(self, packets: Iterator[tuple[int, bytes]]) -> bool:
        self._expected = -1  # the client's own have numbers too
        while True:
            first = self._next(packets)[:1]
            if first in (b"\0", b"\xff"):
                return first == b"\xff"

    def _result(self, packets: Iterator[tuple[int, bytes]]) -> bool:
        """Whether another one follows."""
        head = self._next(packets)
        assert head, "an empty packet"
        if head[0] == 0xFB:  # the file's packets have numbers too
            self._expected = -1
            head = self._next(packets)
        if head[0] == 0xFF:
            return False
        if head[0] == 0:
            return bool(self._status_of_ok(head) & MORE)
        for _ in range(head[0]):
            self._next(packets)
        more = 0
        if self._eof:
            end = self._next(packets)
            assert end[0] == 0xFE and len(end) == 5, end[:20]
            more = self._status_of_eof(end)
            if more & CURSOR:
                return False
        return bool(self._rows(packets) & MORE)

    def _rows(self, packets: Iterator[tuple[int, bytes]]) -> int:
        """The status behind them; 0 after an error."""
        while True:
            payload = self._next(packets)
            if payload[:1] == b"\xff":
                return 0
            if payload[:1] == b"\xfe":
                return self._status_of_eof(payload) if self._eof else self._status_of_ok(payload)

    @staticmethod
    def _status_of_eof(payload: bytes) -> int:
        assert len(payload) == 5, payload[:20]
        return int(struct.unpack_from("<H", payload, 3)[0])

    @staticmethod
    def _status_of_ok(payload: bytes) -> int:
        at = 1
        for _ in range(2):  # numbers of the bench's MySQL are small
            at += {0xFC: 3, 0xFD: 4}.get(payload[at], 1)
        return int(struct.unpack_from("<H", payload, at)[0])

    @staticmethod
    def _compare(command: bytes, answer: bytes) -> None:
        for found in TAG.findall(answer):
            assert found == tag(command), f"the answer to another command than {command[:80]!r}"
        for key in KEY.findall(answer):
            if key.isdigit():
                words = b"= " + key, b"= '" + key, struct.pack("<q", int(key))
                assert any(word in command for word in words), f"{key!r} for {command[:80]!r}"
