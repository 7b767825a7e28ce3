"""What a session over MySQL's protocol is shown, one answer after the other: in transactions all of it is one state, or
the mixture is counted; outside of them it does not go back in time."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path

import pymysql
import pytest

from integration.conftest import OwnMySQL
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, held_back, run
from integration.support.mysql_clients import Asker, connected
from integration.support.mysql_shop import BY_ID, OF_GROUP, shop, waits_for_tables
from proxy.mysql.reads.gate import AGAIN, CHANGED, UNCHANGED, UNSETTLED
from proxy.mysql.session import cached_reads
from proxy.mysql.session.cached_reads import FILL_IS_LATE
from tests.support.waiting import until

OPEN = "the REPEATABLE READ transaction has its snapshot at MySQL"
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
            await asker.ask("BEGIN")
            assert await asker.served(BY_ID, 1) == "hit"
            await written(proxy, "UPDATE item SET n = 1 WHERE id IN (1, 2)")
            for key in (2, 2, 3):
                assert await asker.served(BY_ID, key) == "passed"
            await written(proxy, "UPDATE item SET n = n + 10 WHERE id IN (1, 2)")
            assert await asker.served("SELECT COUNT(*) FROM item") == "passed"
            assert await mixed(proxy) == 1
            await asker.ask("COMMIT")

    run(scenario)


@pytest.mark.parametrize("begin", ["BEGIN", "START TRANSACTION READ ONLY", "SET autocommit = 0"])
def test_where_transactions_have_needed_mysql_behind_hits_the_next_one_is_one_state(
    mysql: Server, database: str, tmp_path: Path, begin: str
) -> None:
    """A transaction like the one before it has its snapshot at MySQL from its first hit on."""

    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            other = await connected(proxy)
            for number in range(4):
                for key in (1, 2, 3):
                    await other.until_hit(BY_ID, key)
                await asker.ask(begin)
                rows, served, _ = await asker.read(BY_ID, 1)
                assert served == "hit"
                if number:  # as the first one did, this one will have MySQL answer
                    await written(proxy, f"UPDATE item SET n = {number} WHERE id IN (1, 2)")
                    assert (await asker.read(BY_ID, 3))[1:] == ("hit", UNCHANGED)
                    assert (await asker.read(BY_ID, 2))[1:] == ("passed", CHANGED)
                    assert await asker.ask(BY_ID, 1) == rows
                assert await asker.ask("SELECT id, n, name FROM item WHERE id = 1 LIMIT 1") == rows
                assert await mixed(proxy) == 0
                await asker.ask("COMMIT")
            await other.close()
            assert await asker.ask(BY_ID, 1) == ((1, 3, "item 1"),)

    run(scenario)


def test_where_transactions_of_hits_have_not_mysql_hears_nothing(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await asker.until_hit(BY_ID, 1)
            forecast = proxy.app.mysql.shared.forecast  # type: ignore[union-attr]  # it listens
            for reads in ([BY_ID, "SELECT COUNT(*) FROM item"], *[[BY_ID]] * 9):
                await asker.ask("BEGIN")
                for read in reads:
                    await asker.ask(read, *([1] if read == BY_ID else []))
                await asker.ask("COMMIT")
            assert not forecast.expects("by_id")
            before = (await proxy.client.status()).counters["empty_transactions"]
            await asker.ask("BEGIN")
            await asker.ask(BY_ID, 1)
            await asker.ask("COMMIT")
            assert (await proxy.client.status()).counters["empty_transactions"] == before + 1

    run(scenario)


def test_what_changes_after_mysql_has_its_snapshot_is_no_mixture(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            for before in ("SELECT COUNT(*) FROM item", "SELECT ROW_COUNT()"):
                await asker.ask(BY_ID, 1)
                await asker.ask("BEGIN")
                ((_, n, _),) = await asker.ask(BY_ID, 1)
                await asker.ask(before)
                await written(proxy, "UPDATE item SET n = n + 1 WHERE id IN (1, 4)")
                for key in (1, 4):
                    rows, served, reason = await asker.read(BY_ID, key)
                    assert (rows[0][1] % 10, served, reason) == (
                        n % 10,
                        *(("hit", AGAIN) if key == 1 else ("passed", OPEN)),
                    )
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
                shared = proxy.app.mysql.shared  # type: ignore[union-attr]  # it listens
                passed = shared.passed
                slow = asyncio.ensure_future(asker.ask("SELECT SUM(n), SLEEP(0.5) FROM item WHERE id < 2"))
                await until(lambda: shared.passed != passed)
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
                assert (served, reason) in (("passed", UNSETTLED), ("hit", AGAIN)), begin
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
            # Of the transaction that MySQL has begun, an error of a DDL statement does not tell that it locked nothing.
            for wrong, why in (("SET nothing = 1", CHANGED), ("ALTER TABEL item ADD COLUMN x INT", LOCKED)):
                assert await asker.served(BY_ID, 1) == "hit"
                with pytest.raises(pymysql.err.MySQLError):
                    await asker.ask(wrong)
                await written(proxy, "UPDATE item SET n = n - 1 WHERE id = 1")
                assert (await asker.read(OF_GROUP, 1))[1:] == ("passed", why), wrong
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


def test_a_transaction_that_ddl_waits_for_does_not_wait_for_a_fill_that_waits_for_the_ddl(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    """MySQL sees no deadlock there: the fill has a connection of its own."""

    async def scenario() -> None:
        async with shop(mysql, database, tmp_path, upquery_timeout="10m") as (proxy, asker):
            await asker.ask("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            await asker.ask(BY_ID, 1)
            await asker.ask("BEGIN")
            await asker.ask("SELECT COUNT(*) FROM item")
            ddl = asyncio.ensure_future(proxy.write("ALTER TABLE item ADD COLUMN x INT"))
            await waits_for_tables(mysql, database)
            assert await asker.served(BY_ID, 1) == "hit"
            assert await asker.read(BY_ID, 2) == (((2, 20, "item 2"),), "passed", FILL_IS_LATE)
            await asker.ask("COMMIT")
            await ddl

    run(scenario)


@asynccontextmanager
async def half_of_a_deadlock(proxy: Proxy, asker: Asker) -> AsyncIterator[None]:
    """The session is in a transaction for whose end a statement waits that has `item` locked."""
    await proxy.write("CREATE TABLE zoo (id INT PRIMARY KEY)")
    await proxy.caught_up()
    await asker.ask("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    assert (await asker.read(BY_ID, 1))[1] == "miss"
    await asker.ask("BEGIN")
    assert await asker.served(BY_ID, 1) == "hit"
    await asker.ask("SELECT COUNT(*) FROM zoo")
    assert await asker.served(BY_ID, 1) == "hit"
    renames = "item TO a, zoo TO b, a TO item, b TO zoo"
    renaming = asyncio.ensure_future(proxy.write(f"RENAME TABLE {renames}"))
    await waits_for_tables(proxy.mysql, proxy.database)
    yield
    await renaming


def test_a_deadlock_of_what_the_client_does_not_see_is_told_to_it(mysql: Server, database: str, tmp_path: Path) -> None:
    """MySQL has rolled back the client's transaction."""

    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker), half_of_a_deadlock(proxy, asker):
            with pytest.raises(pymysql.err.OperationalError, match="Deadlock found"):
                await asker.ask(OF_GROUP, 1)  # of which MySQL is asked whether the account may read it
            async with asyncio.timeout(60):  # in a transaction there would be a reason for ever
                while (await asker.read(BY_ID, 1))[2]:  # the tables are renamed now, and the caches planned again
                    pass

    run(scenario)


def test_a_deadlock_behind_which_a_statement_is_sent_already_ends_the_session(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            session = await connected(proxy)
            async with half_of_a_deadlock(proxy, session):
                with pytest.raises(pymysql.err.OperationalError, match="Lost connection"):
                    await session.ask("SELECT ROW_COUNT()")
            assert (await asker.ask(BY_ID, 1))[0][0] == 1

    run(scenario)


def test_a_cache_that_is_dropped_while_a_read_waits_for_it_is_nothing_to_the_client(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_reads, "BROUGHT_SOON", 60.0)

    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            other = await connected(proxy)
            await asker.ask(BY_ID, 1)
            with held_back(proxy):
                await proxy.write("UPDATE item SET n = 5 WHERE id IN (1, 2)")
                assert await asker.served(BY_ID, 2) == "miss"
                before = await waits(proxy)
                reading = asyncio.ensure_future(asker.read(BY_ID, 1))
                while await waits(proxy) == before:
                    assert not reading.done()
                await other.ask("DROP CACHE by_id")
            assert (await reading)[:2] == (((1, 5, "item 1"),), "passed")
            await other.close()

    run(scenario)


# -- no way back -------------------------------------------------------------------------------------------------------


def test_a_hit_behind_a_miss_is_not_older_than_the_miss(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_reads, "BROUGHT_SOON", 20.0)  # a busy machine needs longer to be let go on

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


def test_behind_a_miss_mysql_answers_where_the_stream_is_late(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await asker.ask(BY_ID, 1)
            with held_back(proxy):
                await proxy.write("UPDATE item SET n = 5 WHERE id IN (1, 2)")
                assert (await asker.read(BY_ID, 2))[:2] == (((2, 5, "item 2"),), "miss")
                for _ in range(3):
                    assert (await asker.read(BY_ID, 1))[:2] == (((1, 5, "item 1"),), "passed")
                assert await asker.ask(BY_ID, 2) == ((2, 5, "item 2"),), "it may be held, ahead of the position"
                assert (await asker.read(BY_ID, 3))[:2] == (((3, 30, "item 3"),), "miss")

    run(scenario)


@contextmanager
def under_way(mysql: Server, database: str, change: str) -> Iterator[Callable[[str], None]]:
    """A transaction whose GTID is owned already: what is read meanwhile may show it. Gives what ends it."""
    connection = mysql.connect(database=database)
    with connection, connection.cursor() as cursor:
        cursor.execute(f"SET gtid_next = '{uuid.uuid4()}:1'")
        cursor.execute("BEGIN")
        cursor.execute(change)

        def ends(how: str) -> None:
            cursor.execute(how)
            cursor.execute("SET gtid_next = 'AUTOMATIC'")

        yield ends


def test_what_a_miss_may_have_shown_counts_as_long_as_it_may_come(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await asker.ask(BY_ID, 1)
            with under_way(mysql, database, "UPDATE item SET n = 5 WHERE id = 1") as ends:
                assert await asker.served(BY_ID, 2) == "miss"
                assert (await asker.read(BY_ID, 1))[:2] == (((1, 10, "item 1"),), "passed")
                with held_back(proxy):
                    await asyncio.to_thread(ends, "COMMIT")
                    assert (await asker.read(BY_ID, 1))[:2] == (((1, 5, "item 1"),), "passed")
            await proxy.caught_up()
            assert (await asker.read(BY_ID, 1))[:2] == (((1, 5, "item 1"),), "hit")

    run(scenario)


@pytest.mark.parametrize("begin", ["DO 0", "BEGIN"])
def test_what_a_miss_may_have_shown_does_not_count_once_it_is_rolled_back(
    mysql: Server, database: str, tmp_path: Path, begin: str
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (_, asker):
            await asker.ask(BY_ID, 1)
            with under_way(mysql, database, "UPDATE item SET n = 5 WHERE id = 1") as ends:
                assert await asker.served(BY_ID, 2) == "miss"
                await asyncio.to_thread(ends, "ROLLBACK")
            for turn in range(2):
                await asker.ask(begin)
                assert await asker.served(BY_ID, 1) in ("hit", "passed")[: 2 - turn]
                await asker.ask("COMMIT")

    run(scenario)


SHOWS_LATE = ("SET GLOBAL rpl_semi_sync_source_enabled = OFF", "SET GLOBAL rpl_semi_sync_source_enabled = ON")


def test_one_session_waits_for_a_change_and_no_other_does_again(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    """MySQL is asked to show what hits have shown once a change, however many sessions pass reads behind hits."""

    async def scenario(mysql: Server) -> None:
        async with shop(mysql, "waits", tmp_path) as (proxy, asker):
            others = [await connected(proxy) for _ in range(3)]
            for number in range(3):
                await proxy.write(f"UPDATE item SET n = {2000 + number} WHERE id = 1")
                await proxy.caught_up()
                before = done(mysql)
                for one in [asker, *others] * 3:
                    assert (await one.ask(BY_ID, 1))[0][1] == 2000 + number
                    await one.ask("SELECT n FROM item WHERE id = 1 /* upwell: skip */")
                waited = done(mysql) - before
                assert waited <= len(others) + 1 and (number == 0 or waited <= 1)
            for one in others:
                await one.close()

    def done(mysql: Server) -> int:
        ((_, count),) = mysql.execute("SHOW GLOBAL STATUS LIKE 'Com_do'")
        return int(count)

    server = own_mysql()
    server.execute("CREATE DATABASE waits")
    run(lambda: scenario(server))


def test_what_mysql_answers_is_not_older_than_the_hit_before(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    """The server shows a commit long after its binlog tells of it: it waits for a replica's word that never comes."""
    statements = (
        "SELECT n FROM item WHERE id = 1 /* upwell: skip */",
        "SELECT n, FOUND_ROWS() FROM item WHERE id = 1",
        "EXECUTE p",
    )

    numbers = count(1000)

    async def shown(proxy: Proxy, asker: Asker, statement: str) -> tuple[int, int] | None:
        """What the statement shows, and what a hit before it has; None where MySQL itself has shown it before that."""
        number = next(numbers)
        await asyncio.to_thread(proxy.mysql.execute, *SHOWS_LATE)
        writing = asyncio.ensure_future(proxy.write(f"UPDATE item SET n = {number} WHERE id = 1"))
        while (await asker.ask(BY_ID, 1))[0][1] != number and not writing.done():
            pass
        first = not writing.done()
        n: int = (await asker.ask(statement))[0][0]
        await writing
        return (n, number) if first else None

    async def scenario(mysql: Server) -> None:
        async with shop(mysql, "late", tmp_path) as (proxy, asker):
            await asker.ask("PREPARE p FROM 'SELECT n FROM item WHERE id = 1'")
            await asker.ask(BY_ID, 1)
            for statement in statements:
                while (found := await shown(proxy, asker, statement)) is None:
                    pass
                assert found[0] == found[1], statement

    server = own_mysql("--loose-plugin-load-add=semisync_source.so", "--loose-rpl-semi-sync-source-timeout=15")
    if not server.execute("SHOW VARIABLES LIKE 'rpl_semi_sync_source_enabled'"):
        pytest.skip("this MySQL has no semi-synchronous replication")
    server.execute("CREATE DATABASE late")
    run(lambda: scenario(server))
