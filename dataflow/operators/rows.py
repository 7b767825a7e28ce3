"""Rows by key: filter and projection of one base table.

Law: content(key) = bag of narrow(row) for every row of the table that passes the filter and has the key. A change
moves at most one row out of one bag and one row into another, so it is a removal and an addition.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from operator import ne
from typing import Any

from dataflow.entries import ENTRY_BYTES, Entries, Entry, touch, touch_all
from dataflow.held.arrangement import LinearArrangement, Locate, Memory
from dataflow.held.bag import Bag
from dataflow.held.hits import NONE_HELD, Beside, Hits, kept
from planner.tree.plan import RowsArrangement
from sqltypes.expression import Key, Row

LARGE = 48  # rows from which a bag is a `Bag`: removal from a list is linear


class RowsNode(LinearArrangement):
    """Content: a list of rows, or for large bags of distinguishable rows a `Bag`."""

    def __init__(
        self,
        plan: RowsArrangement,
        number: int,
        memory: Memory,
        locate: Locate,
        narrow: Callable[[Row], Row],
        exact: bool,
        weigh: Callable[[Row], int],
        growth: Callable[[Row, Row], int],
    ) -> None:
        super().__init__(plan, number, memory, locate)
        self._narrow = narrow
        self._exact = exact  # equal narrow rows are indistinguishable (not so with floats: 0.0 and -0.0)
        self._weigh = weigh  # bytes that a narrow row occupies
        self._growth = growth  # how many more the second of two does

    def change(
        self, entries: Entries, before: Row | None, after: Row | None, old: Entry | None, new: Entry | None
    ) -> None:
        if old is not None and old is new and before is not None and after is not None:
            gone, come = self._narrow(before), self._narrow(after)
            if not self._exact or old.content.__class__ is Bag:
                self._replace(entries, old, gone, come)
            elif gone != come:  # else the columns that changed are not among those held
                self._exchange(entries, old, gone, come)
            return
        if old is not None and before is not None:
            self._remove(entries, old, self._narrow(before))
        if new is not None and after is not None:
            self._add(entries, new, self._narrow(after))

    def change_all(self, hits: Hits, beside: Beside | None = None) -> None:
        """As for each of them, but the usual case, a list of rows, without a call for each."""
        if not self._exact or hits.mixed is not None:
            super().change_all(hits, beside)
            return
        gone, come = self._narrowed(hits.before), self._narrowed(hits.after)
        held = hits.old or hits.new or []
        if hits.old is hits.new:
            differ = list(map(ne, gone, come))
            if not all(differ):  # the columns that changed are not among those held
                gone, come, held = kept(gone, differ), kept(come, differ), kept(held, differ)
            self._exchange_all(gone, come, held, beside)
        elif hits.old is not None:
            self._remove_all(gone, held, beside)
        else:
            self._add_all(come, held, beside)
        if beside is None:
            touch_all(held)

    def _narrowed(self, rows: list[Row] | None) -> list[Row]:
        return list(map(self._narrow, rows or ()))

    def _exchange_all(self, gone: list[Row], come: list[Row], held: list[Entry], beside: Beside | None) -> None:
        made = beside.made if beside is not None else None
        growth, memory = self._growth, self.memory
        for before, after, entry in zip(gone, come, held, strict=True):
            content = entry.content
            if content.__class__ is not list or (made is not None and entry in made):
                if (target := self._target(entry, beside)) is not None:
                    self._replace(NONE_HELD if beside is not None else self.entries, target, before, after)
                continue
            try:
                place = content.index(before)
            except ValueError:
                self._fail_target(entry, beside, "removed_row_not_held")
                continue
            by = growth(before, after)
            if made is not None:
                made[entry] = place, after, by
            else:
                content[place] = after
                entry.size += by
                memory.used += by

    def _remove_all(self, rows: list[Row], held: list[Entry], beside: Beside | None) -> None:
        made = beside.made if beside is not None else None
        memory = self.memory
        for row, size, entry in zip(rows, map(self._weigh, rows), held, strict=True):
            content = entry.content
            if content.__class__ is not list or (made is not None and entry in made):
                if (target := self._target(entry, beside)) is not None:
                    self._remove(NONE_HELD if beside is not None else self.entries, target, row)
                continue
            try:
                place = content.index(row)
            except ValueError:
                self._fail_target(entry, beside, "removed_row_not_held")
                continue
            if made is not None:
                made[entry] = slice(place, place + 1), (), -size
            else:
                del content[place]
                entry.size -= size
                memory.used -= size

    def _add_all(self, rows: list[Row], held: list[Entry], beside: Beside | None) -> None:
        made = beside.made if beside is not None else None
        memory = self.memory
        for row, size, entry in zip(rows, map(self._weigh, rows), held, strict=True):
            content = entry.content
            if content.__class__ is not list or len(content) >= LARGE or (made is not None and entry in made):
                if (target := self._target(entry, beside)) is not None:
                    self._add(NONE_HELD if beside is not None else self.entries, target, row)
            elif made is not None:
                made[entry] = slice(len(content), None), (row,), size
            else:
                content.append(row)
                entry.size += size
                memory.used += size

    def _exchange(self, entries: Entries, entry: Entry, gone: Row, come: Row) -> None:
        """A row stays under its key, and keeps its place."""
        content = entry.content
        try:
            content[content.index(gone)] = come
        except ValueError:
            self.fail(entries, entry, "removed_row_not_held")
            return
        by = self._growth(gone, come)
        if by:
            self._resize(entries, entry, by)
        touch(entry)

    def _replace(self, entries: Entries, entry: Entry, gone: Row, come: Row) -> None:
        """A row stays under its key, of those that have no place."""
        if gone != come or not self._exact:
            self._remove(entries, entry, gone)
            if entry.content is not None:
                self._add(entries, entry, come)

    def _remove(self, entries: Entries, entry: Entry, row: Row) -> None:
        content = entry.content
        size = self._weigh(row)
        try:
            if content.__class__ is Bag:
                size += content.take(row)
            elif self._exact:
                content.remove(row)
            else:
                del content[_place(content, row)]
        except (ValueError, KeyError):
            self.fail(entries, entry, "removed_row_not_held")
            return
        self._resize(entries, entry, -size)
        touch(entry)

    def _add(self, entries: Entries, entry: Entry, row: Row) -> None:
        content = entry.content
        size = self._weigh(row)
        if content.__class__ is Bag:
            size += content.add(row)
        else:
            content.append(row)
            if len(content) > LARGE and self._exact:
                entry.content = Bag(content)
        self._resize(entries, entry, size)
        touch(entry)

    def load(self, key: Key, rows: list[Row]) -> Entry:
        size = sum(self._weigh(row) for row in rows)
        return self.new_entry(key, Bag(rows) if len(rows) > LARGE and self._exact else rows, size)

    def load_in_parts(self, key: Key, rows: list[Row], most: int) -> Generator[None, None, Entry]:
        counts = Bag()
        size = 0
        for first in range(0, len(rows), most):
            some = rows[first : first + most]
            size += sum(self._weigh(row) for row in some)
            if self._exact:
                counts.add_all(some)
            yield
        return self.new_entry(key, counts if len(rows) > LARGE and self._exact else rows, size)

    def rows_in_parts(self, content: Any, most: int) -> Iterator[Iterable[Row]]:
        if content.__class__ is not Bag:
            yield content
            return
        yield from content.in_parts(most)

    def spared(self, content: Any) -> int:
        return content.order_size if content.__class__ is Bag else 0

    def copied(self, content: Any) -> Any:
        return content.copy()

    def rows(self, content: Any) -> Iterable[Row]:
        if content.__class__ is Bag:
            return content.all()
        return content  # type: ignore[no-any-return]  # a list of rows

    def check_invariants(self) -> None:
        super().check_invariants()
        for key, entry in (*self.entries.items(), *self.ahead.items()):
            size = ENTRY_BYTES + self.spared(entry.content) + sum(map(self._weigh, self.rows(entry.content)))
            assert entry.size == size, f"{key!r} takes {size} bytes, and {entry.size} are counted"
            if entry.content.__class__ is Bag:
                entry.content.check_invariants()


def _place(rows: list[Row], row: Row) -> int:
    """Where the row is, 0.0 and -0.0 told apart. Raises ValueError."""
    shown = repr(row)
    for at, held in enumerate(rows):
        if held == row and repr(held) == shown:
            return at
    raise ValueError(shown)
