"""Upqueries on a real MySQL: brackets, errors, limits, losses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace

import pytest

from dataflow.messages import OwnAnswer, Statement, UpqueryAnswer, UpqueryFailed
from external_upquery.address import Upstream, parse_upstream
from external_upquery.executor import Executor
from gtid_tracker.gtid import GtidSet
from integration.servers.private_mysql import Server
from integration.support.upqueries import LONG, answer, failure, outcome, request, run, turn, writing
from sqltypes.errors import DeadlinePassed, Overloaded, SourceDown, SourceError
from tests.support.waiting import until

SLEEP = "SELECT SLEEP(1000) AS of_these_tests"
RUNNING = f"SELECT COUNT(*) FROM information_schema.processlist WHERE info = '{SLEEP}'"


def executed(server: Server) -> GtidSet:
    return GtidSet.parse(str(server.execute("SELECT @@global.gtid_executed")[0][0]))


def count(rows: list[tuple[object, ...]]) -> int:
    value = rows[0][0]
    assert isinstance(value, int)
    return value


# -- brackets ----------------------------------------------------------------------------------------------------------


def test_bracket_of_a_source_at_rest_is_its_executed_set(mysql: Server, database: str) -> None:
    mysql.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)", f"INSERT INTO {database}.t VALUES (1), (2)")

    async def body(executor: Executor) -> UpqueryAnswer:
        return await answer(executor, request(f"SELECT id FROM {database}.t ORDER BY id"))

    found = run(mysql, body)
    assert found.results == ([(1,), (2,)],)
    assert found.bracket.history == mysql.execute("SELECT @@server_uuid")[0][0]
    assert found.bracket.lower.issubset(executed(mysql))
    assert found.bracket.lower.issubset(found.bracket.executed)


@pytest.mark.parametrize("slow", [False, True])
def test_beside_writers_the_snapshot_is_inside_the_bracket(mysql: Server, database: str, slow: bool) -> None:
    table = f"{database}.t"
    mysql.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT)", f"INSERT INTO {table} VALUES (1, 0)")
    before = executed(mysql)

    async def body(executor: Executor) -> list[UpqueryAnswer]:
        found: list[UpqueryAnswer] = []
        while len({count(one.results[0]) for one in found}) < 2:  # on a busy machine no writer may have had its turn
            wanted = [request(f"SELECT n FROM {table} WHERE id = 1", tables=(table,), slow=slow) for _ in range(300)]
            found += await asyncio.gather(*(answer(executor, one) for one in wanted))
        return found

    # Other tests may write to the same server: each of their transactions only widens a bracket.
    with writing(mysql, f"UPDATE {table} SET n = n + 1 WHERE id = 1"):
        found = run(mysql, body, connections=4)
    total = count(list(mysql.execute(f"SELECT n FROM {table}")))
    others = executed(mysql).difference(before).count() - total
    for one in found:
        value = count(one.results[0])
        assert one.bracket.lower.difference(before).count() - others <= value
        assert value <= one.bracket.needed.difference(before).count()


def test_statements_of_one_request_see_one_snapshot(mysql: Server, database: str) -> None:
    table = f"{database}.t"
    mysql.execute(f"CREATE TABLE {table} (n INT)", f"INSERT INTO {table} VALUES (0)")
    sql = f"SELECT n FROM {table}"

    async def body(executor: Executor) -> list[UpqueryAnswer]:
        return [await answer(executor, request(sql, "SELECT SLEEP(0.01)", sql, tables=(table,))) for _ in range(20)]

    with writing(mysql, f"UPDATE {table} SET n = n + 1"):
        found = run(mysql, body)
    assert all(first == second for first, _, second in (one.results for one in found))
    # After the last COMMIT the next request has its own.
    assert len({one.results[0][0] for one in found}) > 1


def test_clients_texts_see_the_statements_snapshot_and_an_error_of_theirs_fails_nothing_else(
    mysql: Server, database: str
) -> None:
    table = f"{database}.t"
    mysql.execute(f"CREATE TABLE {table} (n INT)", f"INSERT INTO {table} VALUES (0)")
    sql = f"SELECT n FROM {table}"
    checks = tuple(
        map(Statement, ("SELECT SLEEP(0.01)", sql, "SELECT n FROM nowhere.at_all", f"SELECT n AS m FROM {table}"))
    )

    async def body(executor: Executor) -> list[UpqueryAnswer]:
        return [await answer(executor, replace(request(sql, tables=(table,)), checks=checks)) for _ in range(20)]

    with writing(mysql, f"UPDATE {table} SET n = n + 1"):
        found = run(mysql, body, connections=1)
    assert len({one.results[0][0] for one in found}) > 1
    for one in found:
        _, same, wrong, named = one.checks
        assert isinstance(same, OwnAnswer) and isinstance(named, OwnAnswer)
        assert same.rows == named.rows == one.results[0]
        assert [(column.name, column.type.name) for column in named.columns] == [("m", "int")]
        assert isinstance(wrong, SourceError) and wrong.errno in (1044, 1049, 1142, 1146)


def test_texts_alone_have_their_bracket_though_they_fail(mysql: Server, database: str) -> None:
    table = f"{database}.t"
    mysql.execute(f"CREATE TABLE {table} (n INT)", f"INSERT INTO {table} VALUES (0), (1)")
    checks = (Statement(f"SELECT (SELECT n FROM {table})"), Statement(f"SELECT n FROM {table} ORDER BY n"))

    async def body(executor: Executor) -> UpqueryAnswer:
        return await answer(executor, replace(request(tables=(table,)), slow=True, checks=checks))

    found = run(mysql, body, connections=1)
    wrong, right = found.checks
    assert isinstance(wrong, SourceError) and wrong.errno == 1242
    assert isinstance(right, OwnAnswer) and right.rows == [(0,), (1,)]
    assert found.results == () and found.bracket.lower and found.bracket.history


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slow", [False, True])
def test_error_is_handed_on_and_the_connection_stays(mysql: Server, database: str, slow: bool) -> None:
    async def body(executor: Executor) -> None:
        error = await failure(executor, request(f"SELECT * FROM {database}.nowhere", slow=slow))
        assert isinstance(error, SourceError)
        assert (error.errno, error.sqlstate) == (1146, "42S02")
        assert f"{database}.nowhere" in error.message
        found = await answer(executor, request("SELECT 1"))
        assert found.results == ([(1,)],)
        assert executor.connections == 1

    run(mysql, body, connections=1)


def test_first_failing_statement_is_reported_and_its_snapshot_ends(mysql: Server, database: str) -> None:
    mysql.execute(f"CREATE TABLE {database}.t (n INT)", f"INSERT INTO {database}.t VALUES (1)")
    sql = f"SELECT n FROM {database}.t"

    async def body(executor: Executor) -> None:
        error = await failure(executor, request(sql, "SELECT first", "SELECT second"))
        assert "first" in error.message
        mysql.execute(f"UPDATE {database}.t SET n = 2")
        assert (await answer(executor, request(sql))).results == ([(2,)],)

    run(mysql, body, connections=1)


def test_unknown_database_is_reported_and_the_earlier_one_stays(mysql: Server, database: str) -> None:
    mysql.execute(f"CREATE TABLE {database}.t (n INT)")

    async def body(executor: Executor) -> None:
        assert (await answer(executor, request("SELECT n FROM t", database=database))).results == ([],)
        error = await failure(executor, request("SELECT 1", database="no_such_database"))
        assert isinstance(error, SourceError) and error.errno == 1049
        assert (await answer(executor, request("SELECT n FROM t", database=database))).results == ([],)

    run(mysql, body, connections=1)


def test_without_a_database_unqualified_names_are_refused(mysql: Server, database: str) -> None:
    mysql.execute(f"CREATE TABLE {database}.t (n INT)")

    async def body(executor: Executor) -> None:
        assert await executor.query("SELECT n FROM t", database) is not None
        with pytest.raises(SourceError) as raised:
            await executor.query("SELECT n FROM t", "")
        assert raised.value.errno == 1046
        assert executor.connections == 1

    run(mysql, body, connections=1)


# -- limits, deadlines, cancellation -----------------------------------------------------------------------------------


def test_requests_beyond_the_connections_wait_and_beyond_the_queue_are_refused(mysql: Server) -> None:
    async def body(executor: Executor) -> None:
        await executor.start()
        found = await asyncio.gather(*(outcome(executor, request(f"SELECT {number}")) for number in range(8)))
        values = [one.results[0][0][0] for one in found if isinstance(one, UpqueryAnswer)]
        errors = [one.error for one in found if isinstance(one, UpqueryFailed)]
        assert values == [0, 1, 2, 3]
        assert [type(error) for error in errors] == [Overloaded] * 4
        assert executor.connections == 1

    run(mysql, body, connections=1, queue_limit=3)


def test_pool_grows_on_demand_and_not_beyond_its_limit(mysql: Server) -> None:
    async def body(executor: Executor) -> None:
        await executor.start()
        assert executor.connections == 1
        await asyncio.gather(*(answer(executor, request("SELECT SLEEP(0.05)")) for _ in range(12)))
        assert executor.connections == 3

    run(mysql, body, connections=3)


def test_answer_is_delivered_before_anything_else_on_the_loop(mysql: Server) -> None:
    async def body(executor: Executor) -> None:
        await executor.start()
        done = asyncio.get_running_loop().create_future()
        order: list[str] = []

        def first(found: UpqueryAnswer | UpqueryFailed) -> None:
            order.append("first")
            executor.submit(request("SELECT 2"), second)

        def second(found: UpqueryAnswer | UpqueryFailed) -> None:
            order.append("second")
            done.set_result(None)

        executor.submit(request("SELECT 1"), first)
        assert order == []
        await done
        assert order == ["first", "second"]

    run(mysql, body, connections=1)


def test_deadline_ends_the_statement_at_the_source_too(mysql: Server) -> None:
    async def body(executor: Executor) -> None:
        await executor.start()
        loop = asyncio.get_running_loop()
        running = request(SLEEP)
        waiting = request("SELECT 1")
        errors = await asyncio.gather(
            failure(executor, running, loop.time() + 0.2), failure(executor, waiting, loop.time() + 0.1)
        )
        assert [type(error) for error in errors] == [DeadlinePassed] * 2

        async def gone() -> bool:
            return bool((await executor.query(RUNNING))[1] == [(0,)])

        await until(gone)
        assert executor.in_flight == 0 and executor.queued == 0

    run(mysql, body, connections=1)


def test_cancelled_statement_is_killed_at_the_source(mysql: Server) -> None:
    async def body(executor: Executor) -> None:
        await executor.start()
        delivered: list[object] = []
        unwanted = request(SLEEP)
        executor.submit(unwanted, delivered.append)
        waiting = request("SELECT 1")
        executor.submit(waiting, delivered.append)
        executor.cancel(unwanted.id)
        executor.cancel(waiting.id)

        async def gone() -> bool:
            return bool((await executor.query(RUNNING))[1] == [(0,)])

        await until(gone)
        assert delivered == []
        assert executor.counters["killed"] == 1

    run(mysql, body, connections=1)


def test_cancelled_statement_that_ends_at_once_costs_no_connection(mysql: Server) -> None:
    async def body(executor: Executor) -> None:
        before = await executor.start(), (await executor.query("SELECT CONNECTION_ID()"))[1]
        unwanted = request("SELECT 1")
        executor.submit(unwanted, lambda found: pytest.fail("delivered"))
        executor.cancel(unwanted.id)
        assert (await executor.query("SELECT CONNECTION_ID()"))[1] == before[1]
        assert executor.counters["killed"] == 0

    run(mysql, body, connections=1)


def test_cancelled_reader_of_a_passed_query_kills_it(mysql: Server) -> None:
    async def body(executor: Executor) -> None:
        await executor.start()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(executor.query(SLEEP), 0.1)

        async def gone() -> bool:
            return bool((await executor.query(RUNNING))[1] == [(0,)])

        await until(gone)

    run(mysql, body, connections=1)


# -- losses ------------------------------------------------------------------------------------------------------------


def test_idle_connection_killed_at_the_source_is_replaced(mysql: Server) -> None:
    async def body(executor: Executor) -> None:
        killed = count((await executor.query("SELECT CONNECTION_ID()"))[1])
        await asyncio.to_thread(mysql.execute, f"KILL {killed}")

        async def noticed() -> bool:
            await turn()
            return executor.connections == 0

        await until(noticed)
        assert count((await executor.query("SELECT CONNECTION_ID()"))[1]) != killed

    run(mysql, body, connections=1)


def test_statement_whose_connection_is_killed_is_sent_once_more(mysql: Server) -> None:
    async def body(executor: Executor) -> None:
        sleeper = count((await executor.query("SELECT CONNECTION_ID()"))[1])
        waiting = asyncio.ensure_future(executor.query("SELECT CONNECTION_ID(), SLEEP(0.5)"))

        sleeping = f"SELECT COUNT(*) FROM information_schema.processlist WHERE id = {sleeper} AND state = 'User sleep'"

        async def begun() -> bool:
            return bool((await asyncio.to_thread(mysql.execute, sleeping))[0][0])

        await until(begun)
        await asyncio.to_thread(mysql.execute, f"KILL {sleeper}")
        _, rows = await waiting
        assert count(rows) != sleeper
        assert executor.counters["retried"] == 1

    run(mysql, body, connections=1)


def test_source_that_stops_fails_requests_and_serves_again_when_it_is_back(own_mysql: Callable[..., Server]) -> None:
    server = own_mysql()

    async def body(executor: Executor) -> None:
        loop = asyncio.get_running_loop()
        assert (await answer(executor, request("SELECT 1"))).results == ([(1,)],)
        running = asyncio.ensure_future(failure(executor, request(SLEEP)))
        await turn()
        await asyncio.to_thread(server.kill)
        assert isinstance(await running, SourceDown)
        began = loop.time()
        errors = [await failure(executor, request("SELECT 1")) for _ in range(100)]
        assert all(isinstance(error, SourceDown) for error in errors)
        assert executor.down is not None
        # At once, without an attempt for each of them.
        assert loop.time() - began < 2
        await asyncio.to_thread(server.start)

        async def back() -> bool:
            return isinstance(await outcome(executor, request("SELECT 1")), UpqueryAnswer)

        await until(back)
        assert executor.down is None

    run(server, body)


def test_source_that_does_not_greet_fails_its_callers_without_holding_the_loop() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        upstream = Upstream("127.0.0.1", silent.getsockname()[1], "a", "", tls="disabled")

        async def body(executor: Executor) -> None:
            turns = 0
            first = asyncio.ensure_future(failure(executor, request("SELECT 1")))
            while not first.done():
                turns += 1
                await turn()
            assert isinstance(first.result(), SourceDown)
            assert turns > 100
            assert isinstance(await failure(executor, request("SELECT 1")), SourceDown)

        run(upstream, body, connect_seconds=0.3)


def test_refused_login_says_what_mysql_said(mysql: Server) -> None:
    upstream = replace(parse_upstream(mysql.url), user="nobody_here", password="secret")

    async def body(executor: Executor) -> None:
        with pytest.raises(SourceDown, match="Access denied for user 'nobody_here'") as raised:
            await executor.start()
        assert raised.value.errno == 1045
        assert "secret" not in raised.value.message

    run(upstream, body)


def test_closed_executor_refuses_and_ends_what_runs(mysql: Server) -> None:
    async def body(executor: Executor) -> None:
        await executor.start()
        running = asyncio.ensure_future(failure(executor, request("SELECT SLEEP(5)")))
        await turn()
        executor.close()
        assert isinstance(await running, SourceDown)
        assert isinstance(await failure(executor, request("SELECT 1")), SourceDown)

    run(mysql, body)


def test_stopped_executor_leaves_nothing_running_at_the_source(mysql: Server) -> None:
    async def body(executor: Executor) -> None:
        await executor.start()
        wanted = [asyncio.ensure_future(failure(executor, request(SLEEP))) for _ in range(2)]
        unwanted = asyncio.ensure_future(executor.query(SLEEP))

        async def begun() -> bool:
            return bool((await asyncio.to_thread(mysql.execute, RUNNING))[0] == (3,))

        async def ended() -> bool:
            return bool((await asyncio.to_thread(mysql.execute, RUNNING))[0] == (0,))

        await until(begun)
        unwanted.cancel()
        await executor.stop(LONG)
        assert [type(await one) for one in wanted] == [SourceDown] * 2
        assert isinstance(await failure(executor, request("SELECT 1")), SourceDown)
        await until(ended)

    run(mysql, body, connections=4)


def test_an_executor_stops_while_the_source_is_away(own_mysql: Callable[..., Server]) -> None:
    server = own_mysql()

    async def body(executor: Executor) -> None:
        await executor.start()
        running = asyncio.ensure_future(failure(executor, request(SLEEP)))
        await turn()
        await asyncio.to_thread(server.kill)
        await executor.stop(LONG)
        assert isinstance(await running, SourceDown)

    run(server, body)
