"""What the parser is given in the place of what it does not know, and what follows for a plan."""

from __future__ import annotations

import pytest

from planner.api import plan_query
from planner.text.parse import parse
from planner.text.parser_text import replacements
from planner.text.scan import DEFAULT_VERSION, counts_found, scan
from planner.tree.plan import AnswerArrangement, Mode
from tests.planner.session.test_session_needs import SCHEMA


def given(sql: str) -> str:
    tokens = scan(sql)
    for at, by in reversed(replacements(tokens, counts_found(tokens))):
        sql = sql[: tokens[at].start] + by + sql[tokens[at].end :]
    return " ".join(sql.split())


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("TABLE t ORDER BY a LIMIT 3", "SELECT * FROM t ORDER BY a LIMIT 3"),
        ("SELECT 1 UNION (table d.t)", "SELECT 1 UNION (SELECT * FROM d.t)"),
        ("SELECT t.table, `TABLE` FROM d.table", "SELECT t.table, `TABLE` FROM d.table"),
        ("SELECT SQL_CALC_FOUND_ROWS DISTINCT SQL_NO_CACHE a FROM t", "SELECT DISTINCT a FROM t"),
        ("SELECT ALL HIGH_PRIORITY STRAIGHT_JOIN sql_big_result a FROM t", "SELECT ALL STRAIGHT_JOIN a FROM t"),
        (
            "SELECT a FROM (SELECT SQL_CALC_FOUND_ROWS a FROM t) d",
            "SELECT a FROM (SELECT SQL_CALC_FOUND_ROWS a FROM t) d",
        ),
        ("SELECT a, SQL_NO_CACHE FROM t", "SELECT a, SQL_NO_CACHE FROM t"),
        ("SELECT ROW(a, b) IN (ROW(1, 2)), c.row, row FROM t", "SELECT (a, b) IN ((1, 2)), c.row, row FROM t"),
        ("VALUES ROW(1, f(2, 3)), ROW(4, 5)", "SELECT 1 AS column_0, f(2, 3) AS column_1 UNION ALL SELECT 4, 5"),
        ("(VALUES ROW(1)) ORDER BY column_0", "( SELECT 1 AS column_0) ORDER BY column_0"),
        ("VALUES ROW(1), ROW(2) LIMIT 1", "SELECT 1 AS column_0 UNION ALL SELECT 2 LIMIT 1"),
        ("VALUES ROW(ROW(1, 2) = ROW(3, 4))", "SELECT (1, 2) = (3, 4) AS column_0"),
        ("SELECT VALUES(a) FROM t", "SELECT VALUES(a) FROM t"),
        ("VALUES ROW(1", "SELECT 1"),
        (
            "SELECT * FROM t, JSON_TABLE(f(t.a, 1), '$[*]' COLUMNS (n FOR ORDINALITY, a DATE PATH '$.b',"
            " b DATETIME PATH '$', c CHAR PATH '$', `b c` VARCHAR(5) PATH '$.b'"
            " DEFAULT '1' ON EMPTY NULL ON ERROR, e INT(3) UNSIGNED EXISTS PATH '$', NESTED '$.c' COLUMNS (d DECIMAL("
            "5, 2) PATH '$', NESTED PATH '$.e' COLUMNS (j JSON PATH '$')), x TEXT PATH '$')) AS j",
            "SELECT * FROM t, LATERAL(SELECT CAST(NULL AS UNSIGNED) AS n, CAST(FROM_UNIXTIME(NULL) AS DATE) AS a,"
            " CAST(FROM_UNIXTIME(NULL) AS"
            " DATETIME) AS b, CAST(NULL AS CHAR) AS c, CAST(NULL AS CHAR(5)) AS `b c`, CAST(NULL AS"
            " UNSIGNED) AS e, CAST(NULL AS DECIMAL(5,2)) AS d, CAST(NULL AS JSON) AS j, CAST(NULL AS CHAR) AS x WHERE"
            " JSON_EXTRACT(f(t.a, 1), '$') IS NOT NULL ) AS j",
        ),
        (
            "SELECT * FROM JSON_TABLE(a, '$' COLUMNS (a TIME(2) PATH '$', b DATETIME(6) PATH '$', c TIMESTAMP(3) PATH"
            " '$', d YEAR(4) PATH '$', e TIMESTAMP EXISTS PATH '$')) j",
            "SELECT * FROM LATERAL(SELECT CAST(FROM_UNIXTIME(NULL) AS TIME(2)) AS a, CAST(FROM_UNIXTIME(NULL) AS"
            " DATETIME(6)) AS b, CAST(FROM_UNIXTIME(NULL) AS DATETIME(3)) AS c, CAST(FROM_UNIXTIME(NULL) AS YEAR) AS"
            " d, CAST(FROM_UNIXTIME(NULL) AS DATETIME) AS e WHERE JSON_EXTRACT(a, '$') IS NOT NULL ) j",
        ),
        *(
            (f"SELECT * FROM JSON_TABLE({rest}) j", f"SELECT * FROM JSON_TABLE({rest}) j")
            for rest in (
                "a, '$' COLUMNS (x TIME)", "a, '$' COLUMNS (x DATETIME(3)",
                "a, '$' COLUMNS (x GEOMETRY PATH '$')", "a, '$' COLUMNS (x INT)",
                "a, '$' COLUMNS (x INT PATH '$' ERROR ON ERROR)", "a, ? COLUMNS (x INT PATH '$')", "a, '$'", "a",
                "a, '$' COLUMNS (x TEXT COLLATE utf8mb4_bin PATH '$')", "a, '$' COLUMNS ()", "",
                "a, '$' COLUMNS (x TEXT CHARACTER SET latin1 PATH '$')", "a, '$' COLUMNS (x INT PATH '$') b",
            )
        ),
        ("SELECT JSON_TABLE(a, '$' COLUMNS (x INT PATH", "SELECT JSON_TABLE(a, '$' COLUMNS (x INT PATH"),
    ],
)  # fmt: skip
def test_what_the_parser_is_given(sql: str, wanted: str) -> None:
    assert given(sql) == wanted


def test_what_mysql_is_sent_stays_as_it_was_written() -> None:
    sql = "SELECT SQL_NO_CACHE DISTINCT id FROM (VALUES ROW(?, 2)) v (id, n) WHERE ROW(id, n) = ROW(1, ?)"
    parsed = parse(sql, DEFAULT_VERSION)
    assert parsed.template == sql.replace("?", "{}").format("{0}", "{1}") and parsed.rows and not parsed.counts


def test_a_column_that_is_not_read_may_tell_the_partition() -> None:
    plan = plan_query("SELECT name FROM t PARTITION (p) WHERE id = ?", "d", SCHEMA)
    root = plan.reader.root
    assert plan.mode is Mode.EVICT and isinstance(root, AnswerArrangement)
    (input_,) = root.inputs
    assert len(input_.used) == len(input_.table.columns) and input_.key_columns == ("id",)
