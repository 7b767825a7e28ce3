"""Comparisons that MySQL answers otherwise by an index are not cached; those beside them are."""

from __future__ import annotations

import pytest

from planner.api import plan_evict, plan_query
from planner.tree.by_index import Asked, Family, Nature, Side, differs, table
from sqltypes.errors import UnsupportedQuery
from tests.support.schema_text import snapshot_of

COLUMNS = """
  id INT NOT NULL,
  n INT,
  u BIGINT UNSIGNED,
  dc DECIMAL(10,2),
  f DOUBLE,
  s VARCHAR(30),
  v VARBINARY(30),
  e ENUM('a','c'),
  b BIT(8),
  y YEAR,
  tm TIME,
  d DATE,
  ts TIMESTAMP NULL,
  m DATETIME,
  m3 DATETIME(3),
  j JSON,
  PRIMARY KEY (id)
"""
TABLES = f"CREATE TABLE x ({COLUMNS});\nCREATE TABLE w ({COLUMNS});"


def code(sql: str) -> str:
    """Why MySQL's answer to it is not held, "" where it is."""
    try:
        plan_evict(sql, "d", snapshot_of(TABLES, "d", views={"p": "SELECT id, CAST(m3 AS DATETIME(6)) AS c FROM d.w"}))
    except UnsupportedQuery as error:
        return error.code
    return ""


@pytest.mark.parametrize(
    "condition",
    [
        "ts > '2024-01-01'",
        "ts = '2024-02-29 12:34:56'",
        "ts = '2024-02-29 12:34:56.000'",
        "m3 = '2024-02-29 12:34:56.789'",
        "m BETWEEN '2024-01-01' AND '2024-02-01 23:59:59.999999'",
        "m < '2024-02-01 12:00:00.5'",
        "d = '2024-2-9'",
        "d IN ('2024-02-29', '20240301', NULL)",
        "d = 20240229",
        "d BETWEEN '2024-01-01' AND '2024-02-01'",
        "DATE(ts) = '2024-02-29'",
        "DATE(m3) = '2024-02-29 12:34:56.789'",
        "YEAR(d) = 2024",
        "d >= '0000-00-00'",
        "m >= DATE'2024-01-01' - INTERVAL 1 DAY",
        "m > '2024-01-01' - INTERVAL 1 DAY",
        "d = CAST('2024-01-01' AS DATE)",
        "m = TIMESTAMP'2024-01-01 00:00:00+02:00'",
        "ts = ?",
        "ts IN (?)",
        "ts BETWEEN ? AND ?",
        "n = '5'",
        "n = 1.5",
        "n > 1.5e0",
        "n IN (1, 2, 3)",
        "(n, id) IN ((1, 2), (3, 4))",
        "n = '5 '",
        "n = 1e0",
        "n = TRUE",
        "n = (SELECT MAX(w.n) FROM w)",
        "n = (SELECT COUNT(*) FROM w)",
        "u = 18446744073709551615",
        "dc = 1.2e0",
        "f = 1.5",
        "f = '1.5'",
        "dc IN ('1.5', 2)",
        "s = 'a'",
        "s = 5",
        "s > 'a'",
        "s IN ('a', 5)",
        "s = CONCAT('a', 'b')",
        "s BETWEEN 'a' AND 'b'",
        "s BETWEEN 1 AND 2",
        "s BETWEEN ? AND 'b'",
        "s = 'a' COLLATE utf8mb4_0900_as_cs",
        "v = x'61'",
        "e = 'a'",
        "e IN ('a', 'c')",
        "e = 1",
        "e <> 'a'",
        "y = 2024",
        "y > '2000'",
        "y BETWEEN 1901 AND 2155",
        "y = 0",
        "b = 5",
        "b = b'101'",
        "b IN (1, 2)",
        "b = TRUE",
        "tm = '12:34:56'",
        "tm > '12:00'",
        "tm BETWEEN '1:00' AND '2:00'",
        "tm = 123456",
        "tm < TIME(m)",
        "tm = TIME'12:34:56.0'",
        "j->'$.a' = 'x'",
        "j->>'$.a' = 'x'",
        "j->'$.a' > 5",
        "n = j->'$.a'",
        "j = CAST('1' AS JSON)",
        "n IN (SELECT w.id FROM w)",
        "n IN (SELECT w.s FROM w)",
        "d IN (SELECT w.m FROM w)",
        "COALESCE(ts, m) = '2024-02-29 12:34:56.789'",
        "CONCAT(s) = DATE(m)",
        "n = NULL",
        "ts <=> NULL",
        "y = NULL",
        "ts IS NULL",
        "s LIKE '2024%'",
        "n IN (SELECT COUNT(*) FROM w GROUP BY w.n)",
    ],
)
def test_conditions_that_are_cached(condition: str) -> None:
    assert code(f"SELECT id FROM x WHERE k = 1 AND {condition}".replace("k = 1", "id > 1")) == ""


@pytest.mark.parametrize(
    "condition",
    [
        "TIMESTAMP'2024-02-29 12:34:56.789' = ts",
        "ts = '2024-02-29 12:34:56.4'",
        "m3 = '2024-02-29 12:34:56.7891'",
        "ts <=> '2024-02-29 12:34:56.4'",
        "NOT ts <> '2024-02-29 12:34:56.4'",
        "(id, ts) = (1, '2024-02-29 12:34:56.4')",
        "ts IN ('2024-02-29 12:34:56.4')",
        "ts BETWEEN '2024-02-29 12:34:56.4' AND '2024-02-29 12:34:56.4'",
        "ts = ANY (SELECT '2024-02-29 12:34:56.4')",
        "ts = CAST('2024-02-29 12:34:56.4' AS DATETIME(3))",
        "m = ADDTIME('2024-02-29 12:34:56', '0:0:0.5')",
        "ts = (SELECT MAX(w.m3) FROM w)",
        "m = COALESCE(m3, ts)",
        "d = TIMESTAMP'2024-02-29 00:00:00.4'",
        "d = CAST(? AS DATETIME(3))",
        "m < '2024-02-30'",
        "m > '2024-01-01 00:00:00+02:00'",
        "d IN ('0', '2024-01-01')",
        "d = 'never'",
        "(d, n) IN ((20240229, 1), (20240301, 2))",
        "d = n",
        "m > n + 5",
        "d = CONCAT(s)",
        "m = s",
        "m >= (SELECT w.n FROM w WHERE w.id = 1)",
        "s < d",
        "s = DATE(m)",
        "d = e",
        "d = j",
        "s BETWEEN 'a' AND DATE'2024-01-01'",
        "s BETWEEN DATE'2024-01-01' AND 'z'",
        "v BETWEEN 'a' AND 5",
        "v = 'a' COLLATE utf8mb4_bin",
        "s = CAST('[1]' AS JSON)",
        "s = j",
        "tm = TIME'12:34:56.789'",
        "tm < 'noon'",
        "tm < '2024-02-29'",
        "tm = '839:00:00'",
        "tm IN ('20240229', '1:00')",
        "tm < 20240229",
        "tm > s",
        "n < tm",
        "tm = y",
        "(tm, n) IN ((123456, 1), (5, 2))",
        "y < 256",
        "y = 24",
        "y < 2156",
        "y > '70'",
        "y > n",
        "y = n + 1",
        "y = (SELECT MAX(w.n) FROM w)",
        "y = '0'",
        "b = '1'",
        "b > 'a'",
        "b = 1.5e0",
        "b = 1.0",
        "b = -1",
        "b = n + 1",
        "b = f",
        "b = d",
        "n = 1.5e0",
        "n = '1.5'",
        "n = CAST('1.2' AS DOUBLE)",
        "n = x''",
        "n <= '2024-02-28' + INTERVAL 1 DAY",
        "n = CONCAT(s)",
        "n = (SELECT w.f FROM w WHERE w.id = 1)",
        "n = (SELECT w.s FROM w WHERE w.id = 1)",
        "u IN (n, 5)",
        "n IN (b, 5)",
        "n IN (n + 1, 5)",
        "m >= CONCAT(s)",
        "(u, n) IN ((-1, 1), (2, 2))",
        "(n, id) IN ((1.5, 1), (2, 2))",
        "(e, n) IN ((1, 1), ('a', 2))",
        "dc > x''",
        "n = TIMESTAMP'2024-02-29 12:34:56.4'",
        "id IN (SELECT w.id FROM w WHERE w.ts = '2024-02-29 12:34:56.4')",
        "e = (SELECT MAX(w.e) FROM w)",
        "EXISTS (SELECT 1 FROM w WHERE w.y > x.n)",
    ],
)
def test_conditions_that_are_not_cached(condition: str) -> None:
    assert code(f"SELECT id FROM x WHERE id > 1 AND {condition}") in ("by_index", "equal_by_plan")


JOINED = (
    ("w ON x.n = w.n", ""),
    ("w ON x.n = w.s", ""),
    ("w ON x.n = w.dc", ""),
    ("w ON x.n = w.f", ""),
    ("w ON x.d = w.m", ""),
    ("w ON x.e = w.s", ""),
    ("w ON x.y = w.n", ""),
    ("w ON x.m = w.m3", ""),
    ("w USING (m)", ""),
    ("w ON x.b = w.n", ""),
    ("w ON x.m > w.d", ""),
    ("w ON x.n = w.u", ""),
    ("w ON x.s = w.v", ""),
    ("w ON x.n = w.e", ""),
    ("(SELECT MAX(n) AS c FROM w GROUP BY s) q ON q.c = x.n", ""),
    ("(SELECT DATE(m) AS c FROM w) q ON q.c = x.d", ""),
    ("(SELECT RANK() OVER (ORDER BY n) AS c FROM w) q ON q.c = 1", ""),
    ("(SELECT GROUP_CONCAT(s) AS c FROM w GROUP BY n) q ON q.c = x.s", ""),
    ("(SELECT n AS c FROM w UNION SELECT id FROM w) q ON q.c = x.n", ""),
    ("w ON x.d = w.s", "by_index"),
    ("w ON x.s = w.m", "by_index"),
    ("w ON x.d = w.n", "by_index"),
    ("w ON x.y > w.n", "by_index"),
    ("w ON x.v = w.ts", "by_index"),
    ("w ON x.m = w.m3 + INTERVAL 1 DAY", "by_index"),
    ("w ON x.n = w.f / 2", "by_index"),
    ("(SELECT m AS s FROM w) q USING (s)", "by_index"),
    ("(SELECT CAST(m3 AS DATETIME(6)) AS c FROM w) q ON q.c = x.m", "by_index"),
    ("p ON p.c = x.m", "by_index"),
    ("(SELECT s AS c FROM w UNION SELECT n FROM w) q ON q.c = x.d", "by_index"),
    ("(SELECT STR_TO_DATE(s, '%Y') AS c FROM w) q ON q.c = x.n", "by_index"),
    ("(SELECT CONCAT(s) AS c FROM w) q ON q.c = x.d", "by_index"),
    ("(SELECT c FROM p) q ON q.c = x.m", "by_index"),
    ("(SELECT * FROM (SELECT CONCAT(s) AS c FROM w) r) q ON q.c = x.d", "by_index"),
)


@pytest.mark.parametrize(("joined", "why"), JOINED)
@pytest.mark.parametrize("side", ["", "LEFT "])
def test_joins(joined: str, why: str, side: str) -> None:
    assert code(f"SELECT x.id FROM x {side}JOIN {joined} WHERE x.id > 1") in (why, "equal_by_plan" if why else "")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, ts = '2024-02-29 12:34:56.789' FROM x WHERE id = ?",
        "SELECT id FROM x WHERE id = ? ORDER BY m = s",
        "SELECT m AS c FROM x WHERE id = ? GROUP BY m HAVING c = '2024-02-29 12:34:56.789'",
    ],
)
def test_what_no_index_answers(sql: str) -> None:
    assert code(sql) == ""


def test_it_is_refused_whether_or_not_something_could_be_maintained() -> None:
    with pytest.raises(UnsupportedQuery, match="by an index"):
        plan_query("SELECT id FROM x WHERE n = ? AND ts = '2024-02-29 12:34:56.4'", "d", snapshot_of(TABLES, "d"))


def test_the_table() -> None:
    """Each pair of families once; what it says is what `differs` does."""
    lines = dict(table())
    assert lines["date and json"] == "equality" and lines["integer and time"] == "all"
    assert "integer and text" not in lines and "date and moment" not in lines
    assert differs(Side(Family.DATE, 0, Nature.COLUMN), Side(Family.TEXT, 0, Nature.COLUMN), Asked.EQUAL)
