"""Of which parameters it is asked how far an answer reaches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.api import plan_evict
from planner.evict.crossings import FEW
from planner.tree.plan import AnswerArrangement
from sqltypes.schema import SchemaSnapshot, Table
from tests.support.goldens import PLANS, snapshot

BY_KEY = "SELECT id FROM orders WHERE customer_id = ? AND placed_at < NOW()"
ALL = "SELECT COUNT(*) FROM orders WHERE placed_at < NOW()"


def crossings(sql: str, **changed: object) -> int:
    database, schema = snapshot(PLANS / "rows.sql")
    orders = schema.relations[database, "orders"]
    assert isinstance(orders, Table)
    relations = {**schema.relations, (database, "orders"): replace(orders, **changed)}  # type: ignore[arg-type]
    root = plan_evict(sql, database, SchemaSnapshot(relations, schema.server_version)).reader.root
    assert isinstance(root, AnswerArrangement)
    return len(root.crossings)


@pytest.mark.parametrize(
    ("sql", "index", "asked"),
    [
        (BY_KEY, ("customer_id",), True),
        (BY_KEY, ("placed_at", "id"), True),
        (BY_KEY, ("id", "placed_at"), False),
        (ALL, ("placed_at",), True),
        (ALL, ("customer_id", "placed_at"), False),
    ],
)
def test_a_large_table_is_not_read_for_it(sql: str, index: tuple[str, ...], asked: bool) -> None:
    assert crossings(sql, indexes=(index,), rows_estimate=FEW + 1) == asked
    assert crossings(sql, indexes=(index,), rows_estimate=FEW) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM orders WHERE customer_id = ? AND placed_at = NOW()",
        "SELECT id FROM orders WHERE customer_id = ? AND DATE(placed_at) < NOW()",
        "SELECT id FROM orders WHERE customer_id = ? AND COALESCE(placed_at, NOW()) < NOW()",
        "SELECT customer_id, MAX(placed_at) AS m FROM orders GROUP BY customer_id HAVING m < NOW()",
        "SELECT id FROM orders WHERE customer_id IN (?) AND placed_at < NOW()",
        "SELECT SQL_CALC_FOUND_ROWS id FROM orders WHERE customer_id = ? AND placed_at < NOW() LIMIT 3",
        "SELECT placed_at < NOW() AS late FROM orders WHERE customer_id = ?",
    ],
)
def test_what_is_more_than_compared_does_not_cross(sql: str) -> None:
    assert crossings(sql) == 0
