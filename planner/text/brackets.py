"""Joins in brackets, put into the joins around them where that is the same.

`(a JOIN b ON p) JOIN c ON q` is `a JOIN b ON p JOIN c ON q`, whatever the joins are: they are made from left to right.
`a JOIN (b JOIN c ON p) ON q` is `a JOIN b JOIN c ON p AND q`, if all of them are inner joins: but only where `p` names
of each column a table of the brackets. More tables are before it then, which may have the column, or the name. MySQL
stores the joins of each view in such brackets.
What stands in the brackets of a LEFT JOIN stays there, but for a single table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

_INNER = ("", "INNER", "CROSS", "STRAIGHT", "STRAIGHT_JOIN")


def without_brackets(tree: exp.Expr) -> None:
    """Changes the tree."""
    for select in list(tree.find_all(exp.Select)):
        clause = select.args.get("from_") or select.args.get("from")
        if clause is None:
            continue
        first, joins = _from_left(clause.this)
        clause.set("this", first)
        found = [*joins, *(part for join in select.args.get("joins") or () for part in _parts(join))]
        if found:
            select.set("joins", found)


def _from_left(node: exp.Expr) -> tuple[exp.Expr, list[exp.Join]]:
    """The first table of what FROM begins with, and the joins with it."""
    if not _is_bracket(node) and not _is_joined(node):
        return node, []
    inner = node.this if _is_bracket(node) else node
    joins = list(node.args.get("joins") or ()) if _is_bracket(node) else []
    own = list(inner.args.get("joins") or ())
    inner.set("joins", None)
    first, before = _from_left(inner) if _is_bracket(inner) else (inner, [])
    return first, [*before, *(part for join in (*own, *joins) for part in _parts(join))]


def _parts(join: exp.Join) -> Iterator[exp.Join]:
    """The join, or those that are the same as it."""
    node = join.this
    while _is_bracket(node) and not node.args.get("joins") and not node.this.args.get("joins"):
        node = node.this  # a table alone
    join.set("this", node)
    if not (_is_bracket(node) or _is_joined(node)) or not _is_inner(join):
        yield join
        return
    copy = node.copy()
    first, joins = _from_left(copy)
    tables = [first, *(each.this for each in joins)]
    if not joins or not all(map(_is_inner, joins)) or not _names_only(tables, joins):
        yield join
        return
    last, on = joins[-1], join.args.get("on")
    if on is not None:
        inner = last.args.get("on")
        last.set("on", on if inner is None else exp.And(this=exp.paren(inner, copy=False), expression=exp.paren(on)))
    yield exp.Join(this=first)
    yield from joins


def _is_bracket(node: exp.Expr) -> bool:
    """Whether it is a join, or a table, in brackets. A derived table has a SELECT in them."""
    return isinstance(node, exp.Subquery) and not node.alias and isinstance(node.this, (exp.Table, exp.Subquery))


def _is_joined(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Table, exp.Subquery)) and bool(node.args.get("joins"))


def _is_inner(join: exp.Join) -> bool:
    return not join.side and not join.method and (join.kind or "").upper() in _INNER and not join.args.get("using")


def _names_only(tables: Sequence[exp.Expr], joins: Sequence[exp.Join]) -> bool:
    """Whether the conditions of the joins name, with each column, one of these tables."""
    names = {("", table.alias_or_name) for table in tables}
    names |= {(table.db, table.name) for table in tables if isinstance(table, exp.Table) and not table.alias}
    conditions = [on for join in joins if (on := join.args.get("on")) is not None]
    named = {(column.db, column.table) for on in conditions for column in on.find_all(exp.Column)}
    return named <= names and not any(table.find(exp.Lateral) for table in tables)
