"""What the analysis of evict mode overlooks costs precision, and never an answer: it says less of the query then."""

from __future__ import annotations

from typing import Any

import pytest

from planner.api import plan_query
from planner.evict import evict
from planner.tree.plan import AnswerArrangement, AnswerInput
from tests.support.schema_text import snapshot_of

TABLES = """
CREATE TABLE x (
  id INT NOT NULL,
  n INT,
  m INT,
  PRIMARY KEY (id)
);
CREATE TABLE w (
  id INT NOT NULL,
  n INT,
  o INT,
  PRIMARY KEY (id)
);
"""
VIEWS = {"v": "SELECT x.id, w.n FROM w AS y LEFT JOIN (x CROSS JOIN (SELECT * FROM w) AS d) ON y.id > 0 JOIN w ON 1"}
NATURAL = "SELECT x.id FROM (x NATURAL JOIN w) WHERE x.id = ?"
SAME = (
    "SELECT a.id, (SELECT RANK() OVER () FROM x WHERE n = 3) FROM w AS b LEFT JOIN (w AS a JOIN x ON a.id = x.id)"
    " ON a.id = b.id WHERE a.id = ?"
)
VIEW = "SELECT id, RANK() OVER (ORDER BY n) FROM v WHERE id = ?"
PLAIN = "SELECT x.id, RANK() OVER (ORDER BY m) FROM x WHERE x.id = ? GROUP BY x.n"


def inputs(sql: str) -> dict[str, list[AnswerInput]]:
    """By table."""
    root = plan_query(sql, "d", snapshot_of(TABLES, "d", views=VIEWS)).reader.root
    assert isinstance(root, AnswerArrangement), "it is held in evict mode"
    found: dict[str, list[AnswerInput]] = {}
    for each in root.inputs:
        found.setdefault(each.table.name, []).append(each)
    return found


def used(sql: str, table: str) -> set[str]:
    return {getattr(expr, "name", "") for each in inputs(sql)[table] for expr in each.used}


def test_what_is_read() -> None:
    assert used(PLAIN, "x") == {"id", "n", "m"}
    assert used(NATURAL, "x") >= {"id", "n"} and used(NATURAL, "w") >= {"id", "n"}
    assert len(inputs(SAME)["x"]) == 2 and any(each.filter is None for each in inputs(SAME)["x"])


@pytest.mark.parametrize("sql", [SAME, VIEW])
def test_a_table_that_was_not_entered(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    def first_only(select: Any, node: Any) -> Any:
        return select._entry(node, outer=True, alone=True)

    before = inputs(sql)
    monkeypatch.setattr(evict._Select, "_nested", first_only)
    found = inputs(sql)
    assert found.keys() == before.keys()
    for each in (each for several in found.values() for each in several):
        assert each.filter is None and each.key_columns == (None,), "any change concerns all answers"
        assert len(each.used) == len(each.table.columns)


def test_columns_that_were_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evict._Select, "_use_column", lambda select, node, aliases: None)
    assert used(PLAIN, "x") == {"id", "n", "m"}
    assert used(SAME, "w") == {"id"}


def test_columns_of_one_table_that_were_noted_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT x.id, RANK() OVER (ORDER BY x.n, w.n) FROM x JOIN w USING (id) WHERE x.id = ?"
    before = {table: used(sql, table) for table in ("x", "w")}
    assert before == {"x": {"id", "n"}, "w": {"id", "n"}}
    use = evict._Select._use_column

    def of_x_only(select: Any, node: Any, aliases: Any) -> None:
        if node.table == "x":
            use(select, node, aliases)

    monkeypatch.setattr(evict._Select, "_use_column", of_x_only)
    monkeypatch.setattr(evict._Select, "_using", lambda select, node: None)
    assert {table: used(sql, table) for table in ("x", "w")} == before


def test_a_natural_join_whose_columns_were_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def tables_only(select: Any, node: Any) -> Any:
        select._entry(node, outer=True, nested=True, alone=True)
        return [select._entry(join.this, outer=True, nested=True) for join in node.args["joins"]][-1]

    monkeypatch.setattr(evict._Select, "_nested", tables_only)
    assert used(NATURAL, "x") == {"id", "n", "m"} and used(NATURAL, "w") == {"id", "n", "o"}


@pytest.mark.parametrize(
    ("condition", "counts"),
    [("c.o = 1", True), ("c.o IS NOT NULL", True), ("c.o IS NULL", False), ("COALESCE(c.o, 1) = 1", False)],
)
def test_a_join_in_brackets_behind_a_left_join(condition: str, counts: bool) -> None:
    """Where its own missing rows pass the ON, rows that fail it matter: they are what else would be missing."""
    (read,) = inputs(f"SELECT a.id, b.id FROM x a LEFT JOIN (x b LEFT JOIN w c ON b.n = c.n) ON {condition}")["w"]
    assert (read.filter is not None) is counts


@pytest.mark.parametrize(
    ("condition", "believed"),
    [("JSON_PRETTY(n)", False), ("FIND_IN_SET(n, '1,2')", True), ("n - ? > 0", True)],
)
def test_where_a_row_may_raise_an_error_no_condition_leaves_rows_out(condition: str, believed: bool) -> None:
    """MySQL may evaluate the one that raises it first."""
    (read,) = inputs(f"SELECT id, RANK() OVER (ORDER BY m) FROM x WHERE {condition} AND m > 1 AND id = ?")["x"]
    assert (read.filter is not None) is believed
    assert ("id" in read.key_columns) is believed


@pytest.mark.parametrize("shown", ["JSON_PRETTY(n)", "n"])
def test_nor_where_a_derived_table_shows_what_may_raise_one(shown: str) -> None:
    for sql in ("SELECT k FROM ({}) q WHERE k > 1", "WITH q AS ({}) SELECT k FROM q WHERE k > 1"):
        text = sql.format(f"SELECT {shown} AS k, RANK() OVER (ORDER BY m) AS r FROM x WHERE m > 1")
        (read,) = inputs(text)["x"]
        assert (read.filter is not None) is (shown == "n")
