"""The common work of an asyncio driver. `python -m integration.clients.asyncio.work asyncmy` or `aiomysql`."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from integration.clients.asyncio.frame import (
    ADDRESS,
    CAN,
    MODULE,
    MULTI_STATEMENTS,
    STEPS,
    STREAMING,
    all_of,
    connect,
    cursor_of,
    session,
    shown,
    step,
)
from integration.clients.canonical import run_steps_async
from integration.clients.statements import (
    DEFAULTS,
    ERRORS,
    EVERY_TYPE,
    HUGE,
    LONG_RUNNING,
    PARAMETERS,
    SESSIONS,
    UNICODE,
    VALUES,
)

# -- connecting --------------------------------------------------------------------------------------------------------


async def greeted(tls: bool) -> object:
    async with session(tls=tls) as (_, cursor):
        ((_, cipher),) = await all_of(cursor, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        return {"tls": bool(cipher), "as": await all_of(cursor, "SELECT CURRENT_USER(), DATABASE()")}


@step()
async def connect_plain_to_a_server_that_has_not_seen_the_password() -> object:
    return await greeted(tls=False)


@step()
async def connect_with_tls() -> object:
    return await greeted(tls=True)


@step()
async def connect_with_a_wrong_password() -> object:
    return await shown(connect(password="wrong"))


@step()
async def settings_of_a_new_session() -> object:
    async with session() as (_, cursor):
        return dict(await all_of(cursor, DEFAULTS))


@step()
async def a_pool_of_connections() -> object:
    it = ADDRESS
    usual = {"host": it.host, "port": it.port, "user": it.user, "password": it.password, "db": it.data}
    async with MODULE.create_pool(minsize=1, maxsize=4, **usual) as pool:

        async def one(number: int) -> object:
            async with pool.acquire() as connection:
                cursor = await cursor_of(connection)
                return await all_of(cursor, "SELECT name FROM author WHERE id = %s", (number,))

        return await asyncio.gather(*(one(number) for number in range(1, 13)))


# -- values ------------------------------------------------------------------------------------------------------------


@step()
async def every_type_in_text() -> object:
    async with session() as (_, cursor):
        rows = await all_of(cursor, EVERY_TYPE.format(data=ADDRESS.data))
        return {"columns": [list(column) for column in cursor.description], "rows": rows}


@step("prepared")
async def every_type_prepared() -> object:
    async with session() as (connection, _):
        statement = await connection.prepare(f"SELECT * FROM {ADDRESS.data}.every_type WHERE id >= ? ORDER BY id")
        result = await statement.execute((1,))
        await statement.close()
        return {"columns": [list(column) for column in result.description], "rows": result.rows}


@step("prepared")
async def statements_prepared_by_the_cursor_itself() -> object:
    async with session(stmt_cache_size=10) as (_, cursor):
        sql = f"SELECT a_text FROM {ADDRESS.data}.every_type WHERE id = %s"
        return [await all_of(cursor, sql, (number,)) for number in (1, 4)]


def sendable(values: tuple[object, ...]) -> tuple[object, ...]:
    return values if "bytes" in CAN else tuple(None if isinstance(value, bytes) else value for value in values)


async def sent_and_read(**special: Any) -> object:
    async with session(**special) as (_, cursor):
        await cursor.execute("CREATE TABLE sent (" + ", ".join(PARAMETERS) + ")")
        insert = "INSERT INTO sent VALUES (" + ", ".join(["%s"] * len(PARAMETERS)) + ")"
        sent = [await shown(cursor.execute(insert, sendable(values))) for values in VALUES]
        rows = await all_of(cursor, "SELECT * FROM sent ORDER BY id")
        found = [await all_of(cursor, "SELECT id FROM sent WHERE a_text = %s", (values[5],)) for values in VALUES]
        await cursor.execute("DROP TABLE sent")
        return {"sent": sent, "rows": rows, "found": found}


@step()
async def parameters_in_text() -> object:
    return await sent_and_read()


@step("prepared")
async def parameters_prepared() -> object:
    return await sent_and_read(stmt_cache_size=10)


@step()
async def unicode() -> object:
    async with session() as (_, cursor):
        await cursor.execute("CREATE TABLE `größe 🐬` (`имя` VARCHAR(40) PRIMARY KEY)")
        await cursor.executemany("INSERT INTO `größe 🐬` VALUES (%s)", [(text,) for text in UNICODE])
        rows = await all_of(cursor, "SELECT `имя` AS `длина`, HEX(`имя`) FROM `größe 🐬` ORDER BY `имя`")
        names = [column[0] for column in cursor.description]
        await cursor.execute("DROP TABLE `größe 🐬`")
        return {"names": names, "rows": rows}


# -- transactions and writes -------------------------------------------------------------------------------------------


@step()
async def transactions() -> object:
    async with session() as (connection, cursor), session() as (other, watcher):
        await cursor.execute("CREATE TABLE account (id INT PRIMARY KEY, balance INT)")

        async def seen() -> object:
            await other.rollback()  # a new view of what is committed
            return [await all_of(one, "SELECT * FROM account ORDER BY id") for one in (cursor, watcher)]

        outcome: dict[str, object] = {"autocommit": await all_of(cursor, "SELECT @@autocommit")}
        await connection.begin()
        await cursor.execute("INSERT INTO account VALUES (1, 10)")
        outcome["before commit"] = await seen()
        await connection.commit()
        outcome["after commit"] = await seen()
        await cursor.execute("UPDATE account SET balance = 11 WHERE id = 1")
        await connection.rollback()
        outcome["after rollback"] = await seen()
        await cursor.execute("INSERT INTO account VALUES (2, 20)")
        await cursor.execute("SAVEPOINT middle")
        await cursor.execute("INSERT INTO account VALUES (3, 30)")
        await cursor.execute("ROLLBACK TO SAVEPOINT middle")
        await connection.commit()
        outcome["after savepoint"] = await seen()
        await connection.autocommit(True)
        await cursor.execute("UPDATE account SET balance = balance + 1")
        outcome["with autocommit"] = [cursor.rowcount, cursor.lastrowid, await seen()]
        await other.rollback()
        await cursor.execute("DROP TABLE account")
        return outcome


@step()
async def ids_and_counts_of_writes() -> object:
    async with session() as (_, cursor):
        await cursor.execute("CREATE TABLE counted (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(10))")
        outcome: list[object] = []
        for sql in (
            "INSERT INTO counted (name) VALUES ('a')",
            "INSERT INTO counted (name) VALUES ('b'), ('c')",
            "UPDATE counted SET name = 'b' WHERE id <= 2",
            "DELETE FROM counted WHERE id = 3",
        ):
            await cursor.execute(sql)
            outcome.append([sql, cursor.rowcount, cursor.lastrowid])
        await cursor.execute("DROP TABLE counted")
        return outcome


# -- big, and several results ------------------------------------------------------------------------------------------


@step()
async def a_hundred_thousand_rows_streamed() -> object:
    async with session() as (connection, _):
        cursor = await cursor_of(connection, STREAMING)
        await cursor.execute(f"SELECT n, label FROM {ADDRESS.data}.number ORDER BY n")
        rows = total = 0
        while part := await cursor.fetchmany(1000):
            rows += len(part)
            total += sum(row[0] for row in part)
        await cursor.close()
        return {"rows": rows, "sum": total}


@step()
async def a_value_of_twenty_megabytes() -> object:
    text = "0123456789abcdef" * (len(HUGE) // 16)
    async with session() as (_, cursor):
        await cursor.execute("CREATE TABLE huge (id INT PRIMARY KEY, value LONGTEXT)")
        await cursor.execute("INSERT INTO huge VALUES (%s, %s)", (1, text))
        outcome: dict[str, object] = {"there": await all_of(cursor, "SELECT LENGTH(value), CRC32(value) FROM huge")}
        if "huge_reads" in CAN:
            ((value,),) = await all_of(cursor, "SELECT value FROM huge")
            outcome["same"] = value == text
        await cursor.execute("DROP TABLE huge")
        return outcome


@step()
async def several_statements_at_once() -> object:
    async with session(client_flag=MULTI_STATEMENTS) as (_, cursor):
        results: list[object] = []
        await cursor.execute(
            "SELECT 1, 'ü;'; CREATE TEMPORARY TABLE multi (id INT); INSERT INTO multi VALUES (1), (2);"
            " SELECT * FROM multi"
        )
        while True:
            results.append([await cursor.fetchall(), cursor.rowcount] if cursor.description else cursor.rowcount)
            if not await cursor.nextset():
                return results


@step()
async def procedure_with_two_results() -> object:
    async with session(db=ADDRESS.data) as (_, cursor):
        results: list[object] = [await cursor.callproc("two_results", (2, 0, 4))]
        while True:
            results.append(await cursor.fetchall() if cursor.description else cursor.rowcount)
            if not await cursor.nextset():
                break
        return [*results, await all_of(cursor, "SELECT @_two_results_1, @_two_results_2")]


@step("local_infile")
async def a_local_file_loaded() -> object:
    async with session(local_infile=True) as (_, cursor):
        with tempfile.NamedTemporaryFile("w") as file:
            file.writelines(f"{n}\tline {n} 🐬\n" for n in range(5000))
            file.flush()
            await cursor.execute("CREATE TABLE loaded (id INT PRIMARY KEY, line VARCHAR(40)) CHARSET utf8mb4")
            sql = f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE loaded CHARACTER SET utf8mb4"
            await cursor.execute(sql)
        outcome = [cursor.rowcount, await all_of(cursor, "SELECT COUNT(*), SUM(id), MAX(line) FROM loaded")]
        await cursor.execute("DROP TABLE loaded")
        return outcome


# -- errors, warnings, and the session ---------------------------------------------------------------------------------


@step()
async def errors() -> object:
    async with session() as (_, cursor):
        await cursor.execute("CREATE TABLE taken (id INT PRIMARY KEY)")
        await cursor.execute("INSERT INTO taken VALUES (1)")
        outcome = {sql: await shown(cursor.execute(sql)) for sql in ERRORS}
        await cursor.execute("DROP TABLE taken")
        return outcome | {"after them": await all_of(cursor, "SELECT 1")}


@step()
async def warnings() -> object:
    async with session() as (_, cursor):
        await cursor.execute("CREATE TEMPORARY TABLE short (id INT, name VARCHAR(3))")
        await cursor.execute("SET SESSION sql_mode = ''")
        await cursor.execute("INSERT IGNORE INTO short VALUES (1, 'too long'), ('x', 'abc')")
        return await all_of(cursor, "SHOW WARNINGS")


@step()
async def another_database() -> object:
    async with session() as (connection, cursor):
        await connection.select_db(ADDRESS.data)
        there = await all_of(cursor, "SELECT DATABASE(), COUNT(*) FROM author")
        return [there, await shown(connection.select_db("does_not_exist")), await all_of(cursor, "SELECT DATABASE()")]


@step()
async def ping() -> object:
    async with session() as (connection, cursor):
        await connection.ping()
        return await all_of(cursor, "SELECT 1")


@step()
async def kill_query() -> object:
    async with session(db=ADDRESS.data) as (connection, cursor), session() as (_, killer):
        session_id = connection.thread_id()
        running = asyncio.ensure_future(shown(all_of(cursor, LONG_RUNNING)))
        while not await all_of(killer, SESSIONS.format(session_id) + " AND info LIKE '%%long_running%%'", (1,)):
            pass  # each try is a round trip
        await killer.execute(f"KILL QUERY {session_id}")
        return {"killed": await running, "after it": await all_of(cursor, "SELECT 1")}


@step()
async def session_killed_and_connected_again() -> object:
    async with session() as (connection, cursor), session() as (_, killer):
        session_id = connection.thread_id()
        await killer.execute(f"KILL {session_id}")
        while await all_of(killer, SESSIONS.format(session_id), (1,)):
            pass  # each try is a round trip
        lost = await shown(cursor.execute("SELECT 1"))
        await connection.ping(reconnect=True)
        again = await all_of(await cursor_of(connection), "SELECT DATABASE(), @@autocommit")
        return {"lost": lost != "no error", "again": again}


if __name__ == "__main__":
    asyncio.run(run_steps_async(STEPS))
