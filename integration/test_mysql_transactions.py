"""What a session over MySQL's protocol is shown, one answer after the other: in transactions all of it is one state, or
the mixture is counted; outside of them it does not go back in time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest

from integration.grpc_app import Proxy, held_back, run
from integration.mysql_clients import Asker
from integration.mysql_server import Server
from integration.mysql_shop import BY_ID, OF_GROUP, shop
from integration.private_mysql import find_mysql

OPEN = "the REPEATABLE READ transaction has its snapshot at MySQL"
CHANGED = "what the REPEATABLE READ transaction was shown has changed"
LOCKED = "the transaction may have written or locked rows"


async def mixed(proxy: Proxy) -> int:
    return (await proxy.client.status()).counters["mixed_snapshots"]


async def written(proxy: Proxy, sql: str) -> None:
    await proxy.write(sql)
    await proxy.caught_up()


async def waits(proxy: Proxy) -> int:
    return (await proxy.client.status()).counters["freshness_waits"]


# -- one state, or counted ---------------------------------------------------------------------------------------------


def test_a_mixture_is_counted_once_for_each_transaction(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            for key in (1, 2):
                await asker.ask(BY_ID, key)
            for number in (1, 2):
                await asker.ask("BEGIN")
                assert await asker.served(BY_ID, 1) == "hit"
                await written(proxy, f"UPDATE item SET n = {number} WHERE id = 1")
                for key in (2, 2, 1):
                    assert await asker.served(BY_ID, key) == "passed"
                await written(proxy, "UPDATE item SET n = n + 10 WHERE id = 1")
                assert await asker.served("SELECT COUNT(*) FROM item") == "passed"
                assert await mixed(proxy) == number
                await asker.ask("COMMIT")

    run(scenario)


def test_what_changes_after_mysql_has_its_snapshot_is_no_mixture(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            for before in ("SELECT COUNT(*) FROM item", "SELECT FOUND_ROWS()"):
                await asker.ask(BY_ID, 1)
                await asker.ask("BEGIN")
                ((_, n, _),) = await asker.ask(BY_ID, 1)
                await asker.ask(before)
                await written(proxy, "UPDATE item SET n = n + 1 WHERE id = 1")
                rows, served, reason = await asker.read(BY_ID, 1)
                assert (rows[0][1], served, reason) == (n, "passed", OPEN)
                await asker.ask("COMMIT")
            assert await mixed(proxy) == 0

    run(scenario)


def test_a_snapshot_opened_behind_a_write_is_looked_at_when_it_is_opened(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await asker.ask(BY_ID, 1)
            await asker.ask("BEGIN")
            assert await asker.served(BY_ID, 1) == "hit"
            await asker.ask("UPDATE item SET n = 0 WHERE id = 9")
            assert await mixed(proxy) == 0
            await written(proxy, "UPDATE item SET n = -1 WHERE id = 1")
            assert (await asker.read(BY_ID, 1))[:2] == (((1, -1, "item 1"),), "passed")
            assert await mixed(proxy) == 1
            await asker.ask("ROLLBACK")

    run(scenario)


def test_a_change_that_the_stream_brings_while_mysql_answers_is_counted(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await asker.ask(BY_ID, 1)
            await asker.ask("BEGIN")
            assert await asker.served(BY_ID, 1) == "hit"
            with held_back(proxy):
                await proxy.write("UPDATE item SET n = -1 WHERE id = 1")
                passed = proxy.app.mysql.shared.passed  # type: ignore[union-attr]  # it listens
                slow = asyncio.ensure_future(asker.ask("SELECT SUM(n), SLEEP(0.5) FROM item WHERE id < 2"))
                while proxy.app.mysql.shared.passed == passed:  # type: ignore[union-attr]
                    await asyncio.sleep(0)
            assert ((await slow)[0][0], await mixed(proxy)) == (-1, 1)
            await asker.ask("COMMIT")

    run(scenario)


@pytest.mark.parametrize(
    "statement", ["SHOW TABLES", "DESCRIBE item", "EXPLAIN SELECT n FROM item WHERE id = 1", "SHOW INDEX FROM item"]
)
def test_mysql_opens_its_snapshot_for_its_dictionary_too(
    mysql: Server, database: str, tmp_path: Path, statement: str
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await asker.ask(BY_ID, 1)
            await asker.ask("BEGIN")
            await asker.ask(statement)
            await written(proxy, "UPDATE item SET n = -1 WHERE id = 1")
            assert await asker.read(BY_ID, 1) == (((1, 10, "item 1"),), "passed", OPEN)
            await asker.ask("COMMIT")

    run(scenario)


def test_isolation_set_in_a_transaction_counts_from_the_next_one_on(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await asker.ask(BY_ID, 1)
            for begin in ("BEGIN", "SET autocommit = 0"):
                await asker.ask(begin)
                ((_, n, _),) = await asker.ask(BY_ID, 1)
                await asker.ask("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
                await written(proxy, "UPDATE item SET n = n + 1 WHERE id = 1")
                _, served, reason = await asker.read(BY_ID, 1)
                assert (served, reason) in (("passed", LOCKED), ("passed", CHANGED)), begin
                await asker.ask("COMMIT")
                await asker.ask("BEGIN")
                rows, served, _ = await asker.read(BY_ID, 1)
                assert (rows[0][1], served) == (n + 1, "hit")
                await asker.ask("COMMIT")
                await asker.ask("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")

    run(scenario)


def test_an_error_that_ends_no_transaction_does_not_forget_what_it_was_shown(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await asker.ask(BY_ID, 1)
            await asker.ask("SET autocommit = 0")
            assert await asker.served(BY_ID, 1) == "hit"
            with pytest.raises(pymysql.err.ProgrammingError):
                await asker.ask("ALTER TABEL item ADD COLUMN x INT")
            await written(proxy, "UPDATE item SET n = -1 WHERE id = 1")
            assert (await asker.read(OF_GROUP, 1))[1:] == ("passed", CHANGED)
            await asker.ask("COMMIT")

    run(scenario)


def test_a_subquery_in_a_set_locks_what_it_reads(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (_, asker):
            await asker.ask(BY_ID, 1)
            await asker.ask("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            await asker.ask("BEGIN")
            await asker.ask("SET @n = (SELECT n FROM item WHERE id = 1)")
            assert (await asker.read(BY_ID, 1))[1:] == ("passed", LOCKED)
            await asker.ask("COMMIT AND CHAIN")
            assert await asker.served(BY_ID, 1) == "hit", "the next one has locked nothing"
            await asker.ask("ROLLBACK")

    run(scenario)


def test_an_xa_transaction_is_mysqls(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (_, asker):
            await asker.ask(BY_ID, 1)
            await asker.ask("XA START 'x'")
            assert (await asker.read(BY_ID, 1))[1:] == ("passed", LOCKED)
            for statement in ("XA END 'x'", "XA PREPARE 'x'", "XA ROLLBACK 'x'"):
                await asker.ask(statement)
            assert await asker.served(BY_ID, 1) == "hit"

    run(scenario)


# -- no way back -------------------------------------------------------------------------------------------------------


def test_a_hit_behind_a_miss_is_not_older_than_the_miss(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await asker.ask(BY_ID, 1)
            with held_back(proxy):
                await proxy.write("UPDATE item SET n = 5 WHERE id IN (1, 2)")
                assert (await asker.read(BY_ID, 2))[:2] == (((2, 5, "item 2"),), "miss")
                before = await waits(proxy)
                reading = asyncio.ensure_future(asker.read(BY_ID, 1))
                while await waits(proxy) == before:
                    assert not reading.done()
            assert (await reading)[:2] == (((1, 5, "item 1"),), "hit")

    run(scenario)


def test_a_stream_that_brings_nothing_is_not_waited_for_without_end(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await asker.ask(BY_ID, 1)
            with held_back(proxy):
                await proxy.write("UPDATE item SET n = 5 WHERE id IN (1, 2)")
                assert (await asker.read(BY_ID, 2))[:2] == (((2, 5, "item 2"),), "miss")
                assert (await asker.read(BY_ID, 1))[:2] == (((1, 10, "item 1"),), "hit")

    run(scenario)


@contextmanager
def mysql_that_shows_late() -> Iterator[Server]:
    """A server that can be made to show a commit long after its binlog tells of it: it waits for a replica's word that
    never comes. `shows_late` does that, for one commit."""
    with find_mysql(report=lambda line: None) as server:
        try:
            server.execute("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
        except pymysql.MySQLError as error:
            pytest.skip(f"this MySQL has no semi-synchronous replication: {error}")
        server.execute("SET GLOBAL rpl_semi_sync_source_timeout = 40", "CREATE DATABASE late")
        yield server


SHOWS_LATE = ("SET GLOBAL rpl_semi_sync_source_enabled = OFF", "SET GLOBAL rpl_semi_sync_source_enabled = ON")


def test_what_mysql_answers_is_not_older_than_the_hit_before(tmp_path: Path) -> None:
    statements = (
        "SELECT n FROM item WHERE id = 1 /* upwell: skip */",
        "SELECT n, FOUND_ROWS() FROM item WHERE id = 1",
        "EXECUTE p",
    )

    async def shown(proxy: Proxy, asker: Asker, number: int, statement: str) -> int:
        """What the statement shows behind a hit that has shown `number`."""
        await asyncio.to_thread(proxy.mysql.execute, *SHOWS_LATE)
        writing = asyncio.ensure_future(proxy.write(f"UPDATE item SET n = {number} WHERE id = 1"))
        while (await asker.ask(BY_ID, 1))[0][1] != number:
            assert not writing.done(), "it is to be seen here first"
        n: int = (await asker.ask(statement))[0][0]
        await writing
        return n

    async def scenario(mysql: Server) -> None:
        async with shop(mysql, "late", tmp_path) as (proxy, asker):
            await asker.ask("PREPARE p FROM 'SELECT n FROM item WHERE id = 1'")
            await asker.ask(BY_ID, 1)
            for number, statement in enumerate(statements, 1000):
                assert await shown(proxy, asker, number, statement) == number, statement

    with mysql_that_shows_late() as server:
        run(lambda: scenario(server))
