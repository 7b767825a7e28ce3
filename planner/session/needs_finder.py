"""Looks at every node of a query for what its answer may depend on in a session (`planner/session/session_needs.py`):
what decides an order, what converts, what a function makes. `planner/session/compared.py` has what is compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from planner.session.compared import Compared
from planner.session.instants import TIMESTAMP, Instants
from planner.session.needs import (
    AUTO_IS_NULL,
    BY_WORD,
    COLLATION,
    CONVERTED,
    DATE_MODES,
    PADDED,
    STRICT,
    STRINGS,
    TIME_ZONE,
)
from planner.text.fingerprint import unquote
from planner.text.scan import Token
from planner.tree.function_table import (
    CASES,
    COMPARISONS,
    DATE_ARITHMETIC,
    DATE_PARTS,
    DATES,
    NUMERIC,
    OF_BYTES,
    OF_ITS_STRING,
    OF_ITS_VALUE,
    OF_JSON,
    TO_JSON,
    TRUTHS,
    UNQUOTED,
    Classes,
    classes,
)
from planner.tree.kinds import MADE, OF_JSON_KINDS, Kind, Kinds, date_of
from planner.tree.meanings import Meanings
from planner.tree.names import is_star
from planner.tree.resolve import argument, ordinal

_OFFSET = re.compile(r"[+-]\d{1,2}:\d\d\s*\Z", re.ASCII)  # of a date-time literal


@dataclass
class Finder:
    """Visits every node of a query. `meanings`, `kinds`: of its names and expressions; `instants`: the TIMESTAMP
    columns."""

    meanings: Meanings
    kinds: Kinds
    instants: Instants
    needs: set[str] = field(default_factory=set)
    shown: exp.Query | None = None  # the query that is visited, if what comes out of it is only shown

    def __post_init__(self) -> None:
        self.compared = Compared(self.meanings, self.kinds, self.needs)

    def words(self, tokens: Sequence[Token]) -> None:
        seen = {token.text.lower().strip("`") for token in tokens}
        self.needs |= {name for name, found in BY_WORD.items() if not seen.isdisjoint(found)}
        if any([token.kind == "string" and _OFFSET.search(unquote(token.text)) for token in tokens]):
            self.needs.add(TIME_ZONE)

    def tree(self, tree: exp.Query, *, shown: bool) -> None:
        """`shown`: what comes out of the tree is only shown."""
        self.shown = tree if shown else None
        only_shown = tree if shown and argument(tree, "order") is None else None
        for node in tree.walk():
            if isinstance(node, _IN_TEMPORARY_TABLES):
                self.needs.add(PADDED)
            if isinstance(node, exp.SetOperation):
                self._united(node, shown=node is only_shown and not node.args.get("distinct"))
                continue
            for class_, visit in _VISITS:
                if isinstance(node, class_):
                    visit(self, node)
                    break

    # -- names

    def _column(self, node: exp.Expr) -> None:
        types = self.instants.types(node)
        if TIMESTAMP in types:
            self.needs |= self.instants.needs(node, shown=self.shown)
        if "char" in types:
            self.needs.add(PADDED)

    def _star(self, node: exp.Expr) -> None:
        if isinstance(node.parent, exp.Count):
            return
        self.needs |= self.instants.star(node, shown=self.shown)
        if "char" in self.meanings.types(node.parent if isinstance(node.parent, exp.Column) else node):
            self.needs.add(PADDED)

    def _join(self, node: exp.Expr) -> None:
        if node.args.get("method") == "NATURAL":
            self.needs |= {COLLATION, PADDED, *CONVERTED}
        for name in node.args.get("using") or ():
            self._decides(name)
            self._column(name)

    # -- what decides an order or a group

    def _decides(self, node: exp.Expr) -> None:
        if self.kinds.of(node) is Kind.OTHER:
            self.needs.add(COLLATION)

    def _terms(self, node: exp.Expr) -> None:
        """ORDER BY and GROUP BY, anywhere."""
        for term in node.expressions:
            value = term.this if isinstance(term, exp.Ordered) else term
            position = ordinal(value)
            query = node.parent
            if position is None or not isinstance(query, exp.Query):
                self._decides(value)
            else:
                self._decides_item(query, position)

    def _decides_item(self, query: exp.Query, position: int) -> None:
        items = query.expressions if isinstance(query, exp.Select) else []
        if any(is_star(item) for item in items):
            return self._decides_all(items)
        if 1 <= position <= len(items):
            return self._decides(items[position - 1])
        self.needs.add(COLLATION)

    def _decides_all(self, items: Iterable[exp.Expr]) -> None:
        for item in items:
            if not is_star(item):
                self._decides(item)

    def _distinct(self, node: exp.Expr) -> None:
        select = node.parent if isinstance(node.parent, exp.Select) else None
        self._decides_all(node.expressions or (select.expressions if select is not None else ()))

    def _window(self, node: exp.Expr) -> None:
        self._decides_all(node.args.get("partition_by") or ())

    def _minmax(self, node: exp.Expr) -> None:
        self._decides(node.this)

    def _united(self, node: exp.SetOperation, *, shown: bool) -> None:
        """UNION and its kind: columns of several kinds become something else. `shown`: no rows are compared."""
        branches = [select.expressions for select in _branches(node)]
        if all(any(is_star(item) for item in items) for items in branches):
            return
        for column in zip(*branches, strict=False):
            kinds = [Kind.OTHER if is_star(item) else self.kinds.of(item) for item in column]
            self.compared.mixed(kinds)
            found = set(kinds) - {Kind.NULL}
            if shown:
                continue
            several = Kind.OWN in found and len(self.kinds.collations(*column)) > 1
            if len(found) > 1 or several or found & {Kind.GIVEN, Kind.OTHER}:
                self.needs.add(COLLATION)

    # -- what converts

    def _dated(self, node: exp.Expr | None) -> None:
        """Something becomes a date-time."""
        if node is None:
            return
        kind = self.kinds.of(node)
        text = isinstance(node, exp.Literal)  # `words` has looked at it
        if not text and kind not in (Kind.TEMPORAL, Kind.NUMBER, Kind.NULL):
            self.needs.add(TIME_ZONE)
        if kind not in (Kind.TEMPORAL, Kind.NULL):
            self.needs |= DATE_MODES

    def _date_function(self, node: exp.Expr) -> None:
        for part in (node.this, node.expression):
            if isinstance(part, exp.Expr) and not isinstance(part, exp.Var):
                self._dated(part)

    def _date_arithmetic(self, node: exp.Expr) -> None:
        self._dated(date_of(node))

    def _cast(self, node: exp.Expr) -> None:
        if self.kinds.of(node) in (Kind.TEMPORAL, Kind.TIME):
            self._dated(node.this)
            self.needs |= DATE_MODES
        elif node.args["to"].this.name in _TO_TEXT and not self._is_text(node.this):
            self.needs.add(STRICT)

    def _is_text(self, node: exp.Expr) -> bool:
        """Whether its value becomes a string as it is: it is one, or MySQL writes one of it, and it is no bytes."""
        if isinstance(node, exp.Column):
            types = self.meanings.types(node)
            return (bool(types) and types <= _TEXTS) or self.kinds.of(node) in _WRITTEN
        return isinstance(node, exp.Literal) or self.kinds.of(node) in _WRITTEN

    def _character(self, node: exp.Expr) -> None:
        """CHAR(): bytes, by their numbers, that are a string of a set."""
        if node.args.get("charset"):
            self.needs.add(STRICT)
        self._function(node)

    def _formatted(self, node: exp.Expr) -> None:
        self._dated(node.this)

    def _is(self, node: exp.Expr) -> None:
        columns = self.meanings.bases(self.meanings.of(node.this))
        if any(column.type.is_numeric and not column.nullable for column in columns):
            self.needs.add(AUTO_IS_NULL)  # IS NULL finds the row that was inserted last

    def _harmless(self, node: exp.Expr) -> None:
        """Neither compares strings nor makes date-times of them."""

    def _folded(self, node: exp.Expr) -> None:
        """Which letter is the capital of which, a collation says."""
        self._decides(node)
        if self.kinds.of(node.this) is not Kind.OWN:
            self.needs.add(STRINGS)

    def _trim(self, node: exp.Expr) -> None:
        if node.args.get("expression") is not None:
            self._function(node)

    def _json(self, node: exp.Expr) -> None:
        """Its arguments become JSON, or say a path into it: bytes, whatever their collation."""
        kinds = {self.kinds.of(part) for part in _arguments(node)}
        if kinds & {Kind.GIVEN, Kind.OWN, Kind.OTHER, Kind.UNQUOTED}:
            self.needs.add(STRINGS)
        if kinds & {Kind.TIME, Kind.TEMPORAL}:
            self.needs |= DATE_MODES

    def _of_bytes(self, node: exp.Expr) -> None:
        if not {self.kinds.of(part) for part in node.iter_expressions()} <= {Kind.OWN, Kind.NUMBER, Kind.NULL}:
            self.needs |= {STRINGS, *DATE_MODES}

    def _matched(self, node: exp.Expr) -> None:
        """MATCH: what is searched for becomes a string of the columns' collation."""
        if self.compared.is_given(node.this):
            self.needs.add(STRINGS)
        else:
            self._function(node)

    def _field(self, node: exp.Expr) -> None:
        """FIELD(): all are compared as strings, by the collation of the first, or all as numbers."""
        kinds = set(map(self.kinds.of, node.expressions)) - {Kind.NULL}
        if kinds <= {Kind.OWN, Kind.GIVEN}:
            self.compared.values(*node.expressions)
            if node.expressions and self.kinds.of(node.expressions[0]) is not Kind.OWN:
                self.needs.add(COLLATION)
        elif not (Kind.NUMBER in kinds and kinds <= {Kind.NUMBER, Kind.GIVEN}):
            self._function(node)

    def _by_name(self, node: exp.Expr) -> None:
        """A function that the parser has no class for."""
        name = node.name.lower()
        if name in TO_JSON.names or name in OF_JSON.names or name in UNQUOTED.names:
            self._json(node)
        elif name in OF_BYTES.names:
            self._of_bytes(node)
        elif name == "field":
            self._field(node)
        else:
            self._function(node)

    def _function(self, node: exp.Expr) -> None:
        """A function that is not known here."""
        for part in node.iter_expressions():
            if isinstance(part, exp.DataType | exp.Var | exp.Identifier):
                continue
            kind = self.kinds.of(part)
            if kind in (Kind.GIVEN, Kind.OWN, *MADE):
                self.needs |= {COLLATION, STRINGS, *CONVERTED}
            elif kind is Kind.TIME:
                self.needs |= CONVERTED
            elif kind is Kind.TEMPORAL:
                self.needs |= DATE_MODES


def _arguments(node: exp.Expr) -> Iterator[exp.Expr]:
    """Of a function; each of a pair of key and value for itself."""
    for part in node.iter_expressions():
        if isinstance(part, exp.JSONKeyValue):
            yield from part.iter_expressions()
        else:
            yield part


def _branches(node: exp.Expr) -> Iterator[exp.Select]:
    if isinstance(node, exp.SetOperation):
        yield from _branches(node.this)
        yield from _branches(node.expression)
    elif isinstance(node, exp.Subquery | exp.Paren):
        yield from _branches(node.this)
    elif isinstance(node, exp.Select):
        yield node


Visit = Callable[[Finder, exp.Expr], None]
_IN_TEMPORARY_TABLES = (
    exp.SetOperation, exp.Distinct, exp.Group, exp.Order, exp.Subquery, exp.With, exp.Window, exp.AggFunc,
)  # fmt: skip
_TO_TEXT = frozenset({"CHAR", "NCHAR", "VARCHAR", "NVARCHAR", "TEXT", "CHARACTER_SET"})
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_WRITTEN = frozenset({Kind.NUMBER, Kind.TEMPORAL, Kind.TIME, Kind.NULL, *OF_JSON_KINDS})
_HARMLESS = classes("And Or Xor Not GroupConcat Exists Escape Collate")

# The first that fits counts.
_VISITS: tuple[tuple[type[exp.Expr] | Classes, Visit], ...] = (
    (exp.Star, Finder._star),
    (exp.Column, Finder._column),
    (exp.Join, Finder._join),
    (COMPARISONS, lambda finder, node: finder.compared.comparison(node)),
    (exp.Nullif, lambda finder, node: finder.compared.nullif(node)),
    (exp.In, lambda finder, node: finder.compared.in_(node)),
    (exp.Between, lambda finder, node: finder.compared.between(node)),
    (exp.Like, lambda finder, node: finder.compared.like(node)),
    (exp.Is, Finder._is),
    (exp.Case, lambda finder, node: finder.compared.case(node)),
    ((exp.If, exp.Coalesce, exp.Concat), lambda finder, node: finder.compared.chosen(node)),
    ((exp.Greatest, exp.Least), lambda finder, node: finder.compared.extreme(node)),
    ((exp.Order, exp.Group), Finder._terms),
    (exp.Distinct, Finder._distinct),
    (exp.Window, Finder._window),
    ((exp.Min, exp.Max), Finder._minmax),
    (exp.Trim, Finder._trim),
    (CASES, Finder._folded),
    (exp.TimeToStr, Finder._formatted),
    ((*DATES, *DATE_PARTS), Finder._date_function),
    ((*DATE_ARITHMETIC, exp.Add, exp.Sub), Finder._date_arithmetic),
    (exp.Cast, Finder._cast),
    (exp.Chr, Finder._character),
    ((*NUMERIC, *OF_ITS_STRING, *OF_ITS_VALUE, *_HARMLESS), Finder._harmless),
    ((*TO_JSON.classes, *OF_JSON.classes, *UNQUOTED.classes), Finder._json),
    (OF_BYTES.classes, Finder._of_bytes),
    (exp.MatchAgainst, Finder._matched),
    (exp.Anonymous, Finder._by_name),
    ((exp.Func, *TRUTHS), Finder._function),
)
