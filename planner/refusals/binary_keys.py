"""A parameter beside a VARBINARY or a BLOB may be written as x'..', and MySQL reads that as a number where it computes.

MySQL puts a value that a column must equal into the other conditions on the column. `b = 'a' AND FLOOR(b) = 0` and
`b = x'61' AND FLOOR(b) = 0` have other answers then, and both have the key x'61'. LIKE reads both as strings
(`integration/planner_truth/test_likes_of_bytes.py`).
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from planner.text.parse import parameter_number
from planner.tree.meanings import Meanings
from planner.tree.provenance import Name
from planner.tree.reasons import refuse
from planner.tree.resolved import ResolvedQuery

_COMPARED = (exp.EQ, exp.NullSafeEQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Is)
_AS_STRINGS = (exp.Placeholder, exp.Null, exp.HexString)
_CONDITIONS = (exp.Where, exp.Having, exp.Join)


def require_strings(query: ResolvedQuery, binary: Collection[int]) -> None:
    """Raises UnsupportedQuery where a condition computes with a column that must equal a parameter of `binary`, the
    numbers of the parameters of binary types."""
    if not binary:
        return
    pins, equal = query.pins, set[Name]()
    for tree in query.trees:
        for compared in tree.find_all(*_COMPARED):
            if any(parameter_number(each) in binary for each in compared.find_all(exp.Placeholder)):
                equal = equal.union(*map(pins.roots, compared.find_all(exp.Column)))
    for tree in query.trees:
        for column in tree.find_all(exp.Column):
            is_equal = _in_condition(column) and not equal.isdisjoint(pins.roots(column))
            if is_equal and not _compared_as_string(column, query.meanings):
                raise refuse("binary_as_number", column.name)


def _in_condition(column: exp.Column) -> bool:
    above = column.find_ancestor(exp.Select, *_CONDITIONS)
    return isinstance(above, _CONDITIONS)


def _compared_as_string(column: exp.Column, meanings: Meanings) -> bool:
    above = column.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    if not isinstance(above, (*_COMPARED, exp.Like)):
        return isinstance(above, exp.Join)  # USING
    parts = [part for value in above.args.values() for part in (value if isinstance(value, list) else [value])]
    return all(part is column or _is_string(part, meanings) for part in parts if isinstance(part, exp.Expr))


def _is_string(part: exp.Expr, meanings: Meanings) -> bool:
    while isinstance(part, exp.Paren):
        part = part.this
    if isinstance(part, exp.Tuple):
        return all(_is_string(item, meanings) for item in part.expressions)
    if isinstance(part, exp.Column):
        return all(base.type.is_string or base.type.is_binary for base in meanings.bases(meanings.of(part)))
    return isinstance(part, _AS_STRINGS) or (isinstance(part, exp.Literal) and part.is_string)
