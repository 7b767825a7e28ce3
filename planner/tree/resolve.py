"""From a syntax tree to a `Block`: every name resolved, every expression typed, FROM as a list of joins.

Derived tables, views and common table expressions become `Derived` sources; `planner/maintain/rewrites/` inlines them.
What the reader has no form for raises NotMaintained with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from planner.text.parse import parameter_number
from planner.tree.digits import require_certain_digits
from planner.tree.expressions import Collected, Expressions, Parameters
from planner.tree.logical import Base, Block, Derived, Join, NotMaintained, Output, fresh_alias
from planner.tree.names import Catalogue, Scope, Visible, aliases_of, derived_entry, is_star, renaming, table_entry
from planner.tree.plan import OrderTerm, ReadLimit
from planner.tree.reasons import because, refuse
from sqltypes.errors import UnknownName
from sqltypes.expression import ColumnRef, Expr, Literal, ParamRef
from sqltypes.functions import call
from sqltypes.schema import Table

Ctes = Mapping[str, exp.CTE]
Around = dict[int, Scope | None]
"""By the id of a common table expression the scope around the query whose WITH it is of: it may name its columns."""


@dataclass
class Resolver:
    """Resolves one query. `item_names`: MySQL's names of the outermost select items without alias."""

    catalogue: Catalogue
    parameters: Parameters
    item_names: Sequence[str] = ()
    _aliases: set[str] = field(default_factory=set)

    def query(self, tree: exp.Query) -> Block:
        """The block of the whole query."""
        return self._query(tree, None, {}, self.item_names)

    def _query(self, tree: exp.Expr, parent: Scope | None, ctes: Ctes, names: Sequence[str] = ()) -> Block:
        while isinstance(tree, exp.Subquery) and not any(tree.args.get(name) for name in ("order", "limit", "offset")):
            tree = tree.this
        if not isinstance(tree, exp.Select):
            raise NotMaintained(because("union"))
        return _SelectResolver(self, tree, parent, self._with(tree, ctes), names).block()

    def _with(self, tree: exp.Select, ctes: Ctes) -> Ctes:
        clause = argument(tree, "with")
        if clause is not None and clause.args.get("recursive"):
            raise NotMaintained(because("derived", "WITH RECURSIVE"))
        return with_ctes(tree, ctes)

    def source(self, node: exp.Expr, ctes: Ctes, nullable: bool) -> tuple[str, Visible, Base | Derived]:
        """(alias in the plan, what the scope sees, the source) of one entry of FROM."""
        if isinstance(node, exp.Table):
            if node.args.get("joins") or not isinstance(node.this, exp.Identifier):
                raise NotMaintained(because("join_kind", "nested joins"))
            name = node.alias or node.name
            alias = fresh_alias(name, self._aliases)
            if not node.db and node.name in ctes:
                return self._derived(
                    ctes[node.name].this, ctes_before(ctes, node.name), ctes[node.name], name, alias, nullable
                )
            relation = self.catalogue.relation(node)
            if node.args.get("partition"):
                raise NotMaintained(because("partition", node.name))
            if isinstance(relation, Table):
                return alias, table_entry(name, relation.schema, alias, relation, nullable), Base(relation)
            inner = Resolver(self.catalogue.inside(relation), self.parameters, (), self._aliases)
            block = inner.query(self.catalogue.parsed(relation).tree)
            columns = relation.columns or tuple(output.name for output in block.outputs)
            return self._derived_source(block, columns, name, alias, nullable, relation.schema)
        # One without an alias is brackets around a join.
        derived = isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query) and bool(node.alias)
        if derived and not node.args.get("joins"):
            alias = fresh_alias(node.alias, self._aliases)
            return self._derived(node.this, ctes, node, node.alias, alias, nullable)
        raise NotMaintained(because("join_kind", "nested joins or LATERAL"))

    def _derived(
        self, tree: exp.Expr, ctes: Ctes, named: exp.Expr, name: str, alias: str, nullable: bool
    ) -> tuple[str, Visible, Derived]:
        try:
            block = self._query(tree, None, ctes)
        except UnknownName:  # perhaps of a query around it
            raise NotMaintained(because("derived", name)) from None
        columns = tuple(renaming(named) or [output.name for output in block.outputs])
        return self._derived_source(block, columns, name, alias, nullable)

    def _derived_source(
        self, block: Block, columns: tuple[str, ...], name: str, alias: str, nullable: bool, database: str = ""
    ) -> tuple[str, Visible, Derived]:
        refs = [
            ColumnRef(alias, column, output.expr.type, output.expr.nullable or nullable)
            for column, output in zip(columns, block.outputs, strict=True)
        ]
        return alias, derived_entry(name, refs, database), Derived(block, columns)


def names_itself(cte: exp.CTE) -> bool:
    """Whether it is recursive. Raises UnsupportedQuery where the name means a table inside of it."""
    if not any(table.name == cte.alias and not table.db for table in cte.this.find_all(exp.Table)):
        return False
    clause = cte.parent
    if clause is None or not clause.args.get("recursive"):
        raise refuse("recursive", cte.alias)
    return True


def first_part(tree: exp.Expr) -> exp.Expr:
    """Of a set operation: the part that tells its columns."""
    while isinstance(tree, (exp.SetOperation, exp.Subquery)):
        tree = tree.this
    return tree


def with_ctes(tree: exp.Expr, ctes: Ctes) -> Ctes:
    """These common table expressions and those of the query's own WITH."""
    clause = argument(tree, "with")
    return ctes if clause is None else {**ctes, **{cte.alias: cte for cte in clause.expressions}}


def note_around(tree: exp.Expr, parent: Scope | None, around: Around) -> None:
    """`parent`: the scope around this query."""
    clause = argument(tree, "with")
    for cte in clause.expressions if clause is not None else ():
        around[id(cte)] = parent


def ctes_before(ctes: Ctes, name: str) -> Ctes:
    """What a common table expression itself may name: those written before it."""
    names = list(ctes)
    return {other: ctes[other] for other in names[: names.index(name)]}


def argument(node: exp.Expr, name: str) -> exp.Expr | None:
    """A clause of a SELECT; newer sqlglot appends an underscore where the name is a Python keyword."""
    found = node.args.get(f"{name}_") or node.args.get(name)
    return found if isinstance(found, exp.Expr) else None


@dataclass
class _SelectResolver:
    """One SELECT."""

    resolver: Resolver
    tree: exp.Select
    parent: Scope | None
    ctes: Ctes
    names: Sequence[str]
    outputs: list[Output] = field(default_factory=list)
    named: list[tuple[str, Expr]] = field(default_factory=list)  # select items with a name, in order; lower case
    collected: Collected = field(default_factory=Collected)

    def block(self) -> Block:
        self._refuse_clauses()
        self.scope = Scope(self.resolver.catalogue.fold_names, self.parent)
        joins = self._from()
        where = self._plain().conjuncts(self._clause("where"))
        self.scope.aliases = aliases_of(self.tree)
        self._select_list()
        group_clause = argument(self.tree, "group")
        group = tuple([self._group_term(node) for node in (group_clause.expressions if group_clause else ())])
        having = self._after().conjuncts(self._clause("having"))
        order = self._order()
        grouped = group_clause is not None or bool(self.collected.aggregates)
        block = Block(
            joins,
            where if grouped else (*where, *having),
            grouped,
            group,
            tuple(self.collected.aggregates.values()),
            having if grouped else (),
            tuple(self.outputs),
            argument(self.tree, "distinct") is not None,
            order,
            self._limit(),
            self.collected.scalars,
            frozenset([index for index, is_list in enumerate(self.resolver.parameters.lists) if is_list]),
        )
        require_certain_digits(block)
        return block

    def _refuse_clauses(self) -> None:
        if argument(self.tree, "distinct") is not None and argument(self.tree, "distinct").args.get("on"):  # type: ignore[union-attr] # checked just before
            raise NotMaintained(because("text"))
        if self.tree.args.get("windows") or self.tree.find(exp.Window):
            raise NotMaintained(because("window"))
        group = argument(self.tree, "group")
        if group is not None and any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets", "totals")):
            raise NotMaintained(because("rollup"))

    def _clause(self, name: str) -> exp.Expr | None:
        clause = argument(self.tree, name)
        return None if clause is None else clause.this

    # -- converters: what may occur where

    def _plain(self) -> Expressions:
        return Expressions(self.scope, self.resolver.parameters, self.collected, self._subquery, aggregates=False)

    def _listed(self) -> Expressions:
        return Expressions(self.scope, self.resolver.parameters, self.collected, self._subquery)

    def _after(self) -> Expressions:
        return Expressions(
            self.scope, self.resolver.parameters, self.collected, self._subquery, alias=self._having_name
        )

    def _subquery(self, tree: exp.Query, scope: Scope) -> Block:
        return self.resolver._query(tree, scope, self.ctes)

    # -- FROM

    def _from(self) -> tuple[Join, ...]:
        clause = argument(self.tree, "from")
        if clause is None:
            return ()
        nodes: Sequence[exp.Join] = self.tree.args.get("joins") or []
        exchanged = bool(nodes) and nodes[0].side == "RIGHT"
        joins = [self._entry(clause.this, outer=exchanged)]
        for node in nodes:
            joins.append(self._join(node, exchanged=exchanged and node is nodes[0]))
        if self.tree.args.get("laterals"):
            raise NotMaintained(because("join_kind", "LATERAL"))
        if exchanged:  # a RIGHT JOIN b is b LEFT JOIN a; the scope keeps the order of SELECT *
            left, right = joins[:2]
            joins[:2] = [replace(right, on=()), replace(left, on=right.on)]
        return tuple(joins)

    def _entry(self, node: exp.Expr, outer: bool) -> Join:
        alias, visible, source = self.resolver.source(node, self.ctes, outer)
        self.scope.add(visible)
        return Join(alias, source, outer)

    def _join(self, node: exp.Join, *, exchanged: bool) -> Join:
        """`exchanged`: it is a RIGHT JOIN whose sides will be exchanged: the first of FROM. Behind it, what is before
        a RIGHT JOIN is several tables, and its missing partner is a row of NULLs for all of them."""
        using = node.args.get("using") or ()
        if (
            (node.side in ("RIGHT", "FULL") and not exchanged)
            or (exchanged and using)
            or node.method
            or node.kind not in ("", "INNER", "CROSS", "OUTER", "STRAIGHT", "STRAIGHT_JOIN")
        ):
            raise NotMaintained(because("join_kind", f"{node.method} {node.side} {node.kind} JOIN".strip()))
        outer = node.side == "LEFT"
        left = {name.name.lower(): self.scope.own_column(name.name) for name in using}
        join = self._entry(node.this, outer)
        on = list(self._plain().conjuncts(node.args.get("on")))
        for name, column in left.items():
            own = self.scope.entries[-1].columns.get(name)
            if own is None or column is None:
                raise UnknownName(f"unknown column {name!r} in USING")
            on.append(call("=", (column, own)))
            self.scope.merged.add(name)
        return replace(join, on=tuple(on))

    # -- SELECT list

    def _select_list(self) -> None:
        nodes = self.tree.expressions
        names = self.names if len(self.names) == len(nodes) else [""] * len(nodes)
        for node, text in zip(nodes, names, strict=True):
            if is_star(node):
                self._star(node)
                continue
            named = isinstance(node, exp.Alias)
            expr = self._listed().convert(node.this if named else node)
            name = node.alias_or_name if named or isinstance(node, exp.Column) else ""
            if name:
                self.named.append((name.lower(), expr))
            self.outputs.append(Output(name or text, expr))

    def _star(self, node: exp.Expr) -> None:
        if self.scope.merged:
            raise NotMaintained(because("join_kind", "* over USING"))
        columns = self.scope.star(node)
        self.outputs += [Output(column.name, column) for column in columns]
        self.named += [(column.name.lower(), column) for column in columns]

    # -- GROUP BY, HAVING, ORDER BY: aliases and ordinals

    def _item(self, node: exp.Expr) -> Expr | None:
        """The select item that a bare name means; None where there is none of that name."""
        if not isinstance(node, exp.Column) or node.table:
            return None
        found = {expr for name, expr in self.named if name == node.name.lower()}
        if len(found) > 1:
            raise NotMaintained(because("expression", f"{node.name} is the name of several select items"))
        return found.pop() if found else None

    def _column(self, node: exp.Column) -> ColumnRef | None:
        """The column of FROM that a bare name means; None where there is none, or more than one."""
        try:
            return self.scope.own_column(node.name)
        except UnknownName:
            return None

    def _having_name(self, node: exp.Column) -> Expr | None:
        """What a bare name means in HAVING, and within an expression of ORDER BY; None: a column."""
        if node.table:
            return None
        item, column = self._item(node), self._column(node)
        if column is None and self.scope.named(node.name):
            raise NotMaintained(because("expression", f"{node.name} is the name of several columns"))
        if item is None or column is None or column == item:
            return item
        raise NotMaintained(because("expression", f"{node.name} is both a column and an alias"))

    def _group_term(self, node: exp.Expr) -> Expr:
        position = ordinal(node)
        if position is not None:
            return self._output(position, "GROUP BY")
        if isinstance(node, exp.Column):
            item, column = self._item(node), self._column(node)
            return item if item is not None and column is None else self.scope.column(node)
        return self._plain().convert(node)

    def _output(self, position: int, clause: str) -> Expr:
        if not 1 <= position <= len(self.outputs):
            raise UnknownName(f"unknown column '{position}' in {clause}")
        return self.outputs[position - 1].expr

    def _order(self) -> tuple[OrderTerm, ...]:
        clause = argument(self.tree, "order")
        terms: list[OrderTerm] = []
        for ordered in clause.expressions if clause else ():
            node = ordered.this
            position = ordinal(node)
            if position is not None:
                expr = self._output(position, "ORDER BY")
            else:
                item = self._item(node)  # before any column of FROM
                expr = item if item is not None else self._after().convert(node)
            terms.append(OrderTerm(expr, bool(ordered.args.get("desc"))))
        return tuple([term for term in terms if not isinstance(term.expr, Literal)])

    def _limit(self) -> ReadLimit | None:
        limit, offset = self._clause_number("limit"), self._clause_number("offset")
        if limit is None and offset is None:
            return None
        return ReadLimit(limit, 0 if offset is None else offset)

    def _clause_number(self, name: str) -> int | ParamRef | None:
        clause = argument(self.tree, name)
        if clause is None:
            return None
        node = clause.expression
        if isinstance(node, exp.Placeholder):
            return self.resolver.parameters.limit(parameter_number(node))
        if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
            return int(str(node.this))
        raise NotMaintained(because("expression", name.upper()))


def ordinal(node: exp.Expr) -> int | None:
    """The position that an integer means in GROUP BY and ORDER BY, also in parentheses."""
    node = node.unnest()
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
        return int(str(node.this))
    return None
