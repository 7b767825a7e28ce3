"""Rows by key: filter and projection of one base table.

Law: content(key) = bag of narrow(row) for every row of the table that passes the filter and has the key. A change
moves at most one row out of one bag and one row into another, so it is a removal and an addition.

Rows are packed (`dataflow/held/packed.py`): as objects they take three times the memory, and to unpack one takes no
longer than to look at it. Packed rows are equal only where a client sees no difference: 0.0 and -0.0 are two.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

from dataflow.entries import ENTRY_BYTES, Entries, Entry, touch
from dataflow.held.arrangement import LinearArrangement, Locate, Memory
from dataflow.held.bag import Bag
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
                return
            self._remove(entries, old, gone)
            if old.content is not None:
                self._add(entries, old, come)
            return
        if old is not None and before is not None:
            self._remove(entries, old, self._narrow(before))
        if new is not None and after is not None:
            self._add(entries, new, self._narrow(after))

    def _exchange(self, entries: Entries, entry: Entry, gone: Packed, come: Packed) -> None:
        """A row stays under its key, and keeps its place."""
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
