"""What no binlog tells, and what is open when a process ends: nothing of that is held again as if it were true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

import pytest
from structlog.testing import capture_logs

from dataflow.fills.keeping import Keeping
from dataflow.fills.restoring import Restoring
from integration.bulk.test_bulk_fills import NUMBERS, fill, rows
from integration.caches.test_restart import CACHES, KEYS, check_all, held, held_once, restarted
from integration.protocol.test_faults import OF_RESTARTS, noticing
from integration.servers.mysql_server import Server
from integration.servers.private_mysql import PrivateMySQL
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.mysql_clients import connected
from proxy.catalog.removal import Leaving
from proxy.fills import restart
from proxy.fills.restart import Restart
from proxy.fills.snapshot_file import Writer
from proxy.port.fill_progress import FillBy
from tests.support.waiting import until
from upwell.errors import UpwellError
from vstream.binlog.dump import DumpReader

SHOP = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)",
    "INSERT INTO shop.t VALUES (1, 10), (2, 20)",
)
ZONE = (
    "INSERT INTO mysql.time_zone (Use_leap_seconds) VALUES ('N')",
    "SET @id = LAST_INSERT_ID()",
    "INSERT INTO mysql.time_zone_name VALUES ('X/Y', @id)",
    "INSERT INTO mysql.time_zone_transition_type VALUES (@id, 0, 3600, 0, 'XY')",
)
OwnMysql = Callable[[], PrivateMySQL]


async def held_keys(proxy: Proxy, *keys: int, sql: str = "SELECT v FROM t WHERE id = ?") -> None:
    await proxy.client.create_cache(sql, name="by_id", database="shop")
    await proxy.write("UPDATE t SET v = v + 1")
    await proxy.caught_up()
    for key in keys:
        await until_hit(proxy, key)
    await until(lambda: not proxy.binlog.asking.unsettled)


async def until_hit(proxy: Proxy, key: int) -> None:
    deadline = monotonic() + 30
    while (await proxy.client.cache("by_id").get(key)).served != "hit":
        assert monotonic() < deadline, "it is no hit"


async def values(proxy: Proxy, key: int) -> list[object]:
    return [row[0] for row in await proxy.client.cache("by_id").get(key)]


async def filled(proxy: Proxy) -> bool:
    try:
        await fill(proxy, "by_id", FillBy.DIRECT, [(1,), (2,)])
    except UpwellError:
        return False
    return proxy.app.catalog.get("by_id").info().keys > 0


def without_a_binlog(mysql: PrivateMySQL, *statements: str) -> None:
    """MySQL runs so for a while, for maintenance, and is started again as before."""
    before = mysql.flags
    mysql.halt()
    mysql.flags = (*before, "--gtid-mode=OFF", "--skip-log-bin")
    mysql.start()
    mysql.execute(*statements)
    mysql.halt()
    mysql.flags = before
    mysql.start()


def test_another_history_of_the_same_gtids(mysql: Server, database: str, tmp_path: Path) -> None:
    """A copy that was restored with gtid_purged."""

    async def scenario() -> None:
        await held_once(mysql, database, tmp_path)
        ((executed,),) = mysql.execute("SELECT @@GLOBAL.gtid_executed")
        mysql.execute(
            "SET sql_log_bin = 0",
            f"UPDATE `{database}`.item SET name = 'of the copy'",
            "RESET BINARY LOGS AND GTIDS",
            f"SET GLOBAL gtid_purged = '{executed}'",
        )
        async with restarted(mysql, database, tmp_path) as proxy:
            assert not any(held(proxy).values())
            await check_all(proxy)

    run(scenario)


def test_an_xa_transaction_that_is_prepared_and_ends_unseen(mysql: Server, database: str, tmp_path: Path) -> None:
    """XA COMMIT with ONE PHASE, which no binlog has, while nobody served."""

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, snapshot="5m") as proxy:
            await proxy.write(*NUMBERS, rows(3000))
            change = "UPDATE item SET name = 'of the XA' WHERE id < 20"
            await proxy.write("XA START 'r'", change, "XA END 'r'", "XA PREPARE 'r'")
            await proxy.caught_up()
            for name, sql in CACHES.items():
                await proxy.app.router.caches.create(name, sql, database)
            await fill(proxy, "by_id", FillBy.DIRECT, KEYS["by_id"])
            await until(lambda: not proxy.binlog.asking.unsettled)
            assert proxy.binlog.xa.xids
        assert not list(tmp_path.rglob("held-*.snapshot")), "only this process could see its end"
        mysql.execute("XA COMMIT 'r' ONE PHASE")
        async with restarted(mysql, database, tmp_path) as proxy:
            await check_all(proxy)

    run(scenario)


def test_a_server_that_ran_without_a_binlog(own_mysql: OwnMysql, tmp_path: Path) -> None:
    """Both were stopped for maintenance."""
    mysql = own_mysql()
    mysql.execute(*SHOP)

    async def scenario() -> None:
        async with proxy_beside(mysql, "shop", tmp_path, snapshot="5m") as proxy:
            await held_keys(proxy, 1, 2)
        await asyncio.to_thread(without_a_binlog, mysql, "UPDATE shop.t SET v = 777 WHERE id = 2")
        async with proxy_beside(mysql, "shop", tmp_path, snapshot="5m") as proxy:
            await until(lambda: not proxy.app.router.reads.closed)
            assert await values(proxy, 2) == [777]

    run(scenario)


def test_what_was_held_while_changes_were_left_out_is_not_written(own_mysql: OwnMysql, tmp_path: Path) -> None:
    """Upwell runs on while MySQL has no binlog."""
    mysql = own_mysql()
    mysql.execute(*SHOP)
    before = mysql.flags

    async def scenario() -> None:
        async with proxy_beside(mysql, "shop", tmp_path, snapshot="5m") as proxy:
            await held_keys(proxy, 1)
            await asyncio.to_thread(mysql.halt)
            mysql.flags = (*before, "--gtid-mode=OFF", "--skip-log-bin")
            await asyncio.to_thread(mysql.start)
            await until(lambda: bool(proxy.app.stream.unfit))
            await until(lambda: filled(proxy))
            await proxy.app.restart.save()
            assert not list(tmp_path.rglob("held-*.snapshot"))
        mysql.execute("UPDATE shop.t SET v = 777")
        await asyncio.to_thread(mysql.halt)
        mysql.flags = before
        await asyncio.to_thread(mysql.start)
        async with proxy_beside(mysql, "shop", tmp_path, snapshot="5m") as proxy:
            await until(lambda: not proxy.app.router.reads.closed)
            assert await values(proxy, 1) == [777]

    run(scenario)


def test_zones_that_mysql_reads_anew_at_its_start(own_mysql: OwnMysql, tmp_path: Path) -> None:
    mysql = own_mysql()
    mysql.execute(*SHOP, *ZONE)
    mysql.halt()
    mysql.start()
    sql = "SELECT CONVERT_TZ('2020-01-01 00:00:00', '+00:00', 'X/Y'), v FROM t WHERE id = ?"

    async def scenario() -> None:
        async with proxy_beside(mysql, "shop", tmp_path, snapshot="5m") as proxy:
            await proxy.write("UPDATE mysql.time_zone_transition_type SET Offset = 7200 WHERE Abbreviation = 'XY'")
            await held_keys(proxy, 1, sql=sql)
        await asyncio.to_thread(mysql.halt)
        await asyncio.to_thread(mysql.start)
        async with proxy_beside(mysql, "shop", tmp_path, snapshot="5m") as proxy:
            await until(lambda: not proxy.app.router.reads.closed)
            ((wanted, _),) = mysql.execute("USE shop", sql.replace("?", "1"))
            assert [str(value) for value in await values(proxy, 1)] == [str(wanted)]

    run(scenario)


def test_the_file_goes_before_an_unlogged_statement_is_sent(mysql: Server, database: str, tmp_path: Path) -> None:
    """The process may be killed while MySQL runs it."""

    async def scenario() -> None:
        await held_once(mysql, database, tmp_path)
        async with restarted(mysql, database, tmp_path) as proxy:
            (path,) = tmp_path.rglob("held-*.snapshot")
            writer = await connected(proxy)
            await writer.ask("SET sql_log_bin = 0")
            slow = f"UPDATE `{database}`.item SET name = 'unlogged' WHERE id < 5 AND SLEEP(0.1) = 0"
            task = asyncio.create_task(writer.ask(slow))
            await until(lambda: not path.exists())
            assert not task.done()
            await task
            await writer.close()

    run(scenario)


def test_a_cache_that_a_view_has_closed_is_not_written(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ALTER VIEW comes when the blocks are written, and the position behind it is the snapshot's."""

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, snapshot="5m") as proxy:
            await proxy.write("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10), (2, 21)")
            await proxy.write("CREATE VIEW w AS SELECT id, v FROM t WHERE v & 1 = 1")
            await proxy.client.create_cache("SELECT * FROM w WHERE id = ?", name="by_id", database=database)
            for key in (1, 2):
                await until_hit(proxy, key)
            await until(lambda: not proxy.binlog.asking.unsettled)
            fixed, take_out, altered = Restart._fixed, Leaving._take_out, asyncio.Event()
            taken_out = asyncio.Event()

            async def behind_the_ddl(self: Restart, keeping: Keeping) -> object:
                await proxy.write("ALTER VIEW w AS SELECT id, v FROM t WHERE v & 1 = 0")
                await altered.wait()
                return await fixed(self, keeping)

            async def behind_others(self: Leaving) -> None:
                altered.set()
                await taken_out.wait()
                await take_out(self)

            monkeypatch.setattr(Restart, "_fixed", behind_the_ddl)
            monkeypatch.setattr(Leaving, "_take_out", behind_others)
            await proxy.app.restart.save()
            taken_out.set()
            monkeypatch.undo()
            (path,) = tmp_path.rglob("held-*.snapshot")
            kept = path.read_bytes()
        path.write_bytes(kept)  # as if the process had been killed then
        async with proxy_beside(mysql, database, tmp_path, snapshot="5m") as proxy:
            await until(lambda: not proxy.app.router.reads.closed)
            for key in (1, 2):
                found = await proxy.client.cache("by_id").get(key)
                wanted = mysql.execute(f"USE `{database}`", f"SELECT * FROM w WHERE id = {key}")
                assert [tuple(row) for row in found] == [tuple(row) for row in wanted]

    run(scenario)


def test_a_cache_that_is_closed_while_the_file_is_opened(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, snapshot="5m") as proxy:
            await proxy.write(*NUMBERS, rows(300))
            await proxy.write("CREATE TABLE other (id INT PRIMARY KEY)")
            await proxy.app.router.caches.create("by_id", CACHES["by_id"], database)
            await proxy.app.router.caches.create("o", "SELECT id FROM other WHERE id = ?", database)
            await fill(proxy, "by_id", FillBy.DIRECT, KEYS["by_id"][:50])
            await proxy.app.source.look_for_open()
            loop = asyncio.get_running_loop()

            async def closes() -> None:
                proxy.app.catalog.schema_changed(frozenset({f"{database}.other"}))

            def slowly(path: Path) -> Writer:
                asyncio.run_coroutine_threadsafe(closes(), loop).result()
                return Writer(path)

            monkeypatch.setattr(restart, "Writer", slowly)
            await proxy.app.restart.save()
            monkeypatch.undo()
            assert list(tmp_path.rglob("held-*.snapshot"))

    run(scenario)


def test_no_hit_before_the_history_is_compared(
    own_mysql: OwnMysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The binlog was begun anew with as many transactions, and MySQL is slow to send the first event of the dump."""
    mysql = own_mysql()
    mysql.execute(*SHOP)
    receive, sends = DumpReader._receive, asyncio.Event()

    def late(self: DumpReader) -> bool:
        if sends.is_set():
            return receive(self)
        self._lag.drained += 1  # as where nothing has arrived
        self._loop.call_later(0.02, self._on_readable)
        return False

    async def scenario() -> None:
        async with proxy_beside(mysql, "shop", tmp_path, snapshot="5m") as proxy:
            await held_keys(proxy, 1)
        ((executed,),) = mysql.execute("SELECT @@GLOBAL.gtid_executed")
        last = int(executed.rpartition(":")[2].rpartition("-")[2])
        mysql.execute("RESET BINARY LOGS AND GTIDS", *["UPDATE shop.t SET v = v + 100"] * last)
        ((now,),) = mysql.execute("SELECT @@GLOBAL.gtid_executed")
        assert now == executed
        ((wanted,),) = mysql.execute("SELECT v FROM shop.t WHERE id = 1")
        monkeypatch.setattr(DumpReader, "_receive", late)
        async with proxy_beside(mysql, "shop", tmp_path, snapshot="5m") as proxy:
            await proxy.app.restart.restored()
            assert proxy.app.catalog.get("by_id").info().keys == 1
            began = monotonic()
            while monotonic() < began + 0.5:
                assert await values(proxy, 1) == [wanted]
            sends.set()
            await until(lambda: not proxy.app.router.reads.closed)
            assert await values(proxy, 1) == [wanted]

    run(scenario)


class OfOurs(Exception):
    """A fault that is planted."""


def broken(*arguments: object, **rest: object) -> NoReturn:
    raise OfOurs


def test_a_fault_while_it_is_held_again_empties_it(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        await held_once(mysql, database, tmp_path)
        held_some, left = Restoring.hold, [3]

        def breaks(self: Restoring, *arguments: Any, **rest: Any) -> None:
            held_some(self, *arguments, **rest)
            left[0] -= 1
            if not left[0]:
                raise OfOurs

        with monkeypatch.context() as patched, capture_logs() as logs:
            noticed = noticing(patched, OF_RESTARTS)
            patched.setattr(Restoring, "hold", breaks)
            async with restarted(mysql, database, tmp_path) as proxy:
                assert not any(held(proxy).values())
                await fill(proxy, "by_id", FillBy.DIRECT, KEYS["by_id"])
                await check_all(proxy)
                patched.setattr(Keeping, "blocks", broken)
        assert noticed == OF_RESTARTS, "and the end came to its end"
        assert any(line["event"] == "rest_of_snapshot_dropped" for line in logs)

    run(scenario)
