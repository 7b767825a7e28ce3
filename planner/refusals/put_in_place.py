"""Columns that one condition sets equal to a constant, and that another compares with values of another kind.

MySQL may put the constant in the column's place in the other comparison, and then compares with the constant as it is
written: `d = '2024-02-29'` makes `20240229 IN (d, 5)` false, for the number is compared with a text, but
`d = DATE'2024-02-29'` and a bound parameter make it true. Both have the same key. So dates beside numbers are MySQL's
to compare, and so are all but numbers in IN and BETWEEN beside numbers. What matters was found by a sweep of all types
over all comparisons and functions (`integration/planner_truth/test_put_in_place.py`): functions keep the column.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from sqlglot import exp

from planner.refusals.pinned import COMPARED, EQUAL, conditions, items
from planner.tree.kinds import MADE, Kind, Kinds
from planner.tree.provenance import Name
from planner.tree.reasons import refuse
from planner.tree.resolved import ResolvedQuery

_SEVERAL = (exp.In, exp.Between)
_KINDS = frozenset({Kind.TEMPORAL, Kind.TIME, Kind.OWN})


def check_put_in_place(query: ResolvedQuery) -> None:
    """Raises UnsupportedQuery where a column that a condition sets equal to a constant is compared with values of
    another kind."""
    kinds, pins = query.kinds, query.pins
    columns = [
        (column, part) for part in (*conditions(query.trees), *items(query)) for column in part.find_all(exp.Column)
    ]
    if _KINDS.isdisjoint([kinds.of(column) for column, _ in columns]):
        return
    found = [(column, part, *compared) for column, part in columns for compared in _comparisons(column)]
    pinned: defaultdict[Name, list[exp.Expr]] = defaultdict(list)
    for column, _, comparison, others, first in found:
        if _pins(comparison, others, first=first):
            for root in pins.roots(column):
                pinned[root].append(comparison)
    if not pinned:
        return
    for column, part, comparison, others, first in found:
        elsewhere = any(one is not comparison for root in pins.roots(column) for one in pinned.get(root, ()))
        kind = kinds.of(column)
        if elsewhere and kind in _KINDS and _is_other(kind, comparison, others, kinds, first=first):
            raise refuse("put_in_place", part.sql("mysql")[:60])


def _pins(comparison: exp.Expr, others: Sequence[exp.Expr], *, first: bool) -> bool:
    """Whether it sets the column equal to something that no row decides."""
    return (
        isinstance(comparison, EQUAL)
        and (first or not isinstance(comparison, exp.In))
        and any(other.find(exp.Column) is None for other in others)
    )


def _is_other(kind: Kind, comparison: exp.Expr, others: Sequence[exp.Expr], kinds: Kinds, *, first: bool) -> bool:
    """Whether it matters there how a constant in the column's place is written. `first`: the column stands before IN or
    BETWEEN."""
    if isinstance(comparison, _SEVERAL):
        found = set(map(kinds.of, others))
        if kind is Kind.TIME and not first and Kind.GIVEN in found:
            return True
        return Kind.NUMBER in found or (not found.isdisjoint(MADE) and kind is not Kind.OWN)
    found = {kinds.of(other) for other in others if not isinstance(other, exp.Literal)}
    return kind is Kind.TEMPORAL and not found.isdisjoint({Kind.NUMBER, *MADE})


def _comparisons(column: exp.Expr) -> Iterator[tuple[exp.Expr, list[exp.Expr], bool]]:
    """(comparison, what the column is compared with, whether it stands first), where the column itself is compared, as
    a part of a row or as what a subquery gives."""
    node, place = column, 0
    while (parent := node.parent) is not None:
        if isinstance(parent, exp.Tuple):
            place = next(at for at, part in enumerate(parent.expressions) if part is node)
        elif isinstance(parent, exp.Select):
            found = [at for at, item in enumerate(parent.expressions) if item is node]
            if not found:
                return
            place = found[0]
        elif isinstance(parent, COMPARED):
            others = [part for part in _operands(parent) if part is not node]
            yield parent, [one for part in others for one in _values(part, place)], parent.this is node
            return
        elif not isinstance(parent, (exp.Paren, exp.Distinct, exp.Subquery, exp.Alias, exp.Any, exp.All)):
            return
        node = parent


def _operands(comparison: exp.Expr) -> list[exp.Expr]:
    return [part for part in comparison.iter_expressions() if isinstance(part, exp.Expr)]


def _values(operand: exp.Expr, place: int) -> Iterator[exp.Expr]:
    """What an operand gives at a place of its row."""
    while isinstance(operand, (exp.Paren, exp.Subquery, exp.Any, exp.All)):
        operand = operand.this
    if isinstance(operand, exp.SetOperation):
        yield from _values(operand.this, place)
        yield from _values(operand.expression, place)
        return
    parts = operand.expressions if isinstance(operand, (exp.Tuple, exp.Select)) else [operand]
    if len(parts) > place and isinstance(operand, (exp.Tuple, exp.Select)):
        part = parts[place]
        yield part.unalias()
    else:
        yield from parts
