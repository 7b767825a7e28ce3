"""Columns that one condition sets equal to a constant, and that are read as text.

MySQL may put the constant in the column's place: 1.5 for a DECIMAL that is shown as 1.50, the digits of a number for a
BIT, whose text is its bytes. Whether it does depends on how the constant is written or bound, and on whether a prepared
statement was executed before. So the answer for one spelling of the constant is not that for another, which has the
same key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from planner.tree.expressions import split_and
from planner.tree.function_table import COMPARISONS, COMPUTED, DATE_PARTS, TO_NUMBER, TRUTHS, Classes
from planner.tree.kinds import results_of
from planner.tree.pins import GIVING_ONE, NUMBERS, Pins
from planner.tree.provenance import Name
from planner.tree.reasons import refuse
from planner.tree.resolved import ResolvedQuery

EQUAL = (exp.EQ, exp.NullSafeEQ, exp.NEQ, exp.In)  # NOT (a <> 1) is a = 1
COMPARED: Classes = (*COMPARISONS, exp.In, exp.Between)
_READING_TEXT: Classes = (exp.Like, exp.RegexpLike, exp.Escape, exp.Length)
_READING_VALUES: Classes = (
    *(exp.Query, exp.Where, exp.Having, exp.Join, exp.Group, exp.Ordered, exp.Alias, exp.Tuple),
    *(exp.Case, exp.If, exp.Trunc),
    *(*COMPUTED, *DATE_PARTS, *TRUTHS),
)


def check_pinned(query: ResolvedQuery) -> None:
    """Raises UnsupportedQuery where a column that a condition sets equal to a constant is read as text, in a condition
    or below one."""
    pins = query.pins
    pinned: set[Name] = set()
    as_text: dict[Name, exp.Expr] = {}
    for part in (*conditions(query.trees), *items(query)):
        for column in part.find_all(exp.Column):
            for kind in pins.kinds(column):
                if _is_pinned(column, kind):
                    pinned |= pins.roots(column)
                if _is_text(column, kind, pins):
                    as_text |= dict.fromkeys(pins.roots(column) - as_text.keys(), part)
    for name in pinned & as_text.keys():
        raise refuse("pinned_as_text", as_text[name].sql("mysql")[:60])


def conditions(trees: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    for tree in trees:
        for node in tree.find_all(exp.Where, exp.Having):
            yield from split_and(node.this)
        for node in tree.find_all(exp.Join):
            yield from split_and(node.args.get("on"))


def items(query: ResolvedQuery) -> Iterator[exp.Expr]:
    """What is selected below the outermost SELECT: a condition may name it."""
    for tree in query.trees:
        for select in tree.find_all(exp.Select):
            if select is not query.tree:
                yield from select.expressions


def _around(node: exp.Expr) -> exp.Expr | None:
    """What stands around an expression, beyond its parentheses and DISTINCT; around a branch of CASE the whole."""
    around = node.parent
    while isinstance(around, exp.Paren | exp.Distinct):
        around = around.parent
    return around.parent if isinstance(around, exp.If) and isinstance(around.parent, exp.Case) else around


def _is_pinned(column: exp.Expr, kind: str) -> bool:
    """Whether it is set equal to something that no row decides, and that may have other text."""
    around = _around(column)
    if kind == "integer":  # only JSON tells TRUE and 1 apart
        return isinstance(around, EQUAL) and around.find(exp.Boolean) is not None
    if not kind:
        return False
    if isinstance(around, exp.Tuple):
        return isinstance(_around(around), EQUAL)
    if isinstance(around, exp.In):
        return around.this.unnest() is column
    if not isinstance(around, EQUAL):
        return False
    return any(side.find(exp.Column) is None for side in (around.this, around.expression))


def _is_text(value: exp.Expr, kind: str, pins: Pins) -> bool:
    """Whether what is around a value of the kind may read it as text."""
    around = _around(value)
    if kind and _is_json(around):
        return True
    if kind in ("", "integer"):
        return False
    if isinstance(around, exp.Cast):
        return around.args["to"].this.name not in TO_NUMBER
    if isinstance(around, exp.Interval):  # 1.50 MINUTE_SECOND is 1:50
        return "_" in str(around.args.get("unit"))
    if isinstance(around, GIVING_ONE) and any(value is part.unnest() for part in results_of(around)):
        if not all(_is_like(part.unnest(), kind, pins) for part in results_of(around)):
            return True
        return _is_text(around, kind, pins)
    if kind == "zerofill" and isinstance(around, COMPARED):  # MySQL puts a padded text in its place
        beside = [
            item.unalias()
            for part in _operands(around)
            for item in (part.selects if isinstance(part, exp.Query) else [part])
        ]
        others = [part for part in beside if part is not value and not _is_like(part, kind, pins)]
        constant = (exp.Placeholder, exp.Literal) if isinstance(around, EQUAL) else exp.Placeholder
        return not all(isinstance(part, constant) for part in others)
    if kind == "time" and isinstance(around, COMPARED):
        return not all(_is_like(part, kind, pins) or _is_constant(part) for part in _operands(around))
    return not isinstance(around, _READING_VALUES) or isinstance(around, _READING_TEXT)


def _is_json(node: exp.Expr | None) -> bool:
    if isinstance(node, exp.Cast):
        return bool(node.args["to"].this.name == "JSON")
    name = node.name if isinstance(node, exp.Anonymous) else type(node).__name__
    return name.lower().startswith("json")


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    return (part.unnest() for part in node.iter_expressions())


def _is_constant(node: exp.Expr) -> bool:
    return node.find(exp.Column) is None


def _is_like(node: exp.Expr, kind: str, pins: Pins) -> bool:
    """Whether it is a time beside a time, or a number beside any other kind."""
    if isinstance(node, exp.Null):
        return True
    if isinstance(node, exp.Column):
        return pins.kinds(node) <= ({"time"} if kind == "time" else NUMBERS)
    if kind == "time":
        return False
    if isinstance(node, exp.Literal):
        return not node.is_string
    return isinstance(node, (exp.Boolean, exp.BitString, *COMPUTED))
