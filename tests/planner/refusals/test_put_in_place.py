"""A column that must equal a constant and is compared with another kind is not cached; beside its own kind it is."""

from __future__ import annotations

import pytest

from planner.api import plan_query
from sqltypes.errors import UnsupportedQuery
from tests.support.schema_text import snapshot_of

COLUMNS = """
  id INT NOT NULL, n BIGINT, y YEAR, d DATE, d2 DATE, m DATETIME, tm TIME, s VARCHAR(20), s2 VARCHAR(20),
  e ENUM('a','10'), e2 ENUM('a','10'), j JSON, PRIMARY KEY (id)
"""
TABLES = f"CREATE TABLE x ({COLUMNS}); CREATE TABLE w ({COLUMNS});"


def code(condition: str) -> str:
    """Why it is not cached, "" where it is."""
    try:
        plan_query(f"SELECT id FROM x WHERE {condition}", "d", snapshot_of(TABLES, "d"))
    except UnsupportedQuery as error:
        return error.code
    return ""


OTHERS = (
    "n = {d}", "{d} <> n", "y = {d}", "j = {d}", "ABS(n) = {d}", "d2 + 0 = {d}", "(n, 1) = ({d}, id)", "5 IN ({d}, 6)",
    "20240229 BETWEEN {d} AND {d}", "{d} IN (20240229, 'a')", "{d} IN (n, 5)", "s IN ({d}, 5)", "n IN (SELECT {d})",
    "{d} = ANY (SELECT n FROM w)", "{d} IN (SELECT w.n FROM w)", "EXISTS (SELECT 1 FROM w WHERE w.n = {d})",
    "(SELECT {d}) = n", "NOT {d} BETWEEN d2 AND n",
)  # fmt: skip
ALIKE = (
    "{d} = d2", "{d} > d2", "{d} <= m", "{d} BETWEEN d2 AND m", "{d} BETWEEN '2024-01-01' AND '2024-12-31'",
    "{d} = 20240229", "{d} IN ('2024-02-29', '2024-03-01')", "{d} IN (SELECT w.d FROM w)", "YEAR({d}) = 2024",
    "{d} = DATE(m)", "{d} < d2 + INTERVAL 1 DAY", "EXISTS (SELECT 1 FROM w WHERE w.d = {d})",
    "n IN (1, 2)", "n = y",
)  # fmt: skip


@pytest.mark.parametrize("column", ["d", "m"])
@pytest.mark.parametrize("condition", OTHERS)
def test_a_date_beside_what_is_none(column: str, condition: str) -> None:
    beside = condition.format(d=f"x.{column}")
    refused = {"put_in_place", "equal_by_plan", "pinned_as_text"}
    assert code(f"x.{column} = ? AND {beside}") in refused
    assert code(f"id = ? AND x.{column} = '2024-02-29' AND {beside}") in refused


@pytest.mark.parametrize("condition", ALIKE)
def test_a_date_beside_dates_and_texts(condition: str) -> None:
    assert code(f"x.d = ? AND {condition.format(d='x.d')}") == ""


@pytest.mark.parametrize("condition", OTHERS)
def test_a_date_that_equals_no_constant(condition: str) -> None:
    assert code(f"id = ? AND {condition.format(d='x.d')}") in ("", "equal_by_plan", "by_index")


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("tm = ? AND '12:34:56' BETWEEN tm AND tm", "put_in_place"),
        ("tm = ? AND '12:34:56' IN (tm, 'a')", "put_in_place"),
        ("tm = ? AND tm BETWEEN '10:00' AND '12:00'", ""),
        ("e = ? AND e IN (1, 2)", "put_in_place"),
        ("e = ? AND n BETWEEN e AND e", "put_in_place"),
        ("e = ? AND e2 BETWEEN e AND 2", "put_in_place"),
        ("e = ? AND e IN ('a', '10')", ""),
        ("e = ? AND e = e2", ""),
        ("e IN (1, 2) AND id = ?", ""),
        ("s = ? AND s IN (10, 'a')", "put_in_place"),
        ("s = ? AND s2 BETWEEN s AND 10", "put_in_place"),
        ("s = ? AND s BETWEEN 'a' AND s2", ""),
        ("s = ? AND s IN (CONCAT(s2, 'a'), 'b')", ""),
        ("s IN (?) AND s > 'a'", ""),
        ("d = d2 AND d2 = ? AND d = n", "put_in_place"),
        ("(d, id) = ('2024-02-29', 5) AND n = ?", ""),
        ("(d, id) IN (('2024-02-29', 5)) AND n = ?", ""),
        ("(d, id) = ('2024-02-29', 5) AND d = n AND n = ?", "put_in_place"),
    ],
)
def test_times_texts_and_members_in_lists_and_ranges(condition: str, why: str) -> None:
    assert code(condition) == why


def test_what_a_derived_table_gives_is_the_column() -> None:
    assert code("id IN (SELECT q.id FROM (SELECT id, d AS c, n FROM w) q WHERE q.c = '2024-02-29' AND q.n = q.c)") == (
        "put_in_place"
    )
