"""The range of one column that a reader's filter leaves of the rows of its root.

    filter            ->  range_of  ->  Range(column, lows, highs)
    Range, parameters ->  some of a `Bag`'s rows, among which are all that pass the filter

The filter is still applied to each of them. So all that counts is that none is left out (`sqltypes/bounds.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from dataflow.entries import Entry
from dataflow.held.arrangement import Arrangement
from dataflow.held.bag import Bag
from sqltypes.bounds import LOWER, UPPER, bounds_of
from sqltypes.expression import Expr, Literal, ParamRef, Row

WORTH = 200  # distinct rows from which a range is looked up
SHORT = 4000  # distinct rows that are put in order in one step
MOST = 20_000  # rows that are listed in one step
Params = tuple[Any, ...]
Limit = Callable[[Params], Any]


@dataclass(frozen=True, slots=True)
class Range:
    """`column`: its position in the root's rows. `lows`, `highs`: it is at least, at most, each of these; NULL among
    them: no row passes."""

    column: int
    lows: tuple[Limit, ...]
    highs: tuple[Limit, ...]

    def _bounds(self, params: Params, upto: Params) -> tuple[Any, Any] | None:
        lows, highs = [low(params) for low in self.lows], [high(upto) for high in self.highs]
        if None in lows or None in highs:
            return None
        return max(lows, default=None), min(highs, default=None)

    def rows(self, content: Any, params: Params, upto: Params | None = None) -> Sequence[Row] | None:
        """The rows among which are those that pass the filter; None where all must be looked at. `upto`: those that
        pass it with any parameters between `params` and these, which are greater."""
        if not self._is_ready(content):
            return None
        bounds = self._bounds(params, upto or params)
        if bounds is None:
            return ()
        if content.count(self.column, *bounds) > MOST:
            return None
        found: Sequence[Row] = content.between(self.column, *bounds)
        return found

    def count(self, content: Any, params: Params) -> int | None:
        """How many `rows` has, or a few more (`Bag.count`)."""
        if not self._is_ready(content):
            return None
        bounds = self._bounds(params, params)
        return 0 if bounds is None else content.count(self.column, *bounds)

    def _is_ready(self, content: Any) -> bool:
        return content.__class__ is Bag and self.column in content.orders

    def put_in_order(self, root: Arrangement, entry: Entry) -> None:
        """Puts a held entry's rows in order, where that is worth it and short."""
        content = entry.content
        if self.is_worth(entry) and len(content) <= SHORT:
            root.note_size(entry, content.put_in_order_now(self.column))

    def is_worth(self, entry: Entry) -> bool:
        """Whether the entry's rows should be put in order."""
        content = entry.content
        return content.__class__ is Bag and len(content) >= WORTH and self.column not in content.orders


def range_of(filter_: Expr | None, alias: str, layout: Mapping[tuple[str, str], int]) -> Range | None:
    """The range that a filter leaves of the rows of `alias`, whose columns stand first in `layout`."""
    lows: dict[int, list[Limit]] = {}
    highs: dict[int, list[Limit]] = {}
    for column, op, to in bounds_of(filter_):
        if column.source == alias:
            at = layout[column.source, column.name.lower()]
            if op in LOWER:
                lows.setdefault(at, []).append(_limit(to))
            if op in UPPER:
                highs.setdefault(at, []).append(_limit(to))
    if not lows and not highs:
        return None
    best = min({*lows, *highs}, key=lambda at: ((at not in lows) + (at not in highs), at))  # one with both ends first
    return Range(best, tuple(lows.get(best, ())), tuple(highs.get(best, ())))


def _limit(to: Literal | ParamRef) -> Limit:
    if isinstance(to, ParamRef):
        return itemgetter(to.index)
    value = to.value
    return lambda params: value
