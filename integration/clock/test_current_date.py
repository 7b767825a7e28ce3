"""Where MySQL makes a date-time of a TIME by the current date, asked of MySQL: no such query is cached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from external_upquery.address import parse_upstream
from external_upquery.mysql.schema_source import SchemaSource
from integration.servers.mysql_server import Server
from planner.api import plan_query
from sqltypes.errors import NeedRelations, UnsupportedQuery
from sqltypes.schema import SchemaSnapshot

DAYS = (981158400, 1763812272, 1795342272, 2051222400)  # of 2001-02-03, 2025-11-22, 2026-11-22, 2035-01-01

SETUP = (
    "CREATE TABLE a (id INT PRIMARY KEY, t TIME, d DATE, dt DATETIME, ts TIMESTAMP NULL, n INT, s VARCHAR(40))",
    "CREATE TABLE b (id INT PRIMARY KEY, t DATETIME, clock TIME(3))",
    "INSERT INTO a VALUES (1, '00:00:00', '2001-02-03', '2001-02-03 00:00:00', '2001-02-03 00:00:00', 5, '10:11'), "
    "(2, '24:11:12', '2026-11-22', '2026-11-22 10:11:12', '2026-11-22 10:11:12', 5, '2026-11-22 10:11:12'), "
    "(3, NULL, NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO b VALUES (1, '2001-02-03 00:00:00', '00:00:00'), (2, '2026-11-23 00:11:12', '10:00:00.5')",
    "CREATE VIEW clocks AS SELECT id, t AS clock FROM a",
    "CREATE VIEW late AS SELECT * FROM clocks WHERE clock > '23:00:00'",
    "CREATE VIEW mixed AS SELECT id, IFNULL(t, dt) AS x FROM a",
)

CONVERTS = (
    *(f"SELECT t FROM a UNION ALL SELECT {other} FROM a" for other in ("d", "dt", "ts", "DATE '2026-11-22'")),
    "SELECT d FROM a UNION SELECT t FROM a",
    "SELECT * FROM a UNION SELECT id, dt, d, dt, ts, n, s FROM a",
    "SELECT x FROM (SELECT t AS x FROM a UNION SELECT ts FROM a) q WHERE x IS NOT NULL",
    "WITH q AS (SELECT id, t AS x FROM a) SELECT q.id FROM q JOIN a ON q.x = a.d",
    *(f"SELECT IF(id = 1, t, {other}) FROM a" for other in ("d", "dt", "ts", "TIMESTAMP '2026-11-22 10:11:12'")),
    "SELECT IFNULL(t, dt) FROM a",
    "SELECT COALESCE(NULL, t, d) FROM a",
    "SELECT CASE WHEN id = 1 THEN t ELSE dt END FROM a",
    "SELECT CASE dt WHEN t THEN 1 ELSE 2 END FROM a",
    "SELECT GREATEST(t, d), LEAST(dt, t) FROM a",
    "SELECT NULLIF(dt, t) FROM a",
    "SELECT id FROM a WHERE dt > t",
    "SELECT id FROM a WHERE d = t",
    "SELECT id FROM a WHERE ts IN (t, t)",
    "SELECT id FROM a WHERE t IN (SELECT t FROM b)",
    "SELECT id FROM a WHERE (t, 1) = (dt, 1)",
    "SELECT id FROM a WHERE (id, t) IN (SELECT id, t FROM b)",
    "SELECT id FROM a WHERE t BETWEEN d AND dt",
    "SELECT id FROM a WHERE dt > ALL (SELECT t FROM a WHERE t IS NOT NULL)",
    "SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.t = a.t)",
    "SELECT a.id, b.id FROM a JOIN b ON a.t = b.t",
    "SELECT a.id, b.id FROM a LEFT JOIN b USING (t)",
    "SELECT a.id, b.id FROM a, b WHERE CAST(b.clock AS TIME) < a.ts",
    "SELECT a.id FROM a NATURAL JOIN b",
    "SELECT a.id FROM (a JOIN b ON a.dt = b.clock)",
    "SELECT dt, TIMEDIFF(dt, d) AS x FROM a HAVING x < MAKETIME(11, 0, 0) AND dt > x",
    "SELECT id FROM a WHERE dt > SEC_TO_TIME(n)",
    "SELECT id FROM a WHERE dt > STR_TO_DATE('10:11', '%H:%i')",
    "SELECT DATE(t), TIMESTAMP(t) FROM a",
    "SELECT TIMESTAMP(t, '01:00:00') FROM a",
    "SELECT CAST(t AS DATE) FROM a",
    "SELECT CONVERT(t, DATETIME) FROM a",
    "SELECT CAST(MAX(t) AS YEAR) FROM a",
    *(
        f"SELECT {name}(t) FROM a"
        for name in (
            *("YEAR", "MONTH", "DAY", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "WEEKDAY", "WEEK", "WEEKOFYEAR"),
            *("YEARWEEK", "QUARTER", "LAST_DAY", "TO_DAYS", "TO_SECONDS", "UNIX_TIMESTAMP", "DAYNAME", "MONTHNAME"),
        )
    ),
    "SELECT DATE_FORMAT(t, '%Y-%m-%d %H:%i') FROM a",
    *(f"SELECT EXTRACT({unit} FROM t) FROM a" for unit in ("YEAR", "DAY", "YEAR_MONTH", "WEEK", "QUARTER", "MONTH")),
    "SELECT t + INTERVAL 1 DAY FROM a",
    "SELECT INTERVAL '1:1' DAY_HOUR + t FROM a",
    "SELECT DATE_ADD(t, INTERVAL n WEEK) FROM a",
    "SELECT DATE_SUB(t, INTERVAL '1-1' YEAR_MONTH) FROM a",
    "SELECT ADDDATE(t, 1) FROM a",
    "SELECT TIMESTAMPADD(MONTH, 1, t) FROM a",
    "SELECT DATEDIFF(t, dt) FROM a",
    "SELECT TIMESTAMPDIFF(SECOND, t, ts) FROM a",
    "SELECT CONVERT_TZ(t, '+00:00', '+01:00') FROM a",
    "SELECT c.id FROM clocks c JOIN a ON c.clock = a.dt",
    "SELECT x FROM mixed",
)

KEEPS = (
    "SELECT t FROM a UNION SELECT n FROM a",
    "SELECT t FROM a UNION SELECT clock FROM b",
    "SELECT * FROM a UNION SELECT * FROM a",
    "SELECT t, dt FROM a UNION SELECT t, ts FROM a",
    "SELECT IF(id = 1, t, 'none'), IFNULL(t, 0), COALESCE(t, NULL), GREATEST(t, '10:11:12') FROM a",
    "SELECT CONCAT(dt, t), HEX(t), t + 0, t IS NULL FROM a",
    "SELECT id FROM a WHERE t = '10:11:12' AND dt > '2000-01-01'",
    "SELECT id, t = '2026-11-22 10:11:12' FROM a",
    "SELECT id FROM a WHERE t IN ('10:11:12', '00:00:00') AND t BETWEEN '00:00:00' AND TIME '10:00:00'",
    "SELECT a.id FROM a JOIN b ON a.t = b.clock AND a.dt = b.t",
    "SELECT a.id FROM a WHERE (t, dt) IN (SELECT clock, t FROM b)",
    "SELECT TIME(dt), TIMEDIFF(dt, ts), ADDTIME(dt, t), TIMESTAMP(d, t), ADDTIME(t, t) FROM a",
    "SELECT id FROM a WHERE TIME(dt) > t",
    "SELECT DATE_FORMAT(t, '%H:%i:%s'), TIME_FORMAT(t, '%H'), HOUR(t), EXTRACT(HOUR FROM t) FROM a",
    "SELECT EXTRACT(DAY_HOUR FROM t), TIME_TO_SEC(t), MICROSECOND(t) FROM a",
    "SELECT t + INTERVAL 1 HOUR, DATE_SUB(t, INTERVAL '1:1' MINUTE_SECOND), TIMESTAMPADD(HOUR, 1, t) FROM a",
    "SELECT MIN(t), MAX(dt), COUNT(DISTINCT t, dt) FROM a",
    "SELECT CAST(t AS CHAR), CAST(t AS SIGNED), CAST(t AS TIME(6)) FROM a",
    "SELECT id FROM a WHERE dt > STR_TO_DATE('2020-01-01', '%Y-%m-%d')",
    "SELECT clock, COUNT(*) FROM clocks GROUP BY clock ORDER BY clock",
    "SELECT id FROM late WHERE id = 2",
    "SELECT DISTINCT LAG(t) OVER (ORDER BY id) FROM a",
)


class Asked:
    """A session whose clock can be set, and the plans of what it is asked."""

    def __init__(self, mysql: Server, database: str) -> None:
        mysql_connection: Any = mysql.connect(database=database, autocommit=True)
        self._cursor = mysql_connection.cursor()
        self._connection = mysql_connection
        for statement in SETUP:
            self._cursor.execute(statement)
        self._source = SchemaSource(parse_upstream(mysql.url))
        self._database = database
        self._snapshot = SchemaSnapshot()

    def close(self) -> None:
        self._connection.close()
        self._source.close()

    def answers(self, sql: str) -> list[object]:
        """On each of the days."""
        found = []
        for day in DAYS:
            self._cursor.execute(f"SET timestamp = {day}")
            self._cursor.execute(sql)
            found.append(self._cursor.fetchall())
        return found

    def refusal(self, sql: str) -> str:
        """The code, "" where the query can be cached."""
        while True:
            try:
                plan_query(sql, self._database, self._snapshot)
                return ""
            except NeedRelations as need:
                self._snapshot = self._source.snapshot_now({*self._snapshot.relations, *need.names})
            except UnsupportedQuery as refused:
                return refused.code

    def execute(self, sql: str) -> None:
        self._cursor.execute(sql)


@pytest.fixture
def asked(mysql: Server, database: str) -> Iterator[Asked]:
    made = Asked(mysql, database)
    yield made
    made.close()


def test_a_query_whose_times_become_date_times_by_the_current_date_is_refused(asked: Asked) -> None:
    for sql in CONVERTS:
        first, *others = asked.answers(sql)
        assert any(other != first for other in others), f"{sql}: the same on all days"
        assert asked.refusal(sql) == "current_date", sql


def test_a_query_whose_times_stay_times_is_cached(asked: Asked) -> None:
    for sql in KEEPS:
        first, *others = asked.answers(sql)
        assert all(other == first for other in others), f"{sql}: another answer on another day"
        assert asked.refusal(sql) == "", sql


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("SELECT id, NOW() AS x FROM a", "nondeterministic"),
        ("SELECT id FROM a WHERE dt < CURRENT_DATE", "nondeterministic"),
        ("SELECT id, RAND() AS x FROM a", "nondeterministic"),
        ("SELECT id FROM a WHERE s = USER()", "session_state"),
        ("SELECT id, twice(id) AS x FROM a", "unknown_function"),
    ],
)
def test_a_view_of_what_no_cache_can_answer_is_refused(asked: Asked, body: str, code: str) -> None:
    asked.execute("CREATE FUNCTION twice(x INT) RETURNS INT DETERMINISTIC RETURN x * 2")
    asked.execute(f"CREATE VIEW seen AS {body}")
    asked.execute("CREATE VIEW again AS SELECT * FROM seen")
    assert asked.refusal("SELECT * FROM again WHERE id = ?") == code
