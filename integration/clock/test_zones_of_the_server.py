"""What MySQL knows of time zones comes from its tables and from the machine on which it starts. Both change while
answers that were made by them are held."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time_ns

import pytest

from integration.conftest import OwnMySQL
from integration.oracle.answers import parse
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import read_until_hit

TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, g INT, at DATETIME, ts TIMESTAMP NULL, zone VARCHAR(64), KEY (g))",
    "CREATE VIEW seen AS SELECT id, g, CONVERT_TZ(at, '+00:00', zone) AS local FROM t",
)
ROWS = "INSERT INTO t VALUES (1, 1, '2024-01-15 23:30:00', '2024-01-15 23:30:00', '{0}'), (2, 1, '2024-07-15 23:30:00',"
ROWS += " '2024-07-15 23:30:00', '{0}')"
BY_NAME = (
    "SELECT id, CONVERT_TZ(at, '+00:00', '{0}') AS local FROM t WHERE id = 1",
    "SELECT DATE(CONVERT_TZ(at, '+00:00', '{0}')) AS day, COUNT(*) FROM t WHERE g = 1 GROUP BY day ORDER BY day",
    "SELECT COUNT(*) FROM t WHERE g = 1 AND CONVERT_TZ(at, '+00:00', '{0}') IS NULL",
    "SELECT id, CONVERT_TZ(at, '+00:00', zone) AS local FROM t WHERE g = 1 ORDER BY id",
    "SELECT id, local FROM seen WHERE g = 1 ORDER BY id",
)
BY_SYSTEM = (
    "SELECT id, CONVERT_TZ(at, 'SYSTEM', '+00:00') AS utc FROM t WHERE id = 1",
    "SELECT id, UNIX_TIMESTAMP(at) AS seconds FROM t WHERE g = 1 ORDER BY id",
    "SELECT id, ts FROM t WHERE g = 1 ORDER BY id",
    "SELECT id FROM t WHERE g = 1 AND ts > '2024-01-15 23:29:59' ORDER BY id",
)
MANY = 10  # rounds, in which some reads are hits where any may be
NEW = "INSERT INTO mysql.time_zone (Use_leap_seconds) VALUES ('N')"
LOADED = (
    "INSERT INTO mysql.time_zone_name VALUES ('{0}', {1})",
    "INSERT INTO mysql.time_zone_transition_type VALUES ({1}, 0, 3600, 0, 'TST')",
    "INSERT INTO mysql.time_zone_transition VALUES ({1}, -2147483648, 0)",
)


def answer(client: RawClient, sql: str) -> object:
    found = parse(client.query(sql), binary=False)
    return (found.errno, found.message) if found.errno else (found.columns, found.rows)


def same(beside: Beside, through: RawClient, direct: RawClient, sql: str, *, hits: bool = False) -> None:
    """The answers are MySQL's; with `hits`, until one is from memory."""
    assert answer(through, sql) == answer(direct, sql), sql
    if hits:
        read_until_hit(beside, through, lambda: through.query(sql))
    for _ in range(3):
        assert answer(through, sql) == answer(direct, sql), sql


@contextmanager
def at_zone(client: RawClient, zone: str) -> Iterator[RawClient]:
    with client:
        if zone:
            assert not parse(client.query(f"SET time_zone = '{zone}'"), binary=False).errno
        yield client


def test_zones_that_are_loaded_later(mysql: Server, tmp_path: Path) -> None:
    """What no zone of that name made NULL is computed again, whichever of its tables is filled last."""
    name = f"Upwell/Later{time_ns()}"
    with (
        beside_database(mysql, "zones_later", tmp_path, *TABLES, ROWS.format(name)) as beside,
        at_zone(beside.client(), "+00:00") as through,
        at_zone(beside.direct(), "+00:00") as direct,
    ):
        queries = [sql.format(name) for sql in BY_NAME]
        for number, sql in enumerate(queries):
            made = parse(through.query(f"CREATE CACHE later{number} FROM {sql}"), binary=False)
            assert not made.errno, made.message
            same(beside, through, direct, sql, hits=True)
        mysql.execute(NEW)
        number = mysql.execute("SELECT MAX(Time_zone_id) FROM mysql.time_zone")[0][0]
        try:
            for statement in LOADED:
                mysql.execute(statement.format(name, number))
                beside.caught_up()
                for sql in queries:
                    same(beside, through, direct, sql)
            for sql in queries:
                same(beside, through, direct, sql, hits=True)
        finally:
            for table in ("time_zone", "time_zone_name", "time_zone_transition", "time_zone_transition_type"):
                mysql.execute(f"DELETE FROM mysql.{table} WHERE Time_zone_id = {number}")


def test_a_server_that_starts_in_another_zone(
    own_mysql: OwnMySQL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was computed in its zone is computed again; and the zone that calls itself UTC is believed by its clocks."""
    mysql = own_mysql()
    with beside_database(mysql, "zones_of_start", tmp_path, *TABLES, ROWS.format("SYSTEM")) as beside:
        with beside.client() as through, beside.direct() as direct:
            for number, sql in enumerate(BY_SYSTEM):
                through.query(f"CREATE CACHE start{number} FROM {sql}")
                same(beside, through, direct, sql)
        for zone, named in (("Asia/Tokyo", "JST"), ("UTC-9", "UTC")):
            with at_zone(beside.client(), "+00:00") as through, at_zone(beside.direct(), "+00:00") as direct:
                mysql.execute("UPDATE zones_of_start.t SET zone = CONCAT(zone, ' ')")  # the stream goes on behind it
                beside.caught_up()
                for sql in BY_SYSTEM:
                    same(beside, through, direct, sql, hits=True)
            with monkeypatch.context() as patched:
                patched.setenv("TZ", zone)
                mysql.restart()
            assert mysql.execute("SELECT @@system_time_zone") == ((named,),)
            beside.until(lambda: beside.proxy.app.stream.connected)
            for session in ("+00:00", "", "SYSTEM"):
                with at_zone(beside.client(), session) as through, at_zone(beside.direct(), session) as direct:
                    for sql in BY_SYSTEM * MANY:
                        same(beside, through, direct, sql)
