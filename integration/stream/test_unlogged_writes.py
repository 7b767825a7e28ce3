"""What a session writes with sql_log_bin=0 is on no change stream: Upwell sees that it is written all the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pymysql
import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import run
from integration.support.mysql_clients import connected
from integration.support.mysql_shop import BY_ID, OF_GROUP, shop

UPDATE = "UPDATE item SET n = 99 WHERE id = 1"
OFF, ON = "SET sql_log_bin = 0", "SET sql_log_bin = 1"
WAYS = {
    "autocommit": (OFF, UPDATE),
    "and back": (OFF, UPDATE, ON),
    "by another name": ("SET @@SESSION.sql_log_bin = OFF", UPDATE),
    "a transaction": (OFF, "BEGIN", UPDATE, "SELECT 1", "COMMIT"),
    "a transaction that another one ends": (OFF, "BEGIN", UPDATE, "BEGIN"),
    "a transaction that DDL ends": (OFF, "BEGIN", UPDATE, "CREATE TABLE another (id INT)", ON),
    "several in one text": (f"{OFF}; {UPDATE}; {ON}",),
    "a procedure": ("CALL quietly()",),
    "a procedure that fails": ("CALL quietly_failing()",),
    "a prepared text": (OFF, f"PREPARE p FROM '{UPDATE}'", "EXECUTE p"),
    "DDL": (OFF, "ALTER TABLE item MODIFY name VARCHAR(50)", UPDATE),
}


@pytest.mark.parametrize("then", ["asks", "quits", "goes"])
def test_a_procedure_that_fails_is_looked_into(mysql: Server, database: str, tmp_path: Path, then: str) -> None:
    """Its error tells nothing. What it has done is known once MySQL has answered its session with OK, or that is over:
    asked at once, MySQL would forget the error's warnings, about which the client may ask."""

    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await proxy.write(f"CREATE PROCEDURE quietly() BEGIN {OFF}; {UPDATE}; SELECT 1 FROM nowhere; END")
            await proxy.caught_up()
            await asker.ask(BY_ID, 1)
            assert await asker.served(BY_ID, 1) == "hit"
            writer = await connected(proxy)
            with pytest.raises(pymysql.err.ProgrammingError):
                await writer.ask("CALL quietly()")
            if then == "asks":
                assert (await writer.ask("SHOW WARNINGS"))[0][1] == 1146, "MySQL still knows of the error"
                await writer.ask("DO 0")
            elif then == "quits":
                await writer.close()
            else:
                writer.connection._force_close()  # type: ignore[attr-defined]  # without a QUIT
            limit = asyncio.get_running_loop().time() + 60
            while await asker.ask(BY_ID, 1) != ((1, 99, "item 1"),):
                assert asyncio.get_running_loop().time() < limit, "others are answered what was before"
            if then == "asks":
                await writer.close()

    run(scenario)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "ends"])
def test_what_is_written_without_a_binlog_is_seen_by_all(
    mysql: Server, database: str, tmp_path: Path, way: str, ends: bool
) -> None:
    """`ends`: of the session; the others look when it has."""

    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            for last, name in ((ON, "quietly"), ("SELECT 1 FROM nowhere", "quietly_failing")):
                await proxy.write(f"CREATE PROCEDURE {name}() BEGIN {OFF}; {UPDATE}; {last}; END")
            await proxy.caught_up()
            for sql in (BY_ID, OF_GROUP):
                await asker.ask(sql, 1)
                assert await asker.served(sql, 1) == "hit"
            writer = await connected(proxy, client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS)
            for statement in WAYS[way]:
                try:
                    await writer.ask(statement)
                except pymysql.err.ProgrammingError:
                    assert "fail" in way
            assert await writer.ask(BY_ID, 1) == ((1, 99, "item 1"),)
            if ends:
                await writer.close()
            await proxy.app.catalog.settled()
            for _ in range(2):
                assert await asker.ask(BY_ID, 1) == ((1, 99, "item 1"),)
                assert await asker.ask(OF_GROUP, 1) == await asker.ask(OF_GROUP + " /* upwell: skip */", 1)
            await proxy.write("UPDATE item SET n = 7 WHERE id = 1")
            await proxy.caught_up()
            assert await asker.ask(BY_ID, 1) == ((1, 7, "item 1"),)
            assert (await proxy.client.status()).counters["unlogged_writes"]
            if not ends:
                await writer.close()

    run(scenario)
