"""A parameter beside a VARBINARY or a BLOB may be written as x'..', and MySQL reads that as a number where it computes.

MySQL puts a value that a column must equal into the other conditions on the column. `b = 'a' AND FLOOR(b) = 0` and
`b = x'61' AND FLOOR(b) = 0` have other answers then, and both have the key x'61'.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from planner.parse import parameter_number
from planner.support import refuse

_COMPARED = (exp.EQ, exp.NullSafeEQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Is)
_AS_STRINGS = (exp.Column, exp.Placeholder, exp.Null, exp.HexString)
_CONDITIONS = (exp.Where, exp.Having, exp.Join)


def require_strings(trees: Sequence[exp.Query], binary: Collection[int]) -> None:
    """Raises UnsupportedQuery where a condition computes with a column that must equal a parameter of `binary`, the
    numbers of the parameters of binary types. Columns of one name are taken for one. `trees`: the query and its views,
    which MySQL merges."""
    if not binary:
        return
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
            if column.name.lower() in names and _in_condition(column) and not _compared_as_string(column):
                raise refuse("binary_as_number", column.name)


def _in_condition(column: exp.Column) -> bool:
    above = column.find_ancestor(exp.Select, *_CONDITIONS)
    return isinstance(above, _CONDITIONS)


def _compared_as_string(column: exp.Column) -> bool:
    above = column.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    if not isinstance(above, _COMPARED):
        return isinstance(above, exp.Join)  # USING
    others = [part for value in above.args.values() for part in (value if isinstance(value, list) else [value])]
    return all(_is_string(part) for part in others if isinstance(part, exp.Expr))


def _is_string(part: exp.Expr) -> bool:
    while isinstance(part, exp.Paren):
        part = part.this
    if isinstance(part, exp.Tuple):
        return all(_is_string(item) for item in part.expressions)
    return isinstance(part, _AS_STRINGS) or (isinstance(part, exp.Literal) and part.is_string)
