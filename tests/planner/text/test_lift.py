"""Which literals of a text become parameters, and which stay because they mean something else as parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.api import plan_query
from planner.matcher import QueryMatcher
from planner.text.clock_literals import with_parameters
from planner.text.fingerprint import fingerprint
from planner.text.lift import lifted
from planner.text.scan import scan
from sqltypes.errors import ParseError, UpwellError
from tests.support.goldens import PLANS, Case, cases, snapshot

GOLDEN = [(file, case) for file in sorted(PLANS.glob("*.sql")) for case in cases(file)]


@pytest.mark.parametrize(
    ("sql", "shape"),
    [
        ("select id from t where a=7 and b > -9.5 -- mine\n;", "SELECT id FROM t WHERE a = ? AND b > ?"),
        ("SELECT id FROM t WHERE 5 < a AND (b <> 'x' OR NOT c = 'it''s')",
         "SELECT id FROM t WHERE ? < a AND (b <> ? OR NOT c = ?)"),
        ("SELECT id FROM t WHERE a IN (1, 2) AND b NOT IN ('x')", "SELECT id FROM t WHERE a IN (?) AND b NOT IN (?)"),
        ("SELECT id FROM t WHERE a BETWEEN 1 AND 9 AND b LIKE 'x%'",
         "SELECT id FROM t WHERE a BETWEEN ? AND ? AND b LIKE ?"),
        ("SELECT id FROM t LEFT JOIN v ON v.t = t.id AND v.by = 42 WHERE t.a = 1",
         "SELECT id FROM t LEFT JOIN v ON v.t = t.id AND v.by = ? WHERE t.a = ?"),
        ("SELECT id FROM t WHERE id IN (SELECT t FROM v WHERE u = 42) AND a = 1",
         "SELECT id FROM t WHERE id IN (SELECT t FROM v WHERE u = ?) AND a = ?"),
        ("SELECT id FROM t WHERE a = 1 UNION SELECT 3 FROM t WHERE a = 2",
         "SELECT id FROM t WHERE a = ? UNION SELECT 3 FROM t WHERE a = ?"),
        ("SELECT id FROM t WHERE a >= DATE'2024-01-01' AND b < timestamp '2024-01-01 10:00:00'",
         "SELECT id FROM t WHERE a >= ? AND b < ?"),
        ("SELECT id FROM t WHERE t.`where` = 1 AND t.on = 2", "SELECT id FROM t WHERE t.`where` = ? AND t.on = ?"),
        ("SELECT id FROM t WHERE YEAR(a) = 2024 AND EXTRACT(DAY FROM a) = 3",
         "SELECT id FROM t WHERE YEAR(a) = ? AND EXTRACT(DAY FROM a) = ?"),
        ("SELECT id FROM t WHERE (a, b) IN ((1, 'x'), (3, -4)) AND (c, d) > ('2024-01-01', 5) AND (1.5, 2) = (c, d)",
         "SELECT id FROM t WHERE (a, b) IN ((?, ?), (?, ?)) AND (c, d) > (?, ?) AND (1.5, 2) = (c, d)"),
        ("SELECT id FROM t WHERE a LIKE CONCAT('%', 'x', '%') AND b = LOWER('X') AND c = UUID_TO_BIN('u', 1)",
         "SELECT id FROM t WHERE a LIKE CONCAT(?, ?, ?) AND b = LOWER(?) AND c = UUID_TO_BIN(?, ?)"),
        ("SELECT a FROM t WHERE MATCH (b) AGAINST ('x' IN BOOLEAN MODE) OR FIND_IN_SET('x', b) ORDER BY FIELD(a, 2, 1)",
         "SELECT a FROM t WHERE MATCH (b) AGAINST (? IN BOOLEAN MODE) OR FIND_IN_SET(?, b) ORDER BY FIELD(a, ?, ?)"),
    ],
)  # fmt: skip
def test_what_is_compared_in_a_condition_becomes_a_parameter(sql: str, shape: str) -> None:
    assert lifted(sql) == shape


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1, a + 2 AS b, 'x' AS c FROM t",  # a column without alias has its text as its name
        "SELECT CASE WHEN a = 5 THEN 6 END AS b FROM t",
        "SELECT a FROM t ORDER BY 1 LIMIT 10 OFFSET 20",  # an ordinal as a parameter would be a constant
        "SELECT a, COUNT(*) AS n FROM t GROUP BY 1 HAVING n > 5",
        "SELECT a FROM t WHERE 1 = 1",  # nothing gives a parameter's type
        "SELECT a FROM t WHERE a > DATE_SUB('2024-01-01', INTERVAL 7 DAY)",
        "SELECT a FROM t WHERE a = DATE '2024-1-1' AND b = _latin1 'x' AND c IN (DATE'2024-01-01')",
        "SELECT a FROM t WHERE a = 'x' 'y' AND b = 3 + 1 AND c LIKE 'x' ESCAPE '|'",
        "SELECT a FROM t WHERE a = IF(b = 3, 4, 5)",
        "SELECT a FROM t WHERE a = 0x41 AND b = 1e3 AND c IN (b'1')",  # values that MySQL compares itself
        "SELECT a FROM t WHERE COALESCE(a, 3) = b AND ROUND(a, 2) = b AND CONCAT(a, '-', b) = c",
        "SELECT a FROM t WHERE (a, b) IN ((1, c), (3, 4 + 1)) AND (1, 2)",
        "SELECT FIELD(a, 1, 2), a FROM t WHERE a = CONCAT(b, 'x') ORDER BY LOWER('x')",
        "SELECT a FROM t WHERE a IS NULL AND b",
    ],
)
def test_what_would_mean_something_else_as_a_parameter_stays(sql: str) -> None:
    assert lifted(sql) == sql


def test_beside_placeholders_literals_are_constants() -> None:
    sql = "SELECT a FROM t WHERE a = ? AND b = 0 AND c IN (1, 2)"
    assert lifted(sql) == sql


def test_placeholders_stay_and_lists_of_them_have_one_spelling() -> None:
    assert lifted("SELECT a FROM t WHERE a = ? AND b IN (?, ?, ?) AND c IN (?...) LIMIT ?") == (
        "SELECT a FROM t WHERE a = ? AND b IN (?) AND c IN (?) LIMIT ?"
    )


def test_a_text_that_is_no_sql_is_an_error() -> None:
    with pytest.raises(ParseError):
        lifted("SELECT 'a")


@pytest.mark.parametrize(("file", "case"), GOLDEN, ids=lambda value: value.title if isinstance(value, Case) else "")
def test_with_values_in_place_of_its_placeholders_a_query_leads_back_to_itself(file: Path, case: Case) -> None:
    database, schema = snapshot(file)
    asked = with_parameters(case.sql)
    shape = lifted(with_values(asked))
    assert lifted(shape) == shape
    try:
        plan_query(case.sql, database, schema)
    except UpwellError:
        return
    assert fingerprint(shape, database).shape == fingerprint(asked, database).shape
    matcher = QueryMatcher(schema.server_version)
    matcher.add(plan_query(shape, database, schema), "lifted")
    assert matcher.match(with_values(asked), database, ()) is not None


def with_values(sql: str) -> str:
    """The text with 7 for each placeholder."""
    out, at = [], 0
    for token in scan(sql):
        if token.kind == "param":
            out += [sql[at : token.start], "7"]
            at = token.end
    return "".join(out) + sql[at:]
