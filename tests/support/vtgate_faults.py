"""What goes wrong at a scripted vtgate, and where: an error of vtgate's instead of an answer, an end of the connection
before it or within it, a wait, another answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto


class Place(Enum):
    """What a session is about to be told. From BEGIN on: the commands of an upquery, in its order. (Upwell asks for
    positions by some of these, too.)"""

    LOGIN = auto()
    SETTING = auto()
    PLAN = auto()
    VSCHEMA = auto()
    VINDEX = auto()
    ROWS = auto()
    WRITE = auto()
    OTHER = auto()
    BEGIN = auto()
    TO_SHARD = auto()
    LOWER = auto()
    TO_KEYSPACE = auto()
    STATEMENT = auto()
    UPPER = auto()
    BACK = auto()
    COMMIT = auto()


UPQUERY = tuple(place for place in Place if place.value >= Place.BEGIN.value)


@dataclass(frozen=True)
class Asked:
    """`shard`: the session's target, "" for the keyspace. `own`: of Upwell's own connections, not of a client's.
    `session`: its number."""

    place: Place
    sql: str
    shard: str
    own: bool
    session: int = 0


class Lost(Exception):
    """The connection ends without a word."""


@dataclass(frozen=True)
class Refused(Exception):
    """vtgate's own error."""

    errno: int
    sqlstate: str
    message: str


@dataclass(frozen=True)
class Cut(Exception):
    """The connection ends in the middle of the answer."""


class Pause:
    """A session waits there until it may go on."""

    def __init__(self) -> None:
        self.reached, self.over = threading.Event(), threading.Event()


@dataclass
class Fault:
    """What goes wrong at a place. `shard`: of this target only. `do`: raises Refused, Lost or Cut, waits, or gives
    another answer; None: the answer is as ever. `clients`: the sessions of clients have it, too."""

    places: tuple[Place, ...]
    do: Callable[[Asked], bytes | None]
    shard: str | None = None
    times: int = 1 << 30
    clients: bool = False
    met: int = 0

    def concerns(self, asked: Asked) -> bool:
        return (
            asked.place in self.places
            and (asked.own or self.clients)
            and (self.shard is None or self.shard == asked.shard)
            and self.met < self.times
        )


class Faults:
    """`asked`: all that sessions have been told to do, in turn."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._faults: list[Fault] = []

    @contextmanager
    def wrong(
        self, *places: Place, do: Callable[[Asked], bytes | None], shard: str | None = None, times: int = 1 << 30,
        clients: bool = False,
    ) -> Iterator[Fault]:  # fmt: skip
        fault = Fault(places, do, shard, times, clients)
        self._faults.append(fault)
        try:
            yield fault
        finally:
            self._faults.remove(fault)

    @contextmanager
    def paused(self, *places: Place, shard: str | None = None, times: int = 1) -> Iterator[Pause]:
        """Who comes there waits until the context ends, or `over` is set."""
        pause = Pause()

        def wait(asked: Asked) -> None:
            pause.reached.set()
            pause.over.wait(60)

        with self.wrong(*places, do=wait, shard=shard, times=times):
            try:
                yield pause
            finally:
                pause.over.set()

    def note(self, asked: Asked) -> bytes | None:
        self.asked.append(asked)
        for fault in list(self._faults):
            if fault.concerns(asked):
                fault.met += 1
                found = fault.do(asked)
                if found is not None:
                    return found
        return None


def refused(errno: int, sqlstate: str, message: str) -> Callable[[Asked], None]:
    def do(asked: Asked) -> None:
        raise Refused(errno, sqlstate, message)

    return do


def lost(asked: Asked) -> None:
    raise Lost


def cut(asked: Asked) -> None:
    raise Cut
