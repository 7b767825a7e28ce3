"""Names in a query: which table a name means, which column, and from which SELECT around.

A scope is one FROM clause; an unresolved column is looked for in the scopes around (correlation). Raises UnknownName
with what was written, as MySQL would: a name is never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field

from sqlglot import exp

from planner.text.parse import ParsedQuery, parse
from planner.tree.logical import NotMaintained
from planner.tree.reasons import because, check_table
from sqltypes.errors import NeedRelations, UnknownName
from sqltypes.expression import ColumnRef
from sqltypes.schema import Relation, SchemaSnapshot, Table, View


@dataclass
class Visible:
    """One entry of FROM: how it is called in the text, its alias in the plan, its columns in order (`star`: those of
    SELECT *)."""

    name: str
    database: str
    columns: dict[str, ColumnRef]
    star: tuple[ColumnRef, ...]
    zero_dates: frozenset[ColumnRef] = frozenset()  # NOT NULL dates of a base table


def named_tables(tree: exp.Expr) -> Iterator[exp.Table]:
    """Where the tree names tables and views: not where a name means a query of a WITH around it."""
    for node in tree.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier) and (node.db or not _is_of_with(node)):
            yield node


def _is_of_with(table: exp.Table) -> bool:
    inside: exp.Expr | None = None
    node: exp.Expr | None = table.parent
    while node is not None:
        if isinstance(node, exp.CTE):
            inside = node
        clause = node.args.get("with_") or node.args.get("with")
        recursive = isinstance(clause, exp.With) and bool(clause.args.get("recursive"))
        for cte in clause.expressions if isinstance(clause, exp.With) else ():
            own = cte is inside
            if cte.alias == table.name and (not own or recursive):
                return True
            if own:  # it may name those before it
                break
        node = node.parent
    return False


def is_star(node: exp.Expr) -> bool:
    """Whether it is `*` or `table.*`."""
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def renaming(named: exp.Expr) -> list[str]:
    """What a query of a WITH or a derived table calls its columns: of `t (a, b)` a and b."""
    alias = named.args.get("alias")
    return [column.name for column in (alias.args.get("columns") or ())] if alias is not None else []


def aliases_of(tree: exp.Select) -> frozenset[str]:
    """As `Scope.aliases`."""
    return frozenset([item.alias.lower() for item in tree.expressions if item.alias])


@dataclass
class Scope:
    """`merged`: lower-case names of USING columns, which unqualified mean the first entry's. `aliases`: of the select
    list, lower case; MySQL finds them within expressions of GROUP BY."""

    fold_names: bool = False
    parent: Scope | None = None
    entries: list[Visible] = field(default_factory=list)
    merged: set[str] = field(default_factory=set)
    aliases: frozenset[str] = frozenset()

    def add(self, entry: Visible) -> None:
        """Raises UnknownName where the name is taken (MySQL's 1066)."""
        if any(self._same(other.name, entry.name) and other.database == entry.database for other in self.entries):
            raise _unknown(1066, "42000", f"not a unique table or alias: {entry.name!r}")
        self.entries.append(entry)

    def column(self, node: exp.Column) -> ColumnRef:
        """The column that the node means, here or in a scope around. Raises UnknownName; NotMaintained where MySQL may
        find a select item."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.own_column(node.name, node.table, node.db)
            if found is not None:
                return found
            if not node.table and node.name.lower() in scope.aliases:
                raise NotMaintained(because("expression", f"{node.name} is an alias of the select list"))
            scope = scope.parent
        written = ".".join(part for part in (node.db, node.table, node.name) if part)
        raise UnknownName(f"unknown column {written!r}")

    def is_hidden(self, node: exp.Column, known: Sequence[Visible]) -> bool:
        """Whether the column is one of a query around this one where only these entries are known, and one of the other
        entries elsewhere in this query."""
        if self._finds(node, known) or not self._finds(node, self.entries):
            return False
        scope = self.parent
        while scope is not None and not scope._finds(node, scope.entries):
            scope = scope.parent
        return scope is not None

    def _finds(self, node: exp.Column, entries: Sequence[Visible]) -> bool:
        return any(
            node.name.lower() in entry.columns
            and (not node.table or self._same(entry.name, node.table))
            and (not node.db or self._same(entry.database, node.db))
            for entry in entries
        )

    def null_finds_zero_date(self, column: ColumnRef) -> bool:
        """Whether `column IS NULL` may find 0000-00-00, as it does for DATE and DATETIME columns that are NOT NULL."""
        if any(column in entry.zero_dates for entry in self.entries):
            return True
        if self.parent is not None and self.parent.null_finds_zero_date(column):
            return True
        return column.type.name in ("date", "datetime") and not column.nullable

    def own_column(self, name: str, table: str = "", database: str = "") -> ColumnRef | None:
        """The column in this scope alone, or None."""
        candidates = [
            entry.columns[name.lower()]
            for entry in self.entries
            if name.lower() in entry.columns
            and (not table or self._same(entry.name, table))
            and (not database or self._same(entry.database, database))
        ]
        if len(candidates) > 1 and name.lower() not in self.merged:
            raise _unknown(1052, "23000", f"column {name!r} is ambiguous")
        return candidates[0] if candidates else None

    def named(self, name: str) -> list[ColumnRef]:
        """All columns of that name in this scope alone."""
        return [entry.columns[name.lower()] for entry in self.entries if name.lower() in entry.columns]

    def star(self, node: exp.Expr) -> tuple[ColumnRef, ...]:
        """The columns of `*` or `table.*`."""
        table = node.table if isinstance(node, exp.Column) else ""
        entries = [entry for entry in self.entries if not table or self._same(entry.name, table)]
        if table and not entries:
            raise _unknown(1051, "42S02", f"unknown table {table!r}")
        return tuple(column for entry in entries for column in entry.star)

    def _same(self, left: str, right: str) -> bool:
        return left.lower() == right.lower() if self.fold_names else left == right


def _unknown(errno: int, sqlstate: str, message: str) -> UnknownName:
    error = UnknownName(message)
    error.errno, error.sqlstate = errno, sqlstate
    return error


class Catalogue:
    """The snapshot's relations by name as a query writes them. Each view is parsed once."""

    def __init__(self, snapshot: SchemaSnapshot, database: str) -> None:
        self.snapshot = snapshot
        self.database = database
        self.fold_names = snapshot.lower_case_table_names != 0
        self._folded = {self._key(*key): relation for key, relation in snapshot.relations.items()}
        self._parsed: dict[str, ParsedQuery] = {}  # of views, by their texts

    def inside(self, view: View) -> Catalogue:
        """What names mean in the view."""
        other = copy(self)
        other.database = view.schema
        return other

    def _key(self, schema: str, name: str) -> tuple[str, str]:
        return (schema.lower(), name.lower()) if self.fold_names else (schema, name)

    def full_name(self, node: exp.Table) -> tuple[str, str]:
        """(schema, name). Raises UnknownName where there is no default database (MySQL's 1046)."""
        schema = node.db or self.database
        if not schema:
            raise _unknown(
                1046, "3D000", f"no database selected for table {node.name!r}; qualify it or name a database"
            )
        return schema, node.name

    def relation(self, node: exp.Table) -> Relation:
        """Requires: `require` has passed. Raises UnsupportedQuery for tables that cannot be followed."""
        relation = self._folded[self._key(*self.full_name(node))]
        if isinstance(relation, Table):
            check_table(relation)
        return relation

    def parsed(self, view: View) -> ParsedQuery:
        if view.definition not in self._parsed:
            self._parsed[view.definition] = parse(view.definition, self.snapshot.server_version)
        return self._parsed[view.definition]

    def require(self, tree: exp.Query) -> None:
        """Raises NeedRelations with all tables and views that the tree names and the snapshot lacks, those of views
        included."""
        missing: set[tuple[str, str]] = set()
        self._collect(tree, self.database, missing, set())
        if missing:
            raise NeedRelations(frozenset(missing))

    def relations(self, tree: exp.Query) -> Iterator[Relation]:
        """All tables and views that the query reads, those below views included, each checked. Requires: `require` has
        passed."""
        for node in named_tables(tree):
            relation = self.relation(node)
            yield relation
            if isinstance(relation, View):
                yield from self.inside(relation).relations(self.parsed(relation).tree)

    def _collect(
        self, tree: exp.Query, database: str, missing: set[tuple[str, str]], seen: set[tuple[str, str]]
    ) -> None:
        for node in named_tables(tree):
            full = (node.db or database, node.name) if node.db or database else self.full_name(node)
            if full in seen:
                continue
            seen.add(full)
            relation = self._folded.get(self._key(*full))
            if relation is None:
                missing.add(full)
            elif isinstance(relation, View):
                self._collect(self.parsed(relation).tree, relation.schema, missing, seen)


def table_entry(name: str, database: str, alias: str, table: Table, nullable: bool) -> Visible:
    """A base table in FROM. `nullable`: it is the inner side of an outer join, so every column can be NULL."""
    columns = {
        column.name.lower(): ColumnRef(alias, column.name, column.type, column.nullable or nullable)
        for column in table.columns
    }
    star = tuple([columns[column.name.lower()] for column in table.columns if not column.invisible])
    zero_dates = frozenset(
        [
            columns[column.name.lower()]
            for column in table.columns
            if column.type.name in ("date", "datetime") and not column.nullable
        ]
    )
    return Visible(name, database, columns, star, zero_dates)


def derived_entry(name: str, columns: Iterable[ColumnRef], database: str = "") -> Visible:
    """A derived table or a view in FROM. `database`: that of a view without an alias, by which MySQL qualifies its
    columns in the text of another view."""
    star = tuple(columns)
    return Visible(name, database, {column.name.lower(): column for column in star}, star)
