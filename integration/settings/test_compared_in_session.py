"""Hits are compared with what MySQL tells under the variables of the session that was told them: a variable that the
planner does not know to count is found, and the cache is believed no more. The judge is a real MySQL."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import uvloop

import proxy.planning.worker
from external_upquery.address import parse_upstream
from external_upquery.mysql.other_session import OtherSession, Question, Settings, Told
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import read_until_hit
from planner.session.needs import COLLATION, DATE_MODES, LOCAL, OF_MODE, SESSION_NEEDS, STEADY, TIME_ZONE
from planner.session.session_needs import needs_of
from planner.tree.plan import QueryPlan
from planner.tree.resolved import ResolvedQuery
from sqltypes.errors import SourceError, UpwellError
from tests.support.waiting import until

TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, k INT, n INT UNSIGNED, d DATETIME, s VARCHAR(20),"
    " moment DATETIME AS (FROM_UNIXTIME(n)) VIRTUAL, x DOUBLE, b BLOB, KEY (k))",
    "INSERT INTO t (id, k, n, d, s, x, b) VALUES (1, 7, 3, '2024-03-02 12:00:00', 'süß', 0.1, x'ff00'),"
    " (2, 7, 5, '2024-07-01 00:00:00', 'two', NULL, ''), (3, 8, 1, NULL, NULL, 1e20, NULL),"
    " (4, 9, 9, NULL, 'plain', 1.5, 'b'), (5, 9, 8, NULL, 'other', 2.5, 'b')",
    "CREATE TABLE moments (id INT PRIMARY KEY, at TIMESTAMP NULL)",
    "INSERT INTO moments VALUES (7, '2024-03-02 12:00:00'), (9, '2024-07-01 12:00:00')",
)
BOUND = b"\0\1" + struct.pack("<H", 8) + struct.pack("<q", 9)


@dataclass(frozen=True)
class Forgotten:
    """`needs`: that the planner does not know of any more. `set`: what a session sets by which the answer differs."""

    set: str
    sql: str
    needs: frozenset[str]


FORGOTTEN = (
    Forgotten(
        "time_zone = '+09:00'", "SELECT id, UNIX_TIMESTAMP(d) FROM t WHERE k = ?", frozenset({TIME_ZONE, LOCAL, STEADY})
    ),
    Forgotten("lc_time_names = 'de_DE'", "SELECT id, DAYNAME(d) FROM t WHERE k = ?", frozenset({"lc_time_names"})),
    Forgotten("time_zone = '+09:00'", "SELECT id, moment FROM t WHERE k = ?", frozenset({TIME_ZONE, LOCAL, STEADY})),
    Forgotten("default_week_format = 3", "SELECT WEEK(d) FROM t WHERE k = ?", frozenset({"default_week_format"})),
    Forgotten("div_precision_increment = 9", "SELECT n / 7 FROM t WHERE k = ?", frozenset({"div_precision_increment"})),
    Forgotten(
        "sql_mode = CONCAT(@@sql_mode, ',HIGH_NOT_PRECEDENCE')",
        "SELECT id, NOT n BETWEEN 2 AND 4 FROM t WHERE k = ?",
        frozenset({f"{OF_MODE}HIGH_NOT_PRECEDENCE", *DATE_MODES}),
    ),
    Forgotten(
        "collation_connection = utf8mb4_bin",
        "SELECT id, 'a' = 'A' FROM t WHERE k = ?",
        frozenset({COLLATION, "collation_connection.codes"}),
    ),
)  # fmt: skip


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> Callable[[frozenset[str]], None]:
    """Has the planner not name these as needs of any query."""

    def forgotten(names: frozenset[str]) -> None:
        def needs(plan: QueryPlan, query: ResolvedQuery) -> frozenset[str]:
            return needs_of(plan, query) - names

        monkeypatch.setattr(proxy.planning.worker, "needs_of", needs)

    return forgotten


@pytest.fixture
def beside(mysql: Server, tmp_path: Path) -> Iterator[Beside]:
    options = {"check_sample": "0.0000001", "verify_new_caches": "32"}
    with beside_database(mysql, f"t{os.getpid()}_in_session", tmp_path, *TABLES, **options) as found:
        found.call(lambda: setattr(found.proxy.app.router.sampler, "pause", 0.0))
        yield found


def counted(beside: Beside, name: str) -> int:
    return beside.call(lambda: beside.proxy.app.router.sampler.counters[name])


def compared(beside: Beside, client: RawClient, read: Callable[[], bytes], outcome: str) -> None:
    """Reads until a hit was compared, with that outcome."""
    before = counted(beside, outcome)
    sampler = beside.proxy.app.router.sampler
    while counted(beside, outcome) == before:
        read_until_hit(beside, client, read)
        beside.until(lambda: sampler.ready)


@pytest.mark.parametrize("case", FORGOTTEN, ids=lambda case: f"{case.set} {case.sql[:20]}")
def test_a_need_that_is_forgotten_is_found(
    beside: Beside, forget: Callable[[frozenset[str]], None], case: Forgotten
) -> None:
    forget(case.needs)
    text = case.sql.replace("?", "7")
    with beside.client() as client, beside.direct() as direct:
        assert client.query(f"CREATE CACHE FROM {case.sql}")[4] == 0
        beside.caught_up()
        (cache,) = beside.proxy.app.catalog.caches.values()
        read_until_hit(beside, client, client.query, text)  # of a session like those that fill caches
        for one in (client, direct):
            one.query(f"SET {case.set}")
        compared(beside, client, lambda: client.query(text), "sample_different")
        beside.until(lambda: cache.needs == SESSION_NEEDS or cache.reader is None)
        assert "in a session with" in cache.why
        assert client.query(text) == direct.query(text), "no session like that is given a hit any more"


def test_what_is_right_is_found_to_be_right(beside: Beside) -> None:
    """Texts and executions, in sessions of several character sets, time zones and modes."""
    settings = (
        "lc_time_names = 'de_DE', default_week_format = 3",
        "NAMES latin1",  # by which strings are grouped as nowhere else
        "NAMES utf8mb4 COLLATE utf8mb4_bin, time_zone = 'SYSTEM'",
        "character_set_results = NULL",
        "time_zone = '-03:30', sql_mode = ''",
        "foreign_key_checks = 0, group_concat_max_len = 5",
    )
    queries = (
        "SELECT id, s, x, b, n FROM t WHERE k = ?",
        "SELECT s, COUNT(*) FROM t WHERE k = ? GROUP BY s ORDER BY s DESC",
        "SELECT id, at FROM moments WHERE id = ?",
    )
    with beside.client() as client:
        for sql in queries:
            client.query(f"CREATE CACHE FROM {sql}")
        beside.caught_up()
    for given in settings:
        with beside.client() as client:
            client.query(f"SET {given}")
            for sql in queries[:1] if "latin1" in given else queries:
                text = sql.replace("?", "7" if sql is queries[0] else "9")
                statement = client.prepare(sql).id
                compared(beside, client, partial(client.query, text), "sample_as_session")
                compared(beside, client, partial(client.execute, statement, BOUND), "sample_as_session")
    told = beside.call(lambda: dict(beside.proxy.app.router.sampler.counters))
    assert told == {"sample_equal": told["sample_as_session"], "sample_as_session": told["sample_equal"]}


def test_the_connection_is_as_at_its_login_afterwards(mysql: Server) -> None:
    """Whatever it was given: MySQL is asked by the next question, on the same connection."""
    asked = (
        b"SELECT CONNECTION_ID(), @@time_zone, @@sql_mode, @@collation_connection, @@character_set_client,"
        b" @@character_set_results, @@lc_time_names, @@sql_select_limit, @@foreign_key_checks, @@max_execution_time,"
        b" @@lock_wait_timeout, @@transaction_isolation, @@transaction_read_only, @@autocommit, @@completion_type"
    )
    given = Settings(
        (("time_zone", "+09:00"), ("sql_mode", ""), ("collation_connection", "latin1_bin"),
         ("character_set_client", "latin1"), ("character_set_results", ""), ("lc_time_names", "de_DE"),
         ("sql_select_limit", "1")),
        (("foreign_key_checks", "OFF"), ("no_such_variable", "1")),
    )  # fmt: skip

    async def scenario() -> None:
        other = OtherSession(parse_upstream(mysql.url))

        async def told(settings: Settings) -> Told:
            future: asyncio.Future[Told | UpwellError] = asyncio.get_running_loop().create_future()
            other.ask(Question(settings, asked, b"", "", (), 5.0), future.set_result)
            answer = await future
            assert isinstance(answer, Told)
            return answer

        plain = Settings((), ())
        before, between, after = await told(plain), await told(given), await told(plain)
        await other.close()
        assert isinstance(before.rows, list) and isinstance(between.rows, list)
        assert before.rows == after.rows
        assert b"+09:00" in between.rows[0] and b"de_DE" in between.rows[0] and b"latin1_bin" in between.rows[0]

    uvloop.run(scenario())


def test_a_variable_that_cannot_be_set_leaves_it_open(mysql: Server) -> None:
    async def scenario() -> None:
        other = OtherSession(parse_upstream(mysql.url))
        answers: list[Told | UpwellError] = []
        wrong = Settings((("lc_time_names", "xx_XX"),), ())
        for _ in range(2):
            answers.clear()
            other.ask(Question(wrong, b"SELECT 1", b"", "", (), 5.0), answers.append)
            await until(lambda: bool(answers))
            assert isinstance(answers[0], SourceError)
        await other.close()

    uvloop.run(scenario())
