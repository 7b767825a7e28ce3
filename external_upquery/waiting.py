"""The queue for connections: fills, and reads of clients. Reads get a part of the connections at most.

However many slow reads a client sends, the fills for other clients' misses have connections of their own. So have fills
of one table while another is locked, and keys of one shard while another hangs (`shares.py`). Jobs that may run do so
first come, first served.

If many tables are busy, a job of several of them could wait for ever, because some other job always asks for one of
them. So the job that has waited longest may have a connection beyond its share, one such job at a time. Condition: none
of its tables can be locked, because jobs for them were answered while it waited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from external_upquery.shares import Kind, Shares


class Waiter(Protocol):
    """`read`: a client's read; otherwise a fill or a question of our own. `kind`: what it asks for. `place`: its place
    in the queue, `lent`: it was taken out to run beyond its share; both set here."""

    read: bool
    kind: Kind
    place: int
    lent: bool


WaiterT = TypeVar("WaiterT", bound=Waiter)
MOST_KNOWN = 4096  # tables of which is known when a job for them was answered
Queue = tuple[bool, Kind]  # of reads, of that kind


def part_of_reads(connections: int) -> int:
    """How many of so many connections may run reads at once.

    >>> [part_of_reads(connections) for connections in (1, 2, 3, 8)]
    [1, 1, 2, 4]
    """
    return max(1, connections - connections // 2)


class Waiting(Generic[WaiterT]):
    """`shares`: of the connections. `room`: of the places here.

    Invariants:
    1. `reading` is the number of reads that run, and at most `most`.
    2. Each queue is in the order of `place`, and none is empty.
    3. `room` has all that wait, and only these.
    """

    def __init__(self, connections: int, places: int) -> None:
        """`places`: for how many there is room. Who comes back may be one more."""
        self.most = part_of_reads(connections)
        self.reading = 0
        self.shares = Shares(connections)
        self._room = Shares(places)
        self._lent: WaiterT | None = None  # that runs beyond its share
        self._placed = 0  # the last place in the queue
        self._answered: dict[str, int] = {}  # the last place as a job for this table or shard was answered
        self._first = 0  # places of those who come back to the head of the queue
        self.queues: dict[Queue, deque[WaiterT]] = {}

    def __len__(self) -> int:
        return self._room.taken

    def __iter__(self) -> Iterator[WaiterT]:
        for queue in self.queues.values():
            yield from queue

    def __contains__(self, waiter: object) -> bool:
        return any(waiter in queue for queue in self.queues.values())

    def may_run(self, read: bool, kind: Kind) -> bool:
        """Whether such a job may run now: none ahead of it may."""
        if (read and self.reading >= self.most) or not self.shares.may_have(kind):
            return False
        return not self.queues or not any(of_reads == read for of_reads, _ in self._able())

    def has_room(self, waiter: WaiterT) -> bool:
        """Whether it may wait."""
        return self._room.taken < self._room.most and self._room.may_have(waiter.kind)

    @property
    def due(self) -> bool:
        """Whether somebody waits for nothing but a connection."""
        for name in self.queues:
            if self._may(name):
                return True
        return any(self._may_be_lent(name, queue[0]) for name, queue in self.queues.items())

    @property
    def held_back(self) -> int:
        """How many wait because what they ask for has its part of the connections."""
        return sum(len(queue) for (_, kind), queue in self.queues.items() if not self.shares.may_have(kind))

    def add(self, waiter: WaiterT) -> None:
        self._placed += 1
        waiter.place = self._placed
        self._queue_of(waiter).append(waiter)

    def add_first(self, waiter: WaiterT) -> None:
        """It comes back, and goes before all others."""
        self._first -= 1
        waiter.place = self._first
        self._queue_of(waiter).appendleft(waiter)

    def next(self) -> WaiterT | None:
        """The next that may run, taken out; None where there is none."""
        first: Queue | None = None
        for name in self._able():
            if first is None or self.queues[name][0].place < self.queues[first][0].place:
                first = name
        if first is None:
            return None
        waiter = self._pop(first)
        waiter.lent = not self.shares.may_have(waiter.kind)
        return waiter

    def started(self, waiter: WaiterT) -> None:
        if waiter.lent:
            self._lent = waiter
        self.reading += waiter.read
        self.shares.took(waiter.kind)

    def ended(self, waiter: WaiterT, *, answered: bool = True) -> None:
        """The job has ended. `answered`: what it asked for is neither locked nor down."""
        if answered:
            if len(self._answered) >= MOST_KNOWN:
                self._answered.clear()
            for one in waiter.kind:
                self._answered[one] = self._placed
        self.reading -= waiter.read
        self.shares.gave(waiter.kind)
        if waiter is self._lent:
            self._lent = None

    def remove(self, waiter: WaiterT) -> None:
        name = waiter.read, waiter.kind
        self.queues[name].remove(waiter)
        self._left(name)

    def take(self, wanted: Callable[[WaiterT], bool]) -> list[WaiterT]:
        """Those of whom it is so, taken out."""
        taken = [waiter for waiter in self if wanted(waiter)]
        for name in {(waiter.read, waiter.kind): None for waiter in taken}:
            before = self.queues[name]
            self.queues[name] = deque(waiter for waiter in before if not wanted(waiter))
            self._left(name, len(before) - len(self.queues[name]))
        return taken

    def _able(self) -> Iterator[Queue]:
        """The queues whose first may run."""
        first, longest = 0, None  # of those that have their share
        for name, queue in self.queues.items():
            if self._may(name):
                yield name
            elif (longest is None or queue[0].place < first) and self._may_be_lent(name, queue[0]):
                first, longest = queue[0].place, name
        if longest is not None:
            yield longest

    def _may(self, name: Queue) -> bool:
        read, kind = name
        return self.shares.may_have(kind) and not (read and self.reading >= self.most)

    def _may_be_lent(self, name: Queue, first: WaiterT) -> bool:
        """Whether the first of a queue may have a connection beyond its share."""
        read, kind = name
        if len(kind) < 2 or self._lent is not None or self.shares.taken >= self.shares.most:
            return False
        if read and self.reading >= self.most:
            return False
        return all(
            not self.shares.asked(one) or self._answered.get(one, first.place - 1) >= first.place for one in kind
        )

    def _queue_of(self, waiter: WaiterT) -> deque[WaiterT]:
        self._room.took(waiter.kind)
        return self.queues.setdefault((waiter.read, waiter.kind), deque())

    def _pop(self, name: Queue) -> WaiterT:
        waiter = self.queues[name].popleft()
        self._left(name)
        return waiter

    def _left(self, name: Queue, how_many: int = 1) -> None:
        for _ in range(how_many):
            self._room.gave(name[1])
        if not self.queues[name]:
            del self.queues[name]

    def check_invariants(self) -> None:
        """Raises AssertionError. For tests."""
        assert 0 <= self.reading <= self.most
        assert sum(len(queue) for queue in self.queues.values()) == len(self)
        for (read, kind), queue in self.queues.items():
            places = [waiter.place for waiter in queue]
            assert places and places == sorted(places)
            assert all((waiter.read, waiter.kind) == (read, kind) for waiter in queue)
        self.shares.check_invariants()
