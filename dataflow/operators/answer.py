"""Answers of a query by its parameters: evict mode, which makes every deterministic SELECT safe to cache.

Law: content(key) = the rows that MySQL returned for the query with the key's parameters, and no change since concerns
them. A change is never applied. It makes holes of the keys that it may concern: those whose parts equal columns of the
changed row, and all keys where no column tells.

Invariants:
1. `_index[parts]` maps the comparison key of those key parts to exactly the held keys that have it, those ahead of the
   position included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from sys import getsizeof
from typing import Any

from dataflow.arrangement import Arrangement, Entries, Memory
from dataflow.entries import Entry, Held, row_bytes
from dataflow.messages import Pair
from planner.plan import AnswerArrangement
from sqltypes.expression import Key, Row, Value
from sqltypes.values import identical

Parts = tuple[int, ...]  # positions in the arrangement's key


@dataclass(frozen=True, slots=True)
class AnswerWatch:
    """One table that the query reads, compiled.

    `passes`: may the row concern any answer? `parts`: the key parts that the row tells, `part_key` their comparison
    key. `used`: all that the query reads of the row, comparable.
    """

    table: str
    passes: Callable[[Row], bool]
    parts: Parts
    part_key: Callable[[Row], Key]
    used: Callable[[Row], Any]


class AnswerNode(Arrangement):
    """Content: the list of the answer's rows."""

    def __init__(
        self,
        plan: AnswerArrangement,
        number: int,
        memory: Memory,
        watches: tuple[AnswerWatch, ...],
        part_keys: dict[Parts, Callable[[Row], Key]],
    ) -> None:
        super().__init__(plan, number, memory)
        self._watches: dict[str, list[AnswerWatch]] = {}
        for watch in watches:
            self._watches.setdefault(watch.table, []).append(watch)
        self._part_keys = part_keys  # of the key's own values, for each set of parts that a watch tells
        self._index: dict[Parts, dict[Key, set[Key]]] = {parts: {} for parts in part_keys}

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(self._watches)

    def apply(self, table: str, pairs: Sequence[Pair], entries: Entries) -> None:
        if not entries:
            return
        keys = list(self.touched(table, pairs, entries))
        if entries is self.entries and len(keys) == len(entries) > self.memory.remains.few and not self.ahead:
            self.memory.count("evicted_by_change", len(keys))
            self.let_go()
            return
        for key in keys:
            entry = entries.get(key)
            if entry is not None:
                self.fail(entries, entry, "evicted_by_change")

    def touched(self, table: str, pairs: Sequence[Pair], keys: Entries) -> Iterable[Key]:
        found: set[Key] = set()
        index = self._index if keys is self.entries or keys is self.ahead else self._index_of(keys)
        for watch in self._watches.get(table, ()):
            for before, after in pairs:
                for image in self._images(watch, before, after):
                    if not watch.parts:
                        return list(keys)
                    found.update(index[watch.parts].get(watch.part_key(image), ()))
        return [key for key in found if key in keys]

    @staticmethod
    def _images(watch: AnswerWatch, before: Row | None, after: Row | None) -> list[Row]:
        """The images of a change that may concern answers; none if both read the same to the query."""
        old = before if before is not None and watch.passes(before) else None
        new = after if after is not None and watch.passes(after) else None
        if old is not None and new is not None:
            same_key = not watch.parts or watch.part_key(old) == watch.part_key(new)
            if same_key and identical(watch.used(old), watch.used(new)):
                return []
            return [old, new]
        return [image for image in (old, new) if image is not None]

    def _index_of(self, keys: Iterable[Key]) -> dict[Parts, dict[Key, set[Key]]]:
        index: dict[Parts, dict[Key, set[Key]]] = {parts: {} for parts in self._part_keys}
        for key in keys:
            self._enter(index, key)
        return index

    def _enter(self, index: dict[Parts, dict[Key, set[Key]]], key: Key) -> None:
        for parts, part_key in self._part_keys.items():
            for values in spread(key):
                index[parts].setdefault(part_key(values), set()).add(key)

    def _place(self, entry: Entry, entries: Entries) -> None:
        super()._place(entry, entries)
        self._enter(self._index, entry.key)

    def let_go(self) -> None:
        super().let_go()
        self.memory.remains.add([], *self._index.values())
        self._index = {parts: {} for parts in self._part_keys}

    def discard(self, entry: Entry) -> list[Held]:
        if self.entries.get(entry.key) is not entry and self.ahead.get(entry.key) is not entry:
            return super().discard(entry)  # it was let go: the index is of those that came since
        for parts, part_key in self._part_keys.items():
            for values in spread(entry.key):
                part = part_key(values)
                keys = self._index[parts].get(part)
                if keys is not None:
                    keys.discard(entry.key)
                    if not keys:
                        del self._index[parts][part]
        return super().discard(entry)

    def load(self, key: Key, rows: list[Row]) -> Entry:
        return self.new_entry(key, rows, sum(row_bytes(row, getsizeof) for row in rows) + 120 * len(self._part_keys))

    def rows(self, content: Any) -> Iterable[Row]:
        return content  # type: ignore[no-any-return]  # a list of rows


def spread(key: Key) -> Iterable[tuple[Value, ...]]:
    """The values of a key's parts; each combination where a part is the whole list of an IN-list."""
    assert isinstance(key, tuple)
    if not any(isinstance(part, tuple) for part in key):
        return (key,)
    return product(*(part if isinstance(part, tuple) else (part,) for part in key))
