"""Where the answer of a query with ORDER BY and LIMIT ends: rows that come behind its last one change nothing.

Only the first term of the order is looked at. So a row of the table whose column that is comes behind the last row, if
its value is behind the last row's; all that it is joined with comes there, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from planner.text.parse import parameter_number
from planner.tree.names import Scope, is_star
from planner.tree.plan import Cut
from planner.tree.resolve import argument
from sqltypes.errors import UpwellError
from sqltypes.expression import ColumnRef

_OTHERWISE = ("group", "having", "distinct", "windows")


def cut_of(select: exp.Select, scope: Scope) -> tuple[str, Cut] | None:
    """The alias whose column the answer is ordered by first, and where it ends. None where that is not plain: what
    stands in the list of the SELECT may depend on more than its own row, or the column is not in it."""
    order, limit = argument(select, "order"), argument(select, "limit")
    if order is None or limit is None or any(select.args.get(name) for name in _OTHERWISE):
        return None
    if any(_depends_on_others(item) for item in (*select.expressions, order)):
        return None
    term = order.expressions[0]
    try:
        shown = _shown(select, scope)
        column = _column_of(term.this, select, scope, shown)
    except UpwellError:
        return None
    if column is None or column not in shown:
        return None
    cut = Cut(column, shown.index(column), bool(term.args.get("desc")), None, None)
    bound = limit.expression
    if isinstance(bound, exp.Placeholder):
        return column.source, replace(cut, count_at=parameter_number(bound))
    if isinstance(bound, exp.Literal) and not bound.is_string:
        return column.source, replace(cut, count=int(bound.name))
    return None


def _depends_on_others(item: exp.Expr) -> bool:
    """Whether an aggregate or a window is in it. sqlglot knows one aggregate as a function only."""
    plain = (node.name.lower() for node in item.find_all(exp.Anonymous))
    return item.find(exp.AggFunc, exp.Window, exp.JSONArrayAgg) is not None or "json_arrayagg" in plain


def _shown(select: exp.Select, scope: Scope) -> list[ColumnRef | None]:
    """The columns that the answer shows; None for what is computed."""
    shown: list[ColumnRef | None] = []
    for item in select.expressions:
        if is_star(item):
            shown += scope.star(item)
        else:
            shown.append(_plain(item.this if isinstance(item, exp.Alias) else item, scope))
    return shown


def _plain(node: exp.Expr, scope: Scope) -> ColumnRef | None:
    return scope.column(node) if isinstance(node, exp.Column) else None


def _column_of(node: exp.Expr, select: exp.Select, scope: Scope, shown: Sequence[ColumnRef | None]) -> ColumnRef | None:
    """What a term of ORDER BY names: a name alone is an item of the list first."""
    if not isinstance(node, exp.Column):
        return None
    if node.table:
        return scope.column(node)
    name = node.name.lower()
    if any(is_star(item) for item in select.expressions):
        found = scope.named(name)
        return found[0] if len(found) == 1 and not _aliased(select, name) else None
    named = [
        column
        for item, column in zip(select.expressions, shown, strict=True)
        if (item.alias if isinstance(item, exp.Alias) else item.name).lower() == name
    ]
    if not named:
        return scope.column(node)
    return named[0] if len(set(named)) == 1 else None


def _aliased(select: exp.Select, name: str) -> bool:
    return any(isinstance(item, exp.Alias) and item.alias.lower() == name for item in select.expressions)
