"""Queries that vtgate answers by how a value is spelled.

It computes the shard of a row from the spelling (`Table.spelled`). MySQL takes 'a' and 'A' for equal. So vtgate's
answer for one of them lacks rows that the tables have. A query may show such a column, and order by it. One that does
more with it is held as vtgate answered it (evict mode), and a change of either spelling empties it. Its parameters must
be spelled plainly (`sqltypes/plainly_spelled.py`), for equal ones are one key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from planner.tree.names import is_star
from planner.tree.reasons import refuse
from sqltypes.plainly_spelled import is_known
from sqltypes.schema import Table

_AROUND = (exp.Alias, exp.Ordered, exp.Order, exp.Paren)


def goes_by_spelling(tree: exp.Query, tables: Sequence[Table]) -> bool:
    """Raises UnsupportedQuery where no spelling of the column is known to be the one that counts."""
    names = {name for table in tables for name in table.spelled}
    if not names or not _does_more_than_show(tree, names):
        return False
    for table in tables:
        for name in table.spelled:
            type_ = table.column(name).type
            if not (type_.is_binary or (type_.is_string and not type_.members and is_known(type_.collation))):
                raise refuse("unknown_spelling", f"{table.name}.{name}")
    return True


def _does_more_than_show(tree: exp.Query, names: Iterable[str]) -> bool:
    mentioned = list(_mentioned(tree, frozenset(names)))
    if not isinstance(tree, exp.Select) or any(tree.args.get(part) for part in ("distinct", "group", "with_", "with")):
        return bool(mentioned) or _shows_all(tree)
    if any(node is not tree for node in tree.find_all(exp.Select)):
        return bool(mentioned) or _shows_all(tree)
    return any(not (isinstance(node, exp.Column) and _is_shown(node, tree)) for node in mentioned)


def _mentioned(tree: exp.Query, names: frozenset[str]) -> Iterator[exp.Expr]:
    """Where one of these columns is named, or compared without a name."""
    for node in tree.find_all(exp.Column):
        if node.name.lower() in names:
            yield node
    for join in tree.find_all(exp.Join):
        if join.method == "NATURAL" or any(name.name.lower() in names for name in join.args.get("using") or ()):
            yield join


def _shows_all(tree: exp.Query) -> bool:
    """Whether it may show a column that it does not name. (The star of COUNT is no item.)"""
    selects = list(tree.find_all(exp.Select))
    items = [item for select in selects for item in select.expressions]
    return not selects or any(map(is_star, items))


def _is_shown(node: exp.Column, tree: exp.Select) -> bool:
    """Whether it is an item, or what the rows are ordered by, and nothing is made of it."""
    part: exp.Expr = node
    while isinstance(part.parent, _AROUND):
        part = part.parent
    return part.parent is tree
