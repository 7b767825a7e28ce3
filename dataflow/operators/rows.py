"""Rows by key: filter and projection of one base table.

Law: content(key) = bag of narrow(row) for every row of the table that passes the filter and has the key. A change
moves at most one row
out of one bag and one row into another, so it is a removal and an addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dataflow.arrangement import Entries, LinearArrangement, Locate, Memory
from dataflow.entries import Entry, touch
from dataflow.messages import Pair
from planner.plan import RowsArrangement
from sqltypes.expression import Key, Row

LARGE = 48  # rows from which a bag is a dict row -> count: removal from a list is linear


class RowsNode(LinearArrangement):
    """Content: a list of rows, or for large bags of distinguishable rows a dict row -> count."""

    def __init__(
        self,
        plan: RowsArrangement,
        number: int,
        memory: Memory,
        locate: Locate,
        narrow: Callable[[Row], Row],
        exact: bool,
        weigh: Callable[[Row], int],
    ) -> None:
        super().__init__(plan, number, memory, locate, plan.table.qualified)
        self._narrow = narrow
        self._exact = exact  # equal narrow rows are indistinguishable (not so with floats: 0.0 and -0.0)
        self._weigh = weigh  # bytes that a narrow row occupies

    def apply(self, table: str, pairs: Sequence[Pair], entries: Entries) -> None:
        locate = self._locate
        get = entries.get
        for before, after in pairs:
            old = get(locate(before)) if before is not None else None
            new = get(locate(after)) if after is not None else None
            if old is not None or new is not None:
                self._change(entries, before, after, old, new)

    def _change(
        self, entries: Entries, before: Row | None, after: Row | None, old: Entry | None, new: Entry | None
    ) -> None:
        gone = self._narrow(before) if old is not None and before is not None else None
        come = self._narrow(after) if new is not None and after is not None else None
        if old is new and gone == come and self._exact:
            return  # the columns that changed are not among those held
        if old is not None and gone is not None:
            self._remove(entries, old, gone)
            if old is new and old.content is None:
                return
        if new is not None and come is not None:
            self._add(entries, new, come)

    def _remove(self, entries: Entries, entry: Entry, row: Row) -> None:
        content = entry.content
        if content.__class__ is dict:
            count = content.get(row, 0)
            if count > 1:
                content[row] = count - 1
            elif count == 1:
                del content[row]
            else:
                self.fail(entries, entry, "removed_row_not_held")
                return
        else:
            try:
                if self._exact:
                    content.remove(row)
                else:
                    del content[_place(content, row)]
            except ValueError:
                self.fail(entries, entry, "removed_row_not_held")
                return
        self._resize(entries, entry, -self._weigh(row))
        touch(entry)

    def _add(self, entries: Entries, entry: Entry, row: Row) -> None:
        content = entry.content
        if content.__class__ is dict:
            content[row] = content.get(row, 0) + 1
        else:
            content.append(row)
            if len(content) > LARGE and self._exact:
                entry.content = _counted(content)
        self._resize(entries, entry, self._weigh(row))
        touch(entry)

    def load(self, key: Key, rows: list[Row]) -> Entry:
        size = sum(self._weigh(row) for row in rows)
        return self.new_entry(key, _counted(rows) if len(rows) > LARGE and self._exact else rows, size)

    def rows(self, content: Any) -> Iterable[Row]:
        if content.__class__ is dict:
            return [row for row, count in content.items() for _ in range(count)]
        return content  # type: ignore[no-any-return]  # a list of rows


def _place(rows: list[Row], row: Row) -> int:
    """Where the row is, 0.0 and -0.0 told apart. Raises ValueError."""
    shown = repr(row)
    for at, held in enumerate(rows):
        if held == row and repr(held) == shown:
            return at
    raise ValueError(shown)


def _counted(rows: Iterable[Row]) -> dict[Row, int]:
    counts: dict[Row, int] = {}
    for row in rows:
        counts[row] = counts.get(row, 0) + 1
    return counts
