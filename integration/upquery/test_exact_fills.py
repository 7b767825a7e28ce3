"""The upquery that locks what it reads, on a real MySQL: it tells exactly what it saw, it never waits long, and
whatever becomes of it, no lock stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import structlog
from pymysql.connections import Connection

from dataflow.messages import Statement, UpqueryAnswer, UpqueryRequest
from external_upquery import snapshot
from external_upquery.executor import Executor
from external_upquery.protocol import query
from external_upquery.snapshot import LIMITS
from gtid_tracker.gtid import Gtid, GtidSet
from integration.servers.private_mysql import Server
from integration.support.upqueries import LONG, answer, failure, request, run, turn, writing
from planner.text.hints import hint_of
from sqltypes.errors import DeadlinePassed, SourceError
from tests.support.waiting import until

LOCKS = "SELECT COUNT(*) FROM performance_schema.data_locks WHERE OBJECT_SCHEMA = '{}'"
WAITS = "SELECT COUNT(*) FROM performance_schema.data_lock_waits"
OTHERS = "aaaaaaaa-0000-4000-8000-000000000001"


# The rows of a subquery are locked too, and those are waited for.
WAITING = "SELECT n FROM (SELECT id, n FROM {t} ORDER BY id LIMIT 10) d ORDER BY id"


@pytest.fixture
def table(mysql: Server, database: str) -> str:
    name = f"{database}.t"
    mysql.execute(
        f"CREATE TABLE {name} (id INT PRIMARY KEY, k INT NOT NULL, n INT NOT NULL, KEY (k))",
        f"INSERT INTO {name} VALUES (1, 1, 0), (2, 1, 0), (3, 2, 0)",
    )
    return name


def exact(table: str, *sql: str) -> UpqueryRequest:
    return replace(request(*(text.replace("{t}", table) for text in sql), tables=(table,)), exact=True)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for locks are long: what ends them is what the test does."""
    lengthen(monkeypatch, int(2 * LONG))


def lengthen(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    limits = query(f"SET SESSION max_execution_time={1000 * seconds}, innodb_lock_wait_timeout={seconds}")
    monkeypatch.setattr(snapshot, "EXACT_OPENING", (limits, *snapshot.EXACT_OPENING[1:]))


def number(value: object) -> int:
    assert isinstance(value, int | str)
    return int(value)


def executed(server: Server) -> GtidSet:
    return GtidSet.parse(str(server.execute("SELECT @@global.gtid_executed")[0][0]))


def locks(server: Server, table: str) -> int:
    return number(server.execute(LOCKS.format(table.split(".")[0]))[0][0])


def asks(server: Server, sql: str, wanted: int) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        rows = await asyncio.to_thread(server.execute, sql)
        return number(rows[0][0]) == wanted

    return ask


def sent_again(executor: Executor) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        await turn()
        return executor.counters["retried"] == 1

    return ask


@contextmanager
def holding(server: Server, statement: str) -> Iterator[Connection[Any]]:
    """A transaction that has run the statement and stays open, with its locks."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(statement)
        yield connection
        connection.rollback()


def free(server: Server, table: str) -> None:
    """Nothing of the test's tables is locked: a writer of every row gets through at once."""
    server.execute("SET SESSION innodb_lock_wait_timeout = 1", f"UPDATE {table} SET n = n + 1")
    assert locks(server, table) == 0


# -- what it saw -------------------------------------------------------------------------------------------------------


def test_beside_writers_of_the_row_the_answer_is_the_state_at_its_position(mysql: Server, table: str) -> None:
    before = executed(mysql)

    async def body(executor: Executor) -> list[UpqueryAnswer]:
        found: list[UpqueryAnswer] = []
        # How many find the row locked depends on the machine; 50 that do not are enough to judge.
        while sum(not one.bracket.uncertain for one in found) < 50:
            found.append(await answer(executor, exact(table, "SELECT n FROM {t} WHERE id = 1")))
        return found

    with writing(mysql, f"UPDATE {table} SET n = n + 1 WHERE id = 1", writers=3):
        found = run(mysql, body)
    total = number(mysql.execute(f"SELECT n FROM {table} WHERE id = 1")[0][0])
    others = executed(mysql).difference(before).count() - total
    certain = [one for one in found if not one.bracket.uncertain]
    for one in certain:
        value = number(one.results[0][0][0])
        assert 0 <= one.bracket.lower.difference(before).count() - value <= others
    assert len({number(one.results[0][0][0]) for one in certain}) > 1


def test_statements_together_are_one_state_and_a_subquery_is_locked_too(mysql: Server, table: str) -> None:
    sql = ("SELECT SUM(n) FROM {t} WHERE k = 1", "SELECT SUM(d.n) FROM (SELECT n FROM {t} WHERE k = 2) d")
    move = f"UPDATE {table} SET n = n + IF(k = 1, 1, -2)"  # a sum of 0 over all rows

    async def body(executor: Executor) -> list[UpqueryAnswer]:
        return [await answer(executor, exact(table, *sql)) for _ in range(100)]

    with writing(mysql, move):
        found = run(mysql, body)
    sums = {tuple(number(str(rows[0][0])) for rows in one.results) for one in found}
    assert len(sums) > 1
    assert all(one + other == 0 for one, other in sums)


def test_gtid_that_another_session_keeps_stays_in_doubt(mysql: Server, table: str) -> None:
    async def body(executor: Executor) -> UpqueryAnswer:
        return await answer(executor, exact(table, "SELECT n FROM {t} WHERE id = 1"))

    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET gtid_next = '{OTHERS}:7'")
        found = run(mysql, body)
        cursor.execute("ROLLBACK")
    assert Gtid(OTHERS, 7) in found.bracket.uncertain


def test_a_statement_is_asked_as_in_the_ordinary_form(mysql: Server, table: str) -> None:
    """By the collation that it tells, and with what is to be run before it and behind it."""
    told = "SELECT{} COUNT(*) FROM {t} WHERE 'a' = 'A'".replace("{}", hint_of(None, "utf8mb4_bin"))
    prepared = Statement(
        "EXECUTE one USING @least",
        ("SET @least = 2", f"PREPARE one FROM 'SELECT COUNT(*) FROM {table} WHERE id >= ?'"),
        ("DEALLOCATE PREPARE one",),
    )

    async def body(executor: Executor) -> list[object]:
        asked = exact(table, told)
        asked_so = [asked, replace(asked, exact=False), replace(asked, id=asked.id + 1, statements=(prepared,))]
        found = [(await answer(executor, each)).results for each in asked_so]
        assert (await executor.query("SELECT 'a' = 'A'"))[1] == [(1,)], "as the session was"
        assert not executor.counters.get("exact_fills_failed")
        return [*found]

    assert run(mysql, body, connections=1) == [([(0,)],), ([(0,)],), ([(2,)],)]


# -- what becomes of the session ---------------------------------------------------------------------------------------


def test_session_is_as_before(mysql: Server, table: str) -> None:
    names = ", ".join(f"@@session.{name}" for name in LIMITS) + ", @@session.transaction_isolation"

    async def body(executor: Executor) -> None:
        before = (await executor.query(f"SELECT {names}"))[1]
        await answer(executor, exact(table, "SELECT n FROM {t} WHERE id = 1"))
        await failure(executor, exact(table, "SELECT nothing FROM {t} WHERE id = 1"))
        assert (await executor.query(f"SELECT {names}"))[1] == before
        assert executor.connections == 1

    run(mysql, body, connections=1)
    free(mysql, table)


def test_error_of_the_statement_is_the_ordinary_one(mysql: Server, table: str) -> None:
    async def body(executor: Executor) -> None:
        error = await failure(executor, exact(table, "SELECT nothing FROM {t}"))
        assert isinstance(error, SourceError) and error.errno == 1054
        assert executor.counters["exact_fills_failed"] == 1
        await answer(executor, exact(table, "SELECT n FROM {t}"))
        assert executor.counters["exact_fills"] == 2

    run(mysql, body)


def test_server_that_refuses_the_exact_form_is_asked_for_it_once(
    mysql: Server, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = query("SET SESSION nothing_that_exists = 1")
    monkeypatch.setattr(snapshot, "EXACT_OPENING", (refused, *snapshot.EXACT_OPENING[1:]))

    async def body(executor: Executor) -> None:
        for _ in range(3):
            assert (await answer(executor, exact(table, "SELECT n FROM {t} WHERE id = 3"))).results == ([(0,)],)
        assert executor.counters["exact_fills"] == executor.counters["exact_fills_failed"] == 1

    with structlog.testing.capture_logs() as logs:
        run(mysql, body)
    assert [entry["event"] for entry in logs] == ["exact_fills_refused"]


# -- locks that do not come, and callers who do not wait ---------------------------------------------------------------


@pytest.mark.usefixtures("patient")
def test_row_that_somebody_has_locked_is_not_waited_for(mysql: Server, table: str) -> None:
    """So no exact fill is ever half of a deadlock."""

    async def body(executor: Executor) -> UpqueryAnswer:
        found = await answer(executor, exact(table, "SELECT k, n FROM {t} ORDER BY id"))
        assert executor.counters["exact_fills_failed"] == 1
        return found

    with holding(mysql, f"UPDATE {table} SET n = 100 WHERE id = 2"):
        found = run(mysql, body, connections=1)
        assert locks(mysql, table) == 2  # the table's and the row's, of who holds it
    assert found.results == ([(1, 0), (1, 0), (2, 0)],)
    free(mysql, table)


@pytest.mark.usefixtures("patient")
def test_cancelled_while_it_waits_for_a_lock_it_leaves_none(mysql: Server, table: str) -> None:
    async def body(executor: Executor) -> None:
        unwanted = exact(table, WAITING)
        executor.submit(unwanted, lambda result: pytest.fail("a cancelled request was answered"))
        await until(asks(mysql, WAITS, 1))
        executor.cancel(unwanted.id)
        await until(asks(mysql, WAITS, 0))
        await until(asks(mysql, LOCKS.format(table.split(".")[0]), 2))
        free_again = exact(table, "SELECT n FROM {t} WHERE id = 3")  # the turn has passed on
        assert (await answer(executor, free_again)).results == ([(0,)],)

    with holding(mysql, f"UPDATE {table} SET n = 100 WHERE id = 2"):
        run(mysql, body)
    free(mysql, table)


@pytest.mark.usefixtures("patient")
def test_deadline_while_it_waits_for_a_lock_leaves_none(mysql: Server, table: str) -> None:
    async def body(executor: Executor) -> None:
        deadline = asyncio.get_running_loop().time() + 0.05
        error = await failure(executor, exact(table, WAITING), deadline)
        assert isinstance(error, DeadlinePassed)
        await until(asks(mysql, LOCKS.format(table.split(".")[0]), 2))

    with holding(mysql, f"UPDATE {table} SET n = 100 WHERE id = 2"):
        run(mysql, body)
    free(mysql, table)


@pytest.mark.usefixtures("patient")
def test_killed_connection_leaves_no_lock_and_the_read_is_answered(mysql: Server, table: str) -> None:
    async def body(executor: Executor) -> None:
        running = asyncio.ensure_future(answer(executor, exact(table, WAITING)))
        await until(asks(mysql, WAITS, 1))
        found = "SELECT PROCESSLIST_ID FROM performance_schema.threads JOIN performance_schema.data_lock_waits"
        (waiting,) = await asyncio.to_thread(mysql.execute, f"{found} ON THREAD_ID = REQUESTING_THREAD_ID")
        await asyncio.to_thread(mysql.execute, f"KILL {waiting[0]}")
        await until(sent_again(executor))
        holder.rollback()
        assert (await running).results == ([(0,), (0,), (0,)],)

    with holding(mysql, f"UPDATE {table} SET n = 100 WHERE id = 2") as holder:
        run(mysql, body)
    free(mysql, table)


def test_connection_that_is_cut_while_it_waits_leaves_no_lock(
    mysql: Server, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a KILL: the limits of its statements end it."""
    lengthen(monkeypatch, 2)

    async def body(executor: Executor) -> None:
        executor.submit(exact(table, WAITING), lambda result: None)
        await until(asks(mysql, WAITS, 1))

    with holding(mysql, f"UPDATE {table} SET n = 100 WHERE id = 2"):
        run(mysql, body)  # closes the executor with the upquery under way

        async def gone(executor: Executor) -> None:
            await until(asks(mysql, LOCKS.format(table.split(".")[0]), 2))

        run(mysql, gone)
    free(mysql, table)


def test_client_that_falls_silent_with_locks_held_loses_them(mysql: Server, table: str) -> None:
    """As where the network fails in the middle of what is sent: the server waits for the next command, but not long."""
    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION " + ", ".join(f"{name}={value}" for name, value in LIMITS.items()))
        cursor.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        cursor.execute("START TRANSACTION READ ONLY")
        cursor.execute(f"SELECT n FROM {table}")
        assert locks(mysql, table) > 0

        async def gone(executor: Executor) -> None:
            await until(asks(mysql, LOCKS.format(table.split(".")[0]), 0))

        run(mysql, gone)
    free(mysql, table)


# -- turns -------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("patient")
def test_one_of_a_table_at_a_time_and_a_deadline_counts_for_who_waits(mysql: Server, table: str) -> None:
    async def body(executor: Executor) -> None:
        first = asyncio.ensure_future(answer(executor, exact(table, WAITING)))
        await until(asks(mysql, WAITS, 1))
        second = asyncio.ensure_future(answer(executor, exact(table, "SELECT n FROM {t} WHERE id = 3")))
        unwanted = exact(table, "SELECT n FROM {t} WHERE id = 3")
        executor.submit(unwanted, lambda result: pytest.fail("a cancelled request was answered"))
        await turn()
        assert executor.in_flight == 1 and executor.queued == 2
        late = asyncio.get_running_loop().time()
        assert isinstance(await failure(executor, exact(table, "SELECT n FROM {t} WHERE id = 3"), late), DeadlinePassed)
        executor.cancel(unwanted.id)
        assert executor.queued == 1 and not second.done()
        holder.rollback()
        assert (await first).results == ([(0,), (0,), (0,)],)
        assert (await second).results == ([(0,)],)
        assert executor.queued == 0

    with holding(mysql, f"UPDATE {table} SET n = 100 WHERE id = 2") as holder:
        run(mysql, body)
    free(mysql, table)


@pytest.mark.usefixtures("patient")
def test_closed_executor_ends_those_who_wait_for_their_turn(mysql: Server, table: str) -> None:
    async def body(executor: Executor) -> None:
        first = asyncio.ensure_future(failure(executor, exact(table, WAITING)))
        await until(asks(mysql, WAITS, 1))
        second = asyncio.ensure_future(failure(executor, exact(table, "SELECT n FROM {t} WHERE id = 3")))
        await turn()
        executor.close()
        assert {(await first).reason, (await second).reason} == {"source_down"}

    with holding(mysql, f"UPDATE {table} SET n = 100 WHERE id = 2"):
        run(mysql, body)
