"""The content of a large key of a `RowsNode`: row -> count, and what finds the rows of a range without looking at all.

Law: `orders[at]` has the distinct rows whose value at `at` is not NULL, by that value. Values of one column that are no
strings compare in Python as in MySQL (`sqltypes.implementations.comparison_key`). Rows of one value stand by their
hashes: very many may have it, and a row that goes must be found among them.

Invariants:
1. No count is below 1; `repeated` is how many rows there are beyond the distinct ones.
2. `orders[at]` is complete; while it is being made the changes since wait in `_making[at]`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from math import inf
from typing import Any

from sortedcontainers import SortedKeyList

from sqltypes.expression import Row

ORDER_BYTES = 110  # that a row takes in an order
AT_ONCE = 500  # rows that are put in their place in a step
MOST_WAITING = 10_000  # changes while an order is being made: then there will be none
COUNTED = 1000  # distinct rows whose counts are added up at once


class Bag(dict[Row, int]):
    """Rows and how often each is there."""

    __slots__ = ("_making", "orders", "repeated")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.orders: dict[int, SortedKeyList] = {}
        self.repeated = 0
        self._making: dict[int, list[tuple[Row, bool]]] = {}
        self.add_all(rows)

    @classmethod
    def counted(cls, rows: dict[Row, int]) -> Bag:
        """Of these rows, each as often as it says."""
        bag = cls()
        bag.update(rows)
        bag.repeated = sum(rows.values()) - len(rows)
        return bag

    def add_all(self, rows: Iterable[Row]) -> None:
        """Requires: nothing is in order yet."""
        get = self.get
        for row in rows:
            count = get(row, 0)
            self[row] = count + 1
            if count:
                self.repeated += 1

    def add(self, row: Row) -> int:
        """How many bytes it takes in orders."""
        count = self.get(row, 0)
        self[row] = count + 1
        if count:
            self.repeated += 1
            return 0
        return self._note(row, come=True) if self.orders or self._making else 0

    def take(self, row: Row) -> int:
        """How many bytes it took in orders. Raises KeyError where it is not there."""
        count = self[row]
        if count > 1:
            self[row] = count - 1
            self.repeated -= 1
            return 0
        del self[row]
        return self._note(row, come=False) if self.orders or self._making else 0

    def _note(self, row: Row, *, come: bool) -> int:
        size = 0
        for at, order in self.orders.items():
            if row[at] is not None:
                order.add(row) if come else order.remove(row)
                size += ORDER_BYTES
        for waiting in self._making.values():
            waiting.append((row, come))
        return size

    def copy(self) -> Bag:
        """One without orders, which would be a long step. They can be made again."""
        other = Bag()
        other.update(self)
        other.repeated = self.repeated
        return other

    @property
    def total(self) -> int:
        """How many rows there are."""
        return len(self) + self.repeated

    @property
    def order_size(self) -> int:
        """How many bytes its orders take."""
        return ORDER_BYTES * sum(map(len, self.orders.values()))

    def all(self) -> list[Row]:
        """Every row, as often as it is there."""
        return self._each(self) if self.repeated else list(self)

    def _each(self, rows: Iterable[Row]) -> list[Row]:
        return [row for row in rows for _ in range(self[row])]

    def in_parts(self, most: int) -> Iterator[list[Row]]:
        """`all`, so many at a time, as they are at the first part: what comes and goes meanwhile changes nothing."""
        if not self.repeated:
            rows = list(self)
            yield from (rows[first : first + most] for first in range(0, len(rows), most))
            return
        part: list[Row] = []
        for row, count in zip(list(self), list(self.values()), strict=True):  # pairs take six times as long
            left = count
            while left:
                some = min(left, most - len(part))
                part += [row] * some
                left -= some
                if len(part) == most:
                    yield part
                    part = []
        if part:
            yield part

    # -- ranges --------------------------------------------------------------------------------------------------------

    def count(self, at: int, low: Any, high: Any) -> int:
        """How many rows `between` has; at most so many, where it has many and some are there several times. Requires:
        there is this order."""
        order = self.orders[at]
        first = 0 if low is None else order.bisect_key_left((low,))
        last = len(order) if high is None else order.bisect_key_right((high, inf))
        distinct = max(0, int(last - first))
        if not self.repeated:
            return distinct
        return distinct + self.repeated if distinct > COUNTED else sum(map(self.__getitem__, order.islice(first, last)))

    def between(self, at: int, low: Any, high: Any) -> list[Row]:
        """The rows whose value at `at` is at least `low` and at most `high`; None: any. Requires: there is this
        order."""
        least, most = None if low is None else (low,), None if high is None else (high, inf)
        rows = list(self.orders[at].irange_key(least, most))
        return self._each(rows) if self.repeated else rows

    def put_in_order_now(self, at: int) -> int:
        """Makes this order at once; how many bytes it takes."""
        if at in self.orders or at in self._making:
            return 0
        order = self.orders[at] = SortedKeyList((row for row in self if row[at] is not None), key=_by(at))
        return len(order) * ORDER_BYTES

    def put_in_order(self, at: int) -> Generator[None, None, int]:
        """Makes this order in steps, while changes may come; how many bytes it takes. 0: somebody else makes it, or too
        much has changed."""
        if at in self.orders or at in self._making:
            return 0
        waiting = self._making[at] = []
        try:
            rows, order = list(self), SortedKeyList(key=_by(at))
            for first in range(0, len(rows), AT_ONCE):
                order.update([row for row in rows[first : first + AT_ONCE] if row[at] is not None])
                yield
            while waiting:
                if len(waiting) > MOST_WAITING:
                    return 0
                some, waiting[:AT_ONCE] = waiting[:AT_ONCE], []
                for row, come in some:
                    if row[at] is not None:
                        order.add(row) if come else order.remove(row)
                if waiting:
                    yield
            self.orders[at] = order
            return len(order) * ORDER_BYTES
        finally:
            del self._making[at]

    def check_invariants(self) -> None:
        """Raises AssertionError. For tests."""
        assert all(count > 0 for count in self.values())
        assert self.repeated == sum(self.values()) - len(self)
        for at, order in self.orders.items():
            assert list(order) == sorted(order, key=_by(at))
            assert set(order) == {row for row in self if row[at] is not None} and len(set(order)) == len(order)


def _by(at: int) -> Callable[[Row], tuple[Any, int]]:
    return lambda row: (row[at], hash(row))
