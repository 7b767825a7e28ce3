"""The comparisons of a SELECT by which MySQL may look rows up, and what stands on their sides.

Only conditions of WHERE and ON are answered by an index, and what a subquery gives by a table that MySQL makes of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot import exp

from planner.text.parse import parameter_number
from planner.tree.by_index import NUMBERS, Asked, Family, Nature, Side, bounds_differ, column_of, differs
from planner.tree.families import one_of, side_of
from planner.tree.meanings import Meanings
from planner.tree.provenance import Name, name_of
from planner.tree.reasons import refuse
from planner.tree.untyped import AsSent, Beside, Note
from sqltypes.expression import ColumnRef

_EQUAL = (exp.EQ, exp.NullSafeEQ, exp.NEQ)  # NOT (a <> b) is a = b
_ORDER = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_COMPARED = (*_EQUAL, *_ORDER, exp.In, exp.Between)
_AROUND = (exp.Subquery, exp.SetOperation, exp.Paren, exp.Any, exp.All)
_RESULTS = (exp.Query, exp.Any, exp.All)
SideOf = Callable[[exp.Expr], Side]


class Sides:
    """What the columns of a query are, as sides of comparisons. One that a derived table computes may be looked up in
    the table that MySQL makes of the rows, or be computed for each of them."""

    def __init__(self, meanings: Meanings) -> None:
        self._meanings = meanings
        self._known: dict[Name, Side] = {}
        self.beside: defaultdict[int, list[Beside]] = defaultdict(list)
        """The columns that parameters without a type are compared with."""

    def note(self, parameter: int, beside: Beside) -> None:
        self.beside[parameter].append(beside)

    def of(self, node: exp.Expr) -> Side:
        return side_of(node, self._named)

    def _named(self, node: exp.Column) -> Side:
        columns = [one for one in self._meanings.of(node) if isinstance(one, ColumnRef)]
        if not columns:  # the name of a select item, which no index has
            return Side(Family.NULL, 0, Nature.COMPUTED)
        return self.column(columns[0])

    def column(self, column: ColumnRef) -> Side:
        below = self._meanings.below(column)
        if below is None:
            return column_of(column.type)
        if (name := name_of(column)) not in self._known:
            sides = {self.column(one) if isinstance(one, ColumnRef) else self.of(one) for one in below}
            one = sides.pop() if len(sides) == 1 else Side(*one_of(sides), Nature.DERIVED)
            self._known[name] = replace(one, nature=_NATURES[one.nature])
        return self._known[name]


_NATURES = {**dict.fromkeys(Nature, Nature.DERIVED), Nature.COLUMN: Nature.COLUMN}


def check_conditions(tree: exp.Select, side_of: SideOf, note: Note) -> None:
    """Raises UnsupportedQuery for a condition of this SELECT that MySQL may answer otherwise by an index. `note` is
    told of those of which that depends on a literal that is not known yet."""
    for node in _comparisons(tree):
        if isinstance(node, exp.Between):
            wrong = _between(node, side_of)
        else:
            wrong = any([_differ(one, other, asked, side_of, note) for one, other, asked in _pairs(node)])
        if wrong:
            raise refuse("by_index", node.sql("mysql")[:60])


def _comparisons(tree: exp.Select) -> Iterator[exp.Expr]:
    """Those of WHERE and ON, not of other SELECTs; of joins in brackets, too."""
    ahead = [(part, False) for part in tree.iter_expressions()]
    while ahead:
        node, inside = ahead.pop()
        if isinstance(node, exp.Select | exp.SetOperation):
            continue
        if inside and isinstance(node, _COMPARED):
            yield node
        inside = inside or isinstance(node, exp.Where | exp.Join)
        ahead += [(part, inside) for part in node.iter_expressions()]


def check_result(tree: exp.Select, at: int, item: Side, side_of_outer: SideOf) -> None:
    """Raises UnsupportedQuery where a subquery's item is compared with what MySQL may find otherwise by an index."""
    found = _compared_with(tree)
    if found is None:
        return
    others, asked, looked_up = found
    for other in others:
        parts = other.expressions if isinstance(other, exp.Tuple) else [other]
        if at >= len(parts) or isinstance(parts[at].unnest(), _RESULTS):
            continue
        outer = side_of_outer(parts[at])
        kept = item.nature is Nature.CONSTANT or (looked_up and item.nature is Nature.COLUMN)
        result = item if kept else replace(item, nature=Nature.COMPUTED)
        if looked_up and outer.nature is not Nature.COLUMN:
            result = replace(item, nature=Nature.DERIVED)
        if differs(outer, result, asked):
            raise refuse("by_index", tree.sql("mysql")[:60])


def _pairs(node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr, Asked]]:
    """What is compared with what in a comparison other than BETWEEN."""
    if not isinstance(node, exp.In):
        asked = Asked.EQUAL if isinstance(node, _EQUAL) else Asked.ORDER
        yield from _parts(node.this, node.expression, asked, Asked.EQUAL)
        return
    several = Asked.LIST if len(node.expressions) > 1 else Asked(0)
    for item in node.expressions:
        yield from _parts(node.this, item, Asked.EQUAL | several, Asked.ROWS)


def _parts(one: exp.Expr, other: exp.Expr, asked: Asked, of_rows: Asked) -> Iterator[tuple[exp.Expr, exp.Expr, Asked]]:
    one, other = one.unnest(), other.unnest()
    if isinstance(one, exp.Tuple) and isinstance(other, exp.Tuple):
        for left, right in zip(one.expressions, other.expressions, strict=False):
            yield left, right, asked | of_rows
    else:
        yield one, other, asked


def _differ(one: exp.Expr, other: exp.Expr, asked: Asked, side_of: SideOf, note: Note) -> bool:
    if isinstance(one, _RESULTS) or isinstance(other, _RESULTS):
        return False  # what a subquery gives is looked at with its own names
    for sent, beside in ((one, other), (other, one)):
        if isinstance(sent, AsSent):
            note(parameter_number(sent), Beside(side_of(beside), asked))
            if isinstance(beside, exp.Column):
                return False
    left = side_of(one)
    if isinstance(other, exp.Literal) and Asked.ROWS not in asked and _is_plain(left, other):
        return False
    right = side_of(other)
    return differs(left, right, asked)


def _is_plain(side: Side, literal: exp.Literal) -> bool:
    """Whether the literal is one of the most frequent that are never another value. Lists have thousands of them."""
    if literal.is_string:
        return side.family in (Family.TEXT, Family.BYTES)
    return side.family in NUMBERS and str(literal.this).isdigit()


def _between(node: exp.Between, side_of: SideOf) -> bool:
    """One bound alone that an index rounds takes no row more or less; two may be one value."""
    bounds = [node.args["low"].unnest(), node.args["high"].unnest()]
    if any(isinstance(part, _RESULTS) for part in (node.this.unnest(), *bounds)):
        return False
    subject, sides = side_of(node.this), [side_of(bound) for bound in bounds]
    if any(differs(subject, side, Asked.ORDER) for side in sides):
        return True
    return all(differs(subject, side, Asked.EQUAL) for side in sides) or bounds_differ(subject, *sides)


def _compared_with(tree: exp.Expr) -> tuple[list[exp.Expr], Asked, bool] | None:
    """The operands with which a subquery's result is compared, and whether these are looked up among its rows."""
    node, parent, several = tree, tree.parent, False
    while isinstance(parent, _AROUND):
        several = several or isinstance(parent, exp.Any | exp.All)
        node, parent = parent, parent.parent
    if not isinstance(parent, _COMPARED):
        return None
    others = [part.unnest() for part in parent.iter_expressions() if part is not node]
    if isinstance(parent, exp.In):
        return others, Asked.EQUAL, parent.this is not node
    if isinstance(parent, exp.Between):
        return others, Asked.EQUAL | Asked.ORDER, False
    return others, Asked.EQUAL if isinstance(parent, _EQUAL) else Asked.ORDER, several
