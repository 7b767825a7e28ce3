"""Evict mode: which changes concern which answers of a query that is held as it is.

For every occurrence of a base table anywhere in the text: conditions that each of its rows must pass to matter
(`filter`), columns that must equal key parameters for it to matter (`key_columns`), other conditions on it and on
parameters that they must pass (`tells`), and all that is read of it (`used`). A condition counts for an occurrence if
rows that fail it cannot change what its SELECT gives:

* WHERE, and ON of an inner join: for every table of the SELECT, if the condition is not true for a row of NULLs
  wherever the table is the inner side of an outer join;
* ON of a LEFT JOIN: for the joined table only; where that stands in brackets, if it is not true for a row of NULLs;
* equality to a column of a SELECT around (correlation) carries that column's parameter inwards.

When anything is not understood the input says less, never more: no key column, no filter, all columns. So it is where
the walk has overlooked a table or a column of the text, which its end looks for (`Analysis.overlooked`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sqlglot import exp

from planner.evict.crossings import Crossed
from planner.evict.cut import cut_of
from planner.evict.occurrence import Occurrence
from planner.maintain.first_rows import takes_the_first
from planner.maintain.rewrites.outer_to_inner import rejects_missing
from planner.refusals.by_plan import ByPlan, check_merged
from planner.refusals.looked_up import Sides
from planner.refusals.raising import may_raise
from planner.text.parse import parameter_number
from planner.tree.expressions import Collected, Expressions, Parameters, split_and
from planner.tree.logical import NotMaintained, fresh_alias, parameters_of, to_own
from planner.tree.names import Catalogue, Scope, derived_entry, is_star, named_tables, renaming, table_entry
from planner.tree.plan import AnswerInput, Caution, Crossing, own
from planner.tree.provenance import Name, equality_of, name_of, pin_of
from planner.tree.reasons import refuse
from planner.tree.resolve import Around, Ctes, argument, ctes_before, first_part, names_itself, note_around, with_ctes
from planner.tree.resolved import ResolvedQuery
from sqltypes import build
from sqltypes.errors import UnknownName, UnsupportedQuery
from sqltypes.expression import Call, ColumnRef, Expr, columns_of, sources_of
from sqltypes.functions import BOOLEANS
from sqltypes.schema import NULL, SqlType, Table, View

NONE: Mapping[str, list[ColumnRef]] = {}
Facts = dict[Name, int]  # column -> the parameter that it equals wherever its row matters


@dataclass
class Analysis:
    """All occurrences of base tables in a query, by alias. `caution`: what of it is not believed. `virtual`: columns of
    which a row image does not tell the reader's value (`planner/session/virtual_columns.py`)."""

    query: ResolvedQuery
    parameters: Parameters
    caution: Caution
    virtual: Mapping[Table, frozenset[str]]
    occurrences: dict[str, Occurrence] = field(default_factory=dict)
    aliases: set[str] = field(default_factory=set)
    visited: list[exp.Expr] = field(default_factory=list)  # what stands in a FROM, as far as it was entered
    crossed: Crossed = field(default_factory=Crossed)

    def __post_init__(self) -> None:
        """Analyses the whole query; parameters get their types on the way."""
        self.sides = Sides(self.query.meanings)
        _Walk(self, self.query.catalogue).query(self.query.tree, None, {}, {})
        check_merged(self.query.meanings, self.sides)
        self.overlooked(self.query.tree)
        if any(map(takes_the_first, self.query.trees)):
            self.read_in_some_order()

    def overlooked(self, tree: exp.Query) -> None:
        """Of a tree that was walked: nothing is believed where a table of it was not entered. All of each table counts
        as read where a NATURAL JOIN reads what is not named. A column that is named counts as read of the table whose
        it is, or of every table that has it, unless it is noted of one; one of USING of every table that has it."""
        visited, all_ = set(map(id, self.visited)), self.occurrences.values()
        if any(id(table) not in visited for table in named_tables(tree)):
            self.caution = Caution.TABLES
        joins = list(tree.find_all(exp.Join))
        if any(join.method == "NATURAL" for join in joins):
            for each in all_:
                each.use_all()
        named = {(column.table.lower(), column.name.lower()) for column in tree.find_all(exp.Column)}
        joined = {name.name.lower() for join in joins for name in join.args.get("using") or ()}
        named |= {(each.alias.lower(), name) for each in all_ for name in joined}
        for alias, name in named:
            having = [each for each in all_ if name in each.table.by_name]
            owners = [each for each in having if each.alias.lower() == alias] or having
            if not any(each.reads(name) for each in owners):
                for each in owners:
                    each.used.setdefault(own(each.table.column(name).name, each.table))

    def read_in_some_order(self) -> None:
        """Where LIMIT takes the rows that are read first, a column of an index tells which these are."""
        for each in self.occurrences.values():
            for name in {name for index in each.table.indexes for name in index}:
                each.used.setdefault(own(each.table.column(name).name, each.table))

    def is_json(self, node: exp.Column) -> bool:
        """Whether it is a column of that type."""
        return self.query.meanings.types(node) == {"json"}

    def inputs(self, key: Sequence[int]) -> tuple[AnswerInput, ...]:
        """`key`: the parameters that are the answer's key, in order. Equal inputs come once."""
        seen = {occurrence.table for occurrence in self.occurrences.values()}
        for table in self.query.tables:
            if table not in seen:  # it stands where no SELECT was visited
                alias = fresh_alias(table.name, self.aliases)
                self.occurrences[alias] = occurrence = Occurrence(alias, table, True)
                occurrence.use_all()
        return tuple(dict.fromkeys(self._input(occurrence, key) for occurrence in self.occurrences.values()))

    def crossings(self, types: Sequence[SqlType]) -> tuple[Crossing, ...]:
        """`types`: of the parameters, which are the answer's key in this order. Requires: `inputs` was asked before."""
        believed = self.caution is Caution.NONE and not self.virtual
        return tuple(self.crossed.crossings(self.occurrences, types)) if believed else ()

    def _input(self, occurrence: Occurrence, key: Sequence[int]) -> AnswerInput:
        table = occurrence.table
        columns: tuple[str | None, ...] = tuple(occurrence.keys.get(index) for index in key)
        virtual = self.virtual.get(table, frozenset())
        if self.caution >= Caution.KEYS or virtual:
            occurrence.use_all()
            occurrence.filter = []
            occurrence.tells, occurrence.cut = [], None
        columns = tuple(None if name is None or name.lower() in virtual else name for name in columns)
        if self.caution >= Caution.TABLES:
            columns = (None,) * len(key)
        for name in columns:
            if name is not None:
                occurrence.used.setdefault(own(name, table))
        plain = [own(column.name, table) for column in table.columns]
        used = [ref for ref in plain if ref in occurrence.used]
        used_exprs = [expr for expr in occurrence.used if not columns_of(expr) <= set(used)]
        passes, tells = build.conjunction(occurrence.filter), build.conjunction(occurrence.tells)
        return AnswerInput(table, columns, passes, (*used, *used_exprs), tells, occurrence.cut)


class _Walk:
    """Visits every SELECT of a query, with the scopes around it. Methods return the columns that come out: name,
    type, nullable."""

    def __init__(
        self,
        analysis: Analysis,
        catalogue: Catalogue,
        recursive: Mapping[str, list[ColumnRef]] = NONE,
        around: Around | None = None,
    ) -> None:
        """`recursive`: queries of a WITH that are being visited, by name, and their columns."""
        self.analysis = analysis
        self.catalogue = catalogue
        self.recursive = recursive
        self.around: Around = {} if around is None else around

    def query(self, tree: exp.Expr, parent: Scope | None, ctes: Ctes, facts: Facts) -> list[ColumnRef]:
        note_around(tree, parent, self.around)
        if isinstance(tree, exp.Subquery):
            ctes = with_ctes(tree, ctes)
            self._limits(tree)
            columns = self.query(tree.this, parent, ctes, facts)
            self._order(tree)
            return columns
        if isinstance(tree, exp.SetOperation):
            ctes = with_ctes(tree, ctes)
            columns, _ = (self.query(part, parent, ctes, facts) for part in (tree.this, tree.expression))
            self._limits(tree)
            self._order(tree)
            return columns
        if isinstance(tree, exp.Select):
            columns = _Select(self, tree, parent, with_ctes(tree, ctes), facts).visit()
            self._limits(tree)
            return columns
        raise refuse("not_a_select", tree.sql("mysql")[:60])

    def _limits(self, tree: exp.Expr) -> None:
        for name in ("limit", "offset"):
            clause = argument(tree, name)
            node = clause.expression if clause is not None else None
            if isinstance(node, exp.Placeholder):
                self.analysis.parameters.limit(parameter_number(node))

    def _order(self, tree: exp.Expr) -> None:
        """ORDER BY behind a query in brackets or a UNION: its names are not resolved, so it may read any column."""
        clause = argument(tree, "order")
        if clause is not None:
            for occurrence in self.analysis.occurrences.values():
                occurrence.use_all()
            if clause.find(exp.Query) is not None:
                self.analysis.caution = Caution.TABLES

    def derived(self, node: exp.Expr, scope: Scope, ctes: Ctes) -> list[ColumnRef]:
        """What stands in FROM and is no base table: its own SELECTs are visited by themselves."""
        if isinstance(node, exp.Table) and node.name in ctes and not node.db:
            cte = ctes[node.name]
            if node.name in self.recursive:
                return self.recursive[node.name]
            self._shown(cte.this)
            if names_itself(cte):
                return self._recursive(cte, ctes)
            columns = self.query(cte.this, self.around.get(id(cte)), ctes_before(ctes, node.name), {})
            return _renamed(columns, cte)
        if isinstance(node, exp.Table):
            relation = self.catalogue.relation(node)
            assert isinstance(relation, View)
            tree = self.catalogue.parsed(relation).tree
            self._shown(tree)
            columns = _Walk(self.analysis, self.catalogue.inside(relation)).query(tree, None, {}, {})
            self.analysis.overlooked(tree)
            names = relation.columns or tuple(column.name for column in columns)
            return [replace(column, name=name) for column, name in zip(columns, names, strict=True)]
        outside = scope if isinstance(node, exp.Lateral) else scope.parent  # what is around the SELECT of this FROM
        self._shown(node.this)
        return _renamed(self.query(node.this, outside, ctes, {}), node)

    def _recursive(self, cte: exp.CTE, ctes: Ctes) -> list[ColumnRef]:
        """A query of a WITH that names itself: what it gives has the columns of its first part. Which of its rows leads
        to which is not followed, so any change of its tables may concern any answer."""
        self.analysis.caution = Caution.TABLES
        parent = self.around.get(id(cte))
        columns = _renamed(
            self.query(first_part(cte.this), parent, with_ctes(cte.this, ctes_before(ctes, cte.alias)), {}), cte
        )
        inside = _Walk(self.analysis, self.catalogue, {**self.recursive, cte.alias: columns}, self.around)
        inside.query(cte.this, parent, {**ctes_before(ctes, cte.alias), cte.alias: cte}, {})
        return columns

    def _shown(self, tree: exp.Expr) -> None:
        """What a derived table shows, MySQL may compute for a condition outside, before those inside."""
        shown = [item for select in tree.find_all(exp.Select) for item in select.expressions]
        if any(may_raise(item, self.analysis.is_json) for item in shown):
            self.analysis.caution = Caution.TABLES


def _renamed(columns: list[ColumnRef], named: exp.Expr) -> list[ColumnRef]:
    names = renaming(named)
    return [replace(column, name=name) for column, name in zip(columns, names, strict=True)] if names else columns


class _Select:
    """The tables and conditions of one SELECT."""

    def __init__(self, walk_: _Walk, tree: exp.Select, parent: Scope | None, ctes: Ctes, facts: Facts) -> None:
        self._walk = walk_
        self._all = walk_.analysis.occurrences
        self._tree = tree
        self._scope = Scope(walk_.catalogue.fold_names, parent)
        self._by_plan = ByPlan(tree, self._scope, walk_.analysis.sides)
        self._ctes = ctes
        self._facts = dict(facts)
        self._own: list[Occurrence] = []
        self._outer_queries: set[str] = set()  # aliases of derived tables that may be the inner side of an outer join
        self._conditions: list[tuple[exp.Expr, str | None]] = []  # and the only alias that it counts for
        self._uncounted: list[exp.Expr] = []
        self._aliased: dict[str, Expr] = {}  # what select aliases stand for, as far as it is typed

    def visit(self) -> list[ColumnRef]:
        self._from()
        self._by_plan.shown_alone()
        self._by_plan.equal_columns()
        self._by_plan.conditions()
        self._by_plan.long_sums()
        where = argument(self._tree, "where")
        self._conditions += [(part, None) for part in split_and(where.this if where is not None else None)]
        typed = [(self._typed(node), node, only) for node, only in self._conditions]
        raw = [*(node for node, _ in self._conditions), *self._uncounted]
        untyped = [*(node for expr, node, _ in typed if expr is None), *self._uncounted]
        if any(may_raise(node, self._walk.analysis.is_json) for node in untyped):
            # A row that another condition leaves out may turn the answer into an error.
            self._walk.analysis.caution = Caution.TABLES
        inner: dict[str, Table | None] = {each.alias: each.table for each in self._own if each.outer}
        self._by_plan.concat_of_one_row(raw, self._facts, inner | dict.fromkeys(self._outer_queries))
        self._walk.analysis.crossed.note(self._tree, [expr for expr, _, _ in typed if expr is not None])
        self._count([(expr, only) for expr, _, only in typed if expr is not None])
        for expr, node, only in typed:
            if expr is None:
                self._use_node(node)
            elif not self._is_filter(expr, only):
                self._use(expr)
        for node in self._uncounted:
            self._use_any(node)
        columns = self._rest()
        query = self._walk.analysis.query
        if self._tree is query.tree and not query.parsed.counts:  # what FOUND_ROWS() is, every row changes
            self._cut()
        return columns

    def _cut(self) -> None:
        """Requires: it is the query itself, not one within."""
        alias, cut = cut_of(self._tree, self._scope) or ("", None)
        for occurrence in self._own:
            if cut is not None and occurrence.alias == alias and not occurrence.outer:
                column = occurrence.table.column(cut.column.name)
                occurrence.cut = replace(cut, column=own(column.name, occurrence.table))

    # -- FROM

    def _from(self) -> None:
        clause = argument(self._tree, "from")
        if clause is None:
            return
        nodes = [node for node in self._tree.args.get("joins") or ()]
        plain = all(node.side in ("", "LEFT") and node.method != "NATURAL" for node in nodes)
        self._entry(clause.this, outer=not plain)
        for node in nodes:
            alias = self._entry(node.this, outer=node.side == "LEFT" or not plain)
            self._using(node)
            self._natural(node)
            for part in split_and(node.args.get("on")):
                if not plain:
                    self._uncounted.append(part)
                else:
                    self._conditions.append((part, alias if node.side == "LEFT" else None))
        for node in self._tree.args.get("laterals") or ():
            self._entry(node, outer=True)

    def _entry(self, node: exp.Expr, outer: bool, nested: bool = False, alone: bool = False) -> str:
        """Enters one entry of FROM, returns its alias in the analysis. `alone`: without what is joined to it."""
        if isinstance(node, (exp.Table, exp.Subquery)) and node.args.get("joins") and not alone:
            return self._nested(node)
        # Brackets around a join; its first table may be a derived one. A derived table has an alias.
        if isinstance(node, exp.Subquery) and not node.alias and isinstance(node.this, (exp.Table, exp.Subquery)):
            return self._nested(node.this)
        self._walk.analysis.visited.append(node)
        name = node.alias or node.name
        alias = fresh_alias(name, self._walk.analysis.aliases)
        base = isinstance(node, exp.Table) and not (node.name in self._ctes and not node.db)
        relation = self._walk.catalogue.relation(node) if base and isinstance(node, exp.Table) else None
        if isinstance(relation, Table):
            self._scope.add(table_entry(name, relation.schema, alias, relation, outer))
            self._all[alias] = occurrence = Occurrence(alias, relation, outer, nested)
            self._own.append(occurrence)
            if node.args.get("partition"):  # any column may tell in which one a row is
                occurrence.use_all()
        else:
            columns = self._walk.derived(node, self._scope, self._ctes)
            refs = [ColumnRef(alias, column.name, column.type, True) for column in columns]
            self._outer_queries |= {alias} if outer else set()
            database = relation.schema if relation is not None else ""
            self._scope.add(derived_entry(name, refs, database))
        return alias

    def _nested(self, node: exp.Expr) -> str:
        """A join in brackets: its conditions count for nothing, its tables may be the inner side of anything."""
        alias = self._entry(node, outer=True, nested=True, alone=True)
        for join in node.args.get("joins") or ():
            alias = self._entry(join.this, outer=True, nested=True)
            self._using(join)
            self._natural(join)
            self._uncounted += split_and(join.args.get("on"))
        return alias

    def _using(self, node: exp.Expr) -> None:
        for name in node.args.get("using") or ():
            found = self._scope.named(name.name)
            self._by_plan.merged(found, name.name)
            for column in found:
                self._use(column)
            self._scope.merged.add(name.name.lower())

    def _natural(self, node: exp.Join) -> None:
        """A NATURAL JOIN reads what it does not name, and what several tables have is to be equal."""
        if node.method != "NATURAL":
            return
        for occurrence in self._own:
            occurrence.use_all()
        for name in dict.fromkeys(name for entry in self._scope.entries for name in entry.columns):
            if len(found := self._scope.named(name)) > 1:
                self._by_plan.merged(found, name)

    # -- conditions

    def _expressions(self) -> Expressions:
        return Expressions(self._scope, self._walk.analysis.parameters)

    def _typed(self, node: exp.Expr) -> Expr | None:
        """The typed condition, or None where it has no typed form; its parameters are typed if only one side allows
        it."""
        try:
            return self._expressions().convert(node)
        except (NotMaintained, UnsupportedQuery):
            return None

    def _counts(self, expr: Expr, only: str | None, occurrence: Occurrence) -> bool:
        """Whether rows of the occurrence that fail the condition cannot matter."""
        if only is not None and only != occurrence.alias:
            return False
        may_be_missing = occurrence.outer if only is None else occurrence.nested
        return not may_be_missing or rejects_missing(expr, occurrence.alias)

    def _is_filter(self, expr: Expr, only: str | None) -> bool:
        """Whether the condition is kept as a filter of the one occurrence that it reads."""
        return not parameters_of(expr) and self._of_one(expr, only)

    def _of_one(self, expr: Expr, only: str | None) -> bool:
        """Whether it reads one occurrence, and rows of that which fail it cannot matter."""
        sources = sources_of(expr)
        return len(sources) == 1 and any(o.alias in sources and self._counts(expr, only, o) for o in self._own)

    def _tells(self, expr: Expr, only: str | None) -> bool:
        """Whether the condition and a key tell of a row of one occurrence that it cannot matter. An equality does so by
        the key alone."""
        parameters = self._walk.analysis.parameters
        told = parameters_of(expr)
        plain = not any(parameters.lists[index] or index in parameters.operands for index in told)
        return bool(told) and plain and pin_of(expr) is None and self._of_one(expr, only)

    def _count(self, conditions: list[tuple[Expr, str | None]]) -> None:
        for expr, only in conditions:
            is_filter = self._is_filter(expr, only)
            if is_filter or self._tells(expr, only):
                (alias,) = sources_of(expr)
                occurrence = self._all[alias]
                kept = occurrence.filter if is_filter else occurrence.tells
                kept.append(to_own(expr, alias, occurrence.table))
        changed = True
        while changed:
            before = len(self._facts)
            for expr, only in conditions:
                for occurrence in self._own:
                    if self._counts(expr, only, occurrence):
                        self._learn(expr, occurrence)
            changed = len(self._facts) != before

    def _learn(self, expr: Expr, occurrence: Occurrence) -> None:
        """Facts of one occurrence: a column equal to a parameter, or to a column of which that is known."""
        pin = pin_of(expr)
        if pin is not None and pin.column.source == occurrence.alias:
            self._fact(occurrence, pin.column, pin.parameter.index)
        pair = equality_of(expr)
        for column, other in (pair, pair[::-1]) if pair is not None else ():
            if column.source == occurrence.alias and name_of(other) in self._facts:
                self._fact(occurrence, column, self._facts[name_of(other)])

    def _fact(self, occurrence: Occurrence, column: ColumnRef, parameter: int) -> None:
        self._facts.setdefault(name_of(column), parameter)
        occurrence.keys.setdefault(parameter, column.name)

    # -- what is read besides

    def _use(self, expr: Expr) -> None:
        """Notes what the expression reads: conditions on one table as wholes, else columns."""
        if isinstance(expr, ColumnRef):
            occurrence = self._all.get(expr.source)
            if occurrence is not None:
                occurrence.used.setdefault(to_own(expr, expr.source, occurrence.table))
        elif isinstance(expr, Call):
            sources = sources_of(expr)
            occurrence = self._all.get(next(iter(sources))) if len(sources) == 1 else None
            if occurrence is not None and expr.op in BOOLEANS and not parameters_of(expr):
                occurrence.used.setdefault(to_own(expr, occurrence.alias, occurrence.table))
                return
            for arg in expr.args:
                self._use(arg)

    def _use_any(self, node: exp.Expr) -> None:
        expr = self._typed(node)
        if expr is not None:
            self._use(expr)
        else:
            self._use_node(node)

    def _use_node(self, node: exp.Expr, aliases: frozenset[str] | None = None) -> None:
        """Notes the columns below a node that has no typed form; visits its subqueries."""
        if isinstance(node, exp.Query):
            self._walk.query(node, self._scope, self._ctes, self._facts)
            return
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            self._use_column(node, aliases)
            return
        if isinstance(node, exp.Predicate | exp.Binary | exp.In | exp.Between):
            self._type_parameters(node)
        for child in node.iter_expressions():
            self._use_node(child, aliases)

    def _type_parameters(self, node: exp.Expr) -> None:
        """Gives parameters of the condition the types of what they are compared with; aliases are known here."""
        converter = Expressions(
            self._scope,
            self._walk.analysis.parameters,
            Collected(),
            alias=lambda column: self._aliased.get(column.name),
        )
        with suppress(NotMaintained, UnsupportedQuery, UnknownName):
            converter.convert(node)

    def _use_column(self, node: exp.Column, aliases: frozenset[str] | None) -> None:
        columns = self._scope.named(node.name)
        if not node.table and aliases is not None and (node.name.lower() in aliases or len(columns) > 1):
            for column in columns:  # MySQL means one of these, or the select item
                self._use(column)
            return
        self._use(self._scope.column(node))

    # -- the clauses after FROM and WHERE

    def _rest(self) -> list[ColumnRef]:
        columns: list[ColumnRef] = []
        for node in self._tree.expressions:
            columns += self._output(node)
        aliases = frozenset(column.name.lower() for column in columns)
        for name in ("group", "having", "order", "windows"):
            found = self._tree.args.get(name)
            for clause in found if isinstance(found, list) else [found]:
                if isinstance(clause, exp.Expr):
                    self._use_node(clause, aliases)
        return columns

    def _output(self, node: exp.Expr) -> list[ColumnRef]:
        if is_star(node):
            star = self._scope.star(node)
            for column in star:
                self._use(column)
            return list(star)
        value = node.this if isinstance(node, exp.Alias) else node
        self._use_node(value)
        self._by_plan.output(value)
        name = node.alias if isinstance(node, exp.Alias) else node.name or "?"
        try:
            expr: Expr = Expressions(self._scope, self._walk.analysis.parameters, Collected()).convert(value)
        except (NotMaintained, UnsupportedQuery):
            expr = ColumnRef("", name, NULL, True)
        if isinstance(node, exp.Alias):
            self._aliased.setdefault(name, expr)
        return [ColumnRef("", name, expr.type, True)]
