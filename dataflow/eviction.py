"""What goes when memory is short: SIEVE over the readers' keys.

SIEVE (Zhang et al., NSDI 2024): keys stand in order of insertion; a hit only sets a mark. A hand moves from the oldest
to the newest, clears marks, and evicts the first key that it finds without one. The keys of a scan are never marked:
they leave again, and those in use stay, which plain recency does not give. A hit costs one attribute.

Readers' keys go first; an arrangement's entry goes when no reader's key needs it any more (`entries.release`).

Invariants:
1. Every held key of every reader is in the queue once. Dead ones may be there too, until the hand meets them or the
   queue is compacted.
"""

from __future__ import annotations

from dataflow.arrangement import Memory
from dataflow.entries import Held, relink
from dataflow.reader import Params, ReaderNode
from sqltypes.expression import Key

AT_ONCE = 16  # of what was let go, that are taken apart before it is looked whether that is enough


class Sieve:
    """The queue and its hand."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._queue: list[Held | None] = []
        self._hand = 0
        self._pruned: int | None = None  # how far `prune` has come
        self._empty = 0  # places of the queue that the hand has emptied
        self.evicted = 0

    def add(self, held: Held) -> None:
        """A new key: the newest."""
        self._queue.append(held)

    def hold(self, reader: ReaderNode, key: Key, params: Params) -> Held | None:
        """The reader's key, linked to all that it is derived from; None if that is not all held."""
        deps = reader.deps_of(params)
        if deps is None:
            return None
        held = reader.entries.get(key)
        if held is None:
            held = reader.entries[key] = Held(reader, key)
            self.memory.used += held.size
            self.add(held)
        relink(held, deps)
        return held

    def evict_to(self, target: int) -> int:
        """Evicts until `memory.used` is at most `target` bytes. Returns how many keys went. Watched keys stay."""
        remains = self.memory.remains
        while self.memory.used > target and remains:
            remains.take_apart(AT_ONCE)
        evicted = 0
        spared = 0
        while self.memory.used > target and spared <= 2 * len(self._queue):
            held = self._next()
            if held is None:
                break
            if held.visited or held.watch is not None:
                held.visited = False
                self._hand += 1
                spared += 1
                continue
            self._queue[self._hand] = None
            self._hand += 1
            self._empty += 1
            spared = 0
            held.reader.drop(held)
            evicted += 1
        self.evicted += evicted
        return evicted

    def _next(self) -> Held | None:
        """The living key at the hand, from the oldest on again when the hand has passed the newest; None if there is
        none."""
        if self._empty * 2 > len(self._queue):
            self._compact()
        for _ in range(2):
            while self._hand < len(self._queue):
                held = self._queue[self._hand]
                if held is not None and held.alive:
                    return held
                if held is not None:
                    self._queue[self._hand] = None
                    self._empty += 1
                self._hand += 1
            self._compact()
            self._hand = 0
        return None

    def _compact(self) -> None:
        """Takes the empty places out; the hand stays before the same key."""
        before = sum(1 for held in self._queue[: self._hand] if held is not None)
        self._queue = [held for held in self._queue if held is not None]
        self._hand = before
        self._empty = 0

    def prune_soon(self) -> None:
        """Many keys were dropped otherwise than by the hand: `prune` is to be called until nothing is left to do."""
        self._pruned = 0
        self.memory.remains.more()

    def prune(self, most: int) -> bool:
        """Looks at so many places of the queue for dead keys, and takes them out. Whether there is more to do."""
        if self._pruned is None:
            return False
        start, end = self._pruned, min(self._pruned + most, len(self._queue))
        for at in range(start, end):
            held = self._queue[at]
            if held is not None and not held.alive:
                self._queue[at] = None
                self._empty += 1
        self._pruned = end if end < len(self._queue) else None
        if self._empty * 2 > len(self._queue):
            self._compact()  # places have moved: the hand finds what is passed over
        return self._pruned is not None

    def __len__(self) -> int:
        return sum(1 for held in self._queue if held is not None and held.alive)
