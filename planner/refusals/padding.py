"""Strings that are equal by one plan of MySQL's, and not by another: of two collations, of which one pads.

MySQL looks up what is to equal a string under a collation of bytes (`..._bin`) in the index of a column of another
collation, and compares what it finds. Of the older collations of bytes 'a' equals 'a ', for they compare as if spaces
followed. In the index of a column that has a collation of `_0900_` these two are apart: by the index MySQL finds one,
without it both.

Columns are told by their names alone: those of one name are taken for one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from sqlglot import exp

from planner.refusals.pinned import given_names
from planner.tree.reasons import refuse
from planner.tree.resolved import ResolvedQuery
from sqltypes.collation import pads

_COMPARED = (exp.EQ, exp.NullSafeEQ, exp.NEQ, exp.In, exp.Between)  # NOT (a <> b) is a = b


def check_padding(query: ResolvedQuery) -> None:
    """Raises UnsupportedQuery where a string under a padding collation of bytes may be compared with a column whose
    collation does not pad."""
    names = _Collations(query)
    if not _differ(names.all):
        return
    for tree in query.trees:
        for node in tree.find_all(*_COMPARED):
            if _differ(names.below(node)):
                raise refuse("padding", node.sql("mysql")[:60])
        for join in tree.find_all(exp.Join):
            using = [name.name for name in join.args.get("using") or ()]
            for name in list(names.columns) if join.method == "NATURAL" else using:
                if _differ(names.columns[name.lower()]):
                    raise refuse("padding", name)


def _differ(collations: Iterable[str]) -> bool:
    """Whether one of these is of bytes and pads, and another does not pad."""
    found = set(collations) - {"binary"}
    return any(pads(name) and name.endswith("_bin") for name in found) and not all(map(pads, found))


class _Collations:
    """The collations of the columns by their names in lower case. `all`: that occur anywhere."""

    def __init__(self, query: ResolvedQuery) -> None:
        self.columns: defaultdict[str, set[str]] = defaultdict(set)
        for table in query.tables:
            for column in table.columns:
                if column.type.collation:
                    self.columns[column.name.lower()].add(column.type.collation)
        written = {node.expression.name.lower() for tree in query.trees for node in tree.find_all(exp.Collate)}
        self.all = written.union(*self.columns.values())
        if not _differ(self.all):
            return
        given = [*query.renamed, *(pair for tree in query.trees for pair in given_names(tree))]
        while any([self._give(name.lower(), value) for name, value in given]):
            pass

    def _give(self, name: str, value: exp.Expr | None) -> bool:
        """Adds the collations of the value to those of the name. Whether there were new ones."""
        before = len(self.columns[name])
        self.columns[name] |= self.all if value is None else self.below(value)
        return len(self.columns[name]) > before

    def below(self, node: exp.Expr) -> set[str]:
        """Of the strings that the node may be, or compares: of a subquery those of its results."""
        found: set[str] = set()
        for part in _results(node):
            if isinstance(part, exp.Star):
                return self.all
            if isinstance(part, exp.Collate):
                found.add(part.expression.name.lower())
            elif isinstance(part, exp.Column):
                found |= self.all if part.is_star else self.columns[part.name.lower()]
        return found


def _results(node: exp.Expr) -> Iterator[exp.Expr]:
    """The node and what is below it; of a SELECT its items only."""
    ahead = [node]
    while ahead:
        each = ahead.pop()
        yield each
        ahead += each.expressions if isinstance(each, exp.Select) else each.iter_expressions()
