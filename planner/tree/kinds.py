"""Of what kind an expression's value is, as far as sessions matter: whose collation a string has, and what is a
date-time. A name that means several kinds is OTHER.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from sqlglot import exp

from planner.tree.by_index import DATES as FAMILIES_OF_DATES
from planner.tree.by_index import NUMBERS, Family, family_of
from planner.tree.function_table import (
    CASTS,
    CHOOSING,
    DATE_ARITHMETIC,
    DATE_PARTS,
    DATES,
    NUMERIC,
    OF_ITS_STRING,
    OF_ITS_VALUE,
    OF_JSON,
    OPERATORS,
    TO_JSON,
    TRUTHS,
    UNQUOTED,
)
from planner.tree.meanings import Given, Meanings
from planner.tree.provenance import Name, name_of
from planner.tree.untyped import AsSent
from sqltypes.expression import ColumnRef
from sqltypes.schema import SqlType


class Kind(Enum):
    NUMBER = "number"
    TEMPORAL = "temporal"  # DATE, DATETIME, TIMESTAMP
    TIME = "time"
    OWN = "own"  # a string or bytes whose collation is a column's, or written out
    GIVEN = "given"  # a string literal or a parameter
    JSON = "json"
    UNQUOTED = "unquoted"  # a string made of JSON: of utf8mb4_bin, which wins beside a literal's collation
    NULL = "null"
    OTHER = "other"  # a string that MySQL makes, or not known


OF_JSON_KINDS = frozenset({Kind.JSON, Kind.UNQUOTED})
MADE = OF_JSON_KINDS | {Kind.OTHER}
"""What MySQL makes, or what is not known."""


_OF_FAMILY = {
    **dict.fromkeys((*NUMBERS, Family.BIT, Family.YEAR), Kind.NUMBER),
    **dict.fromkeys(FAMILIES_OF_DATES, Kind.TEMPORAL),
    **dict.fromkeys((Family.TEXT, Family.BYTES, Family.MEMBER, Family.GEOMETRY), Kind.OWN),
    **{Family.TIME: Kind.TIME, Family.JSON: Kind.JSON},
}


def of_type(type_: SqlType) -> Kind:
    """The kind of a column."""
    return _OF_FAMILY.get(family_of(type_), Kind.OTHER)


def combined(kinds: Iterable[Kind]) -> Kind:
    """The kind of a value that is one of these."""
    found = set(kinds) - {Kind.NULL}
    if not found:
        return Kind.NULL
    if found in ({Kind.OWN}, {Kind.OWN, Kind.GIVEN}):
        return Kind.OWN
    return found.pop() if len(found) == 1 and Kind.GIVEN not in found else Kind.OTHER


def of_cast(target: exp.Expr | None) -> Kind:
    """The kind of what CAST makes. `target`: the type that it names."""
    family = CASTS.get(target.this.name) if isinstance(target, exp.DataType) else None
    return _OF_FAMILY[family] if family is not None else Kind.OTHER


class Kinds:
    """The kinds of a query's expressions."""

    def __init__(self, meanings: Meanings) -> None:
        self._meanings = meanings
        self._known: dict[Name, Kind] = {}

    def column(self, node: exp.Expr) -> Kind:
        """The kind of a column, or of what a name in USING means."""
        return self._one_of(self._meanings.of(node))

    def _one_of(self, given: Given) -> Kind:
        kinds = {self._meant(one) for one in given}
        return kinds.pop() if len(kinds) == 1 else Kind.OTHER

    def _meant(self, given: ColumnRef | exp.Expr) -> Kind:
        if not isinstance(given, ColumnRef):
            return _column(self.of(given))
        if (name := name_of(given)) not in self._known:
            below = self._meanings.below(given)
            self._known[name] = of_type(given.type) if below is None else self._one_of(below)
        return self._known[name]

    def collations(self, *nodes: exp.Expr) -> set[str]:
        """Of all columns that are named anywhere below these: if they are several, none of them may win."""
        found: set[str] = set()
        for one in self._meanings.reached(nodes):
            if not isinstance(one, ColumnRef):
                found |= {collate.expression.name for collate in one.find_all(exp.Collate)}
            elif self._meanings.below(one) is None and of_type(one.type) is Kind.OWN:
                found.add(one.type.collation or "binary")
        return found

    def of(self, node: exp.Expr) -> Kind:
        for class_, handler in _HANDLERS:
            if isinstance(node, class_):
                return handler(self, node)
        return Kind.OTHER

    def _literal(self, node: exp.Expr) -> Kind:
        assert isinstance(node, exp.Literal)
        return Kind.GIVEN if node.is_string else Kind.NUMBER

    def _sum(self, node: exp.Expr) -> Kind:
        base = date_of(node)
        if base is None:
            return Kind.NUMBER
        return Kind.TEMPORAL if self.of(base) is Kind.TEMPORAL else Kind.OTHER

    def _any_of(self, node: exp.Expr) -> Kind:
        return self._one_collation(node, combined(map(self.of, results_of(node))))

    def _concat(self, node: exp.Expr) -> Kind:
        found = {self.of(part) for part in node.expressions} - {Kind.NULL, Kind.GIVEN}
        return self._one_collation(node, Kind.OWN if found == {Kind.OWN} else Kind.OTHER)

    def _one_collation(self, node: exp.Expr, kind: Kind) -> Kind:
        return Kind.OTHER if kind is Kind.OWN and len(self.collations(node)) > 1 else kind

    def _string(self, node: exp.Expr) -> Kind:
        return Kind.OWN if self.of(node.this) is Kind.OWN else Kind.OTHER

    def _value(self, node: exp.Expr) -> Kind:
        return _column(self.of(node.this))

    def _named_function(self, node: exp.Expr) -> Kind:
        """Of a function that the parser has no class for."""
        name = node.name.lower()
        if name in TO_JSON.names:
            return Kind.JSON
        if name in UNQUOTED.names:
            return Kind.UNQUOTED
        return Kind.NUMBER if name in OF_JSON.names or name == "field" else Kind.OTHER

    def _subquery(self, node: exp.Expr) -> Kind:
        items = node.this.expressions if isinstance(node.this, exp.Select) else node.expressions
        return _column(self.of(items[0])) if len(items) == 1 else Kind.OTHER


def _column(kind: Kind) -> Kind:
    """What a literal is, once it is a column of something."""
    return Kind.OTHER if kind is Kind.GIVEN else kind


def operands(node: exp.Expr) -> list[exp.Expr]:
    """The first argument and the further ones."""
    return [part for part in (node.this, *node.expressions) if isinstance(part, exp.Expr)]


def results_of(node: exp.Expr) -> list[exp.Expr]:
    """The expressions of which a conditional one gives one, or any other is made."""
    if isinstance(node, exp.Case):
        found = [branch.args["true"] for branch in node.args["ifs"]] + [node.args.get("default")]
    elif isinstance(node, exp.If):
        found = [node.args.get("true"), node.args.get("false")]
    else:
        return operands(node)
    return [part for part in found if isinstance(part, exp.Expr)]


def date_of(node: exp.Expr) -> exp.Expr | None:
    """What an interval is added to or taken from; None where there is no interval."""
    if isinstance(node, DATE_ARITHMETIC):
        return node.this if isinstance(node.this, exp.Expr) else None
    for one, other in ((node.this, node.expression), (node.expression, node.this)):
        if isinstance(other, exp.Interval):
            return one if isinstance(one, exp.Expr) else None
    return None


def always(kind: Kind) -> Callable[[Kinds, exp.Expr], Kind]:
    return lambda kinds, node: kind


_HANDLERS: tuple[tuple[type[exp.Expr] | tuple[type[exp.Expr], ...], Callable[[Kinds, exp.Expr], Kind]], ...] = (
    ((exp.Column, exp.Identifier), Kinds.column),
    (exp.Literal, Kinds._literal),
    (AsSent, always(Kind.OTHER)),
    (exp.Placeholder, always(Kind.GIVEN)),
    (exp.Null, always(Kind.NULL)),
    ((exp.Paren, exp.Alias, exp.Ordered), lambda kinds, node: kinds.of(node.this)),
    ((exp.HexString, exp.BitString, exp.Collate), always(Kind.OWN)),
    ((*NUMERIC, *DATE_PARTS, *OPERATORS, *TRUTHS, *OF_JSON.classes, exp.MatchAgainst), always(Kind.NUMBER)),
    (TO_JSON.classes, always(Kind.JSON)),
    (UNQUOTED.classes, always(Kind.UNQUOTED)),
    (exp.Anonymous, Kinds._named_function),
    (DATES, always(Kind.TEMPORAL)),
    ((exp.Add, exp.Sub, *DATE_ARITHMETIC), Kinds._sum),
    (exp.Cast, lambda kinds, node: of_cast(node.args["to"])),
    (CHOOSING, Kinds._any_of),
    (exp.Concat, Kinds._concat),
    (OF_ITS_STRING, Kinds._string),
    (OF_ITS_VALUE, Kinds._value),
    ((exp.Subquery, exp.Select), Kinds._subquery),
)
