"""Random queries with lists of `ListTable`s, and what is given for their lists."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from integration.lists.tables import LARGE, Column, Domain, Index, ListTable
from integration.oracle.trees import (
    NULL,
    Given,
    Mark,
    Node,
    Part,
    Spelled,
    bound_values,
    cache_text,
    integer,
    literal_text,
    prepared_text,
)

Values = dict[Mark, Given]
FORMS = ("rows", "rows", "rows", "two lists", "list and equality", "list and range", "groups", "other groups", "totals",
         "distinct", "joined", "left joined")  # fmt: skip


@dataclass(eq=False, slots=True)
class Asked:
    """A parameter: `column` None for the numbers of a LIMIT."""

    mark: Mark
    column: Column | None
    count: bool = False


@dataclass(slots=True)
class Query:
    """`tree`: all of it; `whole`: the same without LIMIT. `order`: places in the answer of the terms of ORDER BY, with
    their domains. `free`: MySQL may show any spelling of several. `indexed`: the columns that WHERE compares."""

    form: str
    table: ListTable
    tree: Node
    whole: Node
    asked: list[Asked]
    order: list[tuple[int, Domain]]
    limited: bool
    free: bool
    compared: list[str]
    shown: list[str]
    tables: list[ListTable] = field(default_factory=list)

    @property
    def text(self) -> str:
        return cache_text(self.tree, "")

    def literal(self, given: Mapping[Mark, Given]) -> str:
        return literal_text(self.tree, "", given)

    def prepared(self, given: Mapping[Mark, Given]) -> tuple[str, list[Spelled]]:
        return prepared_text(self.tree, "", given), bound_values(self.tree, given)

    def values(self, rng: random.Random) -> Values:
        return {asked.mark: self._given(rng, asked) for asked in self.asked}

    def _given(self, rng: random.Random, asked: Asked) -> Given:
        if asked.column is None:
            return (integer(rng.choice((1, 2, 3, 5, 100)) if asked.count else rng.choice((0, 1, 2))),)
        if not asked.mark.many:
            return (_value(rng, asked.column, odd=0.03),)
        odd = 0.3 if rng.random() < 0.08 else 0.0
        found = [_value(rng, asked.column, odd) for _ in range(rng.choice((1, 1, 2, 2, 3, 5, 12, 30)))]
        if not odd:  # most drivers bind all of a list alike
            found = [value for value in found if value.type == found[0].type]
        if rng.random() < 0.2:
            found += rng.choices(found, k=2)
        if rng.random() < 0.06:
            found.append(NULL)
        rng.shuffle(found)
        return tuple(found)

    def half(self, rng: random.Random, given: Values) -> Values:
        """Lists of which some values are the same."""
        other = self.values(rng)
        return {mark: _halves(given[mark], other[mark]) if mark.many else given[mark] for mark in given}

    def permuted(self, rng: random.Random, given: Values) -> Values:
        return {mark: tuple(rng.sample(values, len(values))) for mark, values in given.items()}

    def without_limit(self) -> Query:
        return replace(self, tree=self.whole)

    @property
    def candidates(self) -> list[Index]:
        """The indexes in which MySQL can look for what WHERE compares."""
        return [index for index in self.table.indexes if index.columns[0] in self.compared]

    @property
    def situation(self) -> str:
        """By which indexes the rows can be found, in a few words."""
        return _situation(self.table, self.candidates)

    @property
    def reading(self) -> str:
        """The one index by which rows are read in an order that is promised to hits; "" where there is none."""
        if len(self.tables) > 1 or self.table.partitioned or self.table.size < LARGE or not self.table.primary:
            return ""
        if self.form in ("groups", "other groups", "distinct") or self.order or len(self.candidates) != 1:
            return ""
        (index,) = self.candidates
        lists = {asked.column.name for asked in self.asked if asked.column is not None and asked.mark.many}
        read = [name for name in index.columns if name in lists or name not in self.compared]
        told = {*self.shown, *self.compared} >= {*index.columns, *self.table.primary}
        known = told and set(read[: len(lists)]) == lists and not any(part.prefix for part in index.parts)
        return index.name if known else ""


def _situation(table: ListTable, candidates: list[Index]) -> str:
    if table.partitioned:
        return "partitions"
    if not candidates:
        return "no index"
    if len(candidates) > 1:
        return "several indexes"
    (index,) = candidates
    told = "primary key" if index.name == "PRIMARY" else "index"
    if any(part.prefix for part in index.parts):
        return f"{told} of a prefix"
    if len(index.columns) > 1:
        told += " of more columns"
    if any(part.falling for other in (index, *table.indexes[:1]) for part in other.parts):
        told += ", DESC"
    return told if table.primary else f"{told}, no primary key"


def _halves(one: Given, other: Given) -> Given:
    kept = one[: len(one) // 2 + 1]
    return (*kept, *[value for value in other if value.type == kept[0].type][:3])


def _value(rng: random.Random, column: Column, odd: float) -> Spelled:
    if column.name == "id":
        return integer(rng.randrange(-50, 100))
    number = rng.randrange(column.spread)
    return column.domain.odd(rng, number) if rng.random() < odd else column.domain.value(rng, number)


class Writer:
    """Makes one query after the other."""

    def __init__(self, rng: random.Random, tables: list[ListTable]) -> None:
        self.rng = rng
        self.tables = tables

    def query(self) -> Query:
        rng = self.rng
        form, table = rng.choice(FORMS), rng.choice(self.tables)
        self.asked: list[Asked] = []
        listed = self._listed(table)
        conditions, compared = [self._list("t", listed)], [listed.name]
        other = rng.choice([column for column in table.keys if column is not listed] or [listed])
        if form == "two lists":
            conditions.append(self._list("t", other))
            compared.append(other.name)
        elif form == "list and equality":
            conditions.append(self._compared("t", other, "="))
            compared.append(other.name)
        elif form == "list and range":
            range_ = rng.choice((table.column("p"), table.column("d"), listed))
            conditions.append(self._compared("t", range_, rng.choice((">", "<=", "<>"))))
        elif rng.random() < 0.15:
            conditions.append(Node([rng.choice(("t.p > 3", "t.w IS NOT NULL", "t.d <> 1.25"))]))
        rng.shuffle(conditions)
        outputs, shown, group = self._outputs(form, table, listed, other)
        source, joined = self._from(form, table)
        return self._finished(form, table, [*joined], Node([source]), conditions, compared, outputs, shown, group)

    def _listed(self, table: ListTable) -> Column:
        first = [index.columns[0] for index in table.indexes]
        if first and self.rng.random() < 0.7:
            return table.column(self.rng.choice(first))
        return self.rng.choice([*table.keys, table.columns[0]])

    def _list(self, alias: str, column: Column) -> Node:
        mark = Mark((), many=True)
        self.asked.append(Asked(mark, column))
        return Node([f"{alias}.{column.name} IN (", mark, ")"])

    def _compared(self, alias: str, column: Column, how: str) -> Node:
        mark = Mark(())
        self.asked.append(Asked(mark, column))
        return Node([f"{alias}.{column.name} {how} ", mark])

    def _outputs(self, form: str, table: ListTable, listed: Column, other: Column) -> tuple[list[str], list[str], str]:
        """The select items, the columns that they are ("" for what is computed), and GROUP BY."""
        rng = self.rng
        totals = rng.sample(("COUNT(*)", "SUM(t.p)", "MIN(t.d)", "MAX(t.p)", "COUNT(t.w)", "SUM(t.d)"), 2)
        if form == "groups":
            return [f"t.{listed.name}", *totals], [listed.name, "", ""], f" GROUP BY t.{listed.name}"
        if form == "other groups":
            names = rng.choice(([other.name], [listed.name, other.name], [other.name, listed.name]))
            columns = ", ".join(f"t.{name}" for name in names)
            return [*(f"t.{name}" for name in names), *totals], [*names, "", ""], f" GROUP BY {columns}"
        if form == "totals":
            return totals, ["", ""], ""
        names = [column.name for column in table.columns]
        shown = rng.choice((names, rng.sample(names, rng.randrange(1, len(names)))))
        if form == "distinct":
            shown = rng.choice(([other.name], [listed.name, "p"], [other.name, listed.name, "p"]))
        shown = list(dict.fromkeys(shown))
        return [f"t.{name}" for name in shown], shown, ""

    def _from(self, form: str, table: ListTable) -> tuple[str, list[ListTable]]:
        if form not in ("joined", "left joined"):
            return f"{table.name} t", []
        other = self.rng.choice(self.tables)
        ways = ("t.id = u.id", "t.p = u.id", "t.p = u.p")
        by = self.rng.choice(ways[:2] if max(table.size, other.size) >= LARGE else ways)  # not millions of rows
        return f"{table.name} t {'LEFT ' * (form == 'left joined')}JOIN {other.name} u ON {by}", [other]

    def _finished(
        self, form: str, table: ListTable, joined: list[ListTable], source: Node, conditions: list[Node],
        compared: list[str], outputs: list[str], shown: list[str], group: str,
    ) -> Query:  # fmt: skip
        rng = self.rng
        items = [*outputs, *(["u.id", "u.w"] if joined else [])]
        where: list[Part] = []
        for at, condition in enumerate(conditions):
            where += [" AND " if at else " WHERE ", condition]
        ordering, order = "", list[tuple[int, Domain]]()
        if rng.random() < 0.3:
            at_ = [at for at, name in enumerate(shown) if name]
            for at in rng.sample(at_, min(len(at_), rng.choice((1, 1, 2)))):
                order.append((at, table.column(shown[at]).domain))
                ordering += f"{', ' if ordering else ' ORDER BY '}{outputs[at]}{rng.choice(('', ' DESC'))}"
        distinct = "DISTINCT " if form == "distinct" else ""
        start: list[Part] = [f"SELECT {distinct}{', '.join(items)} FROM ", source, *where, group + ordering]
        limit = self._limit() if rng.random() < 0.35 else []
        domains = [table.column(name).domain for name in shown if name]
        whole, tree = Node(start), Node([*start, *limit])
        free = bool(group or distinct) and any(domain.folds or domain.text for domain in domains)
        tables = [table, *joined]
        return Query(form, table, tree, whole, self.asked, order, bool(limit), free, compared, shown, tables)

    def _limit(self) -> list[Part]:
        rng = self.rng
        if rng.random() < 0.5:
            return [f" LIMIT {rng.choice(('1', '3', '7', '2, 3', '0, 4', '1, 100'))}"]
        count, offset = Mark(()), Mark(())
        self.asked.append(Asked(count, None, True))
        if rng.random() < 0.5:
            return [" LIMIT ", count]
        self.asked.append(Asked(offset, None))
        return [" LIMIT ", offset, ", ", count] if rng.random() < 0.5 else [" LIMIT ", count, " OFFSET ", offset]
