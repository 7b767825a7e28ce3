"""Messages between the proxy and the process that drives Spark: eight bytes of length, then a pickle. Both ends are one
user's, and nobody else has the socket."""

from __future__ import annotations

import pickle
import socket
from dataclasses import dataclass, field
from typing import Any

from bulk.questions import Login, Question
from bulk.session import SparkSettings

HEAD = 8


@dataclass(slots=True)
class Piece:
    """A part of the answer to a question. `number`: the question's. `received`: bytes of MySQL's. `packed`: rows that
    were taken out of them, by the answer's number (`external_upquery/rows_apart.py`). `last`: no more parts come.
    `problem`: why there is no answer, with MySQL's error number; "" if there is one."""

    number: int
    received: bytes = field(default=b"", repr=False)
    packed: tuple[tuple[int, bytes], ...] = field(default=(), repr=False)
    last: bool = True
    problem: str = ""
    errno: int = 0

    @property
    def size(self) -> int:
        """Bytes, about."""
        return 100 + len(self.received) + sum([len(part) for _, part in self.packed])


@dataclass(frozen=True)
class Open:
    """To Spark's process, first: begin a session. Answered by `Opened` or `Refused`."""

    settings: SparkSettings


@dataclass(frozen=True)
class Opened:
    """`told`: which Spark it is, and where."""

    told: str
    slots: int  # tasks that run at once, as far as is known


@dataclass(frozen=True)
class Refused:
    """There is no session. `why`: a sentence."""

    why: str


@dataclass(frozen=True)
class Ask:
    """To Spark's process: ask MySQL. Each element of `slices` is what one task asks. Answered by any number of
    `Answered`, then `Ended`."""

    job: int
    login: Login
    slices: tuple[tuple[Question, ...], ...] = field(repr=False)


@dataclass(frozen=True)
class Cancel:
    job: int


@dataclass(frozen=True)
class Answered:
    """Pieces of answers; those of one question follow each other."""

    job: int
    pieces: list[Piece] = field(repr=False)


@dataclass(frozen=True)
class Ended:
    """`problem`: why not all questions were answered, "" if they were."""

    job: int
    problem: str = ""


def packed(message: object) -> bytes:
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(HEAD, "big") + body


def unpacked(body: bytes) -> Any:
    return pickle.loads(body)


def receive(connection: socket.socket) -> Any:
    """The next message, None at the end."""
    head = _exactly(connection, HEAD)
    body = _exactly(connection, int.from_bytes(head, "big")) if head is not None else None
    return None if body is None else unpacked(body)


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    pieces = bytearray()
    while len(pieces) < size:
        piece = connection.recv(size - len(pieces))
        if not piece:
            return None
        pieces += piece
    return bytes(pieces)
