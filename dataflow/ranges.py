"""The range of one column that a reader's filter leaves of the rows of its root.

    filter            ->  range_of  ->  Range(column, lows, highs)
    Range, parameters ->  some of a `Bag`'s rows, among which are all that pass the filter

The filter is still applied to each of them. So all that counts is that none is left out: the column and what it is
compared with compare in Python as the filter compares them, and no row that is left out could raise an error that MySQL
may raise, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from dataflow.arrangement import Arrangement
from dataflow.entries import Entry
from dataflow.operators.bag import Bag
from sqltypes.expression import Call, ColumnRef, Expr, Literal, ParamRef, Row
from sqltypes.functions import COMPARISONS
from sqltypes.implementations import comparison_key
from sqltypes.schema import INTEGER_TYPES, SqlType

WORTH = 200  # distinct rows from which a range is looked up
SHORT = 4000  # rows that are put in order in one step
MOST = 20_000  # rows that are listed in one step
_EXACT = INTEGER_TYPES | {"decimal"}
_LOWER, _UPPER = frozenset({">", ">=", "="}), frozenset({"<", "<=", "="})
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_PLAIN = COMPARISONS | {"and", "or", "not", "in", "is_null", "is_true", "is_false", "between"}
Params = tuple[Any, ...]
Bound = Callable[[Params], Any]


@dataclass(frozen=True, slots=True)
class Range:
    """`column`: its position in the root's rows. `lows`, `highs`: it is at least, at most, each of these; NULL among
    them: no row passes."""

    column: int
    lows: tuple[Bound, ...]
    highs: tuple[Bound, ...]

    def _bounds(self, params: Params) -> tuple[Any, Any] | None:
        lows, highs = [low(params) for low in self.lows], [high(params) for high in self.highs]
        if None in lows or None in highs:
            return None
        return max(lows, default=None), min(highs, default=None)

    def rows(self, content: Any, params: Params) -> Sequence[Row] | None:
        """The rows among which are those that pass the filter; None where all must be looked at."""
        if not self._is_ready(content):
            return None
        bounds = self._bounds(params)
        if bounds is None:
            return ()
        if content.count(self.column, *bounds) > MOST:
            return None
        found: Sequence[Row] = content.between(self.column, *bounds)
        return found

    def count(self, content: Any, params: Params) -> int | None:
        """How many `rows` has, but for equal ones."""
        if not self._is_ready(content):
            return None
        bounds = self._bounds(params)
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
    parts = _conjuncts(filter_) if filter_ is not None else []
    if not all(_is_plain(part) for part in parts):
        return None
    lows: dict[int, list[Bound]] = {}
    highs: dict[int, list[Bound]] = {}
    for part in parts:
        for column, op, bound in _bounds_of(part):
            if column.source == alias:
                at = layout[column.source, column.name.lower()]
                if op in _LOWER:
                    lows.setdefault(at, []).append(bound)
                if op in _UPPER:
                    highs.setdefault(at, []).append(bound)
    if not lows and not highs:
        return None
    best = min({*lows, *highs}, key=lambda at: ((at not in lows) + (at not in highs), at))  # one with both ends first
    return Range(best, tuple(lows.get(best, ())), tuple(highs.get(best, ())))


def _conjuncts(expr: Expr) -> list[Expr]:
    if isinstance(expr, Call) and expr.op == "and":
        return [part for arg in expr.args for part in _conjuncts(arg)]
    return [expr]


def _is_plain(expr: Expr) -> bool:
    """Whether no row can make it raise."""
    return not isinstance(expr, Call) or (expr.op in _PLAIN and all(map(_is_plain, expr.args)))


def _bounds_of(expr: Expr) -> list[tuple[ColumnRef, str, Bound]]:
    """What a condition says of a column: how it compares with what."""
    if not isinstance(expr, Call):
        return []
    if expr.op == "between":
        one, low, high = expr.args
        return _bound(one, ">=", low) + _bound(one, "<=", high)
    if expr.op not in _TURNED:
        return []
    left, right = expr.args
    return _bound(left, expr.op, right) or _bound(right, _TURNED[expr.op], left)


def _bound(column: Expr, op: str, to: Expr) -> list[tuple[ColumnRef, str, Bound]]:
    if not isinstance(column, ColumnRef) or not _compare_alike(column.type, to.type):
        return []
    if isinstance(to, ParamRef):
        return [(column, op, itemgetter(to.index))]
    if isinstance(to, Literal):
        value = to.value
        return [(column, op, lambda params: value)]
    return []


def _compare_alike(one: SqlType, other: SqlType) -> bool:
    if comparison_key(one, ordered=True) is not None or comparison_key(other, ordered=True) is not None:
        return False
    return one.name == other.name or (one.name in _EXACT and other.name in _EXACT)
