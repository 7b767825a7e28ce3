"""Which columns of a query have one value, so that MySQL may put a constant that one of them equals in the place of
each; and how many texts such a value may have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from planner.tree.function_table import CHOOSING, COMPUTED, Classes
from planner.tree.kinds import results_of
from planner.tree.meanings import Given, Meanings
from planner.tree.provenance import Name, name_of
from sqltypes.expression import ColumnRef
from sqltypes.schema import SqlType

NUMBERS = frozenset({"bit", "decimal", "float", "zerofill", "integer"})
ALL = NUMBERS | {"time"}
GIVING_ONE: Classes = (*CHOOSING, exp.Nullif, exp.Min, exp.Max, exp.AnyValue)
UNKNOWN: Name = ("", "")


class Pins:
    """Equality classes of a query's columns, made of all that it and its views set equal, wherever it stands."""

    def __init__(self, trees: Sequence[exp.Query], meanings: Meanings) -> None:
        self._meanings = meanings
        self._parent: dict[Name, Name] = {}
        named = [column for tree in trees for column in tree.find_all(exp.Column)]
        self._all_known = all([meanings.of(column) for column in named])
        for name, given in meanings.renamed():
            self._join([name, *self._columns(given)])
        for _, columns in meanings.merged:
            self._join(map(name_of, columns))
        for tree in trees:
            for equal in tree.find_all(exp.EQ, exp.NEQ, exp.In):
                for given in self._equated(equal):
                    self._join(self._columns(given))

    def _columns(self, given: Given) -> list[Name]:
        if (plain := self._meanings.plain(given)) is not None:
            return [*map(name_of, plain)]
        return [name_of(one) for one in self._meanings.reached(given) if isinstance(one, ColumnRef)]

    def _join(self, names: Iterable[Name]) -> None:
        roots = [*map(self._root, names)]
        self._parent.update((root, roots[0]) for root in roots if root != roots[0])

    def _root(self, name: Name) -> Name:
        while (parent := self._parent.get(name, name)) != name:
            name = parent
        return name

    def _equated(self, equal: exp.Expr) -> Iterator[Given]:
        """What a condition sets equal: two columns, those of two rows, and what a subquery gives."""
        others = [equal.expression] if isinstance(equal, exp.Binary) else [equal.args.get("query"), *equal.expressions]
        for other in others:
            is_one = isinstance(equal, exp.Binary) and isinstance(other, exp.Subquery)  # its value is a constant's
            if isinstance(other, exp.Expr) and not is_one:
                for one, another in zip(self._row(equal.this), self._row(other), strict=False):
                    if one and another:
                        yield (*one, *another)

    def _row(self, side: exp.Expr) -> list[Given]:
        side = side.unnest()
        if isinstance(side, exp.Any | exp.All):
            return self._row(side.this)
        if isinstance(side, exp.Query):
            return [output.given for output in self._meanings.outputs.get(id(side), ())]
        parts = side.expressions if isinstance(side, exp.Tuple) else [side]
        return [self._meanings.of(part.unnest()) for part in parts]

    def roots(self, column: exp.Expr) -> set[Name]:
        """One name for all columns that have the same value. Where it is not known what a name means they are all
        one."""
        if not self._all_known:
            return {UNKNOWN}
        return {self._root(name) for name in self._columns(self._meanings.of(column))}

    def kinds(self, column: exp.Expr) -> set[str]:
        """Of which kinds it may be; all where that is not known."""
        given, found = self._meanings.of(column), set[str]()
        for one in self._meanings.reached(given):
            if not isinstance(one, ColumnRef):
                found |= {"decimal"} if _is_computed(one) else set()
            elif self._meanings.below(one) is None:
                found.add(_kind(one.type))
        return found if given else {*ALL}


def _kind(type_: SqlType) -> str:
    """What the type is here; "" where its values have the text of any constant that they equal."""
    if type_.name in ("bit", "decimal", "time"):
        return type_.name
    if type_.zerofill:
        return "zerofill"
    return "float" if type_.is_approximate else "integer" if type_.is_integer else ""


def _is_computed(value: exp.Expr) -> bool:
    """Whether the value may be a number that no column is."""
    value = value.unnest()
    if isinstance(value, exp.Literal):
        return not value.is_string
    if isinstance(value, GIVING_ONE):
        return any(map(_is_computed, results_of(value)))
    return isinstance(value, COMPUTED)
