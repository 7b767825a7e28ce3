"""Connections that end, servers that restart, history that is lost: nothing is lost silently, nothing comes twice."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

import pytest
import uvloop

from gtid_tracker.gtid import GtidSet
from integration.servers.private_mysql import Server
from integration.stream.stream_support import Collected, Stream, follow
from sqltypes.errors import ConfigError, SourceDown, SourceError
from vstream.binlog.connection import Account
from vstream.binlog.source import BinlogSource

OwnMySQL = Callable[..., Server]
_DUMPS = "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump GTID' AND USER = '{}'"


def numbers(events: Collected, table: str) -> list[int]:
    return [int(str(after[0])) for after in events.inserted(table) if after is not None]


async def until_connected(stream: Stream) -> None:
    async with asyncio.timeout(60):
        while not stream.source.connected:
            await _a_moment()


async def _a_moment() -> None:
    """A state that no event announces is looked at again after this."""
    loop = asyncio.get_running_loop()
    turned = loop.create_future()
    loop.call_later(0.02, turned.set_result, None)
    await turned


def own_user(mysql: Server, database: str) -> Account:
    user = f"u{abs(hash(database)) % 10**9}"
    mysql.execute(
        f"CREATE USER '{user}'@'%' IDENTIFIED BY 'secret'",
        f"GRANT REPLICATION SLAVE ON *.* TO '{user}'@'%'",
    )
    return Account(mysql.host, mysql.port, user, "secret")


def test_killed_dumps_lose_and_repeat_nothing(mysql: Server, database: str) -> None:
    async def body() -> None:
        account = own_user(mysql, database)
        source = BinlogSource(account, heartbeat=0.5, chance=lambda: 0.1)
        events = Collected()
        await source.start(events)
        stream = Stream(mysql, source, events)
        stream.want(database, "t")
        for first in range(0, 500, 100):
            inserts = [f"INSERT INTO `{database}`.t VALUES ({n})" for n in range(first, first + 100)]
            writing = asyncio.create_task(stream.execute(*inserts))
            await until_connected(stream)
            for row in await asyncio.to_thread(mysql.execute, _DUMPS.format(account.user)):
                await stream.execute(f"KILL {row[0]}")
            await writing
        await stream.caught_up()
        await source.close()
        assert numbers(events, f"{database}.t") == list(range(500))
        assert source.pauses.count > 0
        assert not events.gaps
        mysql.execute(f"DROP USER '{account.user}'@'%'")

    mysql.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)")
    asyncio.run(body())


def test_tls_and_uvloop_and_a_minimal_user(mysql: Server, database: str) -> None:
    async def body() -> None:
        account = own_user(mysql, database)
        mysql.execute(f"ALTER USER '{account.user}'@'%' REQUIRE SSL")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        source = BinlogSource(Account(account.host, account.port, account.user, "secret", {"ssl": context}))
        events = Collected()
        await source.start(events)
        stream = Stream(mysql, source, events)
        stream.want(database, "t")
        rows = ", ".join(f"({n})" for n in range(50_000))
        await stream.execute(f"INSERT INTO `{database}`.t VALUES {rows}")
        await stream.caught_up()
        await source.close()
        assert numbers(events, f"{database}.t") == list(range(50_000))
        mysql.execute(f"DROP USER '{account.user}'@'%'")

    mysql.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(body())


def test_a_server_that_restarts_is_followed_on(own_mysql: OwnMySQL) -> None:
    async def body(server: Server) -> None:
        async with follow(server) as stream:
            stream.want("d", "t")
            await stream.execute("INSERT INTO d.t VALUES (1)")
            await stream.caught_up()
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await stream.execute("INSERT INTO d.t VALUES (2)")
            await stream.caught_up()
            await asyncio.to_thread(server.restart)
            await stream.execute("INSERT INTO d.t VALUES (3)")
            await stream.caught_up()
            assert numbers(stream.events, "d.t") == [1, 2, 3]
            assert not stream.events.gaps

    server = own_mysql("--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1")
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    asyncio.run(body(server))


def test_purged_binlogs_are_a_gap_and_the_stream_goes_on(own_mysql: OwnMySQL) -> None:
    async def body(server: Server) -> None:
        (row,) = server.execute("SELECT @@global.gtid_executed")
        before = GtidSet.parse(str(row[0]))
        server.execute("INSERT INTO d.t VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO d.t VALUES (2)")
        server.execute("FLUSH BINARY LOGS")
        (*_, newest) = server.execute("SHOW BINARY LOGS")
        server.execute(f"PURGE BINARY LOGS TO '{newest[0]}'")
        async with follow(server, before) as stream:
            stream.want("d", "t")
            await stream.events.until(lambda: bool(stream.events.gaps))
            await stream.execute("INSERT INTO d.t VALUES (3)")
            await stream.caught_up()
            (gap,) = stream.events.gaps
            assert "purged" in gap.reason
            assert numbers(stream.events, "d.t") == [3]

    server = own_mysql()
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    asyncio.run(body(server))


def test_a_server_that_forgot_its_history_is_a_gap(own_mysql: OwnMySQL) -> None:
    async def body(server: Server) -> None:
        async with follow(server) as stream:
            stream.want("d", "t")
            await stream.execute("INSERT INTO d.t VALUES (1)")
            await stream.caught_up()
            await stream.execute("RESET BINARY LOGS AND GTIDS", "INSERT INTO d.t VALUES (2)")
            rows = await asyncio.to_thread(server.execute, _DUMPS.format("root"))
            for row in rows:
                await stream.execute(f"KILL {row[0]}")
            await stream.events.until(lambda: bool(stream.events.gaps))
            await stream.execute("INSERT INTO d.t VALUES (3)")
            await stream.caught_up()
            assert "lost transactions" in stream.events.gaps[0].reason
            assert numbers(stream.events, "d.t")[-1] == 3

    server = own_mysql()
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    asyncio.run(body(server))


def test_a_source_that_cannot_be_followed_says_why(mysql: Server, own_mysql: OwnMySQL) -> None:
    async def start(account: Account) -> None:
        source = BinlogSource(account)
        try:
            await source.start(Collected())
        finally:
            await source.close()

    with pytest.raises(SourceError, match="Access denied"):
        asyncio.run(start(Account(mysql.host, mysql.port, "nobody_at_all", "x")))
    with pytest.raises(SourceDown):
        asyncio.run(start(Account(mysql.host, 1, "root")))
    without = own_mysql("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")
    with pytest.raises(ConfigError, match="gtid_mode"):
        asyncio.run(start(Account(without.host, without.port, without.user, without.password or "")))


def test_an_idle_source_has_no_lag(mysql: Server, database: str) -> None:
    async def body() -> None:
        async with follow(mysql) as stream:
            stream.want(database, "t")
            await stream.execute(f"INSERT INTO `{database}`.t VALUES (1)")
            await stream.caught_up()
            assert 0 <= stream.source.lag() < 5
            async with asyncio.timeout(60):
                while stream.source.lag() != 0.0:
                    await _a_moment()

    mysql.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)")
    asyncio.run(body())
