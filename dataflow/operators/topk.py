"""The first rows of each key in a total order, with some more held for deletions.

Law: content(key) = the first n rows of the key's bag in the order, n at least the limit. `complete` says whether that
is the whole bag. The order is total (its last term is the primary key), so that "the first rows" is one set.

Nothing is guessed beyond the held tail. A row that sorts behind it is dropped where the content is not complete. When
fewer rows than the limit are left, the key becomes a hole, and MySQL's index answers.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dataflow.entries import Entries, Entry, row_bytes, touch
from dataflow.held.arrangement import LinearArrangement, Locate, Memory
from planner.tree.plan import TopKArrangement
from sqltypes.expression import Key, Row
from sqltypes.values import identical

# Times the limit that may be held before the tail is cut. An upquery fetches the slack of `planner.fill.upquery_sql`.
SLACK = 3


@dataclass(slots=True)
class Top:
    """Rows in order with their sort keys beside them."""

    keys: list[Any]
    rows: list[Row]
    complete: bool


class TopKNode(LinearArrangement):
    """Content: a `Top`."""

    def __init__(
        self,
        plan: TopKArrangement,
        number: int,
        memory: Memory,
        locate: Locate,
        narrow: Callable[[Row], Row],
        sort_key: Callable[[Row], Any],
        answer_sort_key: Callable[[Row], Any],
        fetched: int,
        width: int,
    ) -> None:
        super().__init__(plan, number, memory, locate)
        self._narrow = narrow
        self._sort_key = sort_key  # of the table's rows
        self._answer_sort_key = answer_sort_key  # of an upquery's rows
        self._fetched = fetched  # rows that an upquery asks for: fewer returned means complete
        self._width = width  # columns of an upquery's row that are kept
        self._limit = plan.limit

    def change(
        self, entries: Entries, before: Row | None, after: Row | None, old: Entry | None, new: Entry | None
    ) -> None:
        if old is not None and old is new and before is not None and after is not None:
            self._replace(entries, old, before, after)
            return
        if old is not None and before is not None:
            self._remove(entries, old, before)
        if new is not None and after is not None and new.content is not None:
            self._add(entries, new, after)

    def _replace(self, entries: Entries, entry: Entry, before: Row, after: Row) -> None:
        """A row stays under its key. It is added before it is removed: the other way round would underflow for
        nothing."""
        if self._sort_key(before) != self._sort_key(after):
            self._add(entries, entry, after)
            self._remove(entries, entry, before)
            return
        if identical(self._narrow(before), self._narrow(after)):
            return
        top: Top = entry.content
        sort_key = self._sort_key(after)
        at = bisect_left(top.keys, sort_key)
        if at < len(top.keys) and top.keys[at] == sort_key:
            top.rows[at] = self._narrow(after)
            touch(entry)

    def _remove(self, entries: Entries, entry: Entry, row: Row) -> None:
        top: Top = entry.content
        sort_key = self._sort_key(row)
        at = bisect_left(top.keys, sort_key)
        if at == len(top.keys) or top.keys[at] != sort_key:
            if top.complete:
                self.fail(entries, entry, "removed_row_not_held")
            return  # it sorts behind the held tail
        del top.keys[at]
        gone = top.rows.pop(at)
        self._resize(entries, entry, -row_bytes(gone))
        touch(entry)
        if not top.complete and len(top.rows) < self._limit:
            self.fail(entries, entry, "top_k_underflow")

    def _add(self, entries: Entries, entry: Entry, row: Row) -> None:
        top: Top = entry.content
        sort_key = self._sort_key(row)
        if not top.complete and (not top.keys or sort_key > top.keys[-1]):
            return  # behind the held tail: rows that are not held may sort before it
        narrow = self._narrow(row)
        at = bisect_left(top.keys, sort_key)
        insort(top.keys, sort_key)
        top.rows.insert(at, narrow)
        self._resize(entries, entry, row_bytes(narrow))
        if len(top.rows) > SLACK * self._limit + 16:
            top.keys.pop()
            self._resize(entries, entry, -row_bytes(top.rows.pop()))
            top.complete = False
        touch(entry)

    def load(self, key: Key, rows: list[Row]) -> Entry:
        paired = sorted(((self._answer_sort_key(row), row[: self._width]) for row in rows), key=lambda pair: pair[0])
        top = Top([pair[0] for pair in paired], [pair[1] for pair in paired], complete=len(rows) < self._fetched)
        size = sum(row_bytes(row) for row in top.rows) * 2
        return self.new_entry(key, top, size)

    def copied(self, content: Any) -> Any:
        top: Top = content
        return Top(top.keys.copy(), top.rows.copy(), top.complete)

    def rows(self, content: Any) -> Iterable[Row]:
        return content.rows  # type: ignore[no-any-return]  # a Top
