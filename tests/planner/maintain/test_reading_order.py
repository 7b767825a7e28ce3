"""In which order rows are given that no ORDER BY puts in one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.api import plan_query
from planner.tree.plan import Mode, QueryPlan
from sqltypes.expression import ColumnRef
from sqltypes.schema import UNKNOWN_ORDER, Column, IndexPart, SchemaSnapshot, SqlType, Table, ordered_by

INT, TEXT = SqlType("int"), SqlType("varchar", length=9, collation="utf8mb4_0900_ai_ci")
COLUMNS = tuple(
    Column(name, TEXT if name == "w" else INT, name != "id", at) for at, name in enumerate(("id", "a", "b", "c", "w"))
)
PRIMARY = (IndexPart("id"),)


def table(*indexes: tuple[IndexPart, ...], primary: tuple[IndexPart, ...] = PRIMARY) -> Table:
    every = (primary, *indexes)
    return Table(
        "d", "t", COLUMNS, tuple(part.name for part in primary),
        indexes=tuple(tuple(part.name for part in index) for index in every),
        orders=tuple(ordered_by(index, primary) for index in every), rows_estimate=10_000,
    )  # fmt: skip


def planned(where: str, shown: str, of: Table) -> QueryPlan:
    return plan_query(f"SELECT {shown} FROM t WHERE {where}", "d", SchemaSnapshot({("d", "t"): of}, (9, 7, 0)))


def reading(where: str, of: Table, shown: str = "id, a, b, c, w") -> tuple[str, str]:
    """The order of a key's rows, and of a list's keys."""
    plan = planned(where, shown, of)

    def told(name: str, falling: bool) -> str:
        return f"{name} DESC" if falling else name

    rows = [told(term.expr.name, term.descending) for term in plan.reader.reading if isinstance(term.expr, ColumnRef)]
    return ", ".join(rows), ", ".join(told(plan.key[at].name, falling) for at, falling in plan.reader.lists)


def index(*names: str) -> tuple[IndexPart, ...]:
    return tuple(IndexPart(name.removesuffix(" DESC"), name.endswith(" DESC")) for name in names)


@pytest.mark.parametrize(
    ("indexes", "where", "rows", "lists"),
    [
        ([index("a")], "a IN (?)", "id", "a"),
        ([index("a", "b")], "a IN (?)", "b, id", "a"),
        ([index("a DESC", "b", "w DESC")], "a IN (?)", "b, w DESC, id", "a DESC"),
        ([index("a", "b DESC")], "b IN (?) AND a IN (?)", "id", "a, b DESC"),
        ([index("a", "b")], "a = ? AND b IN (?)", "id", "b"),
        ([index("a", "b")], "a = 3 AND b IN (?)", "id", "b"),
        ([index("a", "b", "c")], "a IN (?) AND c IN (?)", "b, id", ""),
        ([index("a"), index("b", "c")], "a IN (?) AND b = ? AND c > ?", "c, id", ""),
        ([index("b"), index("a", "c")], "a IN (?) AND c = ?", "id", "a"),
        ([], "a IN (?)", "id", ""),
        ([index("a")], "a = ?", "id", ""),
        ([], "id IN (?)", "", "id"),
        ([index("w")], "w IN (?)", "id", "w"),
        ([(IndexPart("w", whole=False),)], "w IN (?)", "id", ""),
        ([(IndexPart("a"), UNKNOWN_ORDER)], "a IN (?)", "", "a"),
    ],
)
def test_the_order_is_that_of_all_columns_of_the_index_and_then_of_the_primary_key(
    indexes: list[tuple[IndexPart, ...]], where: str, rows: str, lists: str
) -> None:
    assert reading(where, table(*indexes)) == (rows, lists)


def test_of_columns_that_are_not_held_no_order_is_made() -> None:
    assert reading("a IN (?)", table(index("a", "b")), "w") == ("", "a")
    assert reading("a IN (?)", table(index("a", "b")), "b, w") == ("b", "a")


def test_groups_come_in_the_order_of_the_index_where_their_columns_are_the_next() -> None:
    of = table(index("a", "b DESC", "c"))
    assert reading("a IN (?) GROUP BY a, b", of, "a, b, COUNT(*)") == ("b DESC", "a")
    assert reading("a IN (?) GROUP BY a, c", of, "a, c, COUNT(*)") == ("", "a")
    assert reading("a IN (?) GROUP BY a, c, b", of, "COUNT(*)") == ("b DESC, c", "a")


def test_partitions_are_read_one_after_the_other() -> None:
    of = table(index("a"))
    of = replace(of, orders=tuple((*order, UNKNOWN_ORDER) for order in of.orders))
    assert reading("a IN (?)", of) == ("id", "a")
    assert planned("a = ? LIMIT 3", "id, w", of).mode is Mode.EVICT


@pytest.mark.parametrize(
    ("indexes", "primary", "mode"),
    [
        ([index("a")], PRIMARY, Mode.MAINTAIN),
        ([index("a")], index("id DESC"), Mode.MAINTAIN),
        ([index("a", "b")], PRIMARY, Mode.EVICT),
        ([index("a", "id")], PRIMARY, Mode.MAINTAIN),
        ([index("a", "id DESC")], PRIMARY, Mode.EVICT),
        ([index("a", "id DESC")], index("id DESC"), Mode.MAINTAIN),
        ([(IndexPart("a", whole=False),)], PRIMARY, Mode.MAINTAIN),
        ([(IndexPart("a"), IndexPart("w", whole=False))], PRIMARY, Mode.EVICT),
    ],
)
def test_with_limit_every_index_must_have_the_order_of_the_primary_key(
    indexes: list[tuple[IndexPart, ...]], primary: tuple[IndexPart, ...], mode: Mode
) -> None:
    assert planned("a = ? LIMIT 3", "id, w", table(*indexes, primary=primary)).mode is mode
