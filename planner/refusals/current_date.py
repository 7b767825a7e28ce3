"""Where MySQL makes a date-time of a TIME it takes the current date, so that the same rows give another answer
tomorrow: such a query is refused.

It does so wherever a TIME is compared or combined with a DATE, DATETIME or TIMESTAMP, and where a function wants a
date. Every expression of a query is visited, in the scope of its names; `integration/clock/test_current_date.py` asks
MySQL about all the forms. A string or a number beside a TIME is read as a TIME, which no date is in.

On the way a query is refused in which a name is one table in the condition of a join, and another elsewhere: the
condition knows only the tables that are joined by then, from the last comma or bracket on, and those of queries around.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

from sqlglot import exp

from planner.tree.function_table import (
    CHOOSING,
    COMPARISONS,
    DATE_ARITHMETIC,
    DATES_BY_NAME,
    DAYS_BY_NAME,
    KEEPING_BY_NAME,
    MAKING_DATES,
    OF_ITS_VALUE,
    TIMES,
    WANTING_DATES,
)
from planner.tree.kinds import Kind, date_of, of_cast, of_type, results_of
from planner.tree.meanings import Meanings
from planner.tree.reasons import refuse
from planner.tree.resolved import ResolvedQuery
from sqltypes.expression import ColumnRef

_COMPARED = (*COMPARISONS, exp.In, exp.Between, exp.Nullif)
_OF_ITS_VALUE = (*OF_ITS_VALUE, exp.Paren, exp.Alias, exp.Ordered, exp.Lag, exp.Lead, exp.Any, exp.All)
_MAKE_TIMES = TIMES.names | {"time", "str_to_date", "json_value"}
"""Words of a text without which nothing in it is a TIME, unless a column is."""
_OF_HOURS = re.compile(r"(HOUR|MINUTE|SECOND|MICROSECOND)(_\w+)?", re.IGNORECASE)
_EXTRACTS_DATE = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "YEAR_MONTH"})
_DATE_PARTS = re.compile(r"%-?[^HIMSTfpr%-]")  # of a format, as sqlglot's trees have it: %M are minutes


def check_current_date(query: ResolvedQuery) -> None:
    """Raises UnsupportedQuery where the current date is in the answer, or a name means two tables."""
    meanings = query.meanings
    for column in meanings.hidden:
        raise refuse("two_tables", column.sql("mysql"))
    made = not _MAKE_TIMES.isdisjoint([token.text.lower() for text in query.texts for token in text.tokens])
    if not made and not any([column.type.name == "time" for table in query.tables for column in table.columns]):
        return
    found = _Kinds(meanings)
    for part in meanings.parts:
        found.of(part)
    for join, columns in meanings.merged:
        _together(join, map(found.one, columns))
    for united, outputs in meanings.united:
        for output in outputs:
            _together(united, map(found.one, output.given))


class _Kinds:
    """Of the expressions of a query: TIME, TEMPORAL, NULL or no matter which. Each is visited once."""

    def __init__(self, meanings: Meanings) -> None:
        self._meanings = meanings
        self._known: dict[int, Kind] = {}  # by id of the node

    def of(self, node: exp.Expr) -> Kind:
        """What the expression's value is. Raises UnsupportedQuery."""
        if id(node) not in self._known:
            self._known[id(node)] = self._of(node)
        return self._known[id(node)]

    def _of(self, node: exp.Expr) -> Kind:
        if isinstance(node, exp.Query):
            outputs = self._meanings.outputs.get(id(node), ())
            return _alike(map(self.one, outputs[0].given)) if len(outputs) == 1 else Kind.OTHER
        if isinstance(node, exp.Column):
            return next(map(self.one, self._meanings.of(node)), Kind.OTHER)
        if isinstance(node, exp.TimeToStr) and _of_hours_only(node.args.get("format")):
            self.of(node.this.this)  # below the conversion that sqlglot writes into the tree
            return Kind.OTHER
        kinds = {id(child): self.of(child) for child in node.iter_expressions()}
        if isinstance(node, exp.Null):
            return Kind.NULL
        if isinstance(node, _COMPARED):
            self._compared(node, kinds)
            return kinds[id(node.this)] if isinstance(node, exp.Nullif) else Kind.OTHER
        if isinstance(node, exp.Case) and node.this is not None:
            _together(node, [kinds[id(node.this)], *(self.of(branch.this) for branch in node.args["ifs"])])
        if isinstance(node, CHOOSING):
            return _together(node, map(self.of, results_of(node)))
        if isinstance(node, _OF_ITS_VALUE):
            return kinds.get(id(node.this), Kind.OTHER)
        return _of_function(node, kinds)

    def one(self, given: ColumnRef | exp.Expr) -> Kind:
        """Of what a name stands for."""
        if not isinstance(given, ColumnRef):
            return self.of(given)
        below = self._meanings.below(given)
        return _kind(given) if below is None else _alike(map(self.one, below))

    def _compared(self, node: exp.Expr, kinds: Mapping[int, Kind]) -> None:
        sides = list(node.iter_expressions())
        rows = [list(self._row(side)) for side in sides]
        if any(len(row) > 1 for row in rows):
            for column in zip(*rows, strict=False):
                _together(node, column)
        else:
            _together(node, (kinds[id(side)] for side in sides))

    def _row(self, node: exp.Expr) -> Iterator[Kind]:
        if isinstance(node, exp.Tuple):
            yield from map(self.of, node.expressions)
        elif isinstance(node, exp.Query):
            for output in self._meanings.outputs.get(id(node), ()):
                yield _alike(map(self.one, output.given))
        elif isinstance(node, exp.Any | exp.All):
            yield from self._row(node.this)
        else:
            yield self.of(node)


def _of_function(node: exp.Expr, kinds: Mapping[int, Kind]) -> Kind:
    """Of a node whose children are known."""
    first = kinds.get(id(node.this), Kind.OTHER)
    if isinstance(node, exp.Anonymous):
        return _by_name(node, [kinds[id(part)] for part in node.expressions])
    if isinstance(node, exp.Cast):
        return _cast(node, first)
    if isinstance(node, (*DATE_ARITHMETIC, exp.Add, exp.Sub, exp.TimestampAdd)):
        return _sum(node, kinds)
    if isinstance(node, exp.Extract):
        if node.name.upper() in _EXTRACTS_DATE:
            _dated(node, [kinds[id(node.expression)]])
        return Kind.OTHER
    if isinstance(node, MAKING_DATES.classes):
        _dated(node, [first, *(kinds[id(part)] for name, part in node.args.items() if name == "timestamp")])
        return Kind.TEMPORAL
    if isinstance(node, WANTING_DATES.classes):
        _dated(node, kinds.values())
        return Kind.OTHER
    if isinstance(node, exp.StrToTime | exp.StrToDate):
        return Kind.TIME if _of_hours_only(node.args.get("format")) else Kind.TEMPORAL
    if isinstance(node, exp.UnixToTime):
        return Kind.OTHER if node.args.get("format") is not None else Kind.TEMPORAL
    if isinstance(node, exp.JSONValue):
        return of_cast(node.args.get("returning"))
    return Kind.TIME if isinstance(node, TIMES.classes) else Kind.OTHER


def _by_name(node: exp.Anonymous, arguments: Sequence[Kind]) -> Kind:
    name = node.name.lower()
    if name in WANTING_DATES.names:
        _dated(node, arguments)
    if name in DAYS_BY_NAME and arguments:
        interval = node.expressions[-1]
        return _moved(node, arguments[0], interval if isinstance(interval, exp.Interval) else None)
    if name in KEEPING_BY_NAME and arguments:
        return arguments[0]
    if name in TIMES.names:
        return Kind.TIME
    return Kind.TEMPORAL if name in DATES_BY_NAME else Kind.OTHER


def _cast(node: exp.Cast, operand: Kind) -> Kind:
    target = of_cast(node.args["to"])
    if target is Kind.TEMPORAL or node.args["to"].this.name == "YEAR":
        _dated(node, [operand])
    return target


def _sum(node: exp.Expr, kinds: Mapping[int, Kind]) -> Kind:
    if isinstance(node, exp.TimestampAdd):
        return _moved(node, kinds[id(node.this)], node)
    base = date_of(node)
    if base is None:
        return Kind.OTHER
    if isinstance(node, DATE_ARITHMETIC):
        return _moved(node, kinds[id(base)], node)
    return _moved(node, kinds[id(base)], node.expression if base is node.this else node.this)


def _moved(node: exp.Expr, base: Kind, unit_of: exp.Expr | None) -> Kind:
    """Of a date or TIME that an interval is added to. `unit_of`: what has the interval's unit; None: days."""
    unit = unit_of.args.get("unit") if unit_of is not None else None
    if unit is None or not _OF_HOURS.fullmatch(unit.name):
        _dated(node, [base])
    return base


def _of_hours_only(format: exp.Expr | None) -> bool:
    return isinstance(format, exp.Literal) and not _DATE_PARTS.search(str(format.this))


def _dated(node: exp.Expr, kinds: Iterable[Kind]) -> None:
    """These become date-times."""
    if Kind.TIME in kinds:
        _refuse(node)


def _together(node: exp.Expr, kinds: Iterable[Kind]) -> Kind:
    """These become of one type."""
    found = set(kinds)
    if {Kind.TIME, Kind.TEMPORAL} <= found:
        _refuse(node)
    return _alike(found)


def _alike(kinds: Iterable[Kind]) -> Kind:
    """Of what is one of these."""
    found = set(kinds) - {Kind.NULL}
    return found.pop() if len(found) == 1 else Kind.OTHER


def _refuse(node: exp.Expr) -> NoReturn:
    raise refuse("current_date", node.sql("mysql")[:60])


def _kind(column: ColumnRef) -> Kind:
    kind = of_type(column.type)
    return kind if kind in (Kind.TIME, Kind.TEMPORAL) else Kind.OTHER
