"""Sessions over MySQL's protocol that write, in every manner, and then read what a cache holds; and sessions whose
state changes where the client's text does not say so. In both dialects: in one MySQL tells of changes with rows too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pymysql
import pytest
from pymysql.constants import CLIENT

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, held_back, run
from integration.support.mysql_shop import shop
from integration.support.wire_client import Prepared, Row, WireClient
from proxy.mysql.reads.gate import SAVED

READ = "SELECT id, n, name FROM item WHERE id = 1"
UPDATE = "UPDATE item SET n = 777 WHERE id = 1"
BEFORE, WRITTEN = (1, 10, "item 1"), (1, 777, "item 1")
ROUTINES = (
    f"CREATE PROCEDURE writes() {UPDATE}",
    f"CREATE PROCEDURE fails() BEGIN {UPDATE}; SIGNAL SQLSTATE '45000'; END",
    f"CREATE PROCEDURE leaves_open() BEGIN START TRANSACTION; {UPDATE}; SIGNAL SQLSTATE '45000'; END",
    "CREATE PROCEDURE hides_and_fails() BEGIN CREATE TEMPORARY TABLE item SELECT 1 id, 777 n, 'item 1' name;"
    " SIGNAL SQLSTATE '45000'; END",
    "CREATE PROCEDURE switches() SET autocommit = 0",
    "CREATE PROCEDURE switches_and_fails() BEGIN SET autocommit = 0; SIGNAL SQLSTATE '45000'; END",
    f"CREATE FUNCTION written() RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN {UPDATE}; RETURN 1; END",
    "CREATE FUNCTION hidden() RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN CREATE TEMPORARY TABLE item"
    " SELECT 1 id, 777 n, 'item 1' name; RETURN 1; END",
)
COMMIT_AND_ANSWER_WITH_ROWS = (
    "ANALYZE TABLE other",
    "ANALYZE LOCAL TABLE other",
    "ANALYZE TABLE other UPDATE HISTOGRAM ON id",
    "OPTIMIZE TABLE other",
    "OPTIMIZE NO_WRITE_TO_BINLOG TABLE no_such_table",
    "REPAIR TABLE other",
    "CHECK TABLE other",
    "CACHE INDEX other IN DEFAULT",
    "LOAD INDEX INTO CACHE other",
)
MANNERS = (
    [UPDATE],
    ["BEGIN", UPDATE, "COMMIT"],
    ["BEGIN", UPDATE, "BEGIN", "COMMIT"],
    ["BEGIN", UPDATE, "CREATE TABLE another (id INT)"],
    ["BEGIN", UPDATE, "CREATE TABLE item (id INT)"],  # an error behind the implicit commit
    ["BEGIN", UPDATE, "LOCK TABLES no_such_table READ"],
    ["SET autocommit = 0", UPDATE, "SET autocommit = 1"],
    ["LOCK TABLES item WRITE", UPDATE, "UNLOCK TABLES"],
    ["BEGIN; " + UPDATE + "; COMMIT; SELECT 1"],
    [UPDATE + "; SELECT * FROM no_such_table"],
    ["SET SESSION session_track_gtids = OFF; " + UPDATE],
    ["SET SESSION session_track_gtids = OFF", UPDATE],
    ["CALL writes()"],
    ["CALL fails()"],
    ["CALL fails()", "SET @x = 1", "SELECT 1"],
    ["SELECT written()"],
    ["SELECT written()", "SET @x = 1", "SELECT 1"],
    ["DO written()"],
    ["PREPARE p FROM '" + UPDATE + "'", "EXECUTE p"],
    *(["BEGIN", UPDATE, committing] for committing in COMMIT_AND_ANSWER_WITH_ROWS),
    ["SET autocommit = 0", UPDATE, "ANALYZE TABLE other"],
    ["BEGIN", UPDATE, "SELECT COUNT(*) FROM other; OPTIMIZE TABLE other"],
    ["BEGIN", UPDATE, "SELECT 1; CHECK TABLE other"],
    [f"BEGIN; {UPDATE}; CHECK TABLE other"],
    [f"UPDATE item SET n = 0 WHERE id = 9; BEGIN; {UPDATE}; CHECK TABLE other; SELECT 1"],
    ["XA START 'x'", UPDATE, "XA END 'x'", "XA COMMIT 'x' ONE PHASE"],
    ["XA START 'x'", UPDATE, "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"],
)
DIALECTS = pytest.mark.parametrize("eof", [False, True], ids=["ok", "eof"])


class Wired:
    """A client whose calls run in threads."""

    def __init__(self, client: WireClient) -> None:
        self.client = client

    async def ask(self, sql: str | bytes) -> list[Row]:
        return await asyncio.to_thread(self.client.query, sql)

    async def prepare(self, sql: str | bytes) -> Prepared:
        return await asyncio.to_thread(self.client.prepare, sql)

    async def execute(self, statement: Prepared, *values: int) -> tuple[list[Row], str]:
        """The rows, and how they were served."""
        rows = await asyncio.to_thread(self.client.execute, statement, *values)
        return rows, (await self.ask("EXPLAIN LAST STATEMENT"))[0][0]

    async def reset(self) -> None:
        await asyncio.to_thread(self.client.reset)

    async def try_(self, *statements: str) -> None:
        """Runs statements; what MySQL says against them does not matter."""
        for sql in statements:
            try:
                await self.ask(sql)
            except pymysql.err.OperationalError:
                continue

    async def read(self, sql: str = READ) -> tuple[list[Row], str, str]:
        """The rows, how they were served, and why."""
        rows = await self.ask(sql)
        served, _, reason, _ = (await self.ask("EXPLAIN LAST STATEMENT"))[0]
        return rows, served, reason or ""


@asynccontextmanager
async def wired(
    mysql: Server, database: str, state: Path, *, eof: bool, own_writes_wait: str = "30s"
) -> AsyncIterator[tuple[Proxy, Wired]]:
    """The shop, whose item 1 is held, and a client that has hit it."""
    async with shop(mysql, database, state, own_writes_wait=own_writes_wait) as (proxy, _):
        await proxy.write("CREATE TABLE other (id INT PRIMARY KEY)", *ROUTINES)
        await proxy.caught_up()
        client = await connected_wire(proxy, eof=eof)
        try:
            while (await client.read())[:2] != ([BEFORE], "hit"):  # MySQL's, beside which the key is filled
                pass
            yield proxy, client
        finally:
            client.client.close()


async def connected_wire(proxy: Proxy, *, eof: bool, user: str = "", **options: object) -> Wired:
    given = {
        "host": "127.0.0.1",
        "port": proxy.app.mysql_port,
        "user": user or proxy.mysql.user,
        "password": "" if user else proxy.mysql.password,
        "database": proxy.database,
        **options,
    }
    return Wired(await asyncio.to_thread(lambda: WireClient(eof=eof, **given)))  # type: ignore[arg-type]


# -- own writes --------------------------------------------------------------------------------------------------------


@DIALECTS
def test_a_session_reads_what_it_has_written_though_the_stream_has_not_brought_it(
    mysql: Server, database: str, tmp_path: Path, eof: bool
) -> None:
    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=eof, own_writes_wait="20ms") as (proxy, client):
            for statements in MANNERS:
                with held_back(proxy):
                    await client.try_(*statements)
                    rows, served, reason = await client.read()
                    assert (rows, served) == ([WRITTEN], "passed"), (statements, reason)
                await proxy.write("UPDATE item SET n = 10 WHERE id = 1")
                await proxy.caught_up()
                await client.reset()
                assert [(await client.read())[:2] for _ in range(2)][1] == ([BEFORE], "hit"), statements

    run(scenario)


@DIALECTS
def test_a_prepared_statement_may_commit_and_answer_with_rows(
    mysql: Server, database: str, tmp_path: Path, eof: bool
) -> None:
    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=eof, own_writes_wait="20ms") as (proxy, client):
            prepared = await client.prepare("ANALYZE TABLE other")
            with held_back(proxy):
                await client.ask("BEGIN")
                await client.ask(UPDATE)
                await client.execute(prepared)
                assert (await client.read())[:2] == ([WRITTEN], "passed")

    run(scenario)


@DIALECTS
def test_a_transaction_that_an_error_leaves_open_is_mysqls(
    mysql: Server, database: str, tmp_path: Path, eof: bool
) -> None:
    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=eof) as (_, client):
            for statement in ("CALL leaves_open()", f"BEGIN; {UPDATE}; SELECT * FROM no_such_table"):
                await client.try_(statement)
                assert (await client.read())[:2] == ([WRITTEN], "passed"), statement
                await client.ask("ROLLBACK")
                assert (await client.read())[:2] == ([BEFORE], "hit"), statement

    run(scenario)


@DIALECTS
def test_an_execution_of_a_statement_too_large_to_be_looked_at_counts_as_a_write(
    mysql: Server, database: str, tmp_path: Path, eof: bool
) -> None:
    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=eof) as (_, client):
            prepared = await client.prepare(UPDATE + " /*" + " " * 200_000 + "*/")
            await client.ask("BEGIN")
            await client.execute(prepared)
            assert (await client.read())[:2] == ([WRITTEN], "passed")
            await client.ask("ROLLBACK")
            rows, served, _ = await client.read()
            assert rows == [BEFORE] and served != "passed", served  # a miss where MySQL shows more than the stream

    run(scenario)


@DIALECTS
def test_autocommit_switched_off_in_a_procedure_begins_transactions(
    mysql: Server, database: str, tmp_path: Path, eof: bool
) -> None:
    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=eof) as (_, client):
            for call in ("CALL switches()", "CALL switches_and_fails()"):
                await client.try_(call)
                rows, _, reason = await client.read()
                assert rows == [BEFORE] and reason == SAVED, (call, reason)
                await client.reset()

    run(scenario)


# -- what hides tables, and what tells of it ---------------------------------------------------------------------------


@DIALECTS
def test_a_temporary_table_hides_the_cached_one_however_it_was_made(
    mysql: Server, database: str, tmp_path: Path, eof: bool
) -> None:
    manners = (
        ["SELECT hidden()"],
        ["SELECT hidden()", "SET @x = 1"],
        ["SELECT hidden()", "SET @x = 1", "SELECT 1"],
        ["CALL hides_and_fails()", "SET @x = 1"],
        ["CREATE TEMPORARY TABLE item SELECT 1 id, 777 n, 'item 1' name; SELECT 1"],
        ["PREPARE p FROM 'SELECT hidden()'", "EXECUTE p", "DEALLOCATE PREPARE p"],
    )

    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=eof) as (_, client):
            for statements in manners:
                await client.try_(*statements)
                hidden = [WRITTEN], "passed", "a temporary table hides item"
                assert await client.read() == hidden, statements
                await client.reset()
                assert (await client.read())[:2] == ([BEFORE], "hit")

    run(scenario)


@DIALECTS
def test_temporary_tables_beside_a_cached_view(mysql: Server, database: str, tmp_path: Path, eof: bool) -> None:
    shown = "SELECT id, n FROM shown WHERE id = 1"

    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=eof) as (proxy, client):
            await proxy.write("CREATE VIEW shown AS SELECT id, n FROM item")
            await proxy.caught_up()
            await client.ask("CREATE CACHE FROM SELECT id, n FROM shown WHERE id = ?")
            await client.ask("CREATE TEMPORARY TABLE other SELECT 1 id")
            for _ in range(2):  # MySQL shows how it announces the columns, and the key is filled
                await client.ask(shown)
            assert (await client.read(shown))[:2] == ([(1, 10)], "hit")
            await client.ask("CREATE TEMPORARY TABLE shown SELECT 1 id, 777 n")
            assert await client.read(shown) == ([(1, 777)], "passed", "a temporary table hides shown")

    run(scenario)


LOCKS = (
    "LOCK TABLES item READ",
    "FLUSH TABLES item WITH READ LOCK",
    "FLUSH LOCAL TABLE item FOR EXPORT",
    "/*! FLUSH */ TABLES item /*!50000 WITH READ LOCK */",
    "EXECUTE locks",
)


@DIALECTS
@pytest.mark.parametrize("lock", LOCKS)
def test_locked_tables_are_locked_until_they_are_unlocked(
    mysql: Server, database: str, tmp_path: Path, lock: str, eof: bool
) -> None:
    """MySQL tells of the end of locks where there is none: it means those of a transaction."""
    unlocks = (["UNLOCK TABLES"], ["BEGIN", "COMMIT"], ["SELECT 1; UNLOCK TABLES"])

    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=eof) as (_, client):
            await client.try_("PREPARE locks FROM 'FLUSH TABLES item WITH READ LOCK'")
            for unlock in unlocks:
                for between in ([], ["ANALYZE TABLE item"], ["COMMIT"], ["DROP TEMPORARY TABLE IF EXISTS item"]):
                    await client.try_(lock, *between)
                    assert (await client.read())[1:] == ("passed", "the session has locked tables"), between
                    await client.try_(*unlock)
                    assert (await client.read())[:2] == ([BEFORE], "hit"), unlock

    run(scenario)


@DIALECTS
def test_a_table_that_is_not_among_the_locked_ones(mysql: Server, database: str, tmp_path: Path, eof: bool) -> None:
    """MySQL's error, whatever comes in between."""

    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=eof) as (proxy, client):
            await proxy.write("CREATE TABLE another (id INT PRIMARY KEY)")
            await proxy.caught_up()
            for lock in (
                "LOCK TABLES another READ",
                "FLUSH TABLES another WITH READ LOCK",
                "FLUSH TABLES another FOR EXPORT",
            ):
                for between in ("ANALYZE TABLE another", "CREATE TEMPORARY TABLE own (id INT)", "COMMIT"):
                    await client.ask(lock)
                    await client.ask(between)
                    with pytest.raises(pymysql.err.OperationalError, match="was not locked with LOCK TABLES"):
                        await client.ask(READ)
                    await client.ask("UNLOCK TABLES")
                    await client.ask("DROP TEMPORARY TABLE IF EXISTS own")

    run(scenario)


@DIALECTS
def test_another_database_is_meant_whatever_the_client_does_to_the_trackers(
    mysql: Server, database: str, tmp_path: Path, eof: bool
) -> None:
    other = f"{database}_other"
    manners = (
        ["SET SESSION session_track_schema = OFF", f"USE `{other}`"],
        ["BEGIN", "SET SESSION session_track_schema = OFF", "COMMIT", f"USE `{other}`"],
        ["BEGIN", "SET SESSION session_track_schema = OFF", f"USE `{other}`", "COMMIT"],
        [f"SELECT 1; USE `{other}`; SELECT 2"],
        [f"SET SESSION session_track_schema = OFF; USE `{other}`"],
    )

    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=eof) as (_, client):
            for statements in manners:
                await client.try_(*statements)
                assert (await client.read())[:2] == ([WRITTEN], "passed"), statements
                await client.reset()
                await client.ask(f"USE `{database}`")
                assert (await client.read())[:2] == ([BEFORE], "hit"), statements

    mysql.execute(f"CREATE DATABASE `{other}`", f"USE `{other}`", "CREATE TABLE item SELECT 1 id, 777 n, 'item 1' name")
    try:
        run(scenario)
    finally:
        mysql.execute(f"DROP DATABASE `{other}`")


@DIALECTS
def test_a_variable_counts_whatever_the_client_does_to_the_trackers(
    mysql: Server, database: str, tmp_path: Path, eof: bool
) -> None:
    manners: tuple[list[str], ...] = (
        [],
        ["SET SESSION session_track_system_variables = ''"],
        ["SET @@session_track_system_variables = 'time_zone'"],
        ["BEGIN", "SET SESSION session_track_system_variables = ''", "ROLLBACK"],
        ["SET SESSION session_track_state_change = OFF", "SET SESSION session_track_system_variables = NULL"],
        ["PREPARE p FROM 'SET SESSION session_track_system_variables = \"\"'", "EXECUTE p"],
    )

    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=eof) as (_, client):
            for before in manners:
                await client.try_(*before)
                await client.ask("SET sql_select_limit = 0")
                assert (await client.read())[:2] == ([], "passed"), before
                await client.ask("SET sql_select_limit = DEFAULT")
                assert (await client.read())[:2] == ([BEFORE], "hit"), before

    run(scenario)


@DIALECTS
def test_a_client_that_asks_for_trackers_is_told_what_it_asks_for(
    mysql: Server, database: str, tmp_path: Path, eof: bool
) -> None:
    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=eof) as (proxy, _):
            client = await connected_wire(proxy, eof=eof, flags=CLIENT.SESSION_TRACK | CLIENT.MULTI_STATEMENTS)
            await client.ask("SET SESSION session_track_gtids = OWN_GTID")
            (result,) = await asyncio.to_thread(client.client.results, UPDATE)
            assert result.state[0] == 3, "only the GTID"
            assert (await client.read())[0] == [WRITTEN]
            client.client.close()

    run(scenario)


# -- definitions -------------------------------------------------------------------------------------------------------


@DIALECTS
def test_a_prepared_statement_outlives_ddl(mysql: Server, database: str, tmp_path: Path, eof: bool) -> None:
    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=eof) as (proxy, client):
            await client.ask("CREATE CACHE whole FROM SELECT * FROM item WHERE id = ?")
            prepared = await client.prepare("SELECT * FROM item WHERE id = ?")
            for _ in range(3):
                assert (await client.execute(prepared, 1))[0] == [(1, 1, 10, "item 1")]
            await proxy.write("ALTER TABLE item ADD COLUMN more VARCHAR(20) DEFAULT 'more' FIRST")
            await proxy.caught_up()
            await proxy.app.catalog.settled()
            served = [await client.execute(prepared, 1) for _ in range(3)]
            assert [rows for rows, _ in served] == [[("more", 1, 1, 10, "item 1")]] * 3
            assert served[-1][1] == "hit"

    run(scenario)


@DIALECTS
def test_columns_that_mysql_has_and_the_stream_has_not_brought_do_not_stand_before_old_rows(
    mysql: Server, database: str, tmp_path: Path, eof: bool
) -> None:
    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=eof, own_writes_wait="20ms") as (proxy, client):
            await client.ask("CREATE CACHE whole FROM SELECT * FROM item WHERE id = ?")
            text = "SELECT * FROM item WHERE id = 1"
            await client.ask(text)
            await proxy.write(f"GRANT SELECT ON `{database}`.* TO reader_2")
            await proxy.caught_up()
            other = await connected_wire(proxy, eof=eof, user="reader_2")
            try:
                with held_back(proxy):
                    await proxy.write(
                        "ALTER TABLE item ADD COLUMN more INT DEFAULT 5", "ALTER TABLE item MODIFY n CHAR(9)"
                    )
                    for _ in range(2):
                        rows, served, _ = await other.read(text)
                        assert (rows, served) == ([(1, 1, "10", "item 1", 5)], "passed")
            finally:
                other.client.close()

    mysql.execute("DROP USER IF EXISTS reader_2", "CREATE USER reader_2")
    try:
        run(scenario)
    finally:
        mysql.execute("DROP USER reader_2")
