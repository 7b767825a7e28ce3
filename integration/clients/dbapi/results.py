"""Transactions, big answers, and statements with several answers."""

from __future__ import annotations

import contextlib
import tempfile
from typing import Any

from integration.clients.canonical import Step, digest
from integration.clients.dbapi.frame import ADDRESS, DRIVER, all_of, all_rows, into, session, shown
from integration.clients.statements import BIG_SUMS, HUGE

STEPS: list[Step] = []
step = into(STEPS)

# -- transactions ------------------------------------------------------------------------------------------------------


@step()
def transactions() -> object:
    with session() as (connection, cursor), session() as (other, watcher):
        cursor.execute("CREATE TABLE account (id INT PRIMARY KEY, balance INT)")

        def seen() -> object:
            other.rollback()  # a new view of what is committed
            return [all_of(one, "SELECT * FROM account ORDER BY id") for one in (cursor, watcher)]

        outcome: dict[str, object] = {"autocommit": all_of(cursor, "SELECT @@autocommit")}
        cursor.execute("INSERT INTO account VALUES (1, 10)")
        outcome["before commit"] = seen()
        connection.commit()
        outcome["after commit"] = seen()
        cursor.execute("UPDATE account SET balance = 11 WHERE id = 1")
        connection.rollback()
        outcome["after rollback"] = seen()
        cursor.execute("INSERT INTO account VALUES (2, 20)")
        cursor.execute("SAVEPOINT middle")
        cursor.execute("INSERT INTO account VALUES (3, 30)")
        cursor.execute("ROLLBACK TO SAVEPOINT middle")
        connection.commit()
        outcome["after savepoint"] = seen()
        connection.autocommit(True) if callable(connection.autocommit) else setattr(connection, "autocommit", True)
        cursor.execute("UPDATE account SET balance = balance + 1")
        outcome["with autocommit"] = [cursor.rowcount, seen()]
        other.rollback()
        cursor.execute("DROP TABLE account")
        return outcome


@step()
def isolation_of_a_repeatable_read() -> object:
    with session() as (connection, cursor), session(autocommit=True) as (_, writer):
        writer.execute("CREATE TABLE seen (id INT PRIMARY KEY)")
        first = all_of(cursor, "SELECT COUNT(*) FROM seen")
        writer.execute("INSERT INTO seen VALUES (1)")
        again = all_of(cursor, "SELECT COUNT(*) FROM seen")
        connection.commit()
        later = all_of(cursor, "SELECT COUNT(*) FROM seen")
        connection.commit()
        writer.execute("DROP TABLE seen")
        return {"first": first, "again": again, "after commit": later}


@step()
def ids_and_counts_of_writes() -> object:
    with session() as (_, cursor):
        cursor.execute("CREATE TABLE counted (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(10))")
        outcome: list[object] = []
        for sql in (
            "INSERT INTO counted (name) VALUES ('a')",
            "INSERT INTO counted (name) VALUES ('b'), ('c'), ('d')",
            "UPDATE counted SET name = 'b' WHERE id <= 2",
            "REPLACE INTO counted VALUES (4, 'D')",
            "INSERT INTO counted VALUES (1, 'x') ON DUPLICATE KEY UPDATE name = 'A'",
            "DELETE FROM counted WHERE id > 2",
        ):
            cursor.execute(sql)
            outcome.append([sql, cursor.rowcount, cursor.lastrowid])
        cursor.executemany("INSERT INTO counted (name) VALUES (%s)", [(f"many {n}",) for n in range(4)])
        outcome.append([cursor.rowcount, cursor.lastrowid, all_of(cursor, "SELECT LAST_INSERT_ID(), ROW_COUNT()")])
        cursor.execute("DROP TABLE counted")
        return outcome


# -- big ---------------------------------------------------------------------------------------------------------------


@step()
def a_hundred_thousand_rows_streamed() -> object:
    with session() as (connection, _):
        cursor = DRIVER.streaming(connection)
        cursor.execute(f"SELECT n, label FROM {ADDRESS.data}.number ORDER BY n")
        rows = total = characters = 0
        while part := cursor.fetchmany(1000):
            rows += len(part)
            total += sum(row[0] for row in part)
            characters += sum(len(row[1]) for row in part)
        cursor.close()
        return {"rows": rows, "sum": total, "characters": characters, "expected": rows == BIG_SUMS[0]}


@step()
def a_value_of_twenty_megabytes() -> object:
    with session() as (_, cursor):
        cursor.execute("CREATE TABLE huge (id INT PRIMARY KEY, value LONGBLOB)")
        cursor.execute("INSERT INTO huge VALUES (%s, %s)", (1, HUGE))
        ((value, size),) = all_of(cursor, "SELECT value, LENGTH(value) FROM huge")
        cursor.execute("DROP TABLE huge")
        return {"size": size, "same": bytes(value) == HUGE, "digest": digest(bytes(value))}


# -- several results ---------------------------------------------------------------------------------------------------


def every_result(cursor: Any) -> list[object]:
    """The results of what was executed, one after the other."""
    results: list[object] = []
    while True:
        rows = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
        results.append(rows if cursor.description else cursor.rowcount)
        if not cursor.nextset():
            return results


@step()
def several_statements_at_once() -> object:
    with contextlib.closing(DRIVER.with_scripts()) as connection:
        cursor = connection.cursor()
        cursor.execute(
            "CREATE TABLE multi (id INT); INSERT INTO multi VALUES (1), (2); SELECT * FROM multi ORDER BY id;"
            "SELECT 'ü;', \"x;y\" -- ;\n; UPDATE multi SET id = id + 1; DROP TABLE multi"
        )
        return every_result(cursor)


@step()
def several_statements_with_an_error_among_them() -> object:
    with contextlib.closing(DRIVER.with_scripts()) as connection:
        cursor = connection.cursor()
        first: list[object] = []

        def run() -> None:
            cursor.execute("SELECT 1; SELECT * FROM missing; SELECT 2")
            first.append(all_rows(cursor))
            while cursor.nextset():
                first.append(all_rows(cursor))

        return {"error": shown(run), "before it": first}


@step()
def procedure_with_two_results() -> object:
    with session() as (_, cursor):
        cursor.execute(f"USE {ADDRESS.data}")
        cursor.execute("SET @found = 0, @twice = 21")
        cursor.execute("CALL two_results(3, @found, @twice)")
        results = every_result(cursor)
        return {"results": results, "out": all_of(cursor, "SELECT @found, @twice")}


@step()
def procedure_called_as_the_driver_does() -> object:
    with session() as (_, cursor):
        cursor.execute(f"USE {ADDRESS.data}")
        given = cursor.callproc("two_results", (2, 0, 4))
        if hasattr(cursor, "stored_results"):
            return {"given": given, "results": [all_rows(one) for one in cursor.stored_results()]}
        results = every_result(cursor)
        out = all_of(cursor, "SELECT @_two_results_1, @_two_results_2")
        return {"given": given, "results": results, "out": out}


@step()
def procedure_that_fails_after_its_first_result() -> object:
    with session() as (_, cursor):
        first: list[object] = []

        def run() -> None:
            cursor.execute(f"CALL {ADDRESS.data}.fails_midway()")
            first.extend(all_rows(cursor))
            cursor.nextset()

        return {"error": shown(run), "before it": first, "after it": all_of(cursor, "SELECT 1")}


@step("local_infile")
def a_local_file_loaded() -> object:
    with contextlib.closing(DRIVER.with_local_files()) as connection, tempfile.NamedTemporaryFile("w") as file:
        file.writelines(f"{n},line {n} 🐬,{'' if n % 2 else n}\n" for n in range(5000))
        file.flush()
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE loaded (id INT PRIMARY KEY, line VARCHAR(40), odd VARCHAR(10)) CHARSET utf8mb4")
        cursor.execute(
            f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE loaded CHARACTER SET utf8mb4 FIELDS TERMINATED BY ','"
        )
        count = cursor.rowcount
        rows = all_of(cursor, "SELECT COUNT(*), SUM(id), MAX(line), COUNT(NULLIF(odd, '')) FROM loaded")
        cursor.execute("DROP TABLE loaded")
    with contextlib.closing(DRIVER.with_local_files()) as connection:  # some drivers are out of step after this
        cursor = connection.cursor()
        cursor.execute("CREATE TEMPORARY TABLE loaded (id INT)")
        absent = shown(lambda: cursor.execute("LOAD DATA LOCAL INFILE '/does/not/exist' INTO TABLE loaded"))
    return {"count": count, "rows": rows, "absent": absent}
