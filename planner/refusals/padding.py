"""Strings that are equal by one plan of MySQL's, and not by another: of two collations, of which one pads.

MySQL looks up what is to equal a string under a collation of bytes (`..._bin`) in the index of a column of another
collation, and compares what it finds. Of the older collations of bytes 'a' equals 'a ', for they compare as if spaces
followed. In the index of a column that has a collation of `_0900_` these two are apart: by the index MySQL finds one,
without it both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from planner.tree.meanings import Given
from planner.tree.reasons import refuse
from planner.tree.resolved import ResolvedQuery
from sqltypes.collation import pads
from sqltypes.expression import ColumnRef

_COMPARED = (exp.EQ, exp.NullSafeEQ, exp.NEQ, exp.In, exp.Between)  # NOT (a <> b) is a = b


def check_padding(query: ResolvedQuery) -> None:
    """Raises UnsupportedQuery where a string under a padding collation of bytes may be compared with a column whose
    collation does not pad."""
    collations = _Collations(query)
    if not _differ(collations.all):
        return
    for tree in query.trees:
        for node in tree.find_all(*_COMPARED):
            if _differ(collations.of((node,))):
                raise refuse("padding", node.sql("mysql")[:60])
    for _, columns in query.meanings.merged:
        if _differ(collations.of(tuple(columns))):
            raise refuse("padding", columns[0].name)


def _differ(collations: Iterable[str]) -> bool:
    """Whether one of these is of bytes and pads, and another does not pad."""
    found = set(collations) - {"binary"}
    return any(pads(name) and name.endswith("_bin") for name in found) and not all(map(pads, found))


class _Collations:
    """The collations of a query's strings. `all`: that occur anywhere."""

    def __init__(self, query: ResolvedQuery) -> None:
        self._meanings = query.meanings
        written = [node.expression.name.lower() for tree in query.trees for node in tree.find_all(exp.Collate)]
        of_columns = [column.type.collation for table in query.tables for column in table.columns]
        self.all = {*written, *filter(None, of_columns)}

    def of(self, given: Given) -> set[str]:
        """Of the strings that these may be, or compare: of a subquery those of its results."""
        found: set[str] = set()
        for one in self._meanings.reached(given, _results):
            if isinstance(one, ColumnRef):
                found |= {one.type.collation} if one.type.collation else set()
                continue
            for part in _results(one):
                if isinstance(part, exp.Collate):
                    found.add(part.expression.name.lower())
                elif isinstance(part, exp.Column) and not self._meanings.of(part):
                    return self.all
        return found


def _results(node: exp.Expr) -> Iterator[exp.Expr]:
    """The node and what is below it; of a SELECT its items only."""
    ahead = [node]
    while ahead:
        each = ahead.pop()
        yield each
        ahead += each.expressions if isinstance(each, exp.Select) else each.iter_expressions()
