"""SELECT DISTINCT with an ORDER BY of a column that it does not show, which MySQL takes without ONLY_FULL_GROUP_BY: the
order is known where the column is that of a row which the shown columns tell from all others.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from planner.text.hints import FULL_GROUP
from planner.tree.meanings import Meanings
from planner.tree.provenance import name_of
from planner.tree.reasons import refuse
from planner.tree.resolve import argument
from planner.tree.resolved import ResolvedQuery
from sqltypes.expression import ColumnRef


def check_distinct_order(query: ResolvedQuery) -> None:
    """Raises UnsupportedQuery where such an order is MySQL's choice, or is not seen to be none."""
    modes, tree = query.parsed.modes, query.tree
    if modes is None or FULL_GROUP in modes:
        return
    for select in tree.find_all(exp.Select):
        order = argument(select, "order")
        if argument(select, "distinct") is None or order is None:
            continue
        terms = [term.this if isinstance(term, exp.Ordered) else term for term in order.expressions]
        hidden = [
            column
            for term in terms
            for column in term.find_all(exp.Column)
            if not _is_shown(column, select, alone=column is term)
        ]
        if hidden and (select is not tree or not _determined(hidden, select, query.meanings)):
            raise refuse("any_row", hidden[0].sql("mysql")[:60])


def _is_shown(column: exp.Column, select: exp.Select, *, alone: bool) -> bool:
    """`alone`: it is a term of the ORDER BY by itself: there a name is first that of a select item."""
    names = [item.alias_or_name.lower() for item in select.expressions]
    if alone and not column.table and column.name.lower() in names:
        return True
    return any(item.unalias() == column for item in select.expressions)


def _determined(hidden: list[exp.Column], select: exp.Select, meanings: Meanings) -> bool:
    """Whether rows that show the same have the same of these."""
    if argument(select, "group") is not None or any(item.find(exp.AggFunc) for item in select.expressions):
        return False
    shown: dict[str, set[str]] = {}
    for item in (item.unalias() for item in select.expressions):
        if isinstance(item, exp.Star):
            return False  # then everything is shown, and the column is by another name
        for source, name in map(name_of, meanings.bases(meanings.of(item))):
            shown.setdefault(source, set()).add(name)
    for column in hidden:
        found = meanings.of(column)
        sources = {one.source for one in found if isinstance(one, ColumnRef)}
        if not sources or len(found) != 1 or not all(_tells_a_row(meanings, source, shown) for source in sources):
            return False
    return True


def _tells_a_row(meanings: Meanings, source: str, shown: Mapping[str, set[str]]) -> bool:
    table = meanings.tables.get(source)
    return table is not None and table.is_unique_in(shown.get(source, ()))
