"""Who waits for a connection: fills, and reads of clients. Reads take a part of the connections at most.

A client may send as many slow reads as it likes: the fills that other clients' misses wait for have connections of
their own. Within a kind it is first come, first served; between the kinds too, while reads have their part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import Generic, Protocol, TypeVar


class Waiter(Protocol):
    """`read`: of a client, else a fill or a question of our own. `place`: its place in the queue, set here."""

    read: bool
    place: int


WaiterT = TypeVar("WaiterT", bound=Waiter)


def part_of_reads(connections: int) -> int:
    """How many of so many connections may run reads at once.

    >>> [part_of_reads(connections) for connections in (1, 2, 3, 8)]
    [1, 1, 2, 4]
    """
    return max(1, connections - connections // 2)


class Waiting(Generic[WaiterT]):
    """Invariants:
    1. `reading` is the number of reads that run, and at most `most`.
    2. Both queues are in the order of `place`.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.reading = 0
        self._places = count()
        self._first = 0  # places of those who come back to the head of the queue
        self._fills: deque[WaiterT] = deque()
        self._reads: deque[WaiterT] = deque()

    def __len__(self) -> int:
        return len(self._fills) + len(self._reads)

    def __iter__(self) -> Iterator[WaiterT]:
        yield from self._fills
        yield from self._reads

    def __contains__(self, waiter: object) -> bool:
        return waiter in self._fills or waiter in self._reads

    @property
    def fills(self) -> int:
        """How many fills wait."""
        return len(self._fills)

    def may_run(self, waiter: WaiterT) -> bool:
        """Whether it may run now, as far as the others are concerned: nobody of its kind is ahead of it."""
        return self.reading < self.most and not self._reads if waiter.read else not self._fills

    @property
    def due(self) -> bool:
        """Whether somebody waits for nothing but a connection."""
        return bool(self._fills) or (bool(self._reads) and self.reading < self.most)

    def add(self, waiter: WaiterT) -> None:
        waiter.place = next(self._places)
        (self._reads if waiter.read else self._fills).append(waiter)

    def add_first(self, waiter: WaiterT) -> None:
        """It comes back, and goes before all others."""
        self._first -= 1
        waiter.place = self._first
        (self._reads if waiter.read else self._fills).appendleft(waiter)

    def next(self) -> WaiterT | None:
        """The next that may run, taken out; None where there is none."""
        reads = self._reads if self.reading < self.most else None
        if self._fills and not (reads and reads[0].place < self._fills[0].place):
            return self._fills.popleft()
        return reads.popleft() if reads else None

    def started(self, waiter: WaiterT) -> None:
        self.reading += waiter.read

    def ended(self, waiter: WaiterT) -> None:
        self.reading -= waiter.read

    def remove(self, waiter: WaiterT) -> None:
        (self._reads if waiter.read else self._fills).remove(waiter)

    def take(self, wanted: Callable[[WaiterT], bool]) -> list[WaiterT]:
        """Those of whom it is so, taken out."""
        taken = [waiter for waiter in self if wanted(waiter)]
        self._fills = deque(waiter for waiter in self._fills if not wanted(waiter))
        self._reads = deque(waiter for waiter in self._reads if not wanted(waiter))
        return taken

    def check_invariants(self) -> None:
        assert 0 <= self.reading <= self.most
        for queue in (self._fills, self._reads):
            places = [waiter.place for waiter in queue]
            assert places == sorted(places)
