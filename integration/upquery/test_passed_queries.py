"""Passed-through reads and descriptions of statements on a real MySQL."""

from __future__ import annotations

import pytest

from external_upquery.executor import Executor
from integration.servers.private_mysql import Server
from integration.support.upqueries import run
from proxy.source import clock, reset_watch, xa_watch, zones
from sqltypes.errors import Overloaded, SourceError


def test_passed_query_gives_columns_and_rows(mysql: Server, database: str) -> None:
    mysql.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, name VARCHAR(9))")
    mysql.execute(f"INSERT INTO {database}.t VALUES (1, 'é'), (2, NULL)")

    async def body(executor: Executor) -> None:
        columns, rows = await executor.query("SELECT * FROM t ORDER BY id", database)
        assert rows == [(1, "é"), (2, None)]
        assert [(column.name, column.type.name, column.nullable) for column in columns] == [
            ("id", "int", False),
            ("name", "varchar", True),
        ]
        assert await executor.query("DO 1") == ((), [])

    run(mysql, body)


def test_passed_query_cannot_write(mysql: Server, database: str) -> None:
    mysql.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")

    async def body(executor: Executor) -> None:
        with pytest.raises(SourceError) as raised:
            await executor.query("INSERT INTO t VALUES (1)", database)
        assert raised.value.errno == 1792
        with pytest.raises(SourceError) as raised:
            await executor.query("SELECT 1; INSERT INTO t VALUES (1)", database)
        assert raised.value.errno == 1064

    run(mysql, body)
    assert mysql.execute(f"SELECT COUNT(*) FROM {database}.t") == ((0,),)


def test_what_upwell_asks_for_itself_needs_no_session_of_its_own(mysql: Server, database: str) -> None:
    """One on which a database is selected answers it. Each login would cost MySQL more than the question."""

    async def body(executor: Executor) -> None:
        before = (await executor.query("SELECT CONNECTION_ID()", database))[1]
        await clock.ask(executor)
        await reset_watch.ask(executor)
        await xa_watch.ask(executor)
        await zones.ask(executor, "SYSTEM")
        await executor.history()
        assert (await executor.query("SELECT CONNECTION_ID()", database))[1] == before
        assert await executor.question("SELECT DATABASE()") == [(database,)]

    run(mysql, body, connections=1)


def test_passed_answer_over_its_limit_is_cut_off(mysql: Server) -> None:
    async def body(executor: Executor) -> None:
        with pytest.raises(Overloaded, match="1000000 bytes"):
            await executor.query("SELECT REPEAT('x', 3000000)", answer_limit=1_000_000)
        assert (await executor.query("SELECT 1", answer_limit=1_000_000))[1] == [(1,)]

    run(mysql, body, connections=1)


def test_description_tells_parameters_and_each_columns_own_collation(mysql: Server, database: str) -> None:
    mysql.execute(
        f"CREATE TABLE {database}.t (id INT UNSIGNED PRIMARY KEY, l CHAR(9) CHARACTER SET latin1 COLLATE latin1_bin,"
        " u VARCHAR(7) COLLATE utf8mb4_de_pb_0900_as_cs, x TEXT CHARACTER SET utf8mb3, y MEDIUMBLOB, d DECIMAL(8,3))"
    )

    async def body(executor: Executor) -> None:
        columns, parameters = await executor.describe("SELECT * FROM t WHERE id = ? AND l IN (?, ?)", database)
        assert parameters == 3
        types = [column.type for column in columns]
        assert [one.name for one in types] == ["int", "char", "varchar", "text", "mediumblob", "decimal"]
        assert [one.collation for one in types] == [
            None,
            "latin1_bin",
            "utf8mb4_de_pb_0900_as_cs",
            "utf8mb3_general_ci",
            None,
            None,
        ]
        assert [one.length for one in types[1:3]] == [9, 7]
        assert (types[5].precision, types[5].scale) == (8, 3)
        assert await executor.describe("DO 1") == ((), 0)
        with pytest.raises(SourceError):
            await executor.describe("SELECT nothing FROM t", database)
        # The session is as before: text comes as utf8mb4.
        assert (await executor.query("SELECT _latin1 x'E9'"))[1] == [("é",)]
        statements = (
            "SELECT VARIABLE_VALUE FROM performance_schema.session_status WHERE VARIABLE_NAME='Prepared_stmt_count'"
        )
        assert (await executor.query(statements))[1] in ([("0",)], [])

    run(mysql, body, connections=1)
