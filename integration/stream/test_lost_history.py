"""Whatever becomes of the source's history, Upwell shows the source's data again in some seconds, and follows it."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest
import structlog

from gtid_tracker.gtid import GtidSet
from integration.conftest import OwnMySQL
from integration.servers.mysql_server import PrivateMySQL, Server, free_port
from integration.support.grpc_app import Proxy, proxy_beside, run
from proxy.source import history_watch, reset_watch
from tests.support.waiting import until
from vstream.binlog.connection import Account, Session, log_in

SHOP = "shop"
UPDATE = "UPDATE t SET v = v + 1 WHERE id = 1"
OTHER = "UPDATE t SET v = v + 1 WHERE id = 2"
RESET = "RESET BINARY LOGS AND GTIDS"
MASTER = "RESET MASTER"  # before 8.4
GTIDS = "SET GLOBAL gtid_mode = ON"
WITHIN = 60.0  # seconds in which it must be right again, on a machine that does ten other things


@dataclass
class Scene:
    """A cache that holds keys 1 and 2, and is asked for nothing else."""

    mysql: Server
    proxy: Proxy

    async def write(self, *statements: str) -> None:
        await self.proxy.write(*statements)

    async def held(self) -> None:
        for key in (1, 2):
            while (await self.proxy.client.cache("by_id").get(key)).served != "hit":
                pass

    async def shows(self, key: int) -> object:
        """A hit, or whatever is answered."""
        try:
            return (await self.proxy.client.cache("by_id").get(key, timeout=5))[0][0]
        except Exception:  # noqa: BLE001 - the source is away
            return None

    async def is_right(self) -> None:
        """Key 1 is shown as MySQL has it. Nothing but reads of held keys happens meanwhile."""
        ((v,),) = await asyncio.to_thread(self.mysql.execute, f"SELECT v FROM {SHOP}.t WHERE id = 1")

        async def right() -> bool:
            return bool(await self.shows(1) == v)

        await until(right, WITHIN)

    async def goes_on(self) -> None:
        """Later changes are shown, too, and keys are held again."""
        for _ in range(3):
            await self.write(UPDATE)
            await self.is_right()
        async with asyncio.timeout(WITHIN):
            await self.held()

    async def reset(self, *statements: str) -> None:
        try:
            await self.write(RESET, *statements)
        except Exception:  # noqa: BLE001 - an older server's word for it
            await self.write(MASTER, *statements)

    async def stopped(self, meanwhile: Callable[[PrivateMySQL], None]) -> None:
        assert isinstance(self.mysql, PrivateMySQL)
        await asyncio.to_thread(self.mysql.halt_at_once)
        await asyncio.to_thread(meanwhile, self.mysql)
        await asyncio.to_thread(self.mysql.start)


# -- what can happen ---------------------------------------------------------------------------------------------------


async def reset_and_one_change(scene: Scene) -> None:
    await scene.reset(UPDATE)


async def reset_and_as_many_changes(scene: Scene) -> None:
    """In no time there are more transactions than before; the stream's own file has more bytes."""
    await scene.reset(*[OTHER] * 40, UPDATE)


async def reset_and_fewer_bytes(scene: Scene) -> None:
    """As many GTIDs, in a shorter file: the old stream sees nothing at all."""
    await scene.write("INSERT INTO t SELECT id + 100, v FROM t", *["UPDATE t SET v = v + 1 WHERE id > 50"] * 3)
    await scene.held()
    ((executed,),) = await asyncio.to_thread(scene.mysql.execute, "SELECT @@GLOBAL.gtid_executed")
    last = int(executed.rpartition("-")[2])
    await scene.reset(*["CREATE TABLE IF NOT EXISTS t (id INT)"] * last, UPDATE)


async def reset_and_exactly_as_many_changes(scene: Scene) -> None:
    """The sets of GTIDs are equal again before anybody has looked."""
    ((executed,),) = await asyncio.to_thread(scene.mysql.execute, "SELECT @@GLOBAL.gtid_executed")
    last = int(executed.rpartition(":")[2].rpartition("-")[2])
    await scene.reset(*[OTHER] * (last - 1), UPDATE)


async def without_a_gtid(scene: Scene) -> None:
    await scene.write(
        "SET GLOBAL gtid_mode = ON_PERMISSIVE", "SET gtid_next = ANONYMOUS", UPDATE, "SET gtid_next = AUTOMATIC", GTIDS
    )


async def without_gtids_for_a_while(scene: Scene) -> None:
    back = ("SET GLOBAL gtid_mode = ON_PERMISSIVE", GTIDS)
    await scene.write("SET GLOBAL gtid_mode = ON_PERMISSIVE", "SET GLOBAL gtid_mode = OFF_PERMISSIVE", UPDATE, *back)


async def without_a_gtid_while_the_stream_is_away(scene: Scene) -> None:
    """The binlog that a new connection would begin with has nothing of it."""
    written = threading.Event()

    def late(account: Account) -> Session:
        written.wait()
        return log_in(account)

    with patch("vstream.binlog.connection.log_in", late):
        scene.proxy.binlog.reconnect("the network failed")
        try:
            await without_a_gtid(scene)
        finally:
            written.set()
        await until(lambda: scene.proxy.binlog.connected)


async def reset_and_gtids_set_by_hand(scene: Scene) -> None:
    ((executed,),) = await asyncio.to_thread(scene.mysql.execute, "SELECT @@GLOBAL.gtid_executed")
    await scene.reset(f"SET GLOBAL gtid_purged = '{executed}'", UPDATE)


async def gtids_executed_by_hand(scene: Scene) -> None:
    """A dump was loaded beside the binlog, as `mysqldump --set-gtid-purged` has it."""
    await scene.write(
        "SET sql_log_bin = 0", UPDATE, "SET GLOBAL gtid_purged = '+11111111-2222-3333-4444-555555555555:1-7'"
    )


def an_older_copy(changes: tuple[str, ...]) -> Callable[[Scene], Awaitable[None]]:
    """The server comes back with an older copy of its data, and with as many transactions as it had."""

    async def happens(scene: Scene) -> None:
        mysql = scene.mysql
        assert isinstance(mysql, PrivateMySQL)
        copy = mysql.folder.with_name(mysql.folder.name + "-copy")

        def take_copy(server: PrivateMySQL) -> None:
            shutil.copytree(server.folder / "data", copy)

        def put_copy(server: PrivateMySQL) -> None:
            shutil.rmtree(server.folder / "data")
            shutil.copytree(copy, server.folder / "data")
            shutil.rmtree(copy)
            port, server.port = server.port, free_port()  # where the proxy does not see it
            server.start()
            server.execute(f"USE {SHOP}", *changes)
            server.halt_at_once()
            server.port = port

        await scene.stopped(take_copy)
        await scene.write(*[UPDATE] * len(changes))
        await scene.is_right()
        await scene.held()
        await scene.stopped(put_copy)

    happens.__name__ = f"an_older_copy_with_{len(changes)}_changes"
    return happens


async def rows_in_part(scene: Scene) -> None:
    await scene.write("SET GLOBAL binlog_row_image = MINIMAL", "SET SESSION binlog_row_image = MINIMAL", UPDATE)


async def rows_without_names(scene: Scene) -> None:
    await scene.write("SET GLOBAL binlog_row_metadata = MINIMAL", UPDATE)


async def statements_for_rows(scene: Scene) -> None:
    await scene.write("SET SESSION binlog_format = STATEMENT", UPDATE)


async def binlogs_purged(scene: Scene) -> None:
    """Also the one that has the last transaction: nothing is lost, but that cannot be seen."""
    await scene.write("FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")
    scene.proxy.app.stream.reconnect("the network failed")
    await scene.write(UPDATE)


async def the_clock_went_back(scene: Scene) -> None:
    await scene.write("SET TIMESTAMP = 1000000000", UPDATE)
    scene.proxy.app.stream.reconnect("the network failed")
    await scene.write("SET TIMESTAMP = 900000000", UPDATE)


HAPPENINGS = (
    reset_and_one_change,
    reset_and_as_many_changes,
    reset_and_fewer_bytes,
    reset_and_exactly_as_many_changes,
    reset_and_gtids_set_by_hand,
    without_a_gtid,
    without_gtids_for_a_while,
    without_a_gtid_while_the_stream_is_away,
    gtids_executed_by_hand,
    an_older_copy((OTHER, OTHER)),
    an_older_copy((OTHER, OTHER, OTHER, OTHER, OTHER, UPDATE)),
    rows_in_part,
    rows_without_names,
    statements_for_rows,
    binlogs_purged,
    the_clock_went_back,
)


ANY = {rows_in_part, rows_without_names, statements_for_rows, the_clock_went_back}  # whatever was read before


@pytest.mark.parametrize(
    ("happening", "seen"),
    [(happening, seen) for happening in HAPPENINGS for seen in (True, False) if seen or happening not in ANY],
    ids=lambda item: {True: "after transactions", False: "after none"}.get(item) or item.__name__,
)
def test_whatever_becomes_of_the_history_hits_are_right_again(
    own_mysql: OwnMySQL,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    happening: Callable[[Scene], Awaitable[None]],
    seen: bool,
) -> None:
    """`seen`: the stream has brought transactions since the proxy began, so that the last can be compared. What is
    compared now and then is compared ten times as often, but in one case."""
    if happening is not reset_and_fewer_bytes or seen:
        for watch in (history_watch, reset_watch):
            monkeypatch.setattr(watch, "EVERY", watch.EVERY / 10)
        monkeypatch.setattr(history_watch, "PATIENCE", history_watch.PATIENCE / 10)
    mysql = own_mysql()
    mysql.execute(
        f"CREATE DATABASE {SHOP}",
        f"CREATE TABLE {SHOP}.t (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO {SHOP}.t VALUES (1, 10), (2, 20)",
    )

    async def scenario() -> None:
        async with proxy_beside(mysql, SHOP, tmp_path) as proxy:
            await proxy.client.create_cache("SELECT v FROM t WHERE id = ?", name="by_id", database=SHOP)
            scene = Scene(mysql, proxy)
            if seen:
                await scene.write(UPDATE, OTHER)
                await proxy.caught_up()
            await scene.held()
            await happening(scene)
            await scene.is_right()
            await scene.goes_on()

    run(scenario)


@pytest.mark.parametrize("seen", [True, False], ids=["after transactions", "after none"])
def test_a_server_that_comes_back_as_it_was_loses_nothing(own_mysql: OwnMySQL, tmp_path: Path, seen: bool) -> None:
    """What is held stays, and is told from memory while the server is away. `seen`: as above."""
    mysql = own_mysql()
    assert isinstance(mysql, PrivateMySQL)
    mysql.execute(f"CREATE DATABASE {SHOP}", f"CREATE TABLE {SHOP}.t (id INT PRIMARY KEY, v INT)")
    mysql.execute(f"INSERT INTO {SHOP}.t VALUES (1, 10), (2, 20)")

    async def scenario() -> None:
        async with proxy_beside(mysql, SHOP, tmp_path) as proxy:
            await proxy.client.create_cache("SELECT v FROM t WHERE id = ?", name="by_id", database=SHOP)
            scene = Scene(mysql, proxy)
            if seen:
                await scene.write(UPDATE)
                await proxy.caught_up()
            await scene.held()

            async def up_for_seconds() -> bool:
                return int((await asyncio.to_thread(mysql.execute, "SHOW GLOBAL STATUS LIKE 'Uptime'"))[0][1]) >= 3

            await until(up_for_seconds)  # two starts are told apart by their seconds
            await asyncio.to_thread(mysql.halt_at_once)
            await asyncio.to_thread(mysql.start)
            await scene.goes_on()
            counters = (await proxy.client.status()).counters
            assert (counters["resets"], counters["restarts_of_source"]) == (0, 1)

    run(scenario)


def test_a_doubt_that_comes_while_the_stream_logs_in_is_not_forgotten(
    own_mysql: OwnMySQL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mysql = own_mysql()
    mysql.execute(f"CREATE DATABASE {SHOP}")
    asked, doubted = threading.Event(), threading.Event()
    request_dump = Session.request_dump

    def held_up(session: Session, position: GtidSet, server_id: int, heartbeat: float) -> None:
        request_dump(session, position, server_id, heartbeat)
        asked.set()
        doubted.wait()

    async def scenario() -> None:
        async with proxy_beside(mysql, SHOP, tmp_path) as proxy:
            stream = proxy.binlog
            monkeypatch.setattr(Session, "request_dump", held_up)
            stream.reconnect("the first doubt")
            await asyncio.to_thread(asked.wait)
            first = stream.pauses.count
            stream.reconnect("a later doubt")
            doubted.set()
            await until(lambda: stream.pauses.count != first and stream.connected)

    run(scenario, seconds=60)


def test_a_refused_stream_is_said_once_and_asked_for_less_and_less_often(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    mysql = own_mysql()
    mysql.execute(
        f"CREATE DATABASE {SHOP}",
        f"CREATE TABLE {SHOP}.t (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO {SHOP}.t VALUES (1, 10), (2, 20)",
        "CREATE USER reader@localhost IDENTIFIED BY ''",
        "GRANT SELECT, REPLICATION SLAVE ON *.* TO reader@localhost",
    )

    async def scenario() -> None:
        async with proxy_beside(mysql, SHOP, tmp_path, upstream=f"mysql://reader@127.0.0.1:{mysql.port}") as proxy:
            await proxy.client.create_cache("SELECT v FROM t WHERE id = ?", name="by_id", database=SHOP)
            scene, stream = Scene(mysql, proxy), proxy.binlog
            await scene.held()
            await scene.write("REVOKE REPLICATION SLAVE ON *.* FROM reader@localhost")
            first, began = stream.pauses.count, asyncio.get_running_loop().time()
            stream.reconnect("the network failed")
            await until(lambda: "REPLICATION SLAVE" in proxy.app.system.not_ready())
            await until(lambda: stream.pauses.count >= first + 4)  # three pauses between, whatever else takes time
            assert asyncio.get_running_loop().time() - began > 0.5 * (0.2 + 0.4 + 0.8) * 0.9
            await scene.write("GRANT REPLICATION SLAVE ON *.* TO reader@localhost")
            await until(lambda: not proxy.app.system.not_ready())
            await scene.goes_on()

    with structlog.testing.capture_logs() as logged:
        run(scenario)
    assert [line["log_level"] for line in logged if "refuses" in line["event"]] == ["warning"]


def test_a_server_that_comes_back_with_other_settings_is_planned_for_anew(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    """Rows that foreign keys change are in its binlog no more."""
    mysql = own_mysql("--innodb-native-foreign-keys=OFF")
    assert isinstance(mysql, PrivateMySQL)
    mysql.execute(
        f"CREATE DATABASE {SHOP}",
        f"CREATE TABLE {SHOP}.parent (id INT PRIMARY KEY)",
        f"CREATE TABLE {SHOP}.t (id INT PRIMARY KEY, v INT, FOREIGN KEY (v) REFERENCES parent (id) ON DELETE CASCADE)",
        f"INSERT INTO {SHOP}.parent VALUES (10), (20)",
        f"INSERT INTO {SHOP}.t VALUES (1, 10), (2, 20)",
    )

    async def scenario() -> None:
        async with proxy_beside(mysql, SHOP, tmp_path) as proxy:
            await proxy.client.create_cache("SELECT v FROM t WHERE id = ?", name="by_id", database=SHOP)
            cache = proxy.client.cache("by_id")
            await proxy.write(f"INSERT INTO {SHOP}.parent VALUES (30)")
            await proxy.caught_up()
            while (await cache.get(2)).served != "hit":
                pass
            await asyncio.to_thread(mysql.halt_at_once)
            flags = mysql.flags
            mysql.flags = (*flags, "--innodb-native-foreign-keys=ON")
            await asyncio.to_thread(mysql.start)
            mysql.flags = flags
            mysql.execute(f"DELETE FROM {SHOP}.parent WHERE id = 20")
            await proxy.caught_up()
            for _ in range(3):
                assert list(await cache.get(2)) == []
            while (await cache.get(1)).served != "hit":
                pass
            await proxy.write(f"DELETE FROM {SHOP}.parent WHERE id = 10")
            await proxy.caught_up()
            assert list(await cache.get(1)) == []

    run(scenario)
