"""Random queries over `random_tables`: every shape that is maintained, and some that are only held whole.

A query says how its answers are to be compared: where MySQL itself is free (which spelling stands for a group of equal
strings, which of equal rows a LIMIT keeps) only what MySQL promises is compared.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from integration.support.random_tables import Kind, RandomColumn, RandomTable

ID = RandomColumn("id", Kind("id", "INT", "number", tuple(map(str, range(12))), (*range(12), 40, "3", None)), False)
TEXTS = ("ai", "general", "bin", "latin1", "cs", "unicode", "bin2")
AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")


@dataclass(frozen=True, slots=True)
class Placeholder:
    """What clients send for one `?`."""

    pool: tuple[Any, ...]
    is_list: bool = False

    def choose(self, rng: random.Random) -> Any:
        if self.is_list:
            return [rng.choice(self.pool) for _ in range(rng.choice((1, 2, 2, 5)))]
        return rng.choice(self.pool)


@dataclass(slots=True)
class RandomQuery:
    """`sql` and its placeholders. `spelling_free`: outputs whose spelling MySQL may choose among equal values.

    `order`: "" (a bag), "total", or "prefix" (the first `prefix` outputs are what it is ordered by; equal ones in any
    order). `cut`: it has a LIMIT, so with "prefix" any of equal rows may be left out.
    """

    sql: str
    placeholders: list[Placeholder] = field(default_factory=list)
    spelling_free: frozenset[int] = frozenset()
    order: str = ""
    prefix: int = 0
    cut: bool = False

    def parameters(self, rng: random.Random) -> tuple[Any, ...]:
        return tuple(placeholder.choose(rng) for placeholder in self.placeholders)


class QueryWriter:
    """Writes one query. Placeholders are noted in the order in which they stand in the text: text is made left to
    right."""

    def __init__(self, rng: random.Random, tables: Sequence[RandomTable]) -> None:
        self.rng = rng
        self.tables = list(tables)
        self.placeholders: list[Placeholder] = []

    # -- parts -------------------------------------------------------------------------------------------------------

    def column(self, table: RandomTable) -> RandomColumn:
        return ID if self.rng.random() < 0.15 else self.rng.choice(table.columns)

    def mark(self, pool: tuple[Any, ...], is_list: bool = False) -> str:
        self.placeholders.append(Placeholder(pool, is_list))
        return "?"

    def key(self, alias: str, table: RandomTable) -> str:
        """A condition that gives a key: equality, <=> or an IN-list."""
        column = self.column(table)
        pool = column.kind.parameters
        match self.rng.randrange(8):
            case 0:
                return f"{alias}.{column.name} <=> {self.mark(pool)}"
            case 1 | 2:
                return f"{alias}.{column.name} IN ({self.mark(pool, True)})"
            case 3:
                return f"{self.mark(pool)} = {alias}.{column.name}"
            case _:
                return f"{alias}.{column.name} = {self.mark(pool)}"

    def condition(self, alias: str, table: RandomTable, parameters: bool = True, depth: int = 0) -> str:
        """A condition on one table, of literals and sometimes parameters; three deep at most."""
        rng = self.rng
        if depth < 2 and rng.random() < 0.3:
            return self._compound(alias, table, parameters, depth + 1)
        if parameters and rng.random() < 0.15:
            return self._with_parameter(alias, table)
        column = self.column(table)
        name = f"{alias}.{column.name}"
        literal, other = rng.choices(column.kind.literals, k=2)
        twin = rng.choice([c for c in table.columns if c.kind.family == column.kind.family] or [column])
        choices = [
            f"{name} IS {rng.choice(('NULL', 'NOT NULL'))}",
            f"{name} {rng.choice(('=', '<>', '<=>'))} {literal}",
            f"{name} {rng.choice(('IN', 'NOT IN'))} ({literal}, {other})",
            f"CASE WHEN {name} IS NULL THEN 1 WHEN {name} = {literal} THEN 0 ELSE NULL END",
            f"{self.number(alias, table)} {rng.choice(('=', '<', '>='))} {rng.choice(('1', '2.5', '0'))}",
            f"{name} {rng.choice(('=', '<=>', '<'))} {alias}.{twin.name}",
            f"COALESCE({name}, {literal}) = {other}",
        ]
        if column.kind.ordered:
            choices.append(f"{name} {rng.choice(('<', '<=', '>', '>='))} {literal}")
            choices.append(f"{name} BETWEEN {literal} AND {other}")
        return rng.choice(choices)

    def _compound(self, alias: str, table: RandomTable, parameters: bool, depth: int) -> str:
        first = self.condition(alias, table, parameters, depth)
        match self.rng.randrange(4):
            case 0:
                return f"NOT ({first})"
            case 1:
                return f"({first}) IS {self.rng.choice(('TRUE', 'NOT TRUE', 'FALSE'))}"
        return f"({first} {self.rng.choice(('OR', 'AND'))} {self.condition(alias, table, parameters, depth)})"

    def _with_parameter(self, alias: str, table: RandomTable) -> str:
        """A parameter that is not compared by equality alone."""
        column = self.column(table)
        name = f"{alias}.{column.name}"
        pool = column.kind.parameters
        if column.kind.family in TEXTS and self.rng.random() < 0.6:
            return f"{name} {self.rng.choice(('LIKE', '<>', '>'))} {self.mark(pool)}"
        if column.kind.ordered:
            return f"{name} {self.rng.choice(('<', '>=', '<>'))} {self.mark(pool)}"
        return f"{name} <=> {self.mark(pool)}"

    def number(self, alias: str, table: RandomTable) -> str:
        """A numeric expression."""
        rng = self.rng
        numbers = [column for column in table.columns if column.kind.summable] or [ID]
        name = f"{alias}.{rng.choice(numbers).name}"
        small = "CAST({} AS DECIMAL(40,2))"
        return rng.choice(
            (
                f"{alias}.id + 1",
                f"{alias}.id * {alias}.id2",
                f"{alias}.id / 3",
                f"{alias}.id DIV 2",
                f"{alias}.id % 3",
                f"-{alias}.id",
                f"{small.format(name)} + 1.5",
                f"{small.format(name)} / 7",
                f"COALESCE({name}, -5)",
                f"CAST({alias}.id AS CHAR)",
                f"{name} - 1",
                f"{name} * 2",
                f"{name} + {alias}.id",
                f"{name} / 2",
                f"-{name}",
            )
        )

    def output(self, alias: str, table: RandomTable) -> str:
        rng = self.rng
        column = self.column(table)
        name = f"{alias}.{column.name}"
        # MySQL sends a BIT out of CASE as if it were text: 0x01FF arrives as 0x01C3BF.
        if rng.random() < 0.75 or column.kind.family == "bit":
            return name
        return rng.choice(
            (
                self.number(alias, table),
                f"{name} IS NULL",
                f"COALESCE({name}, {rng.choice(column.kind.literals)})",
                f"CASE WHEN {alias}.id > 5 THEN {name} END",
                f"IF({name} = {rng.choice(column.kind.literals)}, 'yes', 'no')",
            )
        )

    def aggregate(self, alias: str, table: RandomTable) -> tuple[str, bool]:
        """(expression, whether MySQL may choose its spelling)."""
        rng = self.rng
        function = rng.choice(AGGREGATES)
        if rng.random() < 0.25:
            return "COUNT(*)", False
        if function == "COUNT":
            return f"COUNT({alias}.{self.column(table).name})", False
        if function in ("SUM", "AVG"):
            if rng.random() < 0.3:
                return f"SUM(CASE WHEN {self.condition(alias, table, False, 2)} THEN 1 ELSE 0 END)", False
            summable = [column for column in table.columns if column.kind.summable]
            return f"{function}({alias}.{rng.choice(summable).name})", False
        column = rng.choice([column for column in table.columns if column.kind.ordered])
        return f"{function}({alias}.{column.name})", True

    def join_condition(self, alias: str, table: RandomTable, alias2: str, table2: RandomTable) -> str:
        pairs = [(c, d) for c in table.columns for d in table2.columns if c.kind.family == d.kind.family]
        # MySQL itself compares INT with FLOAT now as DOUBLE, now by a constant rounded to INT.
        pairs = [(c, d) for c, d in pairs if c.kind == d.kind or not {c.kind.name, d.kind.name} & {"f", "g"}] or [
            (ID, ID)
        ]
        same = [(c, d) for c, d in pairs if c.kind == d.kind]
        first, second = self.rng.choice(same if same and self.rng.random() < 0.85 else pairs)
        if self.rng.random() < 0.15:
            return f"{alias}.id = {alias2}.id"
        return f"{alias2}.{second.name} = {alias}.{first.name}"

    def outputs(self, *places: tuple[str, RandomTable]) -> list[str]:
        count = self.rng.randint(1, 4)
        return [self.output(*self.rng.choice(places)) for _ in range(count)]

    def where(self, *conditions: str) -> str:
        real = [condition for condition in conditions if condition]
        return f" WHERE {' AND '.join(real)}" if real else ""

    def maybe(self, alias: str, table: RandomTable, chance: float = 0.5, parameters: bool = True) -> str:
        return self.condition(alias, table, parameters) if self.rng.random() < chance else ""

    def done(self, sql: str, **how: Any) -> RandomQuery:
        return RandomQuery(sql, self.placeholders, **how)

    def order(self, alias: str, table: RandomTable, columns: list[str]) -> tuple[str, dict[str, Any]]:
        """An ORDER BY, sometimes with LIMIT; what it orders by are the first outputs. Adds those to `columns`."""
        rng = self.rng
        ordered = [column for column in table.columns if column.kind.ordered]
        terms = [f"{alias}.{column.name}" for column in rng.sample(ordered, min(len(ordered), rng.randint(0, 2)))]
        total = bool(table.primary) and rng.random() < 0.7
        if total:
            terms += [f"{alias}.{name}" for name in table.primary]
        if not terms:
            return "", {}
        columns[:0] = terms
        text = " ORDER BY " + ", ".join(f"{term}{rng.choice(('', ' DESC', ' ASC'))}" for term in terms)
        how: dict[str, Any] = {"order": "total" if total else "prefix", "prefix": len(terms)}
        if rng.random() < 0.15:
            how["cut"] = True
            text += f" LIMIT {self.mark((1, 2, 5, 0))}"
        elif rng.random() < 0.6:
            how["cut"] = True
            text += f" LIMIT {rng.choice((1, 2, 3, 10))}"
            if rng.random() < 0.3:
                text += f" OFFSET {rng.choice((0, 1, 2))}"
        return text, how

    # -- shapes ------------------------------------------------------------------------------------------------------

    def rows(self) -> RandomQuery:
        table = self.rng.choice(self.tables)
        columns = self.outputs(("a", table))
        keys = [self.key("a", table) for _ in range(self.rng.choice((0, 1, 1, 1, 2)))]
        where = self.where(*keys, self.maybe("a", table))
        order, how = self.order("a", table, columns) if self.rng.random() < 0.6 else ("", {})
        distinct = ""
        if self.rng.random() < 0.2 and not how:
            distinct, how = "DISTINCT ", {"spelling_free": frozenset(range(len(columns)))}
        return self.done(f"SELECT {distinct}{', '.join(columns)} FROM {table.name} a{where}{order}", **how)

    def joined(self) -> RandomQuery:
        rng = self.rng
        one, two, three = (rng.choice(self.tables) for _ in range(3))
        columns = self.outputs(("a", one), ("b", two))
        places = [("a", one), ("b", two)]
        kind = rng.choice(("JOIN", "LEFT JOIN"))
        extra = self.maybe("b", two, 0.3, False)
        source = f"{one.name} a {kind} {two.name} b ON {self.join_condition('a', one, 'b', two)}" + (
            f" AND {extra}" if extra else ""
        )
        if rng.random() < 0.3:
            on = self.join_condition(*rng.choice(places), "c", three)
            source += f" {rng.choice(('JOIN', 'LEFT JOIN'))} {three.name} c ON {on}"
            columns.append(self.output("c", three))
        where = self.where(self.key(*rng.choice(places[:1] * 3 + places)), self.maybe(*rng.choice(places), 0.4))
        distinct, free = ("DISTINCT ", frozenset(range(len(columns)))) if rng.random() < 0.15 else ("", frozenset())
        return self.done(f"SELECT {distinct}{', '.join(columns)} FROM {source}{where}", spelling_free=free)

    def grouped(self) -> RandomQuery:
        rng = self.rng
        table = rng.choice(self.tables)
        group = [f"a.{column.name}" for column in rng.sample(table.columns, rng.choice((0, 1, 1, 2)))]
        made = [self.aggregate("a", table) for _ in range(rng.randint(1, 3))]
        columns = [*group, *(text for text, _ in made)]
        keyed = rng.random() < 0.8
        keys = [self.key("a", table)] if keyed else []
        where = self.where(*keys, self.maybe("a", table, 0.4, False))
        text = f"SELECT {', '.join(columns)} FROM {table.name} a{where}"
        if group:
            text += f" GROUP BY {', '.join(group)}"
        if rng.random() < 0.3:
            choices = ["COUNT(*) > 1", "COUNT(*) <> 2", f"{made[0][0]} IS NOT NULL", "COUNT(*) BETWEEN 1 AND 3"]
            text += f" HAVING {rng.choice(choices)}"
            if rng.random() < 0.3:
                text += f" AND COUNT(*) >= {self.mark((0, 1, 2, 3, '1', 1.5, None))}"
        free = frozenset(range(len(group))) | {len(group) + at for at, (_, chosen) in enumerate(made) if chosen}
        return self.done(text, spelling_free=free)

    def joined_groups(self) -> RandomQuery:
        rng = self.rng
        one, two = rng.choice(self.tables), rng.choice(self.tables)
        group = ["a.id", *(f"a.{column.name}" for column in rng.sample(one.columns, 1))]
        made = [self.aggregate("b", two) for _ in range(rng.randint(1, 2))]
        kind = rng.choice(("JOIN", "LEFT JOIN", "LEFT JOIN"))
        source = f"{one.name} a {kind} {two.name} b ON {self.join_condition('a', one, 'b', two)}"
        where = self.where(self.key("a", one), self.maybe("a", one, 0.3, False))
        columns = [*group, *(text for text, _ in made)]
        text = f"SELECT {', '.join(columns)} FROM {source}{where} GROUP BY {', '.join(group)}"
        if rng.random() < 0.2:
            text += " HAVING COUNT(*) >= 1"
        return self.done(text, spelling_free=frozenset(range(1, len(columns))))

    def groups_of_joins(self) -> RandomQuery:
        """Groups or DISTINCT rows of any columns, of joins whose ON says anything of the tables."""
        rng = self.rng
        places = [("a", rng.choice(self.tables))]
        source = f"{places[0][1].name} a"
        for alias in ("b", "c")[: rng.choice((1, 1, 2))]:
            table = rng.choice(self.tables)
            on = [self.join_condition(*rng.choice(places), alias, table) for _ in range(rng.choice((1, 1, 2)))]
            places.append((alias, table))
            on += [self.maybe(*rng.choice(places), 0.5, False) for _ in range(2)]
            source += f" {rng.choice(('JOIN', 'LEFT JOIN'))} {table.name} {alias} ON {' AND '.join(filter(None, on))}"
        names = []
        for _ in range(rng.choice((1, 2, 2, 3))):
            alias, table = rng.choice(places)
            names.append(f"{alias}.{'id' if rng.random() < 0.4 else rng.choice(table.columns).name}")
        where = self.where(self.key("a", places[0][1]))
        if rng.random() < 0.4:
            text = f"SELECT DISTINCT {', '.join(names)} FROM {source}{where}"
            return self.done(text, spelling_free=frozenset(range(len(names))))
        columns = [*names, *(self.aggregate(*rng.choice(places))[0] for _ in range(rng.choice((1, 2))))]
        text = f"SELECT {', '.join(columns)} FROM {source}{where} GROUP BY {', '.join(names)}"
        return self.done(text, spelling_free=frozenset(range(len(columns))))

    def scalar_subquery(self) -> RandomQuery:
        rng = self.rng
        one, two = rng.choice(self.tables), rng.choice(self.tables)
        aggregate, _ = self.aggregate("b", two)
        inner = self.maybe("b", two, 0.3, False)
        sub = f"(SELECT {aggregate} FROM {two.name} b WHERE {self.join_condition('a', one, 'b', two)}"
        sub += f" AND {inner})" if inner else ")"
        columns = ["a.id", sub, self.output("a", one)]
        where = self.where(self.key("a", one))
        return self.done(f"SELECT {', '.join(columns)} FROM {one.name} a{where}", spelling_free=frozenset((1,)))

    def derived(self) -> RandomQuery:
        rng = self.rng
        one, two = rng.choice(self.tables), rng.choice(self.tables)
        column = rng.choice(two.columns)
        aggregate, _ = self.aggregate("b", two)
        inner = self.where(self.maybe("b", two, 0.4, False))
        source = f"(SELECT b.{column.name} AS g, {aggregate} AS n FROM {two.name} b{inner} GROUP BY b.{column.name}) s"
        if rng.random() < 0.5:
            key = f"s.g = {self.mark(column.kind.parameters)}"
            return self.done(f"SELECT s.g, s.n FROM {source}{self.where(key)}", spelling_free=frozenset((0, 1)))
        mates = [item for item in one.columns if item.kind == column.kind]
        if not mates:
            return self.joined_groups()
        kind = rng.choice(("JOIN", "LEFT JOIN"))
        on = f"s.g = a.{rng.choice(mates).name}"
        text = f"SELECT a.id, s.n, s.g FROM {one.name} a {kind} {source} ON {on}{self.where(self.key('a', one))}"
        return self.done(text, spelling_free=frozenset((1, 2)))

    def derived_rows(self) -> RandomQuery:
        rng = self.rng
        table = rng.choice(self.tables)
        columns = [column.name for column in rng.sample(table.columns, 2)]
        inner = self.where(self.maybe("a", table, 0.6, False))
        outputs = f"s.id, s.{columns[0]} AS x, s.{columns[1]} AS y"
        source = f"(SELECT a.id, a.{', a.'.join(columns)} FROM {table.name} a{inner}) s"
        key = rng.choice([column for column in table.columns if column.name in columns])
        where = self.where(f"s.{key.name} = {self.mark(key.kind.parameters)}")
        return self.done(f"SELECT {outputs} FROM {source}{where}")

    def ordered_groups(self) -> RandomQuery:
        """The first groups by an aggregate; ties by the group's own column, whose values may be equal in several."""
        rng = self.rng
        table = rng.choice(self.tables)
        where = self.where(self.key("a", table) if rng.random() < 0.7 else "", self.maybe("a", table, 0.3, False))
        aggregate = rng.choice(("COUNT(*)", "COUNT(a.id2)", "SUM(a.id)", "MAX(a.id)"))
        text = f"SELECT {aggregate} AS n, a.id FROM {table.name} a{where} GROUP BY a.id ORDER BY n DESC, a.id"
        if rng.random() < 0.6:
            text += f" LIMIT {rng.choice((1, 3))}"
        return self.done(text, order="total")

    def ordered_join(self) -> RandomQuery:
        rng = self.rng
        one, two = rng.choice(self.tables), rng.choice(self.tables)
        kind = rng.choice(("JOIN", "LEFT JOIN"))
        source = f"{one.name} a {kind} {two.name} b ON {self.join_condition('a', one, 'b', two)}"
        where = self.where(self.key("a", one))
        columns = ["a.id", "a.id2", "b.id", "b.id2", self.output("b", two)]
        text = f"SELECT {', '.join(columns)} FROM {source}{where} ORDER BY a.id, a.id2, b.id DESC, b.id2"
        total = bool(one.primary) and bool(two.primary)
        if total and rng.random() < 0.6:
            text += f" LIMIT {rng.choice((1, 2, 5))}"
        return self.done(text, order="total" if total else "prefix", prefix=4)

    def of_view(self) -> RandomQuery:
        if self.rng.random() < 0.5:
            return self.done(f"SELECT v.id, v.n FROM v1 v WHERE v.id = {self.mark(ID.kind.parameters)}")
        return self.done(
            f"SELECT v.k, v.n FROM v2 v WHERE v.k = {self.mark(self.tables[0].columns[0].kind.parameters)}"
        )

    def united(self) -> RandomQuery:
        parts = []
        for table in self.rng.sample(self.tables, 2):
            parts.append(
                f"SELECT a.id, a.{table.columns[0].name} FROM {table.name} a{self.where(self.key('a', table))}"
            )
        return self.done(" UNION ALL ".join(parts))

    def subqueried(self) -> RandomQuery:
        """EXISTS, IN (SELECT ...), a row by its unique key, a right join: what is a join to the planner."""
        rng = self.rng
        one, two = rng.choice(self.tables), rng.choice(self.tables)
        kind = rng.choice(("exists", "exists", "in", "in", "row", "right"))
        if kind == "row":
            inner = f"(SELECT b.{self.column(two).name} FROM {two.name} b WHERE b.id = a.id"
            inner += f" AND b.id2 = a.id2 AND {self.condition('b', two)})"
            return self.done(f"SELECT a.id, {inner} FROM {one.name} a{self.where(self.key('a', one))}")
        if kind == "right":
            columns = f"a.id, {self.output('a', one)}, b.id, b.id2"
            on = self.join_condition("a", one, "b", two)
            on += f" AND {self.condition('a', one)}" if rng.random() < 0.4 else ""
            where = self.where(self.key(*rng.choice((("a", one), ("b", two), ("b", two)))))
            return self.done(f"SELECT {columns} FROM {one.name} a RIGHT JOIN {two.name} b ON {on}{where}")
        outside = self.key("a", one) if rng.random() < 0.75 else ""
        found = self._exists(one, two) if kind == "exists" else self._in_query(one, two)
        if outside and rng.random() < 0.2:
            found = f"({found} OR {self.condition('a', one)})"
        listed = f", {self._exists(one, two)}" if not self.placeholders and rng.random() < 0.3 else ""
        return self.done(f"SELECT a.id, a.id2{listed} FROM {one.name} a{self.where(outside, found)}")

    def _exists(self, one: RandomTable, two: RandomTable) -> str:
        rng = self.rng
        text = f"{rng.choice(('', 'NOT '))}EXISTS (SELECT {rng.choice(('1', '*', 'DISTINCT b.id'))} FROM {two.name} b"
        text += f" WHERE {self.join_condition('a', one, 'b', two)}"
        text += f" AND {rng.choice((self.key, self.condition))('b', two)}" if rng.random() < 0.6 else ""
        return f"{text}{rng.choice(('', '', ' LIMIT 1'))})"

    def _in_query(self, one: RandomTable, two: RandomTable) -> str:
        pairs = [(c.name, d.name) for c in one.columns for d in two.columns if c.kind == d.kind] or [("id", "id2")]
        mine, theirs = self.rng.choice((("id", "id"), ("id2", "id"), *pairs * 2))
        inner = self.rng.choice((self.key, self.condition))("b", two) if self.rng.random() < 0.7 else ""
        word = self.rng.choice(("IN", "IN", "NOT IN"))
        return f"a.{mine} {word} (SELECT b.{theirs} FROM {two.name} b{self.where(inner)})"

    def held_whole(self) -> RandomQuery:
        """Shapes that are only held as answers."""
        two = self.rng.choice(self.tables)
        column = self.rng.choice(two.columns)
        where = self.where(self.key("b", two))
        if not two.primary or self.rng.random() < 0.5:
            return self.done(f"SELECT COUNT(DISTINCT b.{column.name}), COUNT(*) FROM {two.name} b{where}")
        number = "ROW_NUMBER() OVER (ORDER BY b.id, b.id2)"
        return self.done(f"SELECT b.id, b.id2, {number} FROM {two.name} b{where}")


def views(tables: Sequence[RandomTable]) -> list[str]:
    one = tables[0]
    key, other = one.columns[0].name, one.columns[1].name
    return [
        f"CREATE VIEW v1 AS SELECT id, {other} AS n FROM {one.name} WHERE id2 < 2",
        f"CREATE VIEW v2 AS SELECT {key} AS k, COUNT(*) AS n FROM {one.name} GROUP BY {key}",
    ]


SHAPES = (
    *("rows", "joined", "grouped") * 3,
    *("joined_groups", "groups_of_joins", "ordered_groups", "ordered_join", "subqueried") * 2,
    *("scalar_subquery", "derived", "derived_rows", "of_view", "united", "held_whole"),
)


def random_query(rng: random.Random, tables: Sequence[RandomTable], shape: str = "") -> RandomQuery:
    writer = QueryWriter(rng, tables)
    made: RandomQuery = getattr(writer, shape or rng.choice(SHAPES))()
    return made
