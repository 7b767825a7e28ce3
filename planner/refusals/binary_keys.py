"""A parameter beside a VARBINARY or a BLOB may be written as x'..', and MySQL reads that as a number where it computes.

MySQL puts a value that a column must equal into the other conditions on the column. `b = 'a' AND FLOOR(b) = 0` and
`b = x'61' AND FLOOR(b) = 0` have other answers then, and both have the key x'61'. LIKE reads both as strings
(`integration/planner_truth/test_likes_of_bytes.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from sqlglot import exp

from planner.text.parse import parameter_number
from planner.tree.reasons import refuse
from planner.tree.resolved import ResolvedQuery
from sqltypes.schema import Table

_COMPARED = (exp.EQ, exp.NullSafeEQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Is)
_AS_STRINGS = (exp.Column, exp.Placeholder, exp.Null, exp.HexString)
_CONDITIONS = (exp.Where, exp.Having, exp.Join)


def require_strings(query: ResolvedQuery, binary: Collection[int]) -> None:
    """Raises UnsupportedQuery where a condition computes with a column that must equal a parameter of `binary`, the
    numbers of the parameters of binary types. Columns of one name are taken for one."""
    if not binary:
        return
    trees = query.trees
    others = _Others(trees, query.tables)
    names = {
        column.name.lower()
        for tree in trees
        for compared in tree.find_all(*_COMPARED)
        if any(parameter_number(each) in binary for each in compared.find_all(exp.Placeholder))
        for column in compared.find_all(exp.Column)
    }
    renamed = [
        {alias.alias.lower(), alias.this.name.lower()}
        for tree in trees
        for alias in tree.find_all(exp.Alias)
        if isinstance(alias.this, exp.Column)
    ]
    for _ in renamed:
        names.update(*(pair for pair in renamed if pair & names))
    for tree in trees:
        for column in tree.find_all(exp.Column):
            if column.name.lower() in names and _in_condition(column) and not _compared_as_string(column, others):
                raise refuse("binary_as_number", column.name)


class _Others:
    """Columns of other types than strings, beside which MySQL compares numbers."""

    def __init__(self, trees: Sequence[exp.Query], tables: Iterable[Table]) -> None:
        self._known = {
            (table.name.lower(), column.name.lower()): not (column.type.is_string or column.type.is_binary)
            for table in tables
            for column in table.columns
        }
        self._meant: defaultdict[str, set[str]] = defaultdict(set)
        for tree in trees:
            for node in tree.find_all(exp.Table):
                self._meant[node.alias_or_name.lower()].add(node.name.lower())

    def __contains__(self, column: exp.Column) -> bool:
        meant, name = self._meant.get(column.table.lower()), column.name.lower()
        return any(
            other for (table, known), other in self._known.items() if known == name and (not meant or table in meant)
        )


def _in_condition(column: exp.Column) -> bool:
    above = column.find_ancestor(exp.Select, *_CONDITIONS)
    return isinstance(above, _CONDITIONS)


def _compared_as_string(column: exp.Column, others: _Others) -> bool:
    above = column.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    if not isinstance(above, (*_COMPARED, exp.Like)):
        return isinstance(above, exp.Join)  # USING
    parts = [part for value in above.args.values() for part in (value if isinstance(value, list) else [value])]
    return all(part is column or _is_string(part, others) for part in parts if isinstance(part, exp.Expr))


def _is_string(part: exp.Expr, others: _Others) -> bool:
    while isinstance(part, exp.Paren):
        part = part.this
    if isinstance(part, exp.Tuple):
        return all(_is_string(item, others) for item in part.expressions)
    if isinstance(part, exp.Column) and part in others:
        return False
    return isinstance(part, _AS_STRINGS) or (isinstance(part, exp.Literal) and part.is_string)
