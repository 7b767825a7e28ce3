"""What may be bound to a parameter whose type no column tells, so that it does not matter what was bound before.

MySQL 9.7 goes on with what it was once given: behind 0, `DATE(c) > ?` finds nothing for 3. So what an execution gives
may depend on those before it, of which nobody here knows. Measured of pairs of values of one type in all forms of
`integration/prepared/untyped_parameters.py`: it is so of numbers and of what is no date beside a date, and of strings
like '1.5' beside a number; besides, in lists, of numbers without a sign, and where the types differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from planner.text.parse import parameter_number
from planner.tree.by_index import NUMBERS, STRINGS, Family, Nature, Side
from planner.tree.families import side_of
from planner.tree.kinds import Kind, Kinds
from planner.tree.untyped import Around, AsSent

_TEXTS = frozenset({Kind.OWN, Kind.GIVEN, Kind.JSON, Kind.UNQUOTED, Kind.NULL})
_FAMILIES = {
    **dict.fromkeys(_TEXTS, Family.TEXT),
    **{Kind.NUMBER: Family.INTEGER, Kind.TEMPORAL: Family.MOMENT, Kind.TIME: Family.TIME, Kind.OTHER: Family.UNKNOWN},
}
_OF_TEXT = (exp.Concat, exp.Lower, exp.Upper, exp.Trim, exp.MatchAgainst, exp.Coalesce)
"""Functions that make of texts a text. Of the others, some take a number."""
_OF_ANY = (exp.Coalesce, exp.If, exp.Case, exp.Concat, exp.Nullif, exp.And, exp.Or, exp.Xor)
"""Functions of which it was measured that what is bound alone tells how their columns are announced."""
_CONDITIONS = (exp.Query, exp.And, exp.Or, exp.Xor, exp.Not, exp.Where, exp.Having, exp.Join, exp.Ordered, exp.Group)


def around(tree: exp.Query, number: int, kinds: Kinds, *, tells: bool = False) -> Around:
    """Of the parameter of this number in a tree of `planner.tree.untyped.marked`. `tells`: as of `Parameter`."""
    node = next(node for node in tree.find_all(AsSent) if parameter_number(node) == number)
    parent = node.parent
    if tells and isinstance(parent, exp.Func) and not isinstance(parent, _OF_ANY):
        return Around.DATES  # ABS(?) is announced now as a DOUBLE and now as a whole number: what is bound is MySQL's
    if len({_kind(other, kinds) for other in _cases(node)}) > 1:
        return Around.DATES  # MySQL compares it as it does the others, whatever is bound
    least = Around.NUMBERS if isinstance(parent, exp.Func) and not isinstance(parent, _OF_TEXT) else Around.TEXTS
    return max([least, *(_kind(other, kinds) for other in _beside(node))])


def _cases(node: exp.Expr) -> Iterator[exp.Expr]:
    """What stands beside one of the values that CASE value WHEN value ... compares, but for parameters."""
    case = node.parent.parent if isinstance(node.parent, exp.If) and node.arg_key == "this" else node.parent
    if isinstance(case, exp.Case) and case.this is not None and node.arg_key == "this":
        yield from (
            value for value in (case.this, *(when.this for when in case.args["ifs"])) if not isinstance(value, AsSent)
        )


def _kind(node: exp.Expr, kinds: Kinds) -> Around:
    if isinstance(node, AsSent):
        return Around.TEXTS
    family = side_of(node, lambda column: Side(_FAMILIES[kinds.column(column)], None, Nature.COLUMN)).family
    if family is Family.UNKNOWN:  # a subquery's, for example
        family = _FAMILIES[kinds.of(node)]
    if family in STRINGS or family in (Family.JSON, Family.NULL):
        return Around.TEXTS
    return Around.NUMBERS if family in NUMBERS else Around.DATES


def _beside(node: exp.Expr) -> Iterator[exp.Expr]:
    place: int | None = None  # in a row, whose parts are compared each for itself
    parent = node.parent
    while isinstance(parent, exp.Expr) and not isinstance(parent, _CONDITIONS):
        if isinstance(parent, exp.Tuple):
            place = parent.expressions.index(node)
        else:
            for other in parent.iter_expressions():
                if other is node or isinstance(other, exp.DataType | exp.Var | exp.Identifier):
                    continue
                row = other.unnest()
                alike = place is not None and isinstance(row, exp.Tuple) and place < len(row.expressions)
                yield row.expressions[place] if alike and place is not None else other
        node, parent = parent, parent.parent
