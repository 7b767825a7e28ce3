"""Functions of the clock in a text: where they stand, and what they are. `integration/clock/test_clock.py` asks
MySQL."""

from __future__ import annotations

from datetime import datetime

import pytest

from planner.text.clock import MAY_HAVE, finds
from planner.text.clock_literals import read, with_parameters
from planner.text.scan import scan

LOCAL, UTC = datetime(2024, 3, 31, 10, 0, 5), datetime(2024, 3, 31, 8, 0, 5)


def told(condition: str) -> list[str | None]:
    tokens = scan(f"SELECT a FROM t WHERE {condition}")
    found = finds(tokens)
    assert found is not None
    return [read(each, [tokens[at].text for at in each.texts], LOCAL, UTC) for each in found]


@pytest.mark.parametrize(
    ("condition", "literals"),
    [
        ("a < NOW()", ["TIMESTAMP '2024-03-31 10:00:05'"]),
        ("a < current_timestamp", ["TIMESTAMP '2024-03-31 10:00:05'"]),
        ("b = UTC_TIMESTAMP", ["TIMESTAMP '2024-03-31 08:00:05'"]),
        ("a = CURDATE() OR a = CURRENT_DATE OR a = utc_date()", ["DATE '2024-03-31'"] * 3),
        ("a > NOW() - INTERVAL 1 MONTH", ["TIMESTAMP '2024-02-29 10:00:05'"]),
        ("a > CURDATE() - INTERVAL 1 YEAR + INTERVAL 2 WEEK", ["DATE '2023-04-14'"]),
        ("a > CURDATE() - INTERVAL 1 HOUR", ["TIMESTAMP '2024-03-30 23:00:00'"]),
        ("a > DATE_SUB(NOW(), INTERVAL 1 QUARTER)", ["TIMESTAMP '2023-12-31 10:00:05'"]),
        ("a > ADDDATE(DATE(NOW() - INTERVAL 11 HOUR), INTERVAL 3 MINUTE)", ["TIMESTAMP '2024-03-30 00:03:00'"]),
        ("YEAR(a) = YEAR(CURDATE()) AND MONTH(a) = MONTH(NOW() - INTERVAL 1 MONTH)", ["YEAR(DATE '2024-01-01')", "2"]),
        ("a > UNIX_TIMESTAMP() - 3600 + 60", ["1711868465"]),
        ("a > 5 - UNIX_TIMESTAMP() - 3600", ["1711872005"]),  # (5 - U) - 3600
        ("a > UNIX_TIMESTAMP() - 3600 * 2 - 24*60*60", ["1711778405"]),
        ("a > UNIX_TIMESTAMP() - 3600 / 2", ["1711872005"]),
        ("a > (UNIX_TIMESTAMP() - 300)", ["1711871705"]),
        ("b > (NOW()) - INTERVAL 1 DAY", ["TIMESTAMP '2024-03-30 10:00:05'"]),
        ("a > UNIX_TIMESTAMP(NOW() - INTERVAL 1 MINUTE) + 5 OR a > UNIX_TIMESTAMP(CURDATE())",
         ["1711871950", "1711836000"]),
        ("a > UNIX_TIMESTAMP(UTC_TIMESTAMP())", ["1711864805"]),  # read as one of the session's zone
        ("a > NOW() + INTERVAL -1 MONTH AND a > NOW() - INTERVAL '-7' DAY",
         ["TIMESTAMP '2024-02-29 10:00:05'", "TIMESTAMP '2024-04-07 10:00:05'"]),
        ("a > TIMESTAMPADD(HOUR, -2, NOW()) AND a > SUBDATE(CURDATE(), 7) AND a > ADDDATE(NOW(), INTERVAL 1 DAY)",
         ["TIMESTAMP '2024-03-31 08:00:05'", "DATE '2024-03-24'", "TIMESTAMP '2024-04-01 10:00:05'"]),
        ("a = CAST(NOW() AS DATE) OR a = TIMESTAMP(CURDATE()) OR a = LAST_DAY(NOW() - INTERVAL 1 MONTH)",
         ["DATE '2024-03-31'", "TIMESTAMP '2024-03-31 00:00:00'", "DATE '2024-02-29'"]),
        ("a < CURTIME() AND a < current_time AND a < TIME(NOW())", ["TIME(TIMESTAMP '1970-01-01 10:00:05')"] * 3),
        ("a > UTC_TIME() AND a < NOW(0)", ["TIME(TIMESTAMP '1970-01-01 08:00:05')", "TIMESTAMP '2024-03-31 10:00:05'"]),
        ("a > DATE_FORMAT(NOW() - INTERVAL 1 MONTH, '%Y-%m-01') AND b > DATE_FORMAT(NOW(), '%Y%m%d%H%i%s')",
         ["'2024-02-01'", "'20240331100005'"]),
        ("a > NOW() - INTERVAL '7' SECOND", ["TIMESTAMP '2024-03-31 10:00:05'"]),  # MySQL's has six digits more
        ("a = DATE_FORMAT(NOW(), '%W') AND b = DATE_FORMAT(NOW(), '%Y%%')", [None, None]),
        ("HOUR(a) = HOUR(NOW()) AND MINUTE(a) = MINUTE(NOW())", ["10", "0"]),
        ("WEEK(a) = WEEK(NOW(), 1) AND DATEDIFF(a, NOW()) < 5 AND DATEDIFF(NOW(), a) < 5", ["DATE '2024-03-31'"] * 3),
        ("TO_DAYS(a) < TO_DAYS(NOW() - INTERVAL 1 DAY)", ["DATE '2024-03-30'"]),
        ("TIMESTAMPDIFF(HOUR, a, NOW()) < 5 AND DATEDIFF(a, b - NOW())", ["TIMESTAMP '2024-03-31 10:00:05'"] * 2),
        ("a < NOW() + INTERVAL b DAY", ["TIMESTAMP '2024-03-31 10:00:05'"]),
        ("a < NOW() - INTERVAL 9999 YEAR", [None]),
        ("a IN (SELECT EXTRACT(DAY FROM b) FROM u WHERE c > NOW())", ["TIMESTAMP '2024-03-31 10:00:05'"]),
        ("a > b DIV UNIX_TIMESTAMP() - 1 OR (!UNIX_TIMESTAMP() - 9)", ["1711872005", "1711872005"]),
        ("BINARY NOW() - INTERVAL 1 DAY OR 5 MOD NOW() - INTERVAL 1 DAY", ["TIMESTAMP '2024-03-31 10:00:05'"] * 2),
        ("a || UNIX_TIMESTAMP() - 1 AND UNIX_TIMESTAMP() - 1 || 'x'", ["1711872005", "1711872005"]),
        # A function by its name alone where the bracket follows at once: else MySQL looks for one of the database's.
        ("a < NOW () OR a < CURDATE /* x */ () OR a < DATE_SUB (NOW(), INTERVAL 2 DAY)",
         ["TIMESTAMP '2024-03-31 10:00:05'"]),
        ("a = 1 ORDER BY a < NOW(), YEAR(NOW())", ["TIMESTAMP '2024-03-31 10:00:05'", "YEAR(DATE '2024-01-01')"]),
        ("a = 1 GROUP BY a HAVING MONTH(MAX(b)) = MONTH(NOW())", ["3"]),
        ("a IN (SELECT b FROM u ORDER BY c) AND MONTH(d) = MONTH(NOW())", ["3"]),
        ("b < SYSDATE() AND d = 'now()' AND `now` = 1 AND t.curdate = 2 AND c < CURTIME(3) - 1", [None]),
        ("a < NOW(6)", [None]),
    ],
)  # fmt: skip
def test_what_a_function_is(condition: str, literals: list[str | None]) -> None:
    assert told(condition) == literals


@pytest.mark.parametrize(
    ("expression", "literal"),
    [
        ("NOW(6)", "TIMESTAMP '2024-03-31 10:00:05.012345'"),
        ("UTC_TIMESTAMP(3) - INTERVAL 1 DAY", "TIMESTAMP '2024-03-30 08:00:05.012'"),
        ("DATE_ADD(CURRENT_TIMESTAMP(1), INTERVAL 1 MONTH)", "TIMESTAMP '2024-04-30 10:00:05.0'"),
        ("TIMESTAMP(LOCALTIME(4))", "TIMESTAMP '2024-03-31 10:00:05.0123'"),
        ("DATE(NOW(6))", "DATE '2024-03-31'"),
        ("YEAR(NOW(6))", "YEAR(DATE '2024-01-01')"),
        ("DATE_FORMAT(NOW(6), '%H:%i')", "'10:00'"),
        ("NOW(0)", "TIMESTAMP '2024-03-31 10:00:05'"),
        ("NOW(7)", None),
        ("CAST(NOW(6) AS DATE)", "DATE '2024-03-31'"),
        ("CURTIME(3)", None),
        ("TIME(NOW(3))", None),
        ("UNIX_TIMESTAMP(NOW(3))", None),
    ],
)
def test_fractions_of_a_second(expression: str, literal: str | None) -> None:
    tokens = scan(f"SELECT a FROM t WHERE a < {expression}")
    (found,) = finds(tokens) or []
    texts = [tokens[at].text for at in found.texts]
    assert read(found, texts, LOCAL, UTC, micros=12345) == literal
    assert read(found, texts, LOCAL, UTC) == (None if found.digits and texts[0] != "0" else literal)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT NOW(), a FROM t",
        "SELECT a, DATEDIFF(b, UNIX_TIMESTAMP()) AS days FROM t",
        "SELECT a, TIMESTAMPDIFF(DAY, b, c - NOW()) AS days FROM t",
        "SELECT a, DATE_FORMAT(NOW(), b) AS days FROM t",
        "SELECT a, b < NOW() + c AS d FROM t",
        "SELECT a, IF(b < c, NOW(), d) AS d FROM t",
        "SELECT a, -NOW() < b AS d FROM t",
        "SELECT a, b < NOW() AS c, NOW() AS d FROM t",
        "SELECT a, (SELECT b FROM u WHERE c < 1) + NOW() FROM t",
        "SELECT EXTRACT(DAY FROM NOW()) AS day FROM t",
        "SELECT a, b < NOW() late FROM t",
        "SELECT a, CURDATE() 'today' FROM t",
        "SELECT a, CURDATE() AS 'today' FROM t",
        "SELECT a, DATE_FORMAT(NOW(), '%H') AS hour FROM t",
        "SELECT a, NOW() - INTERVAL 1 DAY AS before FROM t",
        "SELECT a, DATE(NOW() + INTERVAL 1 HOUR) AS soon FROM t",
        "SELECT a, DATE_FORMAT(NOW(), '%Y') COLLATE utf8mb4_bin AS c FROM t",
        "SELECT a FROM t UNION SELECT NOW() FROM u",
    ],
)
def test_a_column_is_announced_by_what_it_is_made_of(sql: str) -> None:
    assert finds(scan(sql)) is None
    assert with_parameters(sql) == sql


@pytest.mark.parametrize(
    "condition",
    [
        "a = 1 ORDER BY MONTH(NOW())",  # the third column, in March
        "a = 1 ORDER BY a, +DAY(CURDATE()) DESC",
        "a = 1 GROUP BY DAYOFMONTH(NOW()), a",
        "a = 1 ORDER BY UNIX_TIMESTAMP() - 5",
        "a = 1 ORDER BY a LIMIT MONTH(NOW())",
        "a IN (SELECT b FROM u GROUP BY (MONTH(NOW())))",
        "a = 1 ORDER BY SUM(b) OVER (ORDER BY b ROWS UNIX_TIMESTAMP() PRECEDING)",
        "a LIKE NOW() - INTERVAL 1 DAY",
        "a LIKE 'b' ESCAPE MONTH(NOW())",
    ],
)
def test_where_a_literal_means_something_else(condition: str) -> None:
    sql = f"SELECT a, b, c FROM t WHERE {condition}"
    assert finds(scan(sql)) is None
    assert with_parameters(sql) == sql


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        ("SELECT a, b > NOW() AS late FROM t", "SELECT a, b > ? AS late FROM t"),
        ("SELECT a, SUM(b >= CURDATE() - INTERVAL 1 DAY) AS `n`, c FROM t", "SELECT a, SUM(b >= ?) AS `n`, c FROM t"),
        ("SELECT CASE WHEN b < NOW() THEN (a + 1) END AS s FROM t",
         "SELECT CASE WHEN b < ? THEN (a + 1) END AS s FROM t"),
        ("SELECT a, TIMESTAMPDIFF(YEAR, b, CURDATE()) + 1 AS age FROM t",
         "SELECT a, TIMESTAMPDIFF(YEAR, b, ?) + 1 AS age FROM t"),
        ("SELECT a, DATEDIFF(NOW(), b) AS days FROM t", "SELECT a, DATEDIFF(?, b) AS days FROM t"),
        ("SELECT a, (SELECT b < NOW() AS x FROM u) AS c FROM t", "SELECT a, (SELECT b < ? AS x FROM u) AS c FROM t"),
        ("SELECT COUNT(IF(NOW() > b, 1, c)) AS n FROM t WHERE c < NOW()",
         "SELECT COUNT(IF(? > b, 1, c)) AS n FROM t WHERE c < ?"),
        ("SELECT a, b < NOW() FROM t", "SELECT a, b < ? AS `b < NOW()` FROM t"),
        ("SELECT DISTINCT DATEDIFF(NOW(), b),a FROM t",
         "SELECT DISTINCT DATEDIFF(?, b) AS `DATEDIFF(NOW(), b)`,a FROM t"),
        ("SELECT a, (SELECT b < NOW() FROM u) AS c FROM t",
         "SELECT a, (SELECT b < ? AS `b < NOW()` FROM u) AS c FROM t"),
        ("SELECT a, YEAR(CURDATE())  - YEAR(b) FROM t",
         "SELECT a, YEAR(?)  - YEAR(b) AS `YEAR(CURDATE()) - YEAR(b)` FROM t"),
        ("SELECT IF(b < NOW(), CURDATE(), a), MONTH(NOW()) AS m FROM t WHERE c < NOW()",
         "SELECT IF(b < ?, ?, a) AS `IF(b < NOW(), CURDATE(), a)`, ? AS m FROM t WHERE c < ?"),
        ("SELECT a FROM (SELECT CURDATE() AS today, a FROM t) x WHERE a < NOW()",
         "SELECT a FROM (SELECT ? AS today, a FROM t) x WHERE a < ?"),
        ("SELECT CURDATE() - INTERVAL 1 HOUR, LAST_DAY(NOW()) FROM t",
         "SELECT ? AS `CURDATE() - INTERVAL 1 HOUR`, ? AS `LAST_DAY(NOW())` FROM t"),
    ],
)  # fmt: skip
def test_in_a_select_item_it_may_be_compared(sql: str, asked: str) -> None:
    assert with_parameters(sql) == asked


@pytest.mark.parametrize("name", ["b < NOW() /* late */", "b < NOW() AND `c`", f"b < NOW() AND {'c ' * 30}"])
def test_an_item_whose_name_is_not_known_stays(name: str) -> None:
    sql = f"SELECT a, ({name}) FROM t"
    assert with_parameters(sql) == sql


def test_a_text_has_a_parameter_for_each() -> None:
    sql = "SELECT a FROM t WHERE b = ? AND c < NOW() - INTERVAL 7 DAY AND DATE(d) = CURDATE() AND y = YEAR(NOW())"
    assert with_parameters(sql) == "SELECT a FROM t WHERE b = ? AND c < ? AND DATE(d) = ? AND y = YEAR(?)"
    assert with_parameters("SELECT a FROM t WHERE t < CURTIME()") == "SELECT a FROM t WHERE t < TIME(?)"


def test_a_text_of_which_not_all_is_understood_has_none() -> None:
    assert with_parameters("SELECT a FROM t WHERE c < NOW() AND d < NOW(6)") == "SELECT a FROM t WHERE c < ? AND d < ?"
    sql = "SELECT a FROM t WHERE c < NOW() AND d < NOW(7)"
    assert with_parameters(sql) == sql


def test_texts_without_such_functions_are_told_quickly() -> None:
    assert MAY_HAVE.search(b"SELECT a FROM known WHERE nowhere = 1 AND curdates = 2") is None
    assert MAY_HAVE.search(b"select a from t where b<Now()") is not None


def test_a_cast_that_rounds_stays() -> None:
    assert with_parameters("SELECT a FROM t WHERE b < CAST(NOW(6) AS DATETIME)") == (
        "SELECT a FROM t WHERE b < CAST(? AS DATETIME)"
    )
