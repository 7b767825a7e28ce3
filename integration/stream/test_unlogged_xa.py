"""MySQL 9.7 writes nothing to its binlog where a prepared XA transaction is committed with ONE PHASE: its rows are seen
all the same, whoever commits it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import run
from integration.support.mysql_clients import connected
from integration.support.mysql_shop import BY_ID, shop
from proxy.source.mysql import MysqlSource

PREPARED = ("XA START 'x'", "UPDATE item SET n = 99 WHERE id = 1", "XA END 'x'", "XA PREPARE 'x'")
ONE_PHASE = "XA COMMIT 'x' ONE PHASE"
LIMIT = 60  # seconds


@pytest.fixture
def server(own_mysql: object) -> Server:
    assert callable(own_mysql)
    found = own_mysql()
    assert isinstance(found, Server)
    found.execute("CREATE DATABASE d", "CREATE USER proxy@'%'", "GRANT ALL ON *.* TO proxy@'%' WITH GRANT OPTION")
    return found


def test_by_a_session_of_the_proxy(server: Server, tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = server.url.replace("root@", "proxy@")
        async with shop(server, "d", tmp_path, upstream=upstream) as (proxy, asker):
            await asker.ask(BY_ID, 1)
            writer = await connected(proxy)
            for statement in PREPARED:
                await writer.ask(statement)
            await proxy.caught_up()
            assert await asker.served(BY_ID, 1) == "hit", "a prepared transaction shows nothing yet"
            await writer.ask(ONE_PHASE)
            assert await asker.ask(BY_ID, 1) == ((1, 99, "item 1"),), "at once"
            resets = proxy.app.router.status().counters["unlogged_writes"]
            for statement in (*PREPARED[:3], ONE_PHASE):
                await writer.ask(statement)
            assert proxy.app.router.status().counters["unlogged_writes"] == resets, "this one is in the binlog"
            await writer.close()

    run(scenario)


@pytest.mark.parametrize("may_look", [True, False], ids=["with XA_RECOVER_ADMIN", "without it"])
@pytest.mark.parametrize("end", [ONE_PHASE, "XA COMMIT 'x'", "XA ROLLBACK 'x'"])
def test_beside_the_proxy(server: Server, tmp_path: Path, may_look: bool, end: str) -> None:
    """Without the right to see which are prepared, nothing that one has changed is held while it may have ended."""

    async def scenario() -> None:
        upstream = server.url.replace("root@", "proxy@")
        async with shop(server, "d", tmp_path, upstream=upstream) as (proxy, asker):
            if not may_look:
                server.execute("REVOKE XA_RECOVER_ADMIN ON *.* FROM proxy@'%'")
            await asker.ask(BY_ID, 1)
            server.execute("USE d", *PREPARED)
            await proxy.caught_up()
            assert await asker.served(BY_ID, 1) == "hit"
            server.execute(end)
            wanted = ((1, 10 if "ROLLBACK" in end else 99, "item 1"),)
            ended = asyncio.get_running_loop().time() + LIMIT
            while await asker.ask(BY_ID, 1) != wanted or await asker.served(BY_ID, 1) != "hit":
                assert asyncio.get_running_loop().time() < ended
            if end == ONE_PHASE and may_look:
                assert not proxy.binlog.xa.xids, "it is known to be over"

    run(scenario)


def test_prepared_before_the_proxy_began(server: Server, tmp_path: Path) -> None:
    async def scenario() -> None:
        server.execute(
            "USE d", "CREATE TABLE before_it (id INT PRIMARY KEY, n INT)", "INSERT INTO before_it VALUES (1, 1)"
        )
        server.execute("USE d", *(text.replace("item", "before_it") for text in PREPARED))
        upstream = server.url.replace("root@", "proxy@")
        async with shop(server, "d", tmp_path, upstream=upstream) as (proxy, asker):
            query = "SELECT n FROM before_it WHERE id = %s"
            await asker.ask("CREATE CACHE before_it FROM SELECT n FROM before_it WHERE id = ?")
            await asker.until_hit(query, 1)
            source = proxy.app.source
            assert isinstance(source, MysqlSource)
            while not source.prepared.strangers:
                await asker.ask("DO 0")
            assert await asker.ask(query, 1) == ((1,),)
            server.execute(ONE_PHASE)
            ended = asyncio.get_running_loop().time() + LIMIT
            while await asker.ask(query, 1) != ((99,),) or await asker.served(query, 1) != "hit":
                assert asyncio.get_running_loop().time() < ended

    run(scenario)
