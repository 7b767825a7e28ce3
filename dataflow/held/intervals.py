"""Entries by intervals of values, and which of them have a given value.

An answer of `created_at >= ? AND created_at < ?` is concerned by rows within its ends. With a few such answers each can
be tried. With thousands the order helps: they lie in blocks, sorted by where they begin, and each block knows the
greatest end in it. A value is looked for in the blocks that begin before it and end behind it.

An end of None is open: everything below, or above. Ends belong to the interval; whoever asks tries what is found.

Invariants: 1. `_firsts[i]` is the first low end of block i, and no block is empty. 2. Blocks and what is in them are
sorted by low ends. 3. A block's `most` is not less than any high end in it; None: one is open.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any

from dataflow.entries import Entry

BLOCK = 512
SCANNED = 20  # intervals that are passed over are as much work as one that is found


class _Block:
    __slots__ = ("entries", "highs", "lows", "most")

    def __init__(self, lows: list[Any], highs: list[Any], entries: list[Entry]) -> None:
        self.lows = lows
        self.highs = highs  # None: open
        self.entries = entries
        self.most: Any = _greatest(highs)

    def split(self) -> _Block:
        """Leaves the first half here."""
        half = len(self.lows) // 2
        rest = _Block(self.lows[half:], self.highs[half:], self.entries[half:])
        del self.lows[half:], self.highs[half:], self.entries[half:]
        self.most = _greatest(self.highs)
        return rest


def _greatest(highs: list[Any]) -> Any:
    return None if None in highs else max(highs)


class Intervals:
    """The values of all ends are comparable with each other."""

    def __init__(self) -> None:
        self._firsts: list[Any] = []
        self._blocks: list[_Block] = []
        self._below: list[tuple[Any, int]] = []  # of those without a low end: (high end, id of the entry), sorted
        self._by_id: dict[int, Entry] = {}
        self._open: dict[Entry, None] = {}  # without ends
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Entry]:
        for block in self._blocks:
            yield from block.entries
        yield from self._by_id.values()
        yield from self._open

    def add(self, low: Any, high: Any, entry: Entry) -> None:
        """Requires: the entry is not in here."""
        self._size += 1
        if low is None and high is None:
            self._open[entry] = None
        elif low is None:
            insort(self._below, (high, id(entry)))
            self._by_id[id(entry)] = entry
        elif not self._blocks:
            self._firsts.append(low)
            self._blocks.append(_Block([low], [high], [entry]))
        else:
            self._add(low, high, entry)

    def _add(self, low: Any, high: Any, entry: Entry) -> None:
        at = max(bisect_right(self._firsts, low) - 1, 0)
        block = self._blocks[at]
        place = bisect_right(block.lows, low)
        block.lows.insert(place, low)
        block.highs.insert(place, high)
        block.entries.insert(place, entry)
        if high is None or (block.most is not None and block.most < high):
            block.most = high
        self._firsts[at] = block.lows[0]
        if len(block.lows) > BLOCK:
            rest = block.split()
            self._blocks.insert(at + 1, rest)
            self._firsts.insert(at + 1, rest.lows[0])

    def remove(self, low: Any, high: Any, entry: Entry) -> None:
        """Nothing where it is not in here. `low`, `high`: as it was added."""
        if low is None and high is None:
            self._size -= entry in self._open
            self._open.pop(entry, None)
        elif low is None:
            if self._by_id.pop(id(entry), None) is not None:
                self._size -= 1
                del self._below[bisect_left(self._below, (high, id(entry)))]
        else:
            self._remove(low, entry)

    def _remove(self, low: Any, entry: Entry) -> None:
        at = max(bisect_left(self._firsts, low) - 1, 0)
        while at < len(self._blocks) and not low < self._firsts[at]:
            block = self._blocks[at]
            first, last = bisect_left(block.lows, low), bisect_right(block.lows, low)
            for place in range(first, last):
                if block.entries[place] is entry:
                    self._take_out(at, place)
                    return
            at += 1

    def _take_out(self, at: int, place: int) -> None:
        self._size -= 1
        block = self._blocks[at]
        del block.lows[place], block.entries[place]
        high = block.highs.pop(place)
        if not block.lows:
            del self._blocks[at], self._firsts[at]
            return
        self._firsts[at] = block.lows[0]
        if high is None or high == block.most:
            block.most = _greatest(block.highs)

    def having(self, value: Any, most: int) -> list[Entry] | None:
        """Those whose interval has the value; None where it is more work to tell than to find so many."""
        found: list[Entry] = list(self._open) if self._open else []
        if self._below:
            places = self._below[bisect_left(self._below, (value, 0)) :]
            found += [self._by_id[place] for _, place in places]
        for block in self._blocks[: bisect_right(self._firsts, value)]:
            if block.most is not None and block.most < value:
                continue
            last = bisect_right(block.lows, value)
            pairs = zip(block.highs[:last], block.entries, strict=False)
            found += [entry for high, entry in pairs if high is None or not high < value]
            most -= last // SCANNED
            if len(found) > most:
                return None
        return found if len(found) <= most else None

    def take_apart(self) -> Iterator[None]:
        """Forgets all, a block or an entry at a time. Nothing is asked of it any more."""
        self._size = 0
        while self._blocks:
            self._blocks.pop()
            yield
        for several in (self._below, self._by_id, self._open):
            while several:
                several.pop() if isinstance(several, list) else several.popitem()
                yield

    def check_invariants(self) -> None:
        assert self._firsts == [block.lows[0] for block in self._blocks], "a block begins elsewhere"
        lows = [low for block in self._blocks for low in block.lows]
        assert lows == sorted(lows), "intervals are not in order"
        assert self._below == sorted(self._below) and len(self._below) == len(self._by_id)
        for block in self._blocks:
            assert len(block.lows) == len(block.highs) == len(block.entries) <= BLOCK
            assert block.most is None or all(high is not None and not block.most < high for high in block.highs)
        assert self._size == len(lows) + len(self._below) + len(self._open), "intervals are counted wrongly"
