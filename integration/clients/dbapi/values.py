"""Connecting, and values on their way to MySQL and back."""

from __future__ import annotations

import contextlib
import datetime
import decimal
from typing import Any

from integration.clients.canonical import Step
from integration.clients.dbapi.frame import ADDRESS, DRIVER, all_of, described, into, session, shown, tried
from integration.clients.statements import DEFAULTS, EVERY_BUT_A_YEAR, EVERY_TYPE, PARAMETERS, UNICODE, VALUES

STEPS: list[Step] = []
step = into(STEPS)

# -- connecting --------------------------------------------------------------------------------------------------------


def greeted(tls: bool | None) -> object:
    with session(tls=tls) as (_, cursor):
        ((_, cipher),) = all_of(cursor, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        return {"tls": bool(cipher), "as": all_of(cursor, "SELECT CURRENT_USER(), DATABASE()")}


@step()
def connect_plain_to_a_server_that_has_not_seen_the_password() -> object:
    return tried(lambda: greeted(tls=False))


@step()
def connect_with_tls() -> object:
    return greeted(tls=True)


@step()
def connect_plain() -> object:
    return greeted(tls=False)


@step()
def connect_as_it_does_by_default() -> object:
    return greeted(tls=None)


@step()
def connect_with_a_wrong_password() -> object:
    return shown(lambda: DRIVER.connect(password="wrong"))


@step()
def connect_to_a_database_that_does_not_exist() -> object:
    return shown(lambda: DRIVER.connect(database="does_not_exist"))


@step("compress")
def connect_with_compression() -> object:
    connection = DRIVER.compressed()
    with contextlib.closing(connection), contextlib.closing(connection.cursor()) as cursor:
        return all_of(cursor, f"SELECT COUNT(*), MIN(label), MAX(label) FROM {ADDRESS.data}.number")


@step()
def settings_of_a_new_session() -> object:
    with session() as (_, cursor):
        return dict(all_of(cursor, DEFAULTS))


# -- values ------------------------------------------------------------------------------------------------------------


@step()
def every_type_in_text() -> object:
    with session() as (_, cursor):
        rows = all_of(cursor, EVERY_TYPE.format(data=ADDRESS.data))
        return {"columns": described(cursor), "rows": rows}


@step("prepared")
def every_type_prepared() -> object:
    with session() as (connection, _):
        cursor = DRIVER.prepared(connection)
        every = EVERY_TYPE.format(data=ADDRESS.data)
        if not DRIVER.reads_years_prepared:
            every = every.replace("*", EVERY_BUT_A_YEAR)
        cursor.execute(every + " LIMIT %s", (100,))
        return {"rows": [tuple(row) for row in cursor.fetchall()], "columns": described(cursor)}


def sent_and_read(cursor: Any, reader: Any) -> object:
    reader.execute("CREATE TABLE sent (" + ", ".join(PARAMETERS) + ")")
    insert = "INSERT INTO sent VALUES (" + ", ".join(["%s"] * len(PARAMETERS)) + ")"
    sent = [shown(lambda values=values: cursor.execute(insert, values)) for values in VALUES]  # type: ignore[misc]
    rows = all_of(reader, "SELECT * FROM sent ORDER BY id")
    found = [all_of(reader, "SELECT id FROM sent WHERE a_text = %s", (values[5],)) for values in VALUES]
    reader.execute("DROP TABLE sent")
    return {"sent": sent, "rows": rows, "found": found}


@step()
def parameters_in_text() -> object:
    with session() as (connection, cursor):
        return sent_and_read(cursor, connection.cursor())


@step("prepared")
def parameters_prepared() -> object:
    with session() as (connection, cursor):
        return sent_and_read(DRIVER.prepared(connection), cursor)


@step("prepared")
def prepared_statement_executed_again_after_its_table_changed() -> object:
    with session() as (connection, cursor):
        cursor.execute("CREATE TABLE growing (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO growing VALUES (1), (2)")
        prepared = DRIVER.prepared(connection)
        before = all_of(prepared, "SELECT * FROM growing WHERE id > %s", (0,))
        cursor.execute("ALTER TABLE growing ADD COLUMN name VARCHAR(10) NOT NULL DEFAULT 'new'")
        after = tried(lambda: all_of(prepared, "SELECT * FROM growing WHERE id > %s", (1,)))
    with session() as (_, cursor):
        cursor.execute("DROP TABLE growing")
    return {"before": before, "after": after}


@step()
def unicode() -> object:
    with session() as (_, cursor):
        cursor.execute("CREATE TABLE `größe 🐬` (`имя` VARCHAR(40) PRIMARY KEY, `数` INT)")
        cursor.executemany("INSERT INTO `größe 🐬` VALUES (%s, %s)", [(text, len(text)) for text in UNICODE])
        rows = all_of(cursor, "SELECT `имя`, `数` AS `длина 🐬`, CHAR_LENGTH(`имя`) FROM `größe 🐬` ORDER BY `имя`")
        names = [column[0] for column in cursor.description]
        found = all_of(cursor, "SELECT `数` FROM `größe 🐬` WHERE `имя` = '🐬🐬'")
        cursor.execute("DROP TABLE `größe 🐬`")
        return {"names": names, "rows": rows, "found": found}


@step()
def date_and_decimal_arithmetic() -> object:
    """Values that only an expression has: their types come from MySQL's answer alone."""
    with session() as (_, cursor):
        cursor.execute(
            "SELECT 1 + 1, 1 / 3, 0.1 + 0.2, 1e0 / 3, DATE '2024-02-29' + INTERVAL 1 YEAR,"
            " TIMEDIFF('10:00:00', '12:30:00'), NULL, TRUE, 'a' = 'A', JSON_EXTRACT('[1, \"x\"]', '$[1]'),"
            " X'00FF', b'101', SUM(n), AVG(n), GROUP_CONCAT(n)"
            " FROM (SELECT 1 AS n UNION ALL SELECT 2) AS two"
        )
        row = cursor.fetchone()
        checks = [isinstance(row[1], decimal.Decimal), isinstance(row[5], datetime.timedelta)]
        return {"row": row, "columns": described(cursor), "checks": checks}
