"""Two plans of one query are the same where their tables are."""

from __future__ import annotations

from dataclasses import replace

from planner.tree.plan import RowsArrangement
from planner.tree.same import same
from sqltypes.schema import Column, SqlType, Table

INT = SqlType("int")
ITEM = Table("shop", "item", (Column("id", INT, False, 0), Column("n", INT, True, 1)), ("id",))


def test_how_many_rows_a_table_is_thought_to_have_makes_no_difference() -> None:
    plan = RowsArrangement(ITEM, ("id",), ("id", "n"))
    assert same(plan, replace(plan, table=replace(ITEM, rows_estimate=7)))
    assert same((plan, 1, None), (plan, 1, None)) and not same((plan,), (plan, plan))


def test_another_definition_does() -> None:
    plan = RowsArrangement(ITEM, ("id",), ("id", "n"))
    other = replace(ITEM, columns=(*ITEM.columns, Column("more", INT, True, 2)))
    assert not same(plan, replace(plan, table=other))
    assert not same(plan, replace(plan, columns=("n", "id")))
    assert not same(plan, None) and not same(1, 1.0)
