"""What stands in a FROM, as trees: joins of every kind in and around brackets, NATURAL, USING, LATERAL, derived tables,
views, names of WITH, lists of rows; and conditions that speak of tables two levels around them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from integration.oracle.kinds import Kind
from integration.oracle.trees import NULL, Node, Part, Table, clause, decimal, expr, integer, string
from integration.oracle.world import Column
from integration.oracle.writer import Source, Writer, mark_of

DEEPEST_JOIN, DEEPEST_QUERY = 3, 2
NUMBER = Kind(
    "number", "INT", "int", tuple("01112"), tuple(map(integer, range(4))), (string("2"), decimal("1.0"), NULL)
)
KEY = replace(NUMBER, name="id", literals=())
COLUMNS = {name: Column(name, KEY if name == "id" else NUMBER, name != "id") for name in ("id", "k", "u", "v", "w")}
TABLES = (("id", "k", "u", "v"), ("id", "k", "v", "w"), ("id", "k", "w", "u"))
PARAMETERS = 0.3  # of the values that columns are compared with
WITH_ON = (" JOIN ", " INNER JOIN ", " LEFT JOIN ", " LEFT JOIN ", " RIGHT JOIN ", " RIGHT JOIN ", " STRAIGHT_JOIN ")
WITHOUT_ON = (" JOIN ", " CROSS JOIN ", " STRAIGHT_JOIN ")
NATURAL = (" NATURAL JOIN ", " NATURAL JOIN ", " NATURAL LEFT JOIN ", " NATURAL RIGHT JOIN ")
AGGREGATES = ("COUNT(*)", "COUNT({})", "COUNT(DISTINCT {})", "MAX({})", "MIN({})")


@dataclass
class From:
    """What stands in a FROM. `on`: it ends with an ON; `merged`: names that several tables share, joined by them."""

    tree: Node
    sources: list[Source]
    on: bool = False
    merged: frozenset[str] = frozenset()

    @property
    def joined(self) -> bool:
        return len(self.sources) > 1


@dataclass
class FromWriter(Writer, ABC):
    """`around`: what the queries around have in their FROM, `ctes`: names that stand for queries, with their columns;
    those of tables are hidden by them. `depth`: of the query within others. `room`: for so many tables more."""

    around: list[Source] = field(default_factory=list)
    ctes: list[tuple[Part, tuple[Column, ...]]] = field(default_factory=list)
    parameters: float = PARAMETERS
    depth: int = 0
    room: int = 4
    aliases: int = 0

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def deeper(self, share: float) -> bool:
        """Whether a query comes within this one."""
        return self.chance(share) and self.depth < DEEPEST_QUERY and self.room > 0

    def alias(self) -> str:
        self.aliases += 1
        return f"t{self.aliases}"

    @contextmanager
    def within(self, scope: Sequence[Source]) -> Iterator[None]:
        """A query in one that has these in its FROM."""
        before = self.around, list(self.ctes)
        self.around = [*self.around, *scope]
        self.depth += 1
        yield
        self.around, self.ctes = before
        self.depth -= 1

    @abstractmethod
    def whole(self, names: Sequence[str]) -> Node:
        """A query with columns of these names, of any form, perhaps with WITH before it."""

    @abstractmethod
    def select(self, names: Sequence[str]) -> Node:
        """A SELECT with columns of these names."""

    # -- what stands in FROM -------------------------------------------------------------------------------------------

    def leaf(self) -> From:
        alias = self.alias()
        self.room -= 1
        views = [view for view in self.world.views if self.chance(0.15)]
        if views:
            self.used.add("a view")
            view = self.rng.choice(views)
            return From(
                expr(Table(view.number), f" AS {alias}"), [Source(alias, tuple(COLUMNS[name] for name in view.names))]
            )
        if self.ctes and self.chance(0.4):
            name, columns = self.rng.choice(self.ctes)
            return From(expr(name, f" AS {alias}"), [Source(alias, columns)])
        if self.deeper(0.3):
            return self.derived(alias)
        table = self.rng.choice(self.world.tables)
        columns = tuple(table.columns)
        for name, given in self.ctes:
            if isinstance(name, Table) and name.number == table.number:
                columns = given
        return From(expr(Table(table.number), f" AS {alias}"), [Source(alias, columns)])

    def derived(self, alias: str, lateral: Sequence[Source] = ()) -> From:
        """A query in brackets. `lateral`: what it may speak of besides."""
        rng = self.rng
        names = tuple(rng.sample(list(COLUMNS), rng.choice((1, 2, 2, 3))))
        source = Source(alias, tuple(COLUMNS[name] for name in names))
        chance = rng.random()
        listed = f" AS {alias} ({', '.join(names)})"
        if not lateral and chance < 0.04:
            self.used.add("VALUES")
            rows = [expr("ROW(", ", ".join(str(rng.randrange(4)) for _ in names), ")") for _ in range(3)]
            return From(expr(clause("(VALUES ", ", ", rows, 1), f"){listed}"), [source])
        if not lateral and chance < 0.1:
            self.used.add("TABLE")
            table = rng.choice(TABLES)
            columns = tuple(COLUMNS[name] for name in table)
            return From(expr("(TABLE ", Table(TABLES.index(table) + 1), f") AS {alias}"), [Source(alias, columns)])
        with self.within(lateral):
            body = self.whole(names)
        word = "LATERAL " if lateral else ""
        return From(expr(f"{word}(", body, ")", listed if self.chance(0.4) else f" AS {alias}"), [source])

    def json_table(self, scope: Sequence[Source]) -> From:
        alias = self.alias()
        self.used.add("JSON_TABLE")
        tree = expr("JSON_TABLE(CONCAT('[1, ', COALESCE(", self.name(scope), ", 'null'), ']'), '$[*]'")
        return From(Node([tree, f" COLUMNS (k INT PATH '$')) AS {alias}"], expr=True), [Source(alias, (COLUMNS["k"],))])

    def tree(self, depth: int = 0) -> From:
        rng = self.rng
        if depth >= DEEPEST_JOIN or self.room < 2 or self.chance((0.1, 0.35, 0.6)[depth]):
            found = self.leaf()
            return self.bracketed(found) if self.chance(0.04) and len(found.tree.parts) == 2 else found
        left, right = self.tree(depth + 1), self.tree(depth + 1)
        scope = [*left.sources, *right.sources]
        if left.joined and self.chance(0.35):
            left = self.bracketed(left)
        kind = rng.choice((*"nnuuc,", *"o" * 7))
        if right.joined and not (right.on and kind == "o" and self.chance(0.15)):
            right = self.bracketed(right)
        common = [name for name in COLUMNS if all(self.once(name, side.sources) for side in (left, right))]
        shared = frozenset(name for name in COLUMNS if self.has(name, left.sources) and self.has(name, right.sources))
        merged = left.merged | right.merged
        if kind == "u" and common:
            self.used.add("USING")
            using = rng.sample(common, min(len(common), rng.choice((1, 1, 2))))
            join = rng.choice([word for word in WITH_ON if "STRAIGHT" not in word])
            merged |= set(using)
            return From(expr(left.tree, join, right.tree, f" USING ({', '.join(using)})"), scope, merged=merged)
        if kind == "n" and not shared - set(common):
            return From(expr(left.tree, rng.choice(NATURAL), right.tree), scope, merged=merged | shared)
        if kind == "," and depth == 0:
            return From(expr(left.tree, ", ", right.tree), scope, merged=merged)
        if kind == "c":
            return From(expr(left.tree, rng.choice(WITHOUT_ON), right.tree), scope, merged=merged)
        join = rng.choice(WITH_ON)
        self.used.add(f"join{join}")
        return From(expr(left.tree, join, right.tree, self.on(scope, right.sources)), scope, True, merged)

    def has(self, name: str, sources: Sequence[Source]) -> bool:
        return any(column.name == name for source in sources for column in source.columns)

    def once(self, name: str, sources: Sequence[Source]) -> bool:
        return sum(column.name == name for source in sources for column in source.columns) == 1

    def bracketed(self, found: From) -> From:
        self.used.add("brackets in FROM")
        return From(expr("(", found.tree, ")"), found.sources, merged=found.merged)

    def on(self, scope: list[Source], right: list[Source]) -> Node:
        if self.chance(0.12):
            return expr(" ON 1")
        if self.chance(0.1):
            return expr(" ON ", self.name(right[-1:]), self.rng.choice((" IS NULL", " <=> NULL", " IS NOT NULL")))
        found: list[Part] = [self.tie(scope[: -len(right)], self.rng.choice(right))] if self.chance(0.5) else []
        for _ in range(self.rng.choice((0, 0, 1, 1, 2)) or not found):
            found.append(self.condition(right if self.chance(0.6) else scope, 1))
        return clause(" ON ", " AND ", found, 1)

    def source(self) -> From:
        """All of a FROM."""
        found = self.tree()
        if self.chance(0.12):
            found = self.bracketed(found)
        if self.deeper(0.15):
            lateral = self.chance(0.7)
            more = self.derived(self.alias(), found.sources) if lateral else self.json_table(found.sources)
            self.used |= {"LATERAL"} if lateral else set()
            scope = [*found.sources, *more.sources]
            if self.chance(0.5) or not lateral:
                return From(expr(found.tree, ", ", more.tree), scope)
            return From(expr(found.tree, " LEFT JOIN ", more.tree, self.on(scope, more.sources)), scope)
        return found

    # -- conditions ----------------------------------------------------------------------------------------------------

    def bare(self, found: From) -> Node:
        """A column without its table's name, where that can be told."""
        names = [name for name in COLUMNS if name in found.merged or self.once(name, found.sources)]
        return expr(self.rng.choice(names)) if names else self.name(found.sources)

    def number(self, column: Column) -> Part:
        return mark_of(column) if self.chance(self.parameters) else expr(self.rng.choice(column.kind.near).text)

    def list_of(self, column: Column) -> Part:
        return mark_of(column, many=True) if self.chance(self.parameters) else self.rng.choice(("0, 2", "1", "1, 3"))

    def condition(self, scope: Sequence[Source], depth: int = 0) -> Node:
        """Of one row of these, and perhaps of what is around."""
        rng = self.rng
        source, column = self.column(scope)
        name = f"{source.alias}.{column.name}"
        number = self.number(column)
        if self.deeper(0.12):
            return self.subquery(scope)
        choices: list[Node] = [
            *(expr(name, " = ", number),) * 3,
            expr(name, " IN (", self.list_of(column), ")"),
            expr(name, rng.choice((" > ", " < ", " <> ", " >= ", " <=> ")), number),
            expr(name, rng.choice((" IS NULL", " IS NULL", " IS NOT NULL"))),
            expr(name, " IS NULL"),
            expr("(", name, " IS NULL OR ", name, " = ", number, ")"),
            expr("NOT (", name, rng.choice((" <=> ", " = ", " > ")), number, ")"),
            expr(name, " + 1 > ", number),
            expr(name, rng.choice((" = ", " = ", " < ", " <=> ")), self.name([*scope, *self.around])),
        ]
        if depth < 1 and self.chance(0.1):
            return expr("(", self.condition(scope, 1), rng.choice((" OR ", " XOR ")), self.condition(scope, 1), ")")
        return rng.choice(choices)

    def subquery(self, scope: Sequence[Source]) -> Node:
        form = self.rng.choice(("EXISTS", "NOT EXISTS", "IN", "NOT IN", "= MAX", "> ALL"))
        self.used.add(f"subquery {form}, level {self.depth + 1}")
        left = self.name(scope)
        if form == "= MAX":
            return expr(left, self.rng.choice((" = ", " < ")), self.scalar(scope))
        with self.within(scope):
            body = self.select(("o",))
        if "EXISTS" in form:
            return expr(f"{form} (", body, ")")
        return expr(left, f" {form} (", body, ")")

    def scalar(self, scope: Sequence[Source]) -> Node:
        with self.within(scope):
            found = self.leaf() if self.chance(0.7) else self.source()
            return expr("(SELECT ", self.total(found.sources), " FROM ", found.tree, self.filters(found.sources), ")")

    def total(self, scope: Sequence[Source]) -> Node:
        head, hole, tail = self.rng.choice(AGGREGATES).partition("{}")
        return expr(head, self.name(scope), tail) if hole else expr(head)

    def filters(self, scope: list[Source]) -> Node:
        """WHERE; of a query within others it often speaks of what is around."""
        found: list[Part] = [self.condition(scope) for _ in range(self.rng.choice((0, 1, 1, 2)))]
        if self.around and self.chance(0.8):
            found.append(self.tie(self.around, self.rng.choice(scope)))
        return self.where(*found)
