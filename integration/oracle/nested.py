"""Queries whose FROM is a tree: joins of every kind in and around brackets, derived tables, WITH, views, LATERAL, lists
of rows; set operations of parts in brackets; subqueries that speak of tables two levels around them.

They are about few values in narrow tables: so most changes concern an answer, and each concerns few.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from integration.oracle.grammar import LIMITS, UNTYPED, Query
from integration.oracle.nested_from import COLUMNS, TABLES, From, FromWriter
from integration.oracle.trees import Mark, Node, Part, Table, clause, expr
from integration.oracle.world import World, WorldTable, WorldView
from integration.oracle.writer import Source

ROWS, IDS = 6, 7
VIEWS = (11, 12, 13)  # their numbers; each may read those before it
UNITED = ("UNION", "UNION ALL", "UNION ALL", "EXCEPT", "INTERSECT")


class NestedWriter(FromWriter):
    """Queries of such trees."""

    def item(self, found: From, name: str) -> Node:
        if self.deeper(0.1):
            return self.scalar(found.sources)
        if self.chance(0.25):
            return self.bare(found)
        return expr(self.name(found.sources), " + 1" if name not in COLUMNS and self.chance(0.2) else "")

    def select(self, names: Sequence[str], *, last: bool = False) -> Node:
        """With columns of these names. `last`: nothing is put behind it, so it may have ORDER BY."""
        rng, found = self.rng, self.source()
        if self.chance(0.6):  # of the others no column is named
            found.sources = rng.sample(found.sources, min(len(found.sources), rng.choice((1, 1, 2))))
        scope = found.sources
        where = self.filters(scope)
        if self.chance(0.1):
            where.parts.append(expr(self.bare(found), " = ", self.number(COLUMNS["k"])))
        form = rng.choice(("rows",) * 6 + ("DISTINCT ", "groups", "groups", "window"))
        items = [self.item(found, name) for name in names]
        tail: list[Part] = []
        if form == "groups":
            keys: list[Part] = [self.name(scope) for _ in names[1:]]
            items = [self.total(scope), *map(expr, keys)]
            having = [self.having(scope, keys)] if self.chance(0.3) else []
            tail = [clause(" GROUP BY ", ", ", keys, len(keys)), clause(" HAVING ", " AND ", having)]
        elif form == "window":
            self.used.add("named windows")
            function = rng.choice(("RANK()", "COUNT(*)", "SUM({})", "MAX({})", "DENSE_RANK()"))
            head, hole, end = function.partition("{}")
            items[0] = expr(head, self.name(scope) if hole else "", end, " OVER w2")
            tail = [" WINDOW w1 AS (PARTITION BY ", self.name(scope), "), w2 AS (w1 ORDER BY ", self.name(scope), ")"]
        elif last and form == "rows" and self.chance(0.2):
            by: list[Part] = [self.scalar(scope)] if self.deeper(0.4) else []
            tail = [self.ordered(len(names), by)]
        shown = [expr(item, f" AS {name}") for item, name in zip(items, names, strict=True)]
        word = form if form == "DISTINCT " else ""
        return Node([clause(f"SELECT {word}", ", ", shown, len(names)), " FROM ", found.tree, where, *tail])

    def having(self, scope: list[Source], keys: list[Part]) -> Node:
        left = self.rng.choice(keys) if keys and self.chance(0.5) else self.total(scope)
        if self.deeper(0.4):
            with self.within([]):
                found = self.leaf()
                filters = self.where(expr(left, " = ", self.name(found.sources)), self.condition(found.sources))
                return expr("EXISTS (SELECT 1 FROM ", found.tree, filters, ")")
        return expr(left, self.rng.choice((" > ", " = ", " <= ")), self.number(COLUMNS["k"]))

    def ordered(self, count: int, by: Sequence[Part] = ()) -> Node:
        """ORDER BY of everything, so that LIMIT leaves no choice."""
        terms = [*by, *(f"{at + 1}{self.rng.choice(('', ' DESC'))}" for at in range(count))]
        limit: Part = expr(" LIMIT ", expr(Mark(LIMITS) if self.chance(self.parameters) else self.rng.choice("1235")))
        return Node([clause(" ORDER BY ", ", ", terms, count), limit if self.chance(0.6) else ""])

    def part(self, names: Sequence[str]) -> Node:
        """Of a set operation."""
        chance = self.rng.random()
        computed = names[0] not in COLUMNS  # a number by a column's name would be taken for a DECIMAL's text
        if computed and (chance < 0.15 or self.room < 1):
            return expr("SELECT ", ", ".join(str(self.rng.randrange(4)) for _ in names))
        if computed and chance < 0.2:
            return expr("VALUES ROW(", ", ".join(str(self.rng.randrange(4)) for _ in names), ")")
        if chance < 0.55:
            self.used.add("parts in brackets")
            tail = self.ordered(len(names)) if self.chance(0.5) else ""
            return expr("(", self.select(names), tail, ")")
        if chance < 0.65:
            return expr("(", self.part(names), f" {self.rng.choice(UNITED)} ", self.part(names), ")")
        return expr(self.select(names))

    def whole(self, names: Sequence[str]) -> Node:
        rng = self.rng
        before = list(self.ctes)
        head: list[Part] = [self.with_()] if self.room > 1 and self.chance(0.2) else []
        chance = rng.random()
        if chance < 0.6:
            body = self.select(names, last=True)
        elif chance < 0.7:
            body = Node(["(", self.select(names), ")", self.ordered(len(names)) if self.chance(0.5) else ""])
        else:
            parts: list[Part] = [self.select(names)]
            for _ in range(rng.choice((1, 1, 2))):
                parts += [f" {rng.choice(UNITED)} ", self.part(names)]
            body = Node([*parts, self.ordered(len(names)) if self.chance(0.3) else ""])
        self.ctes = before
        return Node([*head, body])

    def of_view(self, names: Sequence[str]) -> Node:
        """Of no part in brackets: MySQL has ended where it read such views."""
        body = self.select(names)
        return Node([body, f" {self.rng.choice(UNITED)} ", self.select(names)]) if self.chance(0.25) else body

    def with_(self) -> Node:
        self.used.add("WITH")
        found: list[Part] = []
        for _ in range(self.rng.choice((1, 1, 2))):
            hidden = self.chance(0.2)
            name: Part = Table(self.rng.choice((1, 2, 3))) if hidden else f"q{self.alias()}"
            names = tuple(self.rng.sample(list(COLUMNS), self.rng.choice((1, 2, 3))))
            with self.within(()):
                body = self.whole(names)
            listed = f" ({', '.join(names)})" if self.chance(0.4) else ""
            found.append(Node([name, listed, " AS (", body, ")"]))
            self.ctes.append((name, tuple(COLUMNS[each] for each in names)))
        return Node([clause("WITH ", ", ", found, 1), " "])


def make_nested_world(rng: random.Random) -> World:
    world = World([WorldTable(at, [COLUMNS[name] for name in names]) for at, names in enumerate(TABLES, 1)], IDS)
    for table in world.tables:
        table.rows = [table.row(rng, id_) for id_ in rng.sample(range(IDS), ROWS)]
    for number in VIEWS:
        names = tuple(rng.sample(list(COLUMNS), rng.choice((2, 3))))
        writer = NestedWriter(rng, world, False, parameters=0.0, depth=1, room=2)
        world.views.append(WorldView(number, names, writer.of_view(names)))
    return world


def make_nested_query(rng: random.Random, world: World) -> Query:
    writer = NestedWriter(rng, world, False, room=rng.choice((2, 3, 3, 4, 4, 5, 6)))
    writer.untyped = UNTYPED if rng.random() < 0.3 else 0.0
    names = [f"c{at}" for at in range(rng.choice((1, 2, 2, 3)))]
    return Query("nested", writer.whole(names), False, False, False, writer.used, writer.kinds)
