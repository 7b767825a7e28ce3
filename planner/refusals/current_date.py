"""Where MySQL makes a date-time of a TIME it takes the current date, so that the same rows give another answer
tomorrow: such a query is refused.

It does so wherever a TIME is compared or combined with a DATE, DATETIME or TIMESTAMP, and where a function wants a
date. Every expression of a query is visited, in the scope of its names; `integration/clock/test_current_date.py` asks
MySQL about all the forms. A string or a number beside a TIME is read as a TIME, which no date is in.

On the way a query is refused in which a name is one table in the condition of a join, and another elsewhere: the
condition knows only the tables that are joined by then, from the last comma or bracket on, and those of queries around.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

from sqlglot import exp

from planner.tree.kinds import DATE_ARITHMETIC, Kind, classes, date_of, of_type, results_of
from planner.tree.names import Catalogue, Scope, Visible, derived_entry, table_entry
from planner.tree.reasons import refuse
from planner.tree.resolve import Around, Ctes, argument, ctes_before, first_part, names_itself, note_around, with_ctes
from sqltypes.errors import UnknownName
from sqltypes.expression import ColumnRef
from sqltypes.schema import NULL, SqlType, Table, View

TYPES = {Kind.TIME: SqlType("time"), Kind.TEMPORAL: SqlType("datetime")}
_COMPARED = classes("EQ NEQ NullSafeEQ NullSafeNEQ GT GTE LT LTE In Between Nullif")
_CHOSEN = classes("Case If Coalesce Greatest Least")
_OF_ITS_VALUE = classes(
    "Paren Alias Ordered Min Max AnyValue FirstValue LastValue NthValue Lag Lead Window IgnoreNulls RespectNulls "
    "Any All"
)
_DATES = classes("TsOrDsToDate TsOrDsToTimestamp Timestamp Date LastDay ConvertTimezone")
_OF_A_DATE = classes(
    "DateDiff TimestampDiff Quarter Dayname Year Month Day DayOfMonth DayOfWeek DayOfYear Week WeekOfYear"
)
_TIMES = classes("Time TimeFromParts")
_DATES_BY_NAME = frozenset({"makedate", "from_days"})
_OF_A_DATE_BY_NAME = frozenset({"weekday", "yearweek", "to_seconds", "to_days", "unix_timestamp"})
_TIMES_BY_NAME = frozenset({"timediff", "sec_to_time", "maketime"})
_DAY_BY_NAME = frozenset({"adddate", "subdate"})  # of days, where there is no INTERVAL
_KEEPS_BY_NAME = frozenset({"addtime", "subtime"})
_OF_HOURS = re.compile(r"(HOUR|MINUTE|SECOND|MICROSECOND)(_\w+)?", re.IGNORECASE)
_EXTRACTS_DATE = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "YEAR_MONTH"})
_TO_DATED = frozenset({"DATE", "DATETIME", "DATETIME2", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ"})
_DATE_PARTS = re.compile(r"%-?[^HIMSTfpr%-]")  # of a format, as sqlglot's trees have it: %M are minutes


def check_current_date(tree: exp.Query, catalogue: Catalogue) -> None:
    """Raises UnsupportedQuery where the current date is in the answer, or a name means two tables.

    Requires: `Catalogue.require` has passed.
    """
    _Walk(catalogue).query(tree, None, {})


@dataclass
class _Walk:
    """The queries of one text, with what their columns are."""

    catalogue: Catalogue
    recursive: dict[str, list[ColumnRef]] = field(default_factory=dict)  # queries of a WITH that are being visited
    around: Around = field(default_factory=dict)

    def query(self, tree: exp.Expr, parent: Scope | None, ctes: Ctes) -> list[ColumnRef]:
        """Checks the query. The columns that come out, of the type TIME, DATETIME or no matter which."""
        note_around(tree, parent, self.around)
        ctes = with_ctes(tree, ctes)
        if isinstance(tree, exp.Subquery):
            return self.query(tree.this, parent, ctes)
        if isinstance(tree, exp.SetOperation):
            left, right = self.query(tree.this, parent, ctes), self.query(tree.expression, parent, ctes)
            return [
                _column(one.name, _together(tree, [_kind(one), _kind(other)]))
                for one, other in zip(left, right, strict=False)
            ]
        if isinstance(tree, exp.Select):
            return _Select(self, tree, Scope(self.catalogue.fold_names, parent), ctes).columns()
        return []

    def _recursive(self, cte: exp.CTE, ctes: Ctes) -> list[ColumnRef]:
        """A query of a WITH that names itself: what it gives has the columns of its first part."""
        before, parent = ctes_before(ctes, cte.alias), self.around.get(id(cte))
        columns = _renamed(self.query(first_part(cte.this), parent, with_ctes(cte.this, before)), cte)
        inside = _Walk(self.catalogue, {**self.recursive, cte.alias: columns}, self.around)
        inside.query(cte.this, parent, {**before, cte.alias: cte})
        return columns

    def source(self, node: exp.Expr, scope: Scope, ctes: Ctes) -> list[ColumnRef]:
        """The columns of what stands in FROM and is no base table."""
        if isinstance(node, exp.Table) and node.name in ctes and not node.db:
            cte = ctes[node.name]
            if node.name in self.recursive:
                return self.recursive[node.name]
            if names_itself(cte):
                return self._recursive(cte, ctes)
            return _renamed(self.query(cte.this, self.around.get(id(cte)), ctes_before(ctes, node.name)), cte)
        if isinstance(node, exp.Table):
            view = self.catalogue.relation(node)
            assert isinstance(view, View)
            inside = _Walk(self.catalogue.inside(view))
            columns = inside.query(self.catalogue.parsed(view).tree, None, {})
            return [_column(*pair) for pair in zip(view.columns, map(_kind, columns), strict=False)] or columns
        outside = scope if isinstance(node, exp.Lateral) else scope.parent
        return _renamed(self.query(node.this, outside, ctes), node)


def _may_be_comma(join: exp.Expr) -> bool:
    """The tree has the same for a comma and for a JOIN without a condition."""
    return not any(join.args.get(name) for name in ("on", "using", "side", "kind", "method"))


@dataclass
class _Select:
    """One SELECT."""

    walk: _Walk
    tree: exp.Select
    scope: Scope
    ctes: Ctes
    aliases: dict[str, Kind] = field(default_factory=dict)
    _kinds: dict[int, Kind] = field(default_factory=dict)  # by id of the node: each is visited once
    _queries: dict[int, list[ColumnRef]] = field(default_factory=dict)
    _conditions: list[tuple[exp.Expr, list[Visible]]] = field(default_factory=list)  # of joins, with what they know

    def columns(self) -> list[ColumnRef]:
        clause = argument(self.tree, "from")
        joins = list(self.tree.args.get("joins") or ())
        if clause is not None:
            self._entry(clause.this)
        first = 0
        for node in joins:
            first = len(self.scope.entries) if _may_be_comma(node) else first
            self._join(node, first)
        for node in self.tree.args.get("laterals") or ():
            self._entry(node)
        for condition, known in self._conditions:
            for column in condition.find_all(exp.Column):
                if self.scope.is_hidden(column, known):
                    raise refuse("two_tables", column.sql("mysql"))
        for node in joins:
            self._visit(node.args.get("on"))
        self._visit(argument(self.tree, "where"))
        found = [column for node in self.tree.expressions for column in self._item(node)]
        for name in ("group", "having", "order", "windows"):
            part = self.tree.args.get(name)
            for each in part if isinstance(part, list) else [part]:
                self._visit(each)
        return found

    # -- FROM

    def _entry(self, node: exp.Expr) -> None:
        wrapped = node.this if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) else node
        nested, first = wrapped.args.get("joins") or (), len(self.scope.entries)
        name = wrapped.alias or wrapped.name
        base = isinstance(wrapped, exp.Table) and not (wrapped.name in self.ctes and not wrapped.db)
        relation = self.walk.catalogue.relation(wrapped) if base and isinstance(wrapped, exp.Table) else None
        database = relation.schema if relation is not None else ""
        if isinstance(relation, Table):
            self.scope.add(table_entry(name, database, name, relation, False))
        else:
            self.scope.add(derived_entry(name, self.walk.source(wrapped, self.scope, self.ctes), database))
        for join in nested:
            self._join(join, first)
        for join in nested:
            self._visit(join.args.get("on"))

    def _join(self, node: exp.Expr, first: int) -> None:
        """`first`: of the entries that its condition knows."""
        before = len(self.scope.entries)
        self._entry(node.this)
        if node.args.get("on") is not None:
            self._conditions.append((node.args["on"], self.scope.entries[first:]))
        named = [name.name.lower() for name in node.args.get("using") or ()]
        if node.args.get("method") == "NATURAL":
            named = [name for entry in self.scope.entries[before:] for name in entry.columns]
        for name in named:
            found = [entry.columns[name] for entry in self.scope.entries if name in entry.columns]
            _together(node, map(_kind, found))
            self.scope.merged.add(name)

    # -- SELECT

    def _item(self, node: exp.Expr) -> Sequence[ColumnRef]:
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            return self.scope.star("" if isinstance(node, exp.Star) else node.table)
        kind = self.of(node)
        if isinstance(node, exp.Alias):
            self.aliases.setdefault(node.alias.lower(), kind)
        return [_column(node.alias_or_name, kind)]

    # -- expressions

    def _visit(self, node: exp.Expr | None) -> None:
        if node is not None:
            self.of(node)

    def of(self, node: exp.Expr) -> Kind:
        """What the expression's value is. Raises UnsupportedQuery."""
        if id(node) not in self._kinds:
            self._kinds[id(node)] = self._of(node)
        return self._kinds[id(node)]

    def _of(self, node: exp.Expr) -> Kind:
        if isinstance(node, exp.Query):
            columns = self._query(node)
            return _kind(columns[0]) if len(columns) == 1 else Kind.OTHER
        if isinstance(node, exp.Column):
            return self._name(node)
        if isinstance(node, exp.TimeToStr) and _of_hours_only(node.args.get("format")):
            self._visit(node.this.this)  # below the conversion that sqlglot writes into the tree
            return Kind.OTHER
        kinds = {id(child): self.of(child) for child in node.iter_expressions()}
        if isinstance(node, exp.Null):
            return Kind.NULL
        if isinstance(node, _COMPARED):
            self._compared(node, kinds)
            return kinds[id(node.this)] if isinstance(node, exp.Nullif) else Kind.OTHER
        if isinstance(node, exp.Case) and node.this is not None:
            _together(node, [kinds[id(node.this)], *(self.of(branch.this) for branch in node.args["ifs"])])
        if isinstance(node, _CHOSEN):
            return _together(node, map(self.of, results_of(node)))
        if isinstance(node, _OF_ITS_VALUE):
            return kinds.get(id(node.this), Kind.OTHER)
        return _of_function(node, kinds)

    def _name(self, node: exp.Column) -> Kind:
        with suppress(UnknownName):
            own = self.scope.own_column(node.name, node.table, node.db)
            if own is None and not node.table and node.name.lower() in self.aliases:
                return self.aliases[node.name.lower()]
            return _kind(own or self.scope.column(node))
        return Kind.OTHER  # whoever resolves it for the plan says that it is not known

    def _compared(self, node: exp.Expr, kinds: Mapping[int, Kind]) -> None:
        sides = list(node.iter_expressions())
        rows = [list(self._row(side)) for side in sides]
        if any(len(row) > 1 for row in rows):
            for column in zip(*rows, strict=False):
                _together(node, column)
        else:
            _together(node, (kinds[id(side)] for side in sides))

    def _query(self, node: exp.Query) -> list[ColumnRef]:
        if id(node) not in self._queries:
            self._queries[id(node)] = self.walk.query(node, self.scope, self.ctes)
        return self._queries[id(node)]

    def _row(self, node: exp.Expr) -> Iterator[Kind]:
        if isinstance(node, exp.Tuple):
            yield from map(self.of, node.expressions)
        elif isinstance(node, exp.Query):
            yield from map(_kind, self._query(node))
        elif isinstance(node, exp.Any | exp.All):
            yield from self._row(node.this)
        else:
            yield self.of(node)


def _of_function(node: exp.Expr, kinds: Mapping[int, Kind]) -> Kind:
    """Of a node whose children are known."""
    first = kinds.get(id(node.this), Kind.OTHER)
    if isinstance(node, exp.Anonymous):
        return _by_name(node, [kinds[id(part)] for part in node.expressions])
    if isinstance(node, exp.Cast):
        return _cast(node, first)
    if isinstance(node, (*DATE_ARITHMETIC, exp.Add, exp.Sub, exp.TimestampAdd)):
        return _sum(node, kinds)
    if isinstance(node, exp.Extract):
        if node.name.upper() in _EXTRACTS_DATE:
            _dated(node, [kinds[id(node.expression)]])
        return Kind.OTHER
    if isinstance(node, _DATES):
        _dated(node, [first, *(kinds[id(part)] for name, part in node.args.items() if name == "timestamp")])
        return Kind.TEMPORAL
    if isinstance(node, _OF_A_DATE):
        _dated(node, kinds.values())
        return Kind.OTHER
    if isinstance(node, exp.StrToTime | exp.StrToDate):
        return Kind.TIME if _of_hours_only(node.args.get("format")) else Kind.TEMPORAL
    if isinstance(node, exp.UnixToTime):
        return Kind.OTHER if node.args.get("format") is not None else Kind.TEMPORAL
    if isinstance(node, exp.JSONValue):
        return _of_type_name(node.args.get("returning"))
    return Kind.TIME if isinstance(node, _TIMES) else Kind.OTHER


def _by_name(node: exp.Anonymous, arguments: Sequence[Kind]) -> Kind:
    name = node.name.lower()
    if name in _OF_A_DATE_BY_NAME:
        _dated(node, arguments)
    if name in _DAY_BY_NAME and arguments:
        interval = node.expressions[-1]
        return _moved(node, arguments[0], interval if isinstance(interval, exp.Interval) else None)
    if name in _KEEPS_BY_NAME and arguments:
        return arguments[0]
    if name in _TIMES_BY_NAME:
        return Kind.TIME
    return Kind.TEMPORAL if name in _DATES_BY_NAME else Kind.OTHER


def _cast(node: exp.Cast, operand: Kind) -> Kind:
    target = _of_type_name(node.args["to"])
    if target is Kind.TEMPORAL or node.args["to"].this.name == "YEAR":
        _dated(node, [operand])
    return target


def _of_type_name(node: exp.Expr | None) -> Kind:
    if not isinstance(node, exp.DataType):
        return Kind.OTHER
    if node.this.name in _TO_DATED:
        return Kind.TEMPORAL
    return Kind.TIME if node.this.name == "TIME" else Kind.OTHER


def _sum(node: exp.Expr, kinds: Mapping[int, Kind]) -> Kind:
    if isinstance(node, exp.TimestampAdd):
        return _moved(node, kinds[id(node.this)], node)
    base = date_of(node)
    if base is None:
        return Kind.OTHER
    if isinstance(node, DATE_ARITHMETIC):
        return _moved(node, kinds[id(base)], node)
    return _moved(node, kinds[id(base)], node.expression if base is node.this else node.this)


def _moved(node: exp.Expr, base: Kind, unit_of: exp.Expr | None) -> Kind:
    """Of a date or TIME that an interval is added to. `unit_of`: what has the interval's unit; None: days."""
    unit = unit_of.args.get("unit") if unit_of is not None else None
    if unit is None or not _OF_HOURS.fullmatch(unit.name):
        _dated(node, [base])
    return base


def _of_hours_only(format: exp.Expr | None) -> bool:
    return isinstance(format, exp.Literal) and not _DATE_PARTS.search(str(format.this))


def _dated(node: exp.Expr, kinds: Iterable[Kind]) -> None:
    """These become date-times."""
    if Kind.TIME in kinds:
        _refuse(node)


def _together(node: exp.Expr, kinds: Iterable[Kind]) -> Kind:
    """These become of one type."""
    found = set(kinds) - {Kind.NULL}
    if {Kind.TIME, Kind.TEMPORAL} <= found:
        _refuse(node)
    return found.pop() if len(found) == 1 else Kind.OTHER


def _refuse(node: exp.Expr) -> NoReturn:
    raise refuse("current_date", node.sql("mysql")[:60])


def _kind(column: ColumnRef) -> Kind:
    kind = of_type(column.type)
    return kind if kind in TYPES else Kind.OTHER


def _column(name: str, kind: Kind) -> ColumnRef:
    return ColumnRef("", name, TYPES.get(kind, NULL), True)


def _renamed(columns: list[ColumnRef], named: exp.Expr) -> list[ColumnRef]:
    alias = named.args.get("alias")
    names = [column.name for column in (alias.args.get("columns") or ())] if alias is not None else []
    return [_column(name, _kind(column)) for name, column in zip(names, columns, strict=False)] or columns
