"""SELECT DISTINCT with an ORDER BY of a column that it does not show, which MySQL takes without ONLY_FULL_GROUP_BY: the
order is known where the column is that of a row which the shown columns tell from all others.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from planner.tree.names import Catalogue
from planner.tree.reasons import refuse
from planner.tree.resolve import argument
from sqltypes.schema import Table


def check_distinct_order(tree: exp.Query, catalogue: Catalogue) -> None:
    """Raises UnsupportedQuery where such an order is MySQL's choice, or is not seen to be none. Requires: `require` has
    passed."""
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
        if hidden and (select is not tree or not _determined(hidden, select, catalogue)):
            raise refuse("any_row", hidden[0].sql("mysql")[:60])


def _is_shown(column: exp.Column, select: exp.Select, *, alone: bool) -> bool:
    """`alone`: it is a term of the ORDER BY by itself: there a name is first that of a select item."""
    names = [item.alias_or_name.lower() for item in select.expressions]
    if alone and not column.table and column.name.lower() in names:
        return True
    return any(item.unalias() == column for item in select.expressions)


def _determined(hidden: list[exp.Column], select: exp.Select, catalogue: Catalogue) -> bool:
    """Whether rows that show the same have the same of these."""
    if argument(select, "group") is not None or any(item.find(exp.AggFunc) for item in select.expressions):
        return False
    tables = _tables(select, catalogue)
    if tables is None:
        return False
    shown: dict[str, set[str]] = {alias: set() for alias in tables}
    for item in (item.unalias() for item in select.expressions):
        if isinstance(item, exp.Column) and (owner := _owner(item, tables)) is not None:
            names = tables[owner].by_name if isinstance(item.this, exp.Star) else (item.name.lower(),)
            shown[owner].update(names)
        elif isinstance(item, exp.Star):
            return False  # then everything is shown, and the column is by another name
    owners = [_owner(column, tables) for column in hidden]
    return all(owner is not None and tables[owner].is_unique_in(shown[owner]) for owner in owners)


def _tables(select: exp.Select, catalogue: Catalogue) -> dict[str, Table] | None:
    """The base tables that the SELECT is of, by their aliases in lower case; None where it is of others, too, or two
    have one name."""
    found: dict[str, Table] = {}
    clause = argument(select, "from_")
    sources = [clause.this] if clause is not None else []
    sources += [join.this for join in select.args.get("joins") or ()]
    for source in sources:
        relation = catalogue.relation(source) if isinstance(source, exp.Table) else None
        alias = source.alias_or_name.lower()
        if not isinstance(relation, Table) or source.args.get("joins") or alias in found:
            return None
        found[alias] = relation
    return found


def _owner(column: exp.Expr, tables: Mapping[str, Table]) -> str | None:
    """The alias of the table whose column it is; None where that is not clear."""
    assert isinstance(column, exp.Column)
    if column.table:
        return column.table.lower() if column.table.lower() in tables else None
    owners = [alias for alias, table in tables.items() if column.name.lower() in table.by_name]
    return owners[0] if len(owners) == 1 else None
