"""What the expressions of VIRTUAL columns make a query depend on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.api import plan_query
from planner.session.session_needs import session_needs
from planner.session.virtual_columns import told_by_rows
from planner.tree.plan import AnswerArrangement, Mode, QueryPlan
from sqltypes.errors import UnsupportedQuery
from sqltypes.schema import SchemaSnapshot, Table
from tests.support.schema_text import snapshot_of

SCHEMA = snapshot_of(
    "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, g INT, at TIMESTAMP, dt DATETIME, n INT, s VARCHAR(20), c CHAR(9),"
    " tm TIME, hour INT, text VARCHAR(20), month VARCHAR(20), twice INT, local DATETIME, moment DATETIME, dup INT,"
    " seen DATETIME);",
    "d",
)
EXPRESSIONS = {
    "hour": "hour(`at`)",
    "text": "concat(`s`,_utf8mb4'.',`n`)",
    "month": "date_format(`dt`,_utf8mb4'%M')",
    "twice": "(`hour` * 2)",
    "local": "convert_tz(`dt`,_utf8mb4'+00:00',_utf8mb4'Europe/Berlin')",
    "moment": "cast(`tm` as datetime)",
    "dup": "(`n` * 2)",
    "seen": "`at`",
}


def schema(**changes: object) -> SchemaSnapshot:
    """With the expressions above. `changes`: of the table."""
    table = SCHEMA.relations["d", "t"]
    assert isinstance(table, Table)
    columns = tuple(replace(each, expression=EXPRESSIONS.get(each.name, "")) for each in table.columns)
    return replace(SCHEMA, relations={("d", "t"): replace(table, columns=columns, **changes)})  # type: ignore[arg-type]


def planned(sql: str, **changes: object) -> QueryPlan:
    return plan_query(sql, "d", schema(**changes))


def root(plan: QueryPlan) -> AnswerArrangement:
    assert isinstance(plan.reader.root, AnswerArrangement)
    return plan.reader.root


@pytest.mark.parametrize(
    ("sql", "needed"),
    [
        ("SELECT hour FROM t WHERE id = ?", "time_zone"),
        ("SELECT twice FROM t WHERE id = ?", "time_zone"),  # by way of another one
        ("SELECT seen FROM t WHERE id = ?", "time_zone"),  # it is no instant any more
        ("SELECT id FROM t WHERE g = ? AND month = 'May'", "lc_time_names"),
        ("SELECT COUNT(*) FROM t WHERE g = ? ORDER BY month", "lc_time_names"),
        ("SELECT a.id FROM t a JOIN t b USING (hour) WHERE a.id = ?", "time_zone"),
    ],
)
def test_its_needs_are_the_querys(sql: str, needed: str) -> None:
    plan = planned(sql)
    assert plan.mode is Mode.EVICT
    assert needed in session_needs(plan, schema())


@pytest.mark.parametrize("column", ["text", "dup", "n"])
def test_what_depends_on_nothing_is_kept_current(column: str) -> None:
    plan = planned(f"SELECT {column} FROM t WHERE id = ?")
    assert plan.mode is Mode.MAINTAIN
    assert "time_zone" not in session_needs(plan, schema())


def test_no_condition_and_no_key_is_believed_that_a_row_image_does_not_tell() -> None:
    """All answers of its table are concerned by each change but for keys of other columns."""
    (of_hour,) = root(planned("SELECT COUNT(DISTINCT n) FROM t WHERE hour = ? AND n > 3")).inputs
    assert of_hour.key_columns == (None,) and of_hour.filter is None
    (of_g,) = root(planned("SELECT COUNT(DISTINCT hour) FROM t WHERE g = ? AND n > 3")).inputs
    assert of_g.key_columns == ("g",) and of_g.filter is None
    assert {"at", "hour"} <= {getattr(expr, "name", "") for expr in of_g.used}


def test_where_an_index_has_it_mysqls_plan_decides() -> None:
    with pytest.raises(UnsupportedQuery, match="index"):
        planned("SELECT id FROM t WHERE hour = ?", indexes=(("id",), ("hour",)))
    with pytest.raises(UnsupportedQuery, match="index"):
        planned("SELECT id FROM t WHERE HOUR(at) = ?", functional=("hour(`at`)",))
    with pytest.raises(UnsupportedQuery, match="index"):
        planned("SELECT id FROM t WHERE g = ? ORDER BY DATE(at)", functional=("cast(`at` as date)",))
    for plain in ("at = ?", "g = ? AND (at IN ('2024-01-01', '2024-01-02') OR at IS NULL)"):
        assert planned(f"SELECT id, at FROM t WHERE {plain}", functional=("hour(`at`)",)).mode is Mode.MAINTAIN
    assert planned("SELECT id FROM t WHERE dup = ?", indexes=(("id",), ("dup",))).mode is Mode.MAINTAIN


def test_the_clock_in_an_expression() -> None:
    with pytest.raises(UnsupportedQuery, match="current"):
        planned("SELECT moment FROM t WHERE id = ?")


def test_the_zone_tables_in_an_expression() -> None:
    tables = {each.table.name for each in root(planned("SELECT local FROM t WHERE id = ?")).inputs}
    assert "time_zone_transition" in tables


def test_which_columns_a_row_image_tells() -> None:
    table = schema().relations["d", "t"]
    assert isinstance(table, Table)
    assert {column.name for column in table.columns} - {column.name for column in told_by_rows(table)} == {
        *("hour", "month", "twice", "local", "moment", "seen")
    }
