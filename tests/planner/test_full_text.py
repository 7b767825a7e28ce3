"""MATCH ... AGAINST is cached where the row alone decides: tests/fixtures/plans/refused.sql has what is not."""

from __future__ import annotations

import pytest

from planner.api import plan_query
from planner.tree.plan import Mode
from tests.support.goldens import PLANS, snapshot

CACHED = (
    "SELECT id FROM orders WHERE customer_id = ? AND NOT MATCH(note) AGAINST ('+late -paid' IN BOOLEAN MODE)",
    "SELECT id FROM orders WHERE customer_id = ? AND (MATCH(note) AGAINST ('late') OR total > 100) ORDER BY id",
)


@pytest.mark.parametrize("sql", CACHED)
def test_a_search_as_a_condition_is_held_as_mysql_answers_it(sql: str) -> None:
    database, schema = snapshot(PLANS / "rows.sql")
    assert plan_query(sql, database, schema).mode is Mode.EVICT
