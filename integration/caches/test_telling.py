"""What conditions tell of a change is what MySQL says: values of many types, in sessions of two time zones.

The answers are held in evict mode. After each write every key is asked through Upwell and of MySQL itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.oracle.answers import parse
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served

NEVER = " UNION ALL SELECT id FROM told WHERE id = -1"  # no operator maintains it
VALUES: dict[str, list[str]] = {
    "n": ["-1", "0", "1", "2", "18446744073709551615"],
    "d": ["-1.50", "0.00", "1.5", "1.50", "2.25", "99999999.99"],
    "f": ["-0.5", "0", "0.1", "1e3"],
    "day": ["'2024-01-31'", "'2024-02-29'", "'2024-12-31'", "'2025-01-01'"],
    "at": ["'2024-01-31 23:59:59.999'", "'2024-02-01 00:00:00'", "'2024-02-01'", "'2024-02-01 00:00:00.001'"],
    "ts": ["'2024-03-31 00:59:59'", "'2024-03-31 01:30:00'", "'2024-03-31 03:30:00'", "'2024-10-27 01:30:00'"],
    "tm": ["'9:59:59'", "'10:00:00'", "'10:00:00.01'", "'-1:00:00'", "'100:00:00'"],
    "s": ["'a'", "'A'", "'ab'", "'b '", "''", "'ä'", "'ß'", "'a%'"],
}
TABLE = """CREATE TABLE told (id BIGINT PRIMARY KEY, n DECIMAL(20) NULL, d DECIMAL(10, 2) NULL, f DOUBLE NULL,
 day DATE NULL, at DATETIME(3) NULL, ts TIMESTAMP NULL, tm TIME(2) NULL,
 s VARCHAR(20) COLLATE utf8mb4_0900_ai_ci NULL)"""
CONDITIONS = {
    "{c} > ?": 1,
    "{c} <= ?": 1,
    "{c} BETWEEN ? AND ?": 2,
    "{c} >= ? AND {c} < ?": 2,
    "{c} <> ?": 1,
    "{c} = ? OR {c} > ?": 2,
    "NOT ({c} < ? OR {c} IS NULL)": 1,
    "({c}, {c}) > (?, ?)": 2,
    "({c}, {c}) = (?, ?)": 2,
}
KEYS, WRITES = 6, 8


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    state = tmp_path_factory.mktemp("state")
    assert isinstance(state, Path)
    with beside_database(mysql, "telling", state, TABLE, verify_new_caches="off", auto_cache="off") as beside:
        yield beside


def rows(client: RawClient, sql: str) -> list[object]:
    found = parse(client.query(sql), binary=False)
    assert not found.errno, (sql, found.message)
    return sorted(found.rows, key=repr)


def wrote(client: RawClient, sql: str) -> None:
    found = parse(client.query(sql), binary=False)
    assert not found.errno, (sql, found.message)


@pytest.mark.parametrize("column", VALUES)
def test_what_is_held_is_mysqls_answer_after_each_write(beside: Beside, column: str) -> None:
    rng = random.Random(column)
    with beside.direct() as writer, beside.client() as through, beside.direct() as direct:
        wrote(writer, "DROP TABLE IF EXISTS told")
        wrote(writer, TABLE)
        for number in range(12):
            wrote(writer, _insert(rng, number))
        asked: list[str] = []
        for place, (condition, count) in enumerate(CONDITIONS.items()):
            sql = f"SELECT id FROM told WHERE {condition.format(c=column)}{NEVER}"
            wrote(through, f"CREATE CACHE told_{place} FROM {sql}")
            asked += {_filled(sql, rng.choices(VALUES[column], k=count)) for _ in range(KEYS)}
        held = 0
        for write in range(WRITES):
            for client in (through, direct):
                wrote(client, f"SET time_zone = '{_elsewhere(direct) if write % 3 == 2 else '+00:00'}'")
            for sql in asked:
                assert rows(through, sql) == rows(direct, sql), sql
            wrote(writer, _write(rng, column))
            beside.caught_up()
            for sql in asked:
                assert rows(through, sql) == rows(direct, sql), sql
                held += last_served(beside, through).startswith("hit")
        for place in range(len(CONDITIONS)):
            wrote(through, f"DROP CACHE told_{place}")
        assert held > len(asked), "hardly anything stayed held"


NS = "(SELECT n FROM told WHERE n > 0)"  # no NULL among them, and of a column that may be NULL: evict mode
ENDS = (
    "SELECT id, {c} FROM told WHERE id NOT IN {ns} AND id > ? ORDER BY {c}, id LIMIT 3",
    "SELECT id, {c} FROM told WHERE id NOT IN {ns} AND id <> ? ORDER BY {c} DESC, id LIMIT 3",
    "SELECT id, {c} FROM told WHERE id NOT IN {ns} AND id <> ? ORDER BY {c}, id LIMIT 2, 3",
    "SELECT * FROM told WHERE id NOT IN {ns} AND id > ? ORDER BY {c} DESC, id LIMIT 3 OFFSET 1",
    "SELECT id AS {c}, {c} AS other FROM told WHERE id NOT IN {ns} AND id <> ? ORDER BY {c} LIMIT 3",
    "SELECT x.id, x.{c}, y.s FROM told x JOIN told y ON y.n = x.n WHERE x.id > ? ORDER BY x.{c}, x.id, y.id LIMIT 4",
    "SELECT x.id, y.{c} FROM told x LEFT JOIN told y ON y.n = x.n WHERE x.id > ? ORDER BY y.{c}, x.id, y.id LIMIT 4",
)


@pytest.mark.parametrize("column", VALUES)
def test_where_an_answer_ends_is_where_mysql_ends_it(beside: Beside, column: str) -> None:
    """Of each type, in both orders, behind an OFFSET, by an alias, and of joined tables."""
    rng = random.Random(column + " ends")
    with beside.direct() as writer, beside.client() as through, beside.direct() as direct:
        wrote(writer, "DROP TABLE IF EXISTS told")
        wrote(writer, TABLE)
        for number in range(16):
            wrote(writer, _insert(rng, number))
        asked: list[str] = []
        for place, text in enumerate(ENDS):
            sql = text.format(c=column, ns=NS)
            wrote(through, f"CREATE CACHE ends_{place} FROM {sql}")
            asked += [_filled(sql, [str(least)]) for least in (0, 3)]
        held = full = 0
        for write in range(2 * WRITES):
            for client in (through, direct):
                wrote(client, f"SET time_zone = '{_elsewhere(direct) if write % 5 == 4 else '+00:00'}'")
            for sql in asked:
                assert rows(through, sql) == rows(direct, sql), sql
            wrote(writer, _write(rng, column))
            beside.caught_up()
            for sql in asked:
                assert rows(through, sql) == rows(direct, sql), sql
                hit = last_served(beside, through).startswith("hit")
                held, full = held + hit, full + (hit and len(rows(direct, sql)) >= 3)
        for place in range(len(ENDS)):
            wrote(through, f"DROP CACHE ends_{place}")
        assert held > len(asked) and full > len(asked), "hardly anything stayed held"


def test_rows_behind_the_end_of_an_answer_count_for_found_rows(beside: Beside) -> None:
    sql = "SELECT SQL_CALC_FOUND_ROWS id, n FROM told WHERE id > 0 ORDER BY n LIMIT 2"
    with beside.direct() as writer, beside.client() as through, beside.direct() as direct:
        wrote(writer, "DROP TABLE IF EXISTS told")
        wrote(writer, TABLE)
        wrote(writer, "INSERT INTO told (id, n) VALUES (1, 1), (2, 2), (3, 3)")
        beside.caught_up()
        wrote(through, f"CREATE CACHE counted FROM {sql}")
        for number in (4, 5):
            for _ in range(2):
                assert rows(through, sql) == rows(direct, sql)
                assert rows(through, "SELECT FOUND_ROWS()") == rows(direct, "SELECT FOUND_ROWS()")
            wrote(writer, f"INSERT INTO told (id, n) VALUES ({number}, {number})")
            beside.caught_up()
        assert rows(through, sql) == rows(direct, sql)
        assert rows(through, "SELECT FOUND_ROWS()") == rows(direct, "SELECT FOUND_ROWS()") == [b"\x015"]
        wrote(through, "DROP CACHE counted")


def _elsewhere(client: RawClient) -> str:
    """Berlin, where the server knows it."""
    known = rows(client, "SELECT CONVERT_TZ('2024-01-01', 'UTC', 'Europe/Berlin') IS NULL") == [b"\x010"]
    return "Europe/Berlin" if known else "-07:00"


def _filled(sql: str, values: list[str]) -> str:
    for value in values:
        sql = sql.replace("?", value, 1)
    return sql


def _value(rng: random.Random, column: str) -> str:
    return "NULL" if rng.random() < 0.1 else rng.choice(VALUES[column])


def _insert(rng: random.Random, number: int) -> str:
    return f"REPLACE INTO told VALUES ({number}, {', '.join(_value(rng, column) for column in VALUES)})"


def _write(rng: random.Random, column: str) -> str:
    number = rng.randrange(14)
    match rng.randrange(4):
        case 0:
            return f"DELETE FROM told WHERE id = {number}"
        case 1:
            return _insert(rng, number)
        case _:
            return f"UPDATE told SET {column} = {_value(rng, column)} WHERE id = {number}"
