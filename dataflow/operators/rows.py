"""Rows by key: filter and projection of one base table.

Law: content(key) = bag of narrow(row) for every row of the table that passes the filter and has the key. A change
moves at most one row out of one bag and one row into another, so it is a removal and an addition.

Rows are packed (`dataflow/held/packed.py`): as objects they take three times the memory, and to unpack one takes no
longer than to look at it. Packed rows are equal only where a client sees no difference: 0.0 and -0.0 are two.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from operator import ne
from typing import Any

from dataflow.entries import ENTRY_BYTES, Entries, Entry, touch, touch_all
from dataflow.held.arrangement import LinearArrangement, Locate, Memory
from dataflow.held.bag import Bag
from dataflow.held.hits import NONE_HELD, WHOLE, Beside, Hits, kept
from dataflow.held.packed import Packed, Packing
from planner.tree.plan import RowsArrangement
from sqltypes.expression import Key, Row

LARGE = 48  # rows from which a bag is a `Bag`: removal from a list is linear
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
        self._weigh = weigh  # bytes that a narrow row occupies in a `Bag`
        self._pack, self._unpack, self._packed_bytes = packing.pack, packing.unpack, packing.size

    def change(
        self, entries: Entries, before: Row | None, after: Row | None, old: Entry | None, new: Entry | None
    ) -> None:
        if old is not None and old is new and before is not None and after is not None:
            gone, come = self._narrow(before), self._narrow(after)
            if self._exact and gone == come:
                return  # the columns that changed are not among those held
            if old.content.__class__ is not Bag:
                self._exchange(entries, old, self._pack(gone), self._pack(come))
            else:
                self._replace(entries, old, gone, come)
            return
        if old is not None and before is not None:
            self._remove(entries, old, self._narrow(before))
        if new is not None and after is not None:
            self._add(entries, new, self._narrow(after))

    def change_all(self, hits: Hits, beside: Beside | None = None) -> None:
        """As for each of them, but the usual case, few rows of a key, without a call for each."""
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
        size, memory = self._packed_bytes, self.memory
        packed = map(self._pack, gone), map(self._pack, come)
        for before, after, was, now, entry in zip(gone, come, *packed, held, strict=True):
            content = entry.content
            if content is None or content.__class__ is Bag or (made is not None and entry in made):
                if (target := self._target(entry, beside)) is not None:
                    self._replace(NONE_HELD if beside is not None else self.entries, target, before, after)
                continue
            place = WHOLE
            if content.__class__ is list and was in content:
                place = content.index(was)
            elif content != was:
                self._fail_target(entry, beside, "removed_row_not_held")
                continue
            by = size(now) - size(was)
            if made is not None:
                made[entry] = place, now, by
                continue
            if place is WHOLE:
                entry.content = now
            else:
                content[place] = now
            entry.size += by
            memory.used += by

    def _remove_all(self, rows: list[Row], held: list[Entry], beside: Beside | None) -> None:
        made = beside.made if beside is not None else None
        memory = self.memory
        for row, was, entry in zip(rows, map(self._pack, rows), held, strict=True):
            content = entry.content
            if content is None or content.__class__ is Bag or (made is not None and entry in made):
                if (target := self._target(entry, beside)) is not None:
                    self._remove(NONE_HELD if beside is not None else self.entries, target, row)
                continue
            by = -self._packed_bytes(was)
            place: Any = WHOLE
            item: Any = NO_ROWS
            if content.__class__ is list and was in content:
                at = content.index(was)
                if len(content) == 2:
                    item = content[1 - at]
                    by -= LIST_BYTES
                else:
                    place, item = slice(at, at + 1), ()
                    by -= PLACE_BYTES
            elif content != was:
                self._fail_target(entry, beside, "removed_row_not_held")
                continue
            if made is not None:
                made[entry] = place, item, by
                continue
            if place is WHOLE:
                entry.content = item
            else:
                content[place] = item
            entry.size += by
            memory.used += by

    def _add_all(self, rows: list[Row], held: list[Entry], beside: Beside | None) -> None:
        made = beside.made if beside is not None else None
        memory = self.memory
        for row, now, entry in zip(rows, map(self._pack, rows), held, strict=True):
            content = entry.content
            is_list = content.__class__ is list
            if (
                content is None or content.__class__ is Bag or (is_list and len(content) >= LARGE)
                or (made is not None and entry in made)
            ):  # fmt: skip
                if (target := self._target(entry, beside)) is not None:
                    self._add(NONE_HELD if beside is not None else self.entries, target, row)
                continue
            by = self._packed_bytes(now)
            place: Any = WHOLE
            item: Any = now
            if is_list:
                place, item = slice(len(content), None), (now,)
                by += PLACE_BYTES
            elif content != NO_ROWS:
                item = [content, now]
                by += LIST_BYTES
            if made is not None:
                made[entry] = place, item, by
                continue
            if place is WHOLE:
                entry.content = item
            else:
                content[place] = item
            entry.size += by
            memory.used += by

    def _replace(self, entries: Entries, entry: Entry, gone: Row, come: Row) -> None:
        """A row stays under its key."""
        if entry.content.__class__ is not Bag:
            self._exchange(entries, entry, self._pack(gone), self._pack(come))
            return
        self._remove(entries, entry, gone)
        if entry.content is not None:
            self._add(entries, entry, come)

    def _exchange(self, entries: Entries, entry: Entry, gone: Packed, come: Packed) -> None:
        """A row of few keeps its place."""
        if gone == come:
            return
        content = entry.content
        if content.__class__ is list and gone in content:
            content[content.index(gone)] = come
        elif content == gone:
            entry.content = come
        else:
            self.fail(entries, entry, "removed_row_not_held")
            return
        by = self._packed_bytes(come) - self._packed_bytes(gone)
        if by:
            self._resize(entries, entry, by)
        touch(entry)

    def _remove(self, entries: Entries, entry: Entry, row: Row) -> None:
        content = entry.content
        try:
            if content.__class__ is Bag:
                size = self._weigh(row) + content.take(row)
            else:
                packed = self._pack(row)
                size = self._packed_bytes(packed)
                if content.__class__ is list:
                    content.remove(packed)
                    if len(content) == 1:
                        (entry.content,) = content
                        size += LIST_BYTES
                    else:
                        size += PLACE_BYTES
                elif content == packed:
                    entry.content = NO_ROWS
                else:
                    raise ValueError
        except (ValueError, KeyError):
            self.fail(entries, entry, "removed_row_not_held")
            return
        self._resize(entries, entry, -size)
        touch(entry)

    def _add(self, entries: Entries, entry: Entry, row: Row) -> None:
        content = entry.content
        if content.__class__ is Bag:
            size = self._weigh(row) + content.add(row)
        else:
            packed = self._pack(row)
            size = self._packed_bytes(packed)
            if content.__class__ is list:
                content.append(packed)
                size += PLACE_BYTES
                if len(content) > LARGE and self._exact:
                    entry.content = Bag(map(self._unpack, content))
                    size = ENTRY_BYTES + self._bytes_of(entry.content) - entry.size
            elif content == NO_ROWS:
                entry.content = packed
            else:
                entry.content = [content, packed]
                size += LIST_BYTES
        self._resize(entries, entry, size)
        touch(entry)

    def load(self, key: Key, rows: list[Row]) -> Entry:
        if len(rows) == 1:
            packed = self._pack(rows[0])
            return self.new_entry(key, packed, self._packed_bytes(packed))
        content = Bag(rows) if len(rows) > LARGE and self._exact else list(map(self._pack, rows)) or NO_ROWS
        return self.new_entry(key, content, self._bytes_of(content))

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
                size += sum(map(self._packed_bytes, packed[first:])) + PLACE_BYTES * len(some)
            yield
        return self.new_entry(key, counts if self._exact else packed, size)

    def _bytes_of(self, content: Any) -> int:
        """Bytes of the content, orders not included."""
        if content.__class__ is Bag:
            return sum(map(self._weigh, content.all()))
        if content.__class__ is list:
            return LIST_BYTES + PLACE_BYTES * (len(content) - 2) + sum(map(self._packed_bytes, content))
        return self._packed_bytes(content) if content != NO_ROWS else 0

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
