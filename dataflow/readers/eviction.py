"""What goes when memory is short: SIEVE over the readers' keys.

SIEVE (Zhang et al., NSDI 2024): keys stand in order of insertion; a hit only sets a mark. A hand moves from the oldest
to the newest, clears marks, and evicts the first key that it finds without one. The keys of a scan are never marked:
they leave again, and those in use stay, which plain recency does not give. A hit costs one attribute.

Readers' keys go first; an arrangement's entry goes when no reader's key needs it any more (`entries.release`).

The queue is in segments, so that what is evicted or dropped is taken out of it a little at a time.

Invariants:
1. Every held key of every reader is in the queue once. Dead ones may be there too, until the hand has passed their
   segment, or `prune` has.
2. `_places` is how many places all segments have.
"""

from __future__ import annotations

from collections.abc import Iterator

from dataflow.entries import WATCHED, Held, HeldFor, Reader, relink
from dataflow.held.arrangement import Memory
from dataflow.losses import MEMORY, emptied
from dataflow.readers.derivation import Params, TooLong
from dataflow.readers.reader import ReaderNode
from sqltypes.expression import Key

AT_ONCE = 16  # of what was let go, that are taken apart before it is looked whether that is enough
SEGMENT = 1024  # places of a segment
# What a step may cost in all, in units of a key that is passed over: a key that goes takes some microseconds.
GOING, WHOLE_SEGMENT = 20, 200
FEW_KEYS = 50_000  # of a reader: to list them all is less work than to go through the queue


class Sieve:
    """The queue and its hand."""

    def __init__(self, memory: Memory, segment: int = SEGMENT) -> None:
        self.memory = memory
        self.evicted = 0
        self.spared = 0  # keys that the hand has passed over since the last one that went
        self._size = segment
        self._segments: list[list[Held | None]] = [[]]  # the oldest first; the last one grows
        self._places = 0
        self._segment = self._at = 0  # the hand
        self._pruned: int | None = None  # the segment that `prune` has come to
        self._walks = 0  # who goes through the queue: meanwhile no segment joins another

    def add(self, held: Held) -> None:
        """A new key: the newest."""
        last = self._segments[-1]
        if len(last) >= self._size:
            last = []
            self._segments.append(last)
        last.append(held)
        self._places += 1

    def hold(self, reader: ReaderNode, key: Key, params: Params) -> Held | None:
        """The reader's key, linked to all that it is derived from; None if that is not all held, or the reader was
        closed while somebody read it in steps: what it took up then, nobody would let go. Where it takes long to tell
        (`ReaderNode.long`), the key is linked to the first of it, or as it was, and stale."""
        if not reader.installed:
            return None
        long = False
        try:
            deps = reader.deps_of(key, params)
        except TooLong:
            long = True
            held = reader.entries.get(key)
            deps = held.deps if held is not None and held.deps else reader.root_of(params)
        if deps is None:
            return None
        held = reader.entries.get(key)
        if held is None:
            held = reader.entries[key] = Held(reader, key) if reader.key_is_value else HeldFor(reader, key, params)
            self.memory.used += held.size
            self.add(held)
        relink(held, deps)
        if long:
            reader.long.add(key)
        return held

    def keys_of(self, reader: ReaderNode) -> Iterator[list[Held]]:
        """All keys that the reader holds, the newest first, some at a time. Others may have their turn in between: each
        key that is held all the while comes once; one that goes or comes meanwhile may come, too."""
        entries = reader.entries
        if len(entries) <= FEW_KEYS:
            yield list(reversed(entries.values()))
            return
        self._walks += 1
        try:
            for segment in reversed(list(self._segments)):
                yield [
                    held
                    for held in reversed(segment)
                    if held is not None and held.reader is reader and entries.get(held.key) is held
                ]
        finally:
            self._walks -= 1

    @property
    def stuck(self) -> bool:
        """Whether the hand has passed over all keys twice, and found none that may go."""
        return self.spared > 2 * self._places

    def evict_to(self, target: int, most: int | None = None) -> int:
        """Evicts until `memory.used` is at most `target` bytes. Returns how many keys went. Watched keys stay.

        `most`: what it may cost (`GOING`), None: whatever it takes. Who goes on later sees by `stuck` whether it helps.
        """
        self.spared = 0
        return self.go_on(target, most)

    def go_on(self, target: int, most: int | None = None) -> int:
        """As `evict_to`, where that has not come to its end."""
        with emptied(self.memory, MEMORY):
            return self._evict(target, most)

    def _evict(self, target: int, most: int | None) -> int:
        memory, remains = self.memory, self.memory.remains
        left = most if most is not None else 1 << 62
        evicted = 0
        readers: set[Reader] = set()
        while memory.used > target and left > 0:
            if remains:  # also of a key that has just gone
                remains.take_apart(AT_ONCE)
                left -= GOING * AT_ONCE
                continue
            if not self._places or self.stuck:
                break
            segment = self._segments[self._segment]
            if self._at >= len(segment):
                self._leave()
                left -= WHOLE_SEGMENT
                continue
            held = segment[self._at]
            if held is not None and held.alive and (held.visited or held.marks & WATCHED):
                held.visited = False
                self.spared += 1
                left -= 1
            else:
                segment[self._at] = None
                left -= 1
                if held is not None and held.alive:
                    self.spared = 0
                    left -= GOING
                    held.reader.drop(held)
                    readers.add(held.reader)
                    evicted += 1
            self._at += 1
        for reader in readers:
            reader.tidy()
        self.evicted += evicted
        return evicted

    def _leave(self) -> None:
        """The hand goes on to the next segment, behind the last one to the first. What is left of this one joins the
        one before, if there is room."""
        at, last = self._segment, len(self._segments) - 1
        segment = self._segments[at]
        self._keep_living(segment)
        joins = 0 < at < last and not self._walks and len(self._segments[at - 1]) + len(segment) <= self._size
        if at < last and (joins or not segment):
            self._segments[at - 1] += segment  # of the first one nothing is left
            del self._segments[at]
            if self._pruned is not None and self._pruned > at:
                self._pruned -= 1
        else:
            self._segment = at + 1 if at < last else 0
        self._at = 0

    def _keep_living(self, segment: list[Held | None]) -> None:
        """Takes the empty places and the dead keys out of a segment."""
        before = len(segment)
        segment[:] = [held for held in segment if held is not None and held.alive]
        self._places -= before - len(segment)

    def prune_soon(self) -> None:
        """Many keys were dropped otherwise than by the hand: `prune` is to be called until nothing is left to do."""
        self._pruned = 0
        self.memory.remains.more()

    def prune(self, most: int) -> bool:
        """Takes the dead keys out of some segments, of so many places in all. Whether there is more to do."""
        while self._pruned is not None and most > 0:
            segment = self._segments[self._pruned]
            most -= max(1, len(segment))
            if self._pruned == self._segment:  # the hand stays before the same key
                self._at = sum(1 for held in segment[: self._at] if held is not None and held.alive)
            self._keep_living(segment)
            self._pruned = self._pruned + 1 if self._pruned + 1 < len(self._segments) else None
        return self._pruned is not None

    def __len__(self) -> int:
        return sum(1 for segment in self._segments for held in segment if held is not None and held.alive)

    def check_invariants(self) -> None:
        assert self._places == sum(map(len, self._segments))
        assert self._segment < len(self._segments) and self._at <= len(self._segments[self._segment])
