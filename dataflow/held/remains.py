"""What was let go as a whole, to be taken apart later, a little at a time.

A DDL statement, lost history or a dropped cache empties arrangements and readers of which each may hold a hundred
thousand keys. To take each key out by itself is a microsecond or two. So where there are many, the dictionaries are
emptied in one go, which is a hundred times quicker, and what was in them comes here. Nobody finds it any more; it only
takes memory until its turn comes.

Invariants:
1. What is here is in no dictionary of its owner, and its size is still part of `memory.used`. (What is left of the
   indexes, and places in them that are taken out in steps, is not.)
2. A `Held` that is taken apart here, or was by the hand of SIEVE before, is not alive afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from dataflow.entries import Entry, Held
from dataflow.held.intervals import Intervals

FEW = 64  # so many keys are taken out one by one, at once
FEW_DEPS = 500  # from so many entries a key that goes is taken at once
Item = Entry | Held


class Remains:
    """`freed` is told of each size that is no longer held; `on_more` that there is more to be taken apart."""

    def __init__(self, freed: Callable[[int], None]) -> None:
        self.few = FEW
        self.few_deps = FEW_DEPS
        self.on_more: Callable[[], None] | None = None
        self._freed = freed
        self._items: deque[list[Item]] = deque()
        self._indexes: list[dict[Any, Any]] = []
        self._steps: deque[Iterator[None]] = deque()

    def add(self, items: list[Item], *indexes: dict[Any, Any]) -> None:
        """`indexes`: what led to them, to be emptied like them."""
        self._items.append(items)
        self._indexes += indexes
        self.more()

    def add_steps(self, steps: Iterator[None]) -> None:
        """Something else to be taken apart, each step as quick as a key."""
        self._steps.append(steps)
        self.more()

    def more(self) -> None:
        if self.on_more is not None:
            self.on_more()

    def __bool__(self) -> bool:
        return bool(self._items or self._indexes or self._steps)

    def take_apart(self, most: int) -> None:
        """So many of them, or all."""
        while most > 0 and self._items:
            items = self._items[0]
            while most > 0 and items:
                most -= 1
                self._take(items.pop())
            if not items:
                self._items.popleft()
        while most > 0 and self._indexes:
            index = self._indexes[-1]
            while most > 0 and index:
                most -= 1
                _, there = index.popitem()
                if isinstance(there, Intervals):
                    self._steps.append(there.take_apart())
            if not index:
                self._indexes.pop()
        while most > 0 and self._steps:
            done = sum(1 for _ in islice(self._steps[0], most))
            if done < most:
                self._steps.popleft()
            most -= done

    def _take(self, item: Item) -> None:
        if isinstance(item, Held):
            if item.alive:
                item.reader.drop(item)
            return
        self._freed(item.size)
        item.content = item.dependents = None

    @property
    def size(self) -> int:
        """Bytes that they still take."""
        return sum(
            (item.size + item.body_size) * item.alive if isinstance(item, Held) else item.size
            for items in self._items
            for item in items
        )
