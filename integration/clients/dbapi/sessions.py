"""Errors, warnings, and what changes or ends a session."""

from __future__ import annotations

import contextlib
import threading

from integration.clients.canonical import Step
from integration.clients.dbapi.frame import ADDRESS, DRIVER, all_of, into, session, shown
from integration.clients.statements import ERRORS, LONG_RUNNING, SESSIONS

STEPS: list[Step] = []
step = into(STEPS)

# -- errors and warnings -----------------------------------------------------------------------------------------------


@step()
def errors() -> object:
    with session() as (_, cursor):
        cursor.execute("CREATE TABLE taken (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO taken VALUES (1)")
        outcome = {sql: shown(lambda sql=sql: cursor.execute(sql)) for sql in ERRORS}  # type: ignore[misc]
        cursor.execute("DROP TABLE taken")
        return outcome | {"after them": all_of(cursor, "SELECT 1")}


@step("prepared")
def errors_prepared() -> object:
    with session() as (connection, cursor):
        cursor.execute("CREATE TABLE taken (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO taken VALUES (1)")
        prepared = DRIVER.prepared(connection)
        outcome = {sql: shown(lambda sql=sql: prepared.execute(sql, ())) for sql in ERRORS}  # type: ignore[misc]
        cursor.execute("DROP TABLE taken")
        return outcome | {"after them": all_of(cursor, "SELECT 1")}


@step()
def warnings() -> object:
    with session() as (_, cursor):
        cursor.execute("CREATE TABLE short (id INT, name VARCHAR(3))")
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute("INSERT INTO short VALUES (1, 'too long'), ('x', 'abc')")
        counted = DRIVER.warning_count(cursor)
        warned = all_of(cursor, "SHOW WARNINGS")
        rows = all_of(cursor, "SELECT * FROM short ORDER BY id")
        cursor.execute("SELECT 1 / 0, CAST('7x' AS SIGNED)")
        cursor.fetchall()
        of_a_read = [DRIVER.warning_count(cursor), all_of(cursor, "SHOW WARNINGS")]
        cursor.execute("DROP TABLE short")
        return {"counted": counted, "warned": warned, "rows": rows, "of a read": of_a_read}


# -- the session -------------------------------------------------------------------------------------------------------


@step()
def another_database() -> object:
    with session() as (connection, cursor):
        cursor.execute(f"USE {ADDRESS.data}")
        outcome: list[object] = [all_of(cursor, "SELECT DATABASE()"), all_of(cursor, "SELECT COUNT(*) FROM author")]
        DRIVER.use(connection, ADDRESS.database)
        outcome += [all_of(cursor, "SELECT DATABASE()"), shown(lambda: cursor.execute("SELECT COUNT(*) FROM author"))]
        outcome.append(shown(lambda: DRIVER.use(connection, "does_not_exist")))
        outcome.append(all_of(cursor, f"SELECT name FROM {ADDRESS.data}.author WHERE id = 1"))
        return outcome


@step()
def ping() -> object:
    with session() as (connection, cursor):
        DRIVER.ping(connection)
        return all_of(cursor, "SELECT 1")


@step("statistics")
def statistics() -> object:
    with session() as (connection, _):
        return "ptime" in DRIVER.statistics(connection)


@step("change_user")
def change_user() -> object:
    with session() as (connection, cursor):
        cursor.execute("SET @mine = 1")
        outcome: list[object] = []
        for user, password in ((ADDRESS.guest, ADDRESS.guest_password), (ADDRESS.user, ADDRESS.password)):
            DRIVER.change_user(connection, user, password, ADDRESS.data)
            cursor = connection.cursor()
            outcome.append(all_of(cursor, "SELECT CURRENT_USER(), DATABASE(), @mine, @@autocommit"))
            outcome.append(all_of(cursor, "SELECT name FROM author WHERE id = 2"))
            outcome.append(shown(lambda now=cursor: now.execute(f"USE {ADDRESS.database}")))  # type: ignore[misc]
        outcome.append(shown(lambda: DRIVER.change_user(connection, ADDRESS.user, "wrong", ADDRESS.data)))
        return outcome


@step("reset")
def reset() -> object:
    with session() as (connection, cursor):
        cursor.execute("CREATE TEMPORARY TABLE mine (id INT)")
        cursor.execute("SET @mine = 1, SESSION group_concat_max_len = 77")
        DRIVER.reset(connection)
        cursor = connection.cursor()
        left = all_of(cursor, "SELECT @mine, @@group_concat_max_len, DATABASE(), @@autocommit")
        return {"left": left, "table": shown(lambda: cursor.execute("SELECT * FROM mine"))}


@step()
def kill_query() -> object:
    with session(database=ADDRESS.data) as (connection, cursor), session() as (_, killer):
        session_id = DRIVER.session_of(connection)
        outcome: list[object] = []
        thread = threading.Thread(target=lambda: outcome.append(shown(lambda: all_of(cursor, LONG_RUNNING))))
        thread.start()
        while not all_of(killer, SESSIONS.format(session_id) + " AND info LIKE '%%long_running%%'", (1,)):
            pass  # each try is a round trip
        killer.execute(f"KILL QUERY {session_id}")
        thread.join()
        return {"killed": outcome, "after it": all_of(cursor, "SELECT 1")}


@step()
def ended_by_wait_timeout() -> object:
    with session() as (connection, cursor), session() as (_, killer):
        session_id = DRIVER.session_of(connection)
        cursor.execute("SET wait_timeout = 1")
        while all_of(killer, SESSIONS.format(session_id), (1,)):
            pass  # each try is a round trip
        told = shown(lambda: cursor.execute("SELECT 1"))
        # What follows is no word of MySQL's: the driver finds the connection closed, in whichever way TLS has closed.
        return {"told": told, "then": shown(lambda: cursor.execute("SELECT 1")) != "no error"}


@step()
def session_killed_and_connected_again() -> object:
    with session() as (connection, cursor), session() as (_, killer):
        session_id = DRIVER.session_of(connection)
        killer.execute(f"KILL {session_id}")
        while all_of(killer, SESSIONS.format(session_id), (1,)):
            pass  # each try is a round trip
        lost = shown(lambda: cursor.execute("SELECT 1"))
        connection = DRIVER.reconnect(connection)
        with contextlib.closing(connection):
            return {"lost": lost != "no error", "again": all_of(connection.cursor(), "SELECT DATABASE(), @@autocommit")}
