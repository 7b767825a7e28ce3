"""Tables with the same rows twice, with an index on every column (`x1`, `x2`) and without any (`p1`, `p2`), and changes
of their rows that cross whatever a query filters by: what is written is what is asked for."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from integration.oracle.computed import computed_of
from integration.oracle.kinds import BY_NAME, FULL_TEXT, KINDS, RARE, UNUSUAL, Kind, with_partial_dates
from integration.oracle.trees import Node, Table, literal_text, pieces

TWINS = ("x", "p")  # with indexes, without
ID = Kind("id", "INT", "int", (), BY_NAME["ti"].near, BY_NAME["ti"].odd)
LOOSE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"
NULLS = 0.15
COMPUTED = 3  # columns of which others are computed, where any are


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind
    nullable: bool
    expression: str = ""  # of a VIRTUAL column

    @property
    def ddl(self) -> str:
        if self.expression:
            return f"{self.name} {self.kind.ddl} AS ({self.expression}) VIRTUAL"
        return f"{self.name} {self.kind.ddl}{'' if self.nullable else ' NOT NULL'}"


Row = dict[str, str]  # literals by column


def _key(column: Column) -> str:
    if column.kind.index == FULL_TEXT:
        return f"FULLTEXT KEY ({column.name})"
    return f"KEY ({column.name}{column.kind.index})"


@dataclass(slots=True)
class WorldTable:
    """`rows`: as they were first stored. Invariant: `columns` begins with `id`, the primary key, and `k`, a small
    number."""

    number: int
    columns: list[Column]
    rows: list[Row] = field(default_factory=list)

    @property
    def stored(self) -> list[Column]:
        return [column for column in self.columns if not column.expression]

    def create(self, twin: str) -> str:
        lines = [column.ddl for column in self.columns] + ["PRIMARY KEY (id)"]
        if twin == "x":
            indexed = [column for column in self.columns[1:] if column.kind.index is not None]
            lines += [_key(column) for column in indexed]
            lines += [f"KEY (k, {column.name}{column.kind.index})" for column in indexed if column.kind in UNUSUAL]
        return f"CREATE TABLE {twin}{self.number} ({', '.join(lines)})"

    def replace(self, twin: str, rows: Sequence[Row]) -> str:
        names = [column.name for column in self.stored]
        values = ", ".join(f"({', '.join(row[name] for name in names)})" for row in rows)
        return f"REPLACE INTO {twin}{self.number} ({', '.join(names)}) VALUES {values}"

    def row(self, rng: random.Random, id_: int) -> Row:
        return {"id": str(id_)} | {column.name: literal(rng, column) for column in self.stored[1:]}


@dataclass(frozen=True, slots=True)
class WorldView:
    """`names`: of its columns. The query has no parameters."""

    number: int
    names: tuple[str, ...]
    query: Node

    def create(self, twin: str) -> str:
        return f"CREATE VIEW {twin}{self.number} AS {literal_text(self.query, twin, {})}"

    def is_one_of(self, refused: Sequence[str]) -> bool:
        return any(statement.startswith(f"CREATE VIEW {TWINS[0]}{self.number} ") for statement in refused)

    @property
    def reads(self) -> set[int]:
        """The numbers of tables and views that its text names."""
        return tables_of(self.query)


def tables_of(tree: Node) -> set[int]:
    return {piece.number for piece in pieces(tree) if isinstance(piece, Table)}


@dataclass(frozen=True, slots=True)
class Write:
    """A change of one table: rows that are put in, or a statement with {t} in the table's place."""

    twin: str
    table: int
    statement: str = ""
    rows: tuple[Row, ...] = ()

    def text(self, world: World) -> str:
        if self.statement:
            return self.statement.replace("{t}", f"{self.twin}{self.table}")
        table = next(table for table in world.tables if table.number == self.table)
        return table.replace(self.twin, self.rows)


def literal(rng: random.Random, column: Column) -> str:
    if column.nullable and rng.random() < NULLS:
        return "NULL"
    return rng.choice(column.kind.literals)


K = Kind("k", "INT", "int", ("0", "1", "1", "2", "3"), BY_NAME["bo"].near, BY_NAME["bo"].odd)


@dataclass(slots=True)
class World:
    """Two pairs of tables, or more. A view reads tables, and views before it."""

    tables: list[WorldTable]
    ids: int = 24  # those of rows are below this
    views: list[WorldView] = field(default_factory=list)

    @property
    def computes(self) -> bool:
        """Whether it has VIRTUAL columns."""
        return any(column.expression for table in self.tables for column in table.columns)

    def setup(self, twins: Sequence[str] = TWINS) -> list[str]:
        out = []
        for table in self.tables:
            for twin in twins:
                out.append(table.create(twin))
                if table.rows:
                    out.append(table.replace(twin, table.rows))
        return out + [view.create(twin) for view in self.views for twin in twins]

    def only(self, named: set[int]) -> World:
        """With no more than what has these numbers, and what that reads."""
        views: list[WorldView] = []
        for view in reversed(self.views):
            if view.number in named:
                named = named | view.reads
                views.insert(0, view)
        return World([table for table in self.tables if table.number in named], self.ids, views)

    def changes(self, rng: random.Random, count: int) -> list[Write]:
        """Each is made to both twins."""
        out = []
        for _ in range(count):
            table = rng.choice(self.tables)
            statement, rows = _change(rng, table, self.ids)
            out += [Write(twin, table.number, statement, rows) for twin in TWINS]
        return out


def _change(rng: random.Random, table: WorldTable, ids: int) -> tuple[str, tuple[Row, ...]]:
    column = rng.choice(table.columns[1:])
    where = rng.choice(
        (
            f"id = {rng.randrange(ids)}",
            f"id BETWEEN {rng.randrange(ids)} AND {rng.randrange(ids)}",
            f"k = {rng.randrange(4)}",
            f"{column.name} IS NULL",
            f"id % 5 = {rng.randrange(5)}",
        )
    )
    chance = rng.random()
    if chance < 0.25:
        return "", tuple(table.row(rng, id_) for id_ in rng.sample(range(ids), rng.choice((1, 1, 3))))
    if chance < 0.4:
        return f"DELETE FROM {{t}} WHERE {where}", ()
    if chance < 0.5:
        return f"UPDATE IGNORE {{t}} SET id = {rng.randrange(ids)} WHERE id = {rng.randrange(ids)}", ()
    changed = rng.sample(table.stored[1:], rng.choice((1, 1, 2)))
    sets = ", ".join(f"{item.name} = {literal(rng, item)}" for item in changed)
    return f"UPDATE IGNORE {{t}} SET {sets} WHERE {where}", ()


def make_world(
    rng: random.Random,
    rows: int,
    *,
    partial_dates: bool = False,
    rare: random.Random | None = None,
    unusual: random.Random | None = None,
    computed: random.Random | None = None,
) -> World:
    """Tables that share some kinds, so that they can be joined. `rare`, `unusual`: choose kinds that they also have;
    `computed`: VIRTUAL columns."""
    of = with_partial_dates if partial_dates else lambda kind: kind
    ids = rows + 10
    shared = rng.sample(KINDS, 2)
    tables = []
    for number in (1, 2):
        kinds = dict.fromkeys([*shared, *rng.sample(KINDS, 6)])
        columns = [Column("id", ID, False), Column("k", K, False)]
        columns += [Column(kind.name, of(kind), rng.random() < 0.75) for kind in kinds]
        table = WorldTable(number, columns)
        table.rows = [table.row(rng, id_) for id_ in rng.sample(range(ids), rows)]
        for other, choices, count in ((rare, RARE, 2), (unusual, UNUSUAL, 4)):
            if other is not None:
                more = [Column(kind.name, kind, other.random() < 0.75) for kind in other.sample(choices, count)]
                table.columns += more
                for row in table.rows:
                    row |= {column.name: literal(other, column) for column in more}
        if computed is not None:
            table.columns += _computed_columns(computed, table)
        tables.append(table)
    return World(tables, ids)


def _computed_columns(rng: random.Random, table: WorldTable) -> list[Column]:
    found: list[Column] = []
    for column in rng.sample(table.columns[1:], min(COMPUTED, len(table.columns) - 1)):
        made = computed_of(rng, column.kind.family, column.name)
        if made is not None:
            found.append(Column(f"g{len(found)}", made[1], True, made[0]))
    return found
