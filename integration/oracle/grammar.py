"""Queries of every shape, as trees."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from integration.oracle.trees import Mark, Node, Part, Spelled, Table, clause, expr, integer, string
from integration.oracle.world import World
from integration.oracle.writer import Source, Writer

SMALL = (*map(integer, (0, 1, 2, 3, 5)), string("2"), Spelled("1.5"))
LIMITS = tuple(map(integer, (0, 1, 2, 3, 5, 100)))
CAPITALS = ("EXCEPT", "INTERSECT", "UNION", "UNION ALL", "UNION DISTINCT", "EXCEPT ALL", "INTERSECT ALL")


@dataclass
class Query:
    """`ordered`: its rows come in one order only. `free`: MySQL may choose among equal spellings of a value, or the
    order in which floats are added."""

    shape: str
    tree: Node
    ordered: bool
    free: bool
    plain: bool
    used: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)


class QueryWriter(Writer):
    """Each shape returns (tree, ordered, free)."""

    # -- clauses -------------------------------------------------------------------------------------------------------

    def items(self, scope: list[Source], aliases: bool = True) -> list[Part]:
        rng = self.rng
        found: list[Part] = []
        for number in range(rng.choice((1, 2, 2, 3, 4))):
            item = self.name(scope) if rng.random() < 0.5 else self.value(scope)
            if rng.random() < 0.04 and not self.plain:
                item = self.condition(scope)
            found.append(expr(item, f" AS o{number}") if aliases and rng.random() < 0.5 else item)
        if template := self.taken("value"):
            found.append(self.filled(template, scope, 1))
        return found

    def filters(self, scope: list[Source]) -> Node:
        rng = self.rng
        found: list[Part] = []
        for _ in range(rng.choice((0, 1, 1, 1, 1, 1, 2))):
            found.append(self.key(scope))
        if rng.random() < (0.35 if found else 0.7):
            found.append(self.parameter(scope))
        if rng.random() < 0.5:
            found.append(self.condition(scope))
        if template := self.taken("condition"):
            found.append(self.filled(template, scope, 1))
        rng.shuffle(found)
        return self.where(*found)

    def limit(self) -> Node:
        rng = self.rng
        if rng.random() < 0.15:
            return clause(" LIMIT ", "", [expr(Mark(LIMITS))])
        text = rng.choice(("1", "2", "3", "10", "0", "2, 3", "1 OFFSET 1", "3 OFFSET 2"))
        return clause(" LIMIT ", "", [expr(text)])

    def order(self, scope: list[Source]) -> tuple[Node, bool]:
        """ORDER BY and perhaps LIMIT; which comes only behind a total order."""
        rng = self.rng
        if rng.random() < 0.45:
            return clause("", "", []), False
        terms: list[Part] = []
        for _ in range(rng.choice((0, 1, 1, 2))):
            term = self.name(scope) if self.plain or rng.random() < 0.7 else self.value(scope, depth=1)
            terms.append(expr(term, rng.choice(("", " DESC", " ASC"))))
        total = rng.random() < 0.85 or not terms
        if total:
            terms += [f"{source.id}{rng.choice(('', ' DESC'))}" for source in scope]
        by = clause(" ORDER BY ", ", ", terms)
        limited = total and rng.random() < 0.6
        return Node([by, self.limit() if limited else clause("", "", [])]), total

    def source(self, alias: str) -> tuple[Source, Node]:
        rng = self.rng
        table = rng.choice(self.world.tables)
        hint = ""
        if not self.plain and rng.random() < 0.05:
            hint = rng.choice((" USE INDEX (PRIMARY)", " IGNORE INDEX (PRIMARY)", " FORCE INDEX (PRIMARY)"))
            self.used.add("index hint")
        return Source.of(alias, table), expr(Table(table.number), rng.choice((f" {alias}", f" AS {alias}")), hint)

    # -- shapes --------------------------------------------------------------------------------------------------------

    def rows(self) -> tuple[Node, bool, bool]:
        source, table = self.source("a")
        scope = [source]
        rng = self.rng
        items: list[Part] = ["*"] if rng.random() < 0.08 and not self.due else self.items(scope)
        if items != ["*"] and rng.random() < 0.04:
            items = ["a.*", *items]
        word = rng.choice(("", " ALL", " /*+ NO_MRR(a) */", " SQL_SMALL_RESULT", " STRAIGHT_JOIN", " SQL_NO_CACHE"))
        select = clause(f"SELECT{word if not self.plain and rng.random() < 0.2 else ''} ", ", ", items, 1)
        order, total = self.order(scope)
        return Node([select, " FROM ", table, self.filters(scope), order]), total, False

    def distinct(self) -> tuple[Node, bool, bool]:
        rng = self.rng
        source, table = self.source("a")
        items = self.items([source], aliases=False)
        word = rng.choice(("DISTINCT ", "DISTINCT ", "DISTINCTROW "))
        tail: list[Part] = [self.filters([source])]
        ordered = rng.random() < 0.4
        if ordered:
            tail.append(" ORDER BY " + ", ".join(self.position(at + 1, [source]) for at in range(len(items))))
            if rng.random() < 0.5:
                tail.append(f" LIMIT {rng.choice((1, 3, 5))}")
        # Lists and objects have no order.
        ordered = ordered and "js" not in self.kinds and not any("JSON" in name or "->" in name for name in self.used)
        return Node([clause(f"SELECT {word}", ", ", items, len(items)), " FROM ", table, *tail]), ordered, True

    def grouped(self) -> tuple[Node, bool, bool]:
        rng = self.rng
        source, table = self.source("a")
        scope = [source]
        keys = [
            self.name(scope) if rng.random() < 0.75 else self.value(scope, depth=1)
            for _ in range(rng.choice((0, 0, 1, 1, 1, 2)))
        ]
        aggregates = [self.aggregate(scope) for _ in range(rng.choice((1, 1, 2, 3)))]
        items: list[Part] = [*keys, *(expr(item, f" AS g{number}") for number, item in enumerate(aggregates))]
        having = clause("", "", [])
        if rng.random() < 0.3:
            having = clause(" HAVING ", " AND ", [self.having(scope, aggregates)])
        group = clause(" GROUP BY ", ", ", list(keys), len(keys))
        if keys and not self.plain and rng.random() < 0.12:
            group = Node([group, " WITH ROLLUP"])
            self.used.add("WITH ROLLUP")
            if rng.random() < 0.5:
                items.append(expr("GROUPING(", rng.choice(keys), ")"))
        tail: list[Part] = []
        if keys and rng.random() < 0.35:
            terms = [f"{self.position(at + 1, scope)}{rng.choice(('', ' DESC'))}" for at in range(len(keys))]
            if rng.random() < 0.4:
                terms.insert(0, "g0 DESC")
            tail.append(" ORDER BY " + ", ".join(terms))
            if rng.random() < 0.5:
                tail.append(f" LIMIT {rng.choice((1, 2, 4))}")
        ordered = bool(tail) and "WITH ROLLUP" not in self.used
        select = clause("SELECT ", ", ", items, len(keys) + 1)
        return Node([select, " FROM ", table, self.filters(scope), group, having, *tail]), ordered, True

    def having(self, scope: list[Source], aggregates: list[Node]) -> Node:
        rng = self.rng
        operator = rng.choice((">", "<=", "<>", "="))
        choices = [
            expr("COUNT(*) ", operator, " ", Mark(SMALL)),
            expr(f"g0 {operator} ", self.literal("n")),
            expr("COUNT(*) BETWEEN 1 AND 3"),
            expr(aggregates[0], f" IS {rng.choice(('', 'NOT '))}NULL"),
            expr("COUNT(*) > 1"),
            expr("NOT (g0 <=> ", self.literal("v"), ")"),
        ]
        return rng.choice(choices)

    def joined(self) -> tuple[Node, bool, bool]:
        rng = self.rng
        one, table = self.source("a")
        two, other = self.source("b")
        scope = [one, two]
        source = self.join(one, table, two, other)
        if rng.random() < 0.2:
            three, third = self.source("c")
            join = rng.choice((" JOIN ", " LEFT JOIN "))
            source = Node([source, join, third, clause(" ON ", " AND ", [self.tie(scope, three)], 1)])
            scope.append(three)
        items = self.items(scope)
        order, total = self.order(scope)
        return Node([clause("SELECT ", ", ", items, 1), " FROM ", source, self.filters(scope), order]), total, False

    def join(self, one: Source, table: Node, two: Source, other: Node) -> Node:
        rng = self.rng
        kinds: tuple[str, ...] = (" JOIN ", " LEFT JOIN ", " LEFT JOIN ", " INNER JOIN ")
        if not self.plain:
            kinds += (" RIGHT JOIN ", " CROSS JOIN ", " STRAIGHT_JOIN ", " LEFT OUTER JOIN ", ", ")
        kind = rng.choice(kinds)
        self.used.add(f"join{kind}")
        on: list[Part] = [self.tie([one], two)]
        if rng.random() < 0.3:
            on.append(self.condition([one, two], 1))
        if kind == ", ":
            return Node([table, ", ", other])
        if not self.plain and rng.random() < 0.08:
            self.used.add("join USING")
            return Node([table, kind.replace("STRAIGHT_JOIN", "JOIN").replace("CROSS ", ""), other, " USING (k)"])
        if kind == " CROSS JOIN ":
            return Node([table, kind, other])
        return Node([table, kind, other, clause(" ON ", " AND ", on, 1)])

    def joined_groups(self) -> tuple[Node, bool, bool]:
        rng = self.rng
        apart = random.Random()
        apart.setstate(rng.getstate())  # so that the other shapes of a seed stay as they are
        if apart.random() < 0.5:
            return self.groups_of_joins()
        one, table = self.source("a")
        two, other = self.source("b")
        keys: list[Part] = [f"{one.id}"]
        if rng.random() < 0.5:
            keys.append(self.name([one]))
        aggregates = [self.aggregate([two]) for _ in range(rng.choice((1, 2)))]
        where = self.where(*([self.key([one])] if rng.random() < 0.85 else []))
        select = clause("SELECT ", ", ", [*keys, *aggregates], len(keys) + 1)
        group = clause(" GROUP BY ", ", ", keys, len(keys))
        tail = f" ORDER BY 1{rng.choice(('', ' DESC'))}" if rng.random() < 0.4 else ""
        tree = Node([select, " FROM ", self.join(one, table, two, other), where, group, tail])
        return tree, bool(tail), True

    def groups_of_joins(self) -> tuple[Node, bool, bool]:
        """Groups or DISTINCT rows of any columns, of joins whose ON says anything of the tables."""
        rng = self.rng
        scope: list[Source] = []
        tree: list[Part] = []
        for alias in ("a", "b", "c")[: rng.choice((2, 2, 3))]:
            source, table = self.source(alias)
            if scope:
                on: list[Part] = [self.tie(scope, source)]
                if rng.random() < 0.3:
                    on.append(self.tie(scope, source))
                for _ in range(rng.choice((0, 0, 1, 1, 2))):
                    on.append(self.condition([rng.choice([*scope, source])], 1))
                rng.shuffle(on)
                tree += [rng.choice((" JOIN ", " LEFT JOIN ", " LEFT JOIN ")), table, clause(" ON ", " AND ", on, 1)]
            else:
                tree.append(table)
            scope.append(source)
        keys: list[Part] = [
            rng.choice(scope).id if rng.random() < 0.4 else self.name(scope) for _ in range(rng.choice((1, 2, 2, 3)))
        ]
        where = self.where(*([self.key(scope[:1])] if rng.random() < 0.9 else []))
        if rng.random() < 0.4:
            return Node([clause("SELECT DISTINCT ", ", ", keys, 1), " FROM ", *tree, where]), False, True
        aggregates = [self.aggregate(scope) for _ in range(rng.choice((1, 2)))]
        select = clause("SELECT ", ", ", [*keys, *aggregates], len(keys) + 1)
        return Node([select, " FROM ", *tree, where, clause(" GROUP BY ", ", ", keys, len(keys))]), False, True

    def scalar(self) -> tuple[Node, bool, bool]:
        source, table = self.source("a")
        scope = [source]
        items: list[Part] = [expr(source.id), self.scalar_subquery(scope)]
        if self.rng.random() < 0.5:
            items.append(self.value(scope))
        order, total = self.order(scope)
        return Node([clause("SELECT ", ", ", items, 1), " FROM ", table, self.filters(scope), order]), total, True

    def derived(self) -> tuple[Node, bool, bool]:
        """A derived table, a CTE or a LATERAL one; of rows or of groups; alone or joined."""
        rng = self.rng
        inner, table = self.source("i")
        grouped = rng.random() < 0.5
        filters = self.where(*([self.condition([inner])] if rng.random() < 0.5 else []))
        if grouped:
            column = rng.choice(inner.columns[1:])
            self.kinds.add(column.kind.name)
            head, tail = f"SELECT i.{column.name}, ", f" GROUP BY i.{column.name}"
            body = Node([head, self.aggregate([inner]), " AS n FROM ", table, filters, tail])
            given = Source("q", (column,))
            outputs: list[Part] = [expr(f"q.{column.name}"), expr("q.n")]
        else:
            columns = rng.sample(inner.columns[1:], min(3, len(inner.columns) - 1))
            names = ", ".join(f"i.{column.name}" for column in columns)
            word = rng.choice(("", "", "", "DISTINCT ")) if not self.plain else ""
            body = Node([f"SELECT {word}i.id, {names}, ", self.value([inner]), " AS n FROM ", table, filters])
            given = Source("q", (inner.columns[0], *columns))
            outputs = [expr(name) for name in ("q.id", *(f"q.{column.name}" for column in columns), "q.n")]
        where = self.where(*[make([given]) for make in (self.key, self.condition) if rng.random() < 0.6])
        select = clause("SELECT ", ", ", outputs, 1)
        if rng.random() < 0.35 and not self.plain:
            self.used.add("WITH")
            names = rng.choice(("q", "q"))
            return Node([f"WITH {names} AS (", body, ") ", select, " FROM q", where]), False, True
        source: Part = Node(["(", body, ") q"])
        if rng.random() < 0.4:
            outer, second = self.source("a")
            kind = rng.choice((" JOIN ", " LEFT JOIN "))
            source = Node([second, kind, source, clause(" ON ", " AND ", [self.tie([outer], given)], 1)])
            where = self.where(self.key([outer]))
            select = clause("SELECT ", ", ", [expr(outer.id), *outputs], 1)
        return Node([select, " FROM ", source, where]), False, True

    def united(self) -> tuple[Node, bool, bool]:
        rng = self.rng
        count = rng.choice((1, 2))
        bodies = []
        families = [rng.choice("nsdv") for _ in range(count)]
        for alias in ("a", "b"):
            source, table = self.source(alias)
            items: list[Part] = [self.value([source], family) for family in families]
            bodies.append(Node([clause("SELECT ", ", ", items, count), " FROM ", table, self.filters([source])]))
        word = rng.choice(CAPITALS)
        self.used.add(word)
        tail = ""
        if rng.random() < 0.3:
            tail = " ORDER BY " + ", ".join(str(number + 1) for number in range(count))
            tail += rng.choice(("", " LIMIT 3"))
        bracketed = [Node(["(", body, ")"]) for body in bodies] if rng.random() < 0.3 else bodies
        return Node([bracketed[0], f" {word} ", bracketed[1], tail]), False, True

    def windowed(self) -> tuple[Node, bool, bool]:
        source, table = self.source("a")
        items: list[Part] = [expr(source.id), self.window([source])]
        if self.rng.random() < 0.3:
            items.append(self.window([source]))
        order, total = self.order([source])
        return Node([clause("SELECT ", ", ", items, 1), " FROM ", table, self.filters([source]), order]), total, True

    def lateral(self) -> tuple[Node, bool, bool]:
        source, table = self.source("a")
        inner, other = self.source("l0")
        self.used.add("LATERAL")
        body = Node(
            ["(SELECT ", self.aggregate([inner]), " AS n FROM ", other, self.where(self.tie([source], inner)), ")"]
        )
        return (
            Node([f"SELECT {source.id}, l.n FROM ", table, ", LATERAL ", body, " l", self.filters([source])]),
            False,
            True,
        )

    def of_values(self) -> tuple[Node, bool, bool]:
        """A list of rows beside a table."""
        source, table = self.source("a")
        self.used.add("VALUES")
        rows = clause(
            "(VALUES ", ", ", [expr("ROW(", self.literal("i"), ", ", self.literal("s"), ")") for _ in "ab"], 1
        )
        on = self.rng.choice(("v.n = a.k", "v.n <=> a.k", "v.n = a.id"))
        tree: list[Part] = ["SELECT a.id, v.n FROM ", table, " JOIN ", rows, f") v (n, s) ON {on}"]
        return Node([*tree, self.filters([source])]), False, True

    def semijoined(self) -> tuple[Node, bool, bool]:
        source, table = self.source("a")
        items = self.items([source])
        where = self.where(
            self.subquery_condition([source]), *([self.key([source])] if self.rng.random() < 0.6 else [])
        )
        order, total = self.order([source])
        return Node([clause("SELECT ", ", ", items, 1), " FROM ", table, where, order]), total, False


Shape = Callable[[QueryWriter], tuple[Node, bool, bool]]
SHAPES: dict[str, Shape] = {
    name: getattr(QueryWriter, name)
    for name in (
        *("rows", "distinct", "grouped", "joined", "joined_groups", "scalar", "derived", "united", "windowed"),
        *("lateral", "semijoined", "of_values"),
    )
}
PLAIN_SHAPES = (*("rows",) * 4, *("grouped",) * 3, *("joined",) * 2, "joined_groups", "scalar", "derived", "distinct")
WILD_SHAPES = (*("rows",) * 4, *("grouped",) * 2, *("joined",) * 2, *SHAPES)


@dataclass(frozen=True, slots=True)
class Focus:
    """What queries are made of. `shapes` (): any. `plain`: of what may be maintained, True, False, or None for both.
    `favoured`: templates of conditions that come often; `large`: tables of many rows; `partial_dates`: in half of the
    rounds, for reads of them are mostly MySQL's. `everything`: rare and unusual types in some rounds, and each template
    in its turn. `nested`: the share of rounds that are of `nested.py`; `computed`: of the others, those that have
    VIRTUAL columns; `set`: of all, those whose sessions have set variables."""

    shapes: tuple[str, ...] = ()
    plain: bool | None = None
    favoured: tuple[str, ...] = ()
    large: bool = False
    partial_dates: bool = False
    everything: bool = False
    nested: float = 0.0
    computed: float = 0.0
    set: float = 0.0


ANYTHING = Focus()
UNTYPED = 0.25  # of the literals in conditions of half of the queries
SHOWN = 0.4  # of the literals elsewhere, likewise
WITH_DUE = {"value": "rows", "condition": "rows", "aggregate": "grouped", "window": "windowed"}


def make_query(rng: random.Random, world: World, focus: Focus = ANYTHING, due: tuple[str, str] | None = None) -> Query:
    """`due`: what must be in it, one of `writer.EVERY`."""
    plain = rng.random() < 0.5 if focus.plain is None else focus.plain
    shape = rng.choice(focus.shapes or (PLAIN_SHAPES if plain else WILD_SHAPES))
    writer = QueryWriter(rng, world, plain, focus.favoured)
    if due is not None:
        plain, shape = False, WITH_DUE[due[0]]
        writer = QueryWriter(rng, world, plain, focus.favoured, [due])
    writer.untyped = 0.0 if plain or rng.random() < 0.5 else UNTYPED
    writer.apart.setstate(rng.getstate())
    writer.shown = SHOWN if not plain and writer.apart.random() < 0.5 else 0.0
    tree, ordered, free = SHAPES[shape](writer)
    return Query(shape, tree, ordered, free, plain, writer.used, writer.kinds)
