"""Rows by key: filter and projection of one base table.

Law: content(key) = bag of narrow(row) for every row of the table that passes the filter and has the key. A change
moves at most one row out of one bag and one row into another, so it is a removal and an addition.

Rows are packed (`dataflow/held/packed.py`): as objects they take three times the memory, and to unpack one takes no
longer than to look at it. Packed rows are equal only where a client sees no difference: 0.0 and -0.0 are two.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import repeat
from operator import ne
from typing import Any

from dataflow.entries import ENTRY_BYTES, Entries, Entry, touch, touch_all
from dataflow.held.arrangement import LinearArrangement, Locate, Memory
from dataflow.held.bag import Bag
from dataflow.held.hits import NONE_HELD, WHOLE, Beside, Edit, Hits, kept
from dataflow.held.packed import Packed, Packing
from planner.tree.plan import RowsArrangement
from sqltypes.expression import Key, Row

LARGE = 48  # rows from which a bag is a `Bag`: removal from a list is linear
FEW_COLUMNS = 5
NO_ROWS = b""
LIST_BYTES, PLACE_BYTES = 88, 8  # a list of two, and each further place


class RowsNode(LinearArrangement):
    """Content: `NO_ROWS`, a packed row, a list of two and more, or for large bags of distinguishable rows a `Bag`."""

    def __init__(
        self,
        plan: RowsArrangement,
        number: int,
        memory: Memory,
        locate: Locate,
        narrow: Callable[[Row], Row],
        exact: bool,
        weigh: Callable[[Row], int],
        packing: Packing,
    ) -> None:
        super().__init__(plan, number, memory, locate)
        self._narrow = narrow
        self._exact = exact  # equal narrow rows are indistinguishable (not so with floats: 0.0 and -0.0)
        if exact:
            self.effort = 1 + len(plan.columns) // FEW_COLUMNS
        self._weigh = weigh  # bytes that a narrow row occupies in a `Bag`
        self._pack, self._unpack = packing.pack, packing.unpack
        self._length, self._frame = packing.length, packing.frame  # of a packed row: bytes, both together

    def change(
        self, entries: Entries, before: Row | None, after: Row | None, old: Entry | None, new: Entry | None
    ) -> None:
        if old is not None and old is new and before is not None and after is not None:
            gone, come = self._narrow(before), self._narrow(after)
            if gone != come or not (self._exact or self._pack(gone) == self._pack(come)):
                self._put(entries, old, gone, come)  # else the columns that changed are not among those held
            return
        if old is not None and before is not None:
            self._put(entries, old, self._narrow(before), None)
        if new is not None and after is not None:
            self._put(entries, new, None, self._narrow(after))

    def change_all(self, hits: Hits, beside: Beside | None = None) -> None:
        """As for each of them, but the usual case, few rows of a key, in one loop."""
        if not self._exact or hits.mixed is not None:
            super().change_all(hits, beside)
            return
        gone, come, held = self._narrowed(hits.before), self._narrowed(hits.after), hits.old or hits.new or []
        if hits.old is hits.new:
            differ = list(map(ne, gone, come))
            if not all(differ):  # the columns that changed are not among those held
                gone, come, held = kept(gone, differ), kept(come, differ), kept(held, differ)
        made, entries = (beside.made, NONE_HELD) if beside is not None else (None, self.entries)
        edit, more, nothing = self._edit, 0, repeat(None)
        try:
            for before, after, entry in zip(gone or nothing, come or nothing, held):  # noqa: B905 - two may be endless
                content = entry.content
                if content is None or content.__class__ is Bag or (made is not None and entry in made):
                    if (target := self._target(entry, beside)) is not None:
                        self._put(entries, target, before, after)
                elif (found := edit(content, before, after)) is None:
                    self._fail_target(entry, beside, "removed_row_not_held")
                elif made is not None:
                    made[entry] = found
                else:
                    place, item, by = found
                    if place is WHOLE:
                        entry.content = item
                    else:
                        content[place] = item
                    if by:
                        entry.size += by
                        more += by
        finally:  # what a fault leaves is counted
            self.memory.used += more
        if beside is None:
            touch_all(held)

    def _narrowed(self, rows: list[Row] | None) -> list[Row]:
        return list(map(self._narrow, rows or ()))

    def _edit(self, content: Any, gone: Row | None, come: Row | None) -> Edit | None:
        """What takes one row out of a content that is no `Bag`, and puts one into it; a row that stays under its key
        keeps its place. None: the row that goes is not there."""
        pack, length = self._pack, self._length
        if gone is None:
            assert come is not None, "there is a row"
            now = pack(come)
            by = length(now) + self._frame
            if content.__class__ is list:
                if len(content) < LARGE or not self._exact:
                    return slice(len(content), None), (now,), by + PLACE_BYTES
                bag = Bag(map(self._unpack, (*content, now)))
                return WHOLE, bag, self._bytes_of(bag) - self._bytes_of(content)
            return (WHOLE, now, by) if content == NO_ROWS else (WHOLE, [content, now], by + LIST_BYTES)
        was = pack(gone)
        if content.__class__ is list:
            try:
                at = content.index(was)
            except ValueError:
                return None
            if come is not None:
                now = pack(come)
                return at, now, length(now) - length(was)
            by = -length(was) - self._frame
            if len(content) == 2:
                return WHOLE, content[1 - at], by - LIST_BYTES
            return slice(at, at + 1), (), by - PLACE_BYTES
        if content != was:
            return None
        if come is None:
            return WHOLE, NO_ROWS, -length(was) - self._frame
        now = pack(come)
        return WHOLE, now, length(now) - length(was)

    def _put(self, entries: Entries, entry: Entry, gone: Row | None, come: Row | None) -> None:
        """Takes one row out of an entry, and puts one into it."""
        content = entry.content
        if content.__class__ is Bag:
            by = 0
            try:
                if gone is not None:
                    by -= self._weigh(gone) + content.take(gone)
            except (ValueError, KeyError):
                self.fail(entries, entry, "removed_row_not_held")
                return
            if come is not None:
                by += self._weigh(come) + content.add(come)
        else:
            found = self._edit(content, gone, come)
            if found is None:
                self.fail(entries, entry, "removed_row_not_held")
                return
            place, item, by = found
            if place is WHOLE:
                entry.content = item
            else:
                content[place] = item
        if by:
            self._resize(entries, entry, by)
        touch(entry)

    def load(self, key: Key, rows: list[Row]) -> Entry:
        if len(rows) == 1:
            packed = self._pack(rows[0])
            return self.new_entry(key, packed, self._length(packed) + self._frame)
        content = Bag(rows) if len(rows) > LARGE and self._exact else list(map(self._pack, rows)) or NO_ROWS
        return self.new_entry(key, content, self._bytes_of(content))

    def saved(self, entry: Entry) -> Any:
        content = entry.content
        if content.__class__ is Bag:
            return dict(content), entry.size - content.order_size
        return content, entry.size

    def restored(self, key: Key, saved: Any) -> Entry:
        content, size = saved
        return Entry(self, key, Bag.counted(content) if content.__class__ is dict else content, size)

    def load_in_parts(self, key: Key, rows: list[Row], most: int) -> Generator[None, None, Entry]:
        if len(rows) <= LARGE:
            return self.load(key, rows)
        counts, packed = Bag(), list[Packed]()
        size = 0 if self._exact else self._bytes_of([])
        for first in range(0, len(rows), most):
            some = rows[first : first + most]
            if self._exact:
                counts.add_all(some)
                size += sum(map(self._weigh, some))
            else:
                packed += map(self._pack, some)
                size += sum(map(self._length, packed[first:])) + (self._frame + PLACE_BYTES) * len(some)
            yield
        return self.new_entry(key, counts if self._exact else packed, size)

    def _bytes_of(self, content: Any) -> int:
        """Bytes of the content, orders not included."""
        if content.__class__ is Bag:
            return sum(map(self._weigh, content.all()))
        if content.__class__ is list:
            each = PLACE_BYTES + self._frame
            return LIST_BYTES - 2 * PLACE_BYTES + each * len(content) + sum(map(self._length, content))
        return self._length(content) + self._frame if content != NO_ROWS else 0

    def rows_in_parts(self, content: Any, most: int) -> Iterator[Iterable[Row]]:
        if content.__class__ is Bag:
            yield from content.in_parts(most)
        elif content.__class__ is list:
            for first in range(0, len(content), most):
                yield list(map(self._unpack, content[first : first + most]))
        else:
            yield self.rows(content)

    def spared(self, content: Any) -> int:
        return content.order_size if content.__class__ is Bag else 0

    def copied(self, content: Any) -> Any:
        return content.copy() if content.__class__ is Bag else content

    def rows(self, content: Any) -> Sequence[Row]:
        if content.__class__ is Bag:
            return content.all()
        if content.__class__ is list:
            return list(map(self._unpack, content))
        return (self._unpack(content),) if content != NO_ROWS else ()

    def check_invariants(self) -> None:
        super().check_invariants()
        for key, entry in (*self.entries.items(), *self.ahead.items()):
            content = entry.content
            size = ENTRY_BYTES + self.spared(content) + self._bytes_of(content)
            assert entry.size == size, f"{key!r} takes {size} bytes, and {entry.size} are counted"
            if content.__class__ is Bag:
                content.check_invariants()
            else:
                assert content.__class__ is not list or len(content) > 1, f"{key!r} has a list of one row"
                packed = content if content.__class__ is list else [content]
                assert content == NO_ROWS or all(self._pack(self._unpack(one)) == one for one in packed)
