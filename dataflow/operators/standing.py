"""Answers that are those of other keys, too: of parameters that have grown, but not up to where the answer becomes
another one (`planner/evict/crossings.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.tree.plan import Crossing
from sqltypes.errors import InvariantViolated
from sqltypes.expression import Row, Value
from sqltypes.schema import ResultColumn

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d{1,6})?)?", re.ASCII)
_WHOLE = "0000-00-00 00:00:00.000000"


@dataclass(frozen=True, slots=True)
class Reach:
    """`values`: of the key that an answer was asked for; `ends`: by position the least value that it is not known for
    any more, None where it is known for all that are greater. At other positions it is known for its own value only."""

    values: Row
    ends: dict[int, Value]

    def has(self, values: Sequence[Value]) -> bool:
        """Whether the answer is that of these, too."""
        ends = self.ends
        return all(
            _within(own, value, ends[at]) if at in ends else own == value
            for at, (own, value) in enumerate(zip(self.values, values, strict=True))
        )


def reach(crossings: Iterable[Crossing], values: Row, told: Iterable[Value]) -> Reach:
    """`told`: what each crossing's SELECT gave."""
    ends: dict[int, Value] = {}
    for crossing, end in zip(crossings, told, strict=True):
        known = ends.setdefault(crossing.position, end)
        if known is None or (end is not None and not _less(known, end)):
            ends[crossing.position] = end
    return Reach(values, ends)


def is_not_later(one: Value, other: Value) -> bool:
    """Whether that is known of two moments, or whole numbers."""
    return (one == other and one is not None) or _less(one, other)


Columns = Sequence[tuple[ResultColumn, ...]]


def reached(
    crossings: Sequence[Crossing], keys: Sequence[Row], results: Sequence[list[Row]], columns: Columns
) -> tuple[Sequence[list[Row]], Columns, list[Reach]]:
    """The results of a fill that asks with each answer how far it reaches: those of the answers, their columns, and
    that. Raises InvariantViolated."""
    step = 1 + len(crossings)
    found = []
    for at, values in zip(range(0, len(results), step), keys, strict=True):
        told = results[at + 1 : at + step]
        if any(len(rows) != 1 or len(rows[0]) != 1 for rows in told):
            raise InvariantViolated("the source did not tell how far an answer reaches")
        found.append(reach(crossings, values, [rows[0][0] for rows in told]))
    return results[::step], columns[::step], found


def _within(first: Value, value: Value, end: Value) -> bool:
    if value == first:
        return value is not None
    return _less(first, value) and (end is None or _less(value, end))


def _less(one: Value, other: Value) -> bool:
    """Whether that is known."""
    if type(one) is int and type(other) is int:
        return one < other
    first, second = _moment(one), _moment(other)
    return first is not None and second is not None and first < second


def _moment(value: Value) -> str | None:
    """A date-time with all of its digits."""
    if not isinstance(value, str) or _MOMENT.fullmatch(value) is None:
        return None
    return value + _WHOLE[len(value) :]
