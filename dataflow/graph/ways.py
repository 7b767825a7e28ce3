"""By which indexes the held answers are found that a row of a table may concern: evict mode.

What concerns an answer, `AnswerInput` says: columns that equal parts of its key, and a condition on the row and the
key. A way is what an index can tell of that: parts that equal columns, and one column that lies between two others. A
condition whose branches OR joins has a way for each branch. What a way finds is tried with the whole condition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dataflow.operators.answer_index import Way
from planner.tree.plan import AnswerInput, own
from planner.tree.provenance import pin_of
from sqltypes.build import conjuncts
from sqltypes.expression import Call, ColumnRef, Expr, ParamRef, Value
from sqltypes.schema import SqlType

MOST_BRANCHES = 16
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d{1,6})?)?", re.ASCII)
_WHOLE = "0000-00-00 00:00:00.000000"
_DATED = frozenset({"date", "datetime", "timestamp"})
_AT_LEAST, _AT_MOST = frozenset({">", ">="}), frozenset({"<", "<="})
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Found:
    """A way, and of which columns of the row it asks: those that equal `way.parts`, in order, and the one that lies
    between its ends."""

    way: Way
    equal: tuple[ColumnRef, ...] = ()
    between: ColumnRef | None = None


@dataclass(frozen=True)
class _Ends:
    low: int | None = None
    high: int | None = None


@dataclass
class _Told:
    """What conditions that all must hold tell: `equal`, the columns by the position of the part that they equal."""

    equal: dict[int, ColumnRef] = field(default_factory=dict)
    ends: dict[ColumnRef, _Ends] = field(default_factory=dict)

    def found(self) -> Found | None:
        """None where an index tells nothing."""
        equal = sorted(self.equal.items())
        parts = tuple(at for at, _ in equal)
        column = max(self.ends, key=lambda ref: None not in (self.ends[ref].low, self.ends[ref].high), default=None)
        if column is None:
            return Found(Way(parts), tuple(ref for _, ref in equal)) if parts else None
        ends = self.ends[column]
        return Found(Way(parts, ends.low, ends.high), tuple(ref for _, ref in equal), column)


def ways_of(input_: AnswerInput) -> tuple[Found, ...]:
    """None at all: any answer may be concerned by a row, as far as an index can tell."""
    fixed = {at: own(name, input_.table) for at, name in enumerate(input_.key_columns) if name is not None}
    conditions = [] if input_.tells is None else conjuncts(input_.tells)
    whole = _told(conditions, fixed)
    if not fixed:
        for condition in conditions:
            if isinstance(condition, Call) and condition.op == "or":
                rest = [other for other in conditions if other is not condition]
                branches = [_told([*conjuncts(branch), *rest], fixed).found() for branch in _branches(condition)]
                if None not in branches and len(branches) <= MOST_BRANCHES:
                    return tuple(dict.fromkeys(found for found in branches if found is not None))
    found = whole.found()
    return () if found is None else (found,)


def _branches(condition: Expr) -> list[Expr]:
    if isinstance(condition, Call) and condition.op == "or":
        return [branch for arg in condition.args for branch in _branches(arg)]
    return [condition]


def _told(conditions: Iterable[Expr], fixed: dict[int, ColumnRef]) -> _Told:
    told = _Told(dict(fixed))
    for condition in conditions:
        pin = pin_of(condition)
        if pin is not None:
            told.equal.setdefault(pin.parameter.index, pin.column)
        for column, at, above in _ends(condition):
            ends = told.ends.get(column, _Ends())
            told.ends[column] = replace(ends, **({"low": at} if above else {"high": at}))
    return told


def _ends(condition: Expr) -> Sequence[tuple[ColumnRef, int, bool]]:
    """Columns that are not below (True) or not above (False) the part of the key at a position, by the condition."""
    match condition:
        case Call(op=op, args=(ColumnRef() as column, ParamRef() as part)) if op in _TURNED:
            return _end(column, op, part)
        case Call(op=op, args=(ParamRef() as part, ColumnRef() as column)) if op in _TURNED:
            return _end(column, _TURNED[op], part)
    return []


def _end(column: ColumnRef, op: str, part: Expr) -> list[tuple[ColumnRef, int, bool]]:
    if not isinstance(part, ParamRef) or ordered(column.type) is None or not _alike(column.type, part.type):
        return []
    return [(column, part.index, op in _AT_LEAST)]


def _alike(one: SqlType, other: SqlType) -> bool:
    return (one.is_integer and other.is_integer) or one.name == other.name


def ordered(type_: SqlType) -> Callable[[Value], Any] | None:
    """From a value that is not NULL to one that Python orders as MySQL orders these, or None where that is not sure of
    the value. None: of no value of the type."""
    if type_.name in _DATED:
        return _moment
    if type_.name == "decimal" or (type_.is_integer and type_.name != "year"):
        return _number
    return None


def _number(value: Value) -> Any:
    return None if isinstance(value, str | bytes | float) else value


def _moment(value: Value) -> Any:
    """A date-time with all of its digits."""
    if not isinstance(value, str) or _MOMENT.fullmatch(value) is None:
        return None
    return value + _WHOLE[len(value) :]
