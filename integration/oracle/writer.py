"""Expressions at random: a column, a literal, a parameter, or a template of `expressions.py` with expressions in it."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from integration.oracle import expressions as x
from integration.oracle.kinds import KINDS, NUMBERS, RARE, SEARCHES, STRINGS, TIMES, UNUSUAL
from integration.oracle.trees import Mark, Node, Part, Spelled, Table, clause, expr
from integration.oracle.world import Column, World, WorldTable

DEEPEST = 2
ODD = 0.25  # of values beside a column
MISFITS = 0.08  # of arguments that are of any kind
FAMILIES = {
    "n": NUMBERS,
    "i": frozenset({"int"}),
    "s": STRINGS,
    "d": frozenset({"date", "datetime"}),
    "t": TIMES,
    "j": frozenset({"json"}),
    "b": frozenset({"bytes"}),
    "g": frozenset({"geo"}),
    "w": frozenset({"vector"}),
}
_HOLE = re.compile(r"\{(\w)\}")
_CALLS = {
    "n": x.templates(x.NUMERIC),
    "s": x.templates(x.TEXTUAL),
    "d": x.templates(x.TEMPORAL),
    "t": x.templates(x.TEMPORAL),
    "j": x.templates(x.JSONS),
    "b": x.templates(x.TEXTUAL),
    "c": x.templates(x.CONDITIONS),
}
_PLAIN = {
    "n": x.templates(x.PLAIN_NUMERIC),
    "s": x.templates(x.PLAIN_TEXTUAL),
    "d": x.templates(x.PLAIN_TEMPORAL),
    "t": x.templates(x.PLAIN_TEMPORAL),
    "c": x.templates(x.PLAIN_CONDITIONS),
}
_AGGREGATES, _PLAIN_AGGREGATES = x.templates(x.AGGREGATES), x.templates(x.PLAIN_AGGREGATES)
_WINDOWS = x.templates(x.WINDOWS)
_LITERALS = {
    family: tuple(spelled for kind in KINDS if kind.family in families for spelled in kind.near + kind.odd)
    for family, families in FAMILIES.items()
} | {"w": tuple(map(Spelled, ("STRING_TO_VECTOR('[1, 2, 3]')", "x'0000803f0000004000004040'", "NULL")))}
_RARE = {"g": x.templates(x.GEOMETRIC), "w": x.templates(x.VECTORS), "c": x.templates(x.RARE_CONDITIONS)}
_UNUSUAL = x.templates(x.UNUSUAL)
_OPERATORS = (*("=", "=", "=", "=", "=", "<=>", "<>"), *("<", "<=", ">", ">=", "!="))


def _every() -> tuple[tuple[str, str], ...]:
    texts = {
        "value": (x.NUMERIC, x.TEXTUAL, x.TEMPORAL, x.JSONS, x.GEOMETRIC, x.VECTORS),
        "condition": (x.CONDITIONS, x.RARE_CONDITIONS),
        "aggregate": (x.AGGREGATES,),
        "window": (x.WINDOWS,),
    }
    return tuple((kind, template) for kind, of in texts.items() for text in of for template in x.templates(text))


DAYS = (
    *("CURDATE()", "UTC_DATE()", "YEAR(NOW())", "(CURRENT_DATE() - INTERVAL 1 MONTH)", "MONTH(NOW())", "CURRENT_DATE"),
    "DATE_FORMAT(CURDATE(), '%Y-%m-01')",
)
SHOWN_NUMBERS = tuple(spelled for kind in KINDS if kind.family == "int" for spelled in kind.near)
EVERY = _every()  # (what it is, template) of the whole language


def _has(source: Source, family: str) -> bool:
    return any(column.kind.family == family for column in source.columns)


def mark_of(column: Column, many: bool = False) -> Mark:
    return Mark(column.kind.near, column.kind.odd, many)


@dataclass(frozen=True, slots=True)
class Source:
    """What is in scope under an alias."""

    alias: str
    columns: tuple[Column, ...]

    @classmethod
    def of(cls, alias: str, table: WorldTable) -> Source:
        return cls(alias, tuple(table.columns))

    @property
    def id(self) -> str:
        return f"{self.alias}.id"


@dataclass
class Writer:
    """`plain`: only what may be maintained. `favoured`: templates of which half of the conditions are.
    `due`: what must be in the query: "value", "condition", "aggregate" or "window", with a template.
    `used`: templates and kinds of columns, for what is covered. `untyped`: how often a parameter stands in a literal's
    place within a condition, where no column may tell its type; `shown`: likewise outside of conditions, where it may
    be shown. `apart`: chooses those, so that all else of a seed stays as it is.
    """

    rng: random.Random
    world: World
    plain: bool
    favoured: tuple[str, ...] = ()
    due: list[tuple[str, str]] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    subqueries: int = 0
    untyped: float = 0.0
    shown: float = 0.0
    apart: random.Random = field(default_factory=random.Random)
    _within: int = 0  # so many conditions

    def taken(self, kind: str) -> str:
        """The template that is due of this kind, "" where there is none."""
        found = next((item for item in self.due if item[0] == kind), None)
        if found is None:
            return ""
        self.due.remove(found)
        return found[1]

    # -- leaves --------------------------------------------------------------------------------------------------------

    def column(self, scope: Sequence[Source], family: str = "v") -> tuple[Source, Column]:
        """Of that family if there is one."""
        pairs = [(source, column) for source in scope for column in source.columns]
        if family in FAMILIES:
            pairs = [pair for pair in pairs if pair[1].kind.family in FAMILIES[family]] or pairs
        unusual = [pair for pair in pairs if pair[1].kind in UNUSUAL]
        if unusual and self.rng.random() < 0.4:
            pairs = unusual
        source, column = self.rng.choice(pairs)
        self.kinds.add(column.kind.name)
        return source, column

    def name(self, scope: Sequence[Source], family: str = "v") -> Node:
        source, column = self.column(scope, family)
        return expr(f"{source.alias}.{column.name}")

    def literal(self, family: str) -> Node:
        rng = self.rng
        if self._within and self.untyped and rng.random() < self.untyped:
            self.used.add("untyped parameter")
            return expr(Mark(tuple(rng.choice(_LITERALS[rng.choice("nsdt")]) for _ in range(4))))
        if family == "i":
            text = rng.choice(("0", "1", "2", "3", "-1", "5", "'2'", "1.5", "NULL"))
            return self.shown_literal(SHOWN_NUMBERS) or expr(text)
        choices = _LITERALS.get(family) or _LITERALS[rng.choice("nsdt")]
        text = rng.choice(choices).text
        return self.shown_literal(choices) or expr(text)

    def shown_literal(self, choices: Sequence[Spelled]) -> Node | None:
        """A parameter, or what the clock says all day, where a literal would stand that may be shown."""
        apart = self.apart
        if self._within or not self.shown or apart.random() >= self.shown:
            return None
        if apart.random() < 0.2:
            self.used.add("day that is shown")
            return expr(apart.choice(DAYS))
        bindable = [choice for choice in choices if choice.bindable]
        if not bindable:
            return None
        self.used.add("shown parameter")
        return expr(Mark(tuple(apart.choice(bindable) for _ in range(4)), shown=True))

    # -- expressions ---------------------------------------------------------------------------------------------------

    def value(self, scope: Sequence[Source], family: str = "v", depth: int = 0) -> Node:
        rng = self.rng
        if rng.random() < MISFITS and not self.plain:
            family = rng.choice("nsdtjbv")
        chance = rng.random()
        if family == "i":
            return self.literal("i") if chance < 0.8 else self.name(scope, "i")
        leaf = 0.45 + depth * 0.25
        if chance < leaf * 0.8:
            return self.name(scope, family)
        if chance < leaf:
            return self.literal(family)
        if depth >= DEEPEST:
            return self.name(scope, family)
        if family == "v" and not self.plain and self.rare(scope) and rng.random() < 0.4:
            return self.filled(rng.choice(_RARE[rng.choice("gw")]), scope, depth + 1)
        if family == "v" and self.unusual(scope) and rng.random() < 0.4:
            return self.filled(rng.choice(_UNUSUAL), scope, depth + 1)
        if family == "v":
            family = rng.choice("nnssdtj" if not self.plain else "nnssd")
        calls = _PLAIN if self.plain else _CALLS
        return self.filled(rng.choice(calls.get(family) or calls["s"]), scope, depth + 1)

    def condition(self, scope: Sequence[Source], depth: int = 0) -> Node:
        self._within += 1
        found = self._condition(scope, depth)
        self._within -= 1
        return found

    def _condition(self, scope: Sequence[Source], depth: int) -> Node:
        rng = self.rng
        if self.favoured and rng.random() < 0.5:
            return self.filled(rng.choice(self.favoured), scope, depth + 1)
        if not self.plain and self.rare(scope) and rng.random() < 0.3:
            return self.rare_condition(scope, depth)
        if self.unusual(scope) and rng.random() < 0.2:
            return self.filled(rng.choice(_UNUSUAL), scope, depth + 1)
        chance = rng.random()
        if chance < 0.2:
            source, column = self.column(scope)
            self.used.add("{v} = near")
            return expr(f"{source.alias}.{column.name} {rng.choice(_OPERATORS)} ", expr(self.near(column).text))
        if chance < 0.28 and not self.plain and depth < DEEPEST:
            return self.subquery_condition(scope)
        return self.filled(rng.choice((_PLAIN if self.plain else _CALLS)["c"]), scope, depth + 1)

    def rare(self, scope: Sequence[Source]) -> bool:
        return any(column.kind in RARE for source in scope for column in source.columns)

    def unusual(self, scope: Sequence[Source]) -> bool:
        return any(column.kind in UNUSUAL for source in scope for column in source.columns)

    def position(self, number: int, scope: Sequence[Source]) -> str:
        """Of a select item, from 1, for ORDER BY."""
        return f"({number})" if self.unusual(scope) and self.rng.random() < 0.3 else str(number)

    def rare_condition(self, scope: Sequence[Source], depth: int) -> Node:
        rng = self.rng
        texts = [f"{source.alias}.ft" for source in scope for column in source.columns if column.name == "ft"]
        if texts and rng.random() < 0.6:
            self.used.add("MATCH")
            return expr(f"MATCH({rng.choice(texts)}) AGAINST ({rng.choice(SEARCHES)})")
        return self.filled(rng.choice(_RARE["c"]), scope, depth + 1)

    def filled(self, template: str, scope: Sequence[Source], depth: int) -> Node:
        """A template with expressions in its holes; brackets around it, so that it can stand anywhere."""
        self.used.add(template)
        parts: list[Part] = ["("]
        at = 0
        for hole in _HOLE.finditer(template):
            parts += [template[at : hole.start()], self.hole(hole[1], scope, depth)]
            at = hole.end()
        parts += [template[at:], ")"]
        return expr(*parts)

    def hole(self, letter: str, scope: Sequence[Source], depth: int) -> Part:
        rng = self.rng
        match letter:
            case "u":
                return rng.choice(x.UNITS if self.plain or rng.random() < 0.8 else x.COMPOSITE_UNITS)
            case "p":
                return rng.choice(x.PATHS)
            case "g":
                geometries = [source for source in scope if _has(source, "geo")]
                if geometries and rng.random() < 0.7:
                    return self.name(geometries, "g")
                return expr(rng.choice(x.POINTS))
            case "w":
                vectors = [source for source in scope if _has(source, "vector")]
                return self.name(vectors, "w") if vectors and rng.random() < 0.7 else self.literal("w")
            case "a":
                return scope[0].alias
            case "c":
                return self.condition(scope, depth) if depth <= DEEPEST else self.comparison(scope)
        return self.value(scope, letter, depth)

    def comparison(self, scope: Sequence[Source]) -> Node:
        source, column = self.column(scope)
        return expr(f"{source.alias}.{column.name} {self.rng.choice(_OPERATORS)} ", expr(self.near(column).text))

    def near(self, column: Column) -> Spelled:
        kind = column.kind
        return self.rng.choice(kind.odd if self.rng.random() < ODD else kind.near)

    # -- parameters ----------------------------------------------------------------------------------------------------

    def key(self, scope: Sequence[Source]) -> Node:
        """What most queries begin with: a column, and a parameter beside it."""
        rng = self.rng
        source, column = self.column(scope)
        if rng.random() < 0.3:
            column = source.columns[min(1, len(source.columns) - 1)]
        return expr(f"{source.alias}.{column.name} = ", mark_of(column))

    def parameter(self, scope: Sequence[Source]) -> Node:
        """Any other place of a parameter."""
        rng = self.rng
        source, column = self.column(scope)
        name, mark = f"{source.alias}.{column.name}", mark_of(column)
        other = mark_of(column)
        choices: list[Node] = [
            expr(f"{name} IN (", mark_of(column, many=True), ")"),
            expr(f"{name} IN (", mark_of(column, many=True), ")"),
            expr(f"{name} {rng.choice(_OPERATORS)} ", mark),
            expr(f"{name} BETWEEN ", mark, " AND ", other),
            expr(f"{name} {rng.choice(('LIKE', 'NOT LIKE', 'NOT LIKE'))} ", mark),
            expr(f"{name} NOT IN (", mark_of(column, many=True), ")"),
            expr("(", f"{name} = ", mark, " OR ", f"{name} <=> ", other, ")"),
            expr("NOT (", f"{name} = ", mark, ")"),
            expr(mark, f" {rng.choice(_OPERATORS)} {name}"),
            expr(f"{name} NOT BETWEEN ", mark, " AND ", other),
            expr(f"COALESCE({name}, ", self.literal("v"), ") = ", mark),
        ]
        if self.untyped:
            self.used.add("row of parameters")
            row = expr("(", mark, ", ", other, ")")
            choices += [
                expr(f"({name}, {name}) {rng.choice(_OPERATORS)} ", row),
                expr(f"({name}, {source.id}) {rng.choice(_OPERATORS)} ", row),
                expr(f"({source.id}, {name}) IN (", row, ")"),
            ]
        return rng.choice(choices)

    # -- aggregates and windows ----------------------------------------------------------------------------------------

    def aggregate(self, scope: Sequence[Source]) -> Node:
        template = self.taken("aggregate") or self.rng.choice(_PLAIN_AGGREGATES if self.plain else _AGGREGATES)
        return self.filled(template, scope, 1)

    def window(self, scope: Sequence[Source]) -> Node:
        rng = self.rng
        function = self.filled(self.taken("window") or rng.choice(_WINDOWS), scope, 1)
        # The brackets around it belong to an expression, not to a function that OVER follows.
        function.parts = function.parts[1:-1]
        function.expr = False
        ids: list[Part] = [source.id for source in scope]
        by = clause(" PARTITION BY ", ", ", [self.value(scope, depth=1)] if rng.random() < 0.6 else [])
        frame = rng.choice(x.FRAMES)
        terms: list[Part] = ids if "RANGE BETWEEN 1" in frame else [self.value(scope, depth=1), *ids]
        self.used.add(f"window{frame}")
        return expr(function, " OVER (", by, clause(" ORDER BY ", ", ", terms, 1), frame, ")")

    # -- subqueries ----------------------------------------------------------------------------------------------------

    def inner(self) -> tuple[Source, Part]:
        """A table of its own for a subquery."""
        self.subqueries += 1
        table = self.rng.choice(self.world.tables)
        source = Source.of(f"s{self.subqueries}", table)
        return source, expr(Table(table.number), f" {source.alias}")

    def tie(self, scope: Sequence[Source], source: Source) -> Node:
        """An equality between a column of the scope and one of the source, of one kind if there is one."""
        pairs = [
            (outer, column, other)
            for outer in scope
            for column in outer.columns
            for other in source.columns
            if column.kind == other.kind or (column.kind.family == other.kind.family and self.rng.random() < 0.15)
        ]
        # A derived table of groups may have no such column.
        outer, column, other = self.rng.choice(pairs or [(scope[0], scope[0].columns[0], source.columns[0])])
        self.kinds |= {column.kind.name, other.kind.name}
        return expr(f"{outer.alias}.{column.name} = {source.alias}.{other.name}")

    def where(self, *conditions: Part) -> Node:
        return clause(" WHERE ", " AND ", conditions)

    def subquery_condition(self, scope: Sequence[Source]) -> Node:
        rng = self.rng
        source, table = self.inner()
        tied = [self.tie(scope, source)] if rng.random() < 0.5 else []
        more = [self.condition([source], DEEPEST)] if rng.random() < 0.5 else []
        where = self.where(*tied, *more)
        left = self.column(scope)[1]
        same = [column for column in source.columns if column.kind.family == left.kind.family] or [source.columns[0]]
        outer = next(item for item in scope if left in item.columns)
        inside = f"SELECT {source.alias}.{rng.choice(same).name} FROM "
        name = f"{outer.alias}.{left.name}"
        form = rng.choice(("EXISTS", "NOT EXISTS", "IN", "IN", "NOT IN", "NOT IN", "ANY", "ALL", "SOME"))
        self.used.add(f"subquery {form}")
        match form:
            case "EXISTS" | "NOT EXISTS":
                return expr(f"{form} (SELECT 1 FROM ", table, where, ")")
            case "IN" | "NOT IN":
                return expr(f"{name} {form} ({inside}", table, where, ")")
        operator = rng.choice(("=", "<>", "<", ">="))
        return expr(f"{name} {operator} {form} ({inside}", table, where, ")")

    def scalar_subquery(self, scope: Sequence[Source]) -> Node:
        """An aggregate over another table, mostly tied to this one."""
        rng = self.rng
        source, table = self.inner()
        self.used.add("scalar subquery")
        conditions: list[Part] = [self.tie(scope, source)] if rng.random() < 0.85 else []
        if rng.random() < 0.3:
            conditions.append(self.condition([source], DEEPEST))
        return expr("(SELECT ", self.aggregate([source]), " FROM ", table, self.where(*conditions), ")")
