"""What each name of a query means: a column of a base table, or what a derived table, a view, a query of a WITH or a
select item has in its place. Every SELECT is visited once, where it stands, with the names of those around it.

A query of a WITH and a view are visited where they are defined, however often they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlglot import exp

from planner.tree.names import Catalogue, Scope, Visible, derived_entry, is_star, renaming, table_entry
from planner.tree.provenance import Name, name_of
from planner.tree.resolve import argument, first_part, names_itself
from sqltypes.errors import UnknownName
from sqltypes.expression import ColumnRef
from sqltypes.schema import NULL, Table, View

Given = tuple[ColumnRef | exp.Expr, ...]
"""What a name stands for: each is a column of some FROM, or an expression. () where that is not known."""


class Output(NamedTuple):
    """One column that a query gives: in each part of a set operation it is another one."""

    name: str
    given: Given


Ctes = Mapping[str, Sequence[Output]]


def columns_below(node: exp.Expr) -> Iterator[exp.Expr]:
    return node.find_all(exp.Column)


@dataclass
class Meanings:
    """`parts`: the conditions, select items and further clauses of all SELECTs. `outputs`: of each query, by its id.
    `merged`: what USING and NATURAL JOIN set equal. `united`: set operations, with what they give. `hidden`: columns
    that are one table's in the condition of a join, and another one's elsewhere. `tables`: base tables, by the
    `source` of their columns: each entry of a FROM has its own."""

    parts: list[exp.Expr] = field(default_factory=list)
    outputs: dict[int, Sequence[Output]] = field(default_factory=dict)
    merged: list[tuple[exp.Expr, Sequence[ColumnRef]]] = field(default_factory=list)
    united: list[tuple[exp.Expr, Sequence[Output]]] = field(default_factory=list)
    hidden: list[exp.Column] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    _meant: dict[int, Given] = field(default_factory=dict)  # by the id of a node that names columns
    _derived: dict[str, dict[str, Given]] = field(default_factory=dict)  # what is no base table: by source, by name
    _count: int = 0

    def of(self, node: exp.Expr) -> Given:
        """What a column, a star or a name in USING means."""
        return self._meant.get(id(node), ())

    def below(self, column: ColumnRef) -> Given | None:
        """What the column stands for, of which it is another name; None: it is one of a base table."""
        names = self._derived.get(column.source)
        return None if names is None else names[column.name.lower()]

    def renamed(self) -> Iterable[tuple[Name, Given]]:
        """The columns that no base table has, and what each stands for."""
        return [((source, name), given) for source, names in self._derived.items() for name, given in names.items()]

    def bases(self, given: Given) -> list[ColumnRef]:
        """The columns of base tables that these are as they are: not those of which something is computed."""
        if (plain := self.plain(given)) is not None:
            return plain
        found = self.reached(given, lambda node: [node.unnest()])
        return [one for one in found if isinstance(one, ColumnRef) and self.below(one) is None]

    def types(self, node: exp.Expr) -> set[str]:
        """The names of the types that a column may have; none of what is no column."""
        return {column.type.name for column in self.bases(self.of(node))}

    def plain(self, given: Given) -> list[ColumnRef] | None:
        """These, if they are columns of base tables: mostly they are."""
        found = [one for one in given if isinstance(one, ColumnRef) and one.source not in self._derived]
        return found if len(found) == len(given) else None

    def reached(
        self, given: Given, parts: Callable[[exp.Expr], Iterable[exp.Expr]] = columns_below
    ) -> Iterator[ColumnRef | exp.Expr]:
        """These, and what they stand for, down to the columns of base tables; each once. `parts`: of an expression that
        stands for a column, the names that count."""
        ahead, seen = list(given), set[int | Name]()
        while ahead:
            each = ahead.pop()
            key = name_of(each) if isinstance(each, ColumnRef) else id(each)
            if key in seen:
                continue
            seen.add(key)
            yield each
            if isinstance(each, ColumnRef):
                ahead += self.below(each) or ()
            else:
                ahead += [one for part in parts(each) for one in self.of(part)]


def meanings_of(tree: exp.Query, catalogue: Catalogue) -> Meanings:
    """Requires: `Catalogue.require` has passed. Raises UnknownName where two tables have one name, UnsupportedQuery."""
    found = Meanings()
    _Walk(found, catalogue).query(tree, None, {})
    return found


@dataclass
class _Walk:
    """The queries of one text."""

    found: Meanings
    catalogue: Catalogue

    def query(self, tree: exp.Expr, parent: Scope | None, ctes: Ctes) -> Sequence[Output]:
        """The columns that come out of it."""
        if id(tree) not in self.found.outputs:
            self.found.outputs[id(tree)] = self._query(tree, parent, self.with_ctes(tree, parent, ctes))
        return self.found.outputs[id(tree)]

    def _query(self, tree: exp.Expr, parent: Scope | None, ctes: Ctes) -> Sequence[Output]:
        if isinstance(tree, exp.Select):
            return _Select(self, tree, Scope(self.catalogue.fold_names, parent), ctes).outputs()
        outputs: Sequence[Output] = ()
        if isinstance(tree, exp.Subquery):
            outputs = self.query(tree.this, parent, ctes)
        elif isinstance(tree, exp.SetOperation):
            parts = [self.query(part, parent, ctes) for part in (tree.this, tree.expression)]
            outputs = [Output(one.name, (*one.given, *other.given)) for one, other in zip(*parts, strict=False)]
            self.found.united.append((tree, outputs))
        order = argument(tree, "order")
        for node in order.find_all(exp.Column) if order is not None else ():
            self.found._meant[id(node)] = _named(outputs, node.name)
        return outputs

    def with_ctes(self, tree: exp.Expr, parent: Scope | None, ctes: Ctes) -> Ctes:
        """These queries of a WITH and those of the query's own."""
        clause = argument(tree, "with")
        for cte in clause.expressions if clause is not None else ():
            own = ctes
            if names_itself(cte):
                first = self.query(first_part(cte.this), parent, self.with_ctes(cte.this, parent, ctes))
                own = {**ctes, cte.alias: _renamed(first, cte)}
            ctes = {**ctes, cte.alias: _renamed(self.query(cte.this, parent, own), cte)}
        return ctes

    def entry(self, node: exp.Expr, scope: Scope, ctes: Ctes) -> Visible:
        """What stands in a FROM."""
        name = node.alias or node.name
        self.found._count += 1
        source, database = f"{name}#{self.found._count}", ""
        if isinstance(node, exp.Table) and node.name in ctes and not node.db:
            outputs = ctes[node.name]
        elif isinstance(node, exp.Table):
            relation = self.catalogue.relation(node)
            database = relation.schema
            if isinstance(relation, Table):
                self.found.tables[source] = relation
                return table_entry(name, database, source, relation, False)
            outputs = self._view(relation)
        else:
            outside = scope if isinstance(node, exp.Lateral) else scope.parent
            outputs = _renamed(self.query(node.this, outside, ctes), node)
        columns = [ColumnRef(source, output.name, NULL, True) for output in outputs]
        self.found._derived[source] = {output.name.lower(): output.given for output in outputs}
        return derived_entry(name, columns, database)

    def _view(self, view: View) -> Sequence[Output]:
        outputs = _Walk(self.found, self.catalogue.inside(view)).query(self.catalogue.parsed(view).tree, None, {})
        names = view.columns or [output.name for output in outputs]
        return [Output(name, output.given) for name, output in zip(names, outputs, strict=False)]


@dataclass
class _Select:
    """One SELECT."""

    walk: _Walk
    tree: exp.Select
    scope: Scope
    ctes: Ctes
    items: list[Output] = field(default_factory=list)

    def outputs(self) -> Sequence[Output]:
        clause = argument(self.tree, "from")
        joins = list(self.tree.args.get("joins") or ())
        conditions: list[tuple[exp.Expr, Sequence[Visible]]] = []
        if clause is not None:
            self._entry(clause.this, conditions)
        first = 0
        for node in joins:
            first = len(self.scope.entries) if _may_be_comma(node) else first
            self._join(node, first, conditions)
        for node in self.tree.args.get("laterals") or ():
            self._entry(node, conditions)
        for condition, known in conditions:
            self.walk.found.hidden += [
                column for column in condition.find_all(exp.Column) if self.scope.is_hidden(column, known)
            ]
            self._visit(condition)
        if (where := argument(self.tree, "where")) is not None:
            self._visit(where)
        outputs = [output for node in self.tree.expressions for output in self._item(node)]
        self.items = [output for output in outputs if output.name]
        for name in ("group", "having", "order", "windows", "distinct", "limit", "offset"):
            part = argument(self.tree, name) or self.tree.args.get(name)
            for each in part if isinstance(part, list) else [part] if part is not None else ():
                self._visit(each)
        return outputs

    def _entry(self, node: exp.Expr, conditions: list[tuple[exp.Expr, Sequence[Visible]]]) -> None:
        wrapped = node.this if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) else node
        nested, first = wrapped.args.get("joins") or (), len(self.scope.entries)
        self.scope.add(self.walk.entry(wrapped, self.scope, self.ctes))
        for join in nested:
            self._join(join, first, conditions)

    def _join(self, node: exp.Expr, first: int, conditions: list[tuple[exp.Expr, Sequence[Visible]]]) -> None:
        """`first`: of the entries that its condition knows."""
        before = len(self.scope.entries)
        self._entry(node.this, conditions)
        if node.args.get("on") is not None:
            conditions.append((node.args["on"], self.scope.entries[first:]))
        using = {name.name.lower(): name for name in node.args.get("using") or ()}
        if node.args.get("method") == "NATURAL":
            using = {name: node for entry in self.scope.entries[before:] for name in entry.columns}
        for name, written in using.items():
            found = tuple(self.scope.named(name))
            if len(found) > 1:
                self.walk.found.merged.append((node, found))
                self.scope.merged.add(name)
            if written is not node:
                self.walk.found._meant[id(written)] = found

    def _item(self, node: exp.Expr) -> Sequence[Output]:
        if is_star(node):
            star = self.scope.star(node)
            self.walk.found._meant[id(node)] = star
            return [Output(column.name, (column,)) for column in star]
        self._visit(node)
        return [Output(node.alias_or_name, (node.unalias(),))]

    def _visit(self, node: exp.Expr) -> None:
        """The names below a part of the SELECT."""
        ahead = [node]
        self.walk.found.parts += ahead
        while ahead:
            each = ahead.pop()
            if isinstance(each, exp.Query):
                self.walk.query(each, self.scope, self.ctes)
            elif isinstance(each, exp.Column):
                self.walk.found._meant[id(each)] = self._meant_by(each)
            else:
                ahead += each.iter_expressions()

    def _meant_by(self, node: exp.Column) -> Given:
        """Behind the select items a bare name may mean one of these; of several tables it may mean each one's."""
        item = _named(self.items, node.name) if not node.table else ()
        own = tuple(self.scope.named(node.name)) if not node.table else ()
        if len(own) > 1:
            return (*own, *item)
        with suppress(UnknownName):
            return (self.scope.own_column(node.name, node.table, node.db) or self.scope.column(node), *item)
        return item


def _may_be_comma(join: exp.Expr) -> bool:
    """The tree has the same for a comma and for a JOIN without a condition."""
    return not any([join.args.get(name) for name in ("on", "using", "side", "kind", "method")])


def _named(outputs: Sequence[Output], name: str) -> Given:
    return tuple([one for output in outputs if output.name.lower() == name.lower() for one in output.given])


def _renamed(outputs: Sequence[Output], named: exp.Expr) -> Sequence[Output]:
    return [Output(name, output.given) for name, output in zip(renaming(named), outputs, strict=False)] or outputs
