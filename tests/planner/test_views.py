"""What is refused in a query is refused in a view too, however deep."""

from __future__ import annotations

import pytest

from planner.api import plan_query
from planner.tree.plan import Mode
from sqltypes.errors import UnsupportedQuery
from tests.support.schema_text import snapshot_of

DDL = "CREATE TABLE t (\n  id INT NOT NULL,\n  at DATETIME,\n  PRIMARY KEY (id)\n);"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("SELECT id, now() AS x FROM d.t", "nondeterministic"),
        ("SELECT id, rand() AS x FROM d.t", "nondeterministic"),
        ("SELECT id, user() AS x FROM d.t", "session_state"),
        ("SELECT id, d.f(id) AS x FROM d.t", "unknown_function"),
        ("SELECT id FROM d.t FOR UPDATE", "locking_read"),
    ],
)
@pytest.mark.parametrize("asked", ["seen", "again"])
def test_what_no_cache_can_answer_is_refused_inside_of_a_view(body: str, code: str, asked: str) -> None:
    schema = snapshot_of(DDL, "d", views={"seen": body, "again": "SELECT seen.id FROM d.seen"})
    with pytest.raises(UnsupportedQuery) as refused:
        plan_query(f"SELECT id FROM {asked} WHERE id = ?", "d", schema)
    assert refused.value.code == code


def test_a_view_of_a_view_is_read_as_mysql_writes_it_with_the_database_before_each_name() -> None:
    views = {"seen": "SELECT d.t.id AS id FROM d.t", "again": "SELECT d.seen.id AS id FROM d.seen"}
    plan = plan_query("SELECT id FROM again WHERE id = ?", "d", snapshot_of(DDL, "d", views=views))
    assert plan.mode is Mode.MAINTAIN
    assert [table.name for table in plan.tables] == ["t"]
