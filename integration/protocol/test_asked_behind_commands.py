"""What a statement asks about the one before it, behind a hit and a command of the protocol that is no statement.

The same session directly at MySQL is the judge.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from integration.oracle.asker import Asker
from integration.sessions.session_commands import results
from integration.sessions.test_found_rows import READ, initial_rows
from integration.support.raw_client import RawClient
from proxy.mysql.wire.packets import COM_FIELD_LIST, COM_INIT_DB, COM_SET_OPTION, COM_STMT_RESET, packet

ASKED = ("SHOW WARNINGS", "SHOW COUNT(*) ERRORS", "SELECT @@warning_count", "SELECT FOUND_ROWS()", "SELECT ROW_COUNT()")
NOT_TOLD = {("one that is prepared with a warning", "SELECT ROW_COUNT()")}  # docs/mysql_protocol.md
Command = Callable[[RawClient, int], object]


def command(code: int, rest: bytes) -> Command:
    return lambda client, statement: client.command(code, rest)


def fields(client: RawClient, statement: int) -> None:
    client.write(packet(bytes((COM_FIELD_LIST,)) + b"nope\0", 0))
    client.rows()


def one_of_several(client: RawClient, statement: int) -> None:
    """The hit is shown to MySQL before the first question."""
    client.prepare("NO SYNTAX")
    client.query("SHOW WARNINGS")


COMMANDS: dict[str, Command] = {
    "a statement that is not prepared": lambda client, statement: client.prepare("SELECT no_such FROM t"),
    "one of no syntax": lambda client, statement: client.prepare("NO SYNTAX"),
    "one that is prepared with a warning": lambda client, statement: client.prepare("SELECT SQL_CALC_FOUND_ROWS 1"),
    "one that is prepared": lambda client, statement: client.prepare("SELECT 1"),
    "rows of no cursor": lambda client, statement: client.fetch(statement, 1),
    "rows of no statement": lambda client, statement: client.fetch(999, 1),
    "a cursor and its rows": lambda client, statement: (
        client.execute(statement) + client.execute(statement, flags=1) + client.fetch(statement, 2)
    ),
    "no database": command(COM_INIT_DB, b"no_such"),
    "no statement to reset": command(COM_STMT_RESET, struct.pack("<I", 999)),
    "a statement reset": lambda client, statement: client.reset_statement(statement),
    "no option": command(COM_SET_OPTION, struct.pack("<H", 7)),
    "an option": command(COM_SET_OPTION, struct.pack("<H", 0)),
    "no command": command(99, b""),
    "columns of no table": fields,
    "no syntax, and its error": one_of_several,
    "columns": lambda client, statement: client.fields("w"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_who_asks_is_told_of_what_was_last(asker: Asker, name: str) -> None:
    found = {}
    for where in ("direct", "through"):
        initial_rows(asker)
        if where == "through":
            asker.create_cache("c", "SELECT id, g FROM t WHERE g = ?")
        found[where] = {asked: told(asker, where, name, asked) for asked in ASKED if (name, asked) not in NOT_TOLD}
    assert found["through"] == found["direct"]


def told(asker: Asker, where: str, name: str, asked: str) -> object:
    session = asker.session(where)
    statement = session.prepare("SELECT id FROM t").id
    for _ in range(5000):
        session.query(READ)
        if where == "direct" or asker.served()[0] == "hit":
            break
    else:
        pytest.fail("never a hit")
    session.query("UPDATE w SET n = n + 1, id = id")  # of which MySQL would tell
    session.query("DROP TABLE IF EXISTS no_such, nor_this")
    session.query(READ)
    COMMANDS[name](session, statement)
    answer = str(results(session, session.query(asked))).replace(f"({statement})", "()")
    pinged = session.ping()
    return answer, pinged
