"""What `proxy/mysql/text/statement_kind.py` believes of MySQL's words and functions, asked of MySQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing

import pymysql
import pytest

from integration.servers.mysql_server import Server
from planner.text.built_in_functions import HARMLESS, MOVED, MOVED_IN, NEVER_PARTED, NEWER, NO_FUNCTIONS
from planner.text.calls import unknown_call
from planner.text.scan import ServerVersion, scan
from proxy.mysql.text.statement_kind import classify

NO_SUCH_FUNCTION, NOT_WITH_A_SPACE = 1305, 1630


def server_version(mysql: Server) -> ServerVersion:
    major, minor, patch = re.findall(r"\d+", mysql.version())[:3]
    return int(major), int(minor), int(patch)


@pytest.fixture
def errno(mysql: Server, database: str) -> Iterator[Callable[[str], int]]:
    """The error that MySQL gives to a statement, 0 for none."""
    with closing(mysql.connect(database=database)) as connection, connection.cursor() as cursor:

        def ask(sql: str) -> int:
            try:
                cursor.execute(sql)
            except pymysql.err.MySQLError as error:
                return int(error.args[0])
            return 0

        yield ask


def test_the_harmless_functions_are_mysqls_own(errno: Callable[[str], int]) -> None:
    foreign = {name for name in HARMLESS if errno(f"SELECT {name}()") == NO_SUCH_FUNCTION}
    assert foreign <= (MOVED | NEWER)
    assert errno("SELECT no_function()") == NO_SUCH_FUNCTION


def test_a_stored_function_may_have_the_name_of_what_is_not_mysqls_own(mysql: Server, database: str) -> None:
    version = server_version(mysql)
    for name, arguments in (
        ("md5", "x INT"),
        ("levenshtein", "x INT, y INT"),
        ("nvl", "x INT, y INT"),
        ("abs", "x INT"),
    ):
        mysql.execute(f"CREATE FUNCTION `{database}`.{name}({arguments}) RETURNS INT DETERMINISTIC RETURN -42")
        call = f"{name}({', '.join('7' for _ in arguments.split(','))})"
        stored = mysql.execute(f"USE `{database}`", f"SELECT CAST({call} AS CHAR)")[0][0] == "-42"
        assert stored == (name != "abs" and (name != "md5" or version >= MOVED_IN))
        assert (unknown_call(scan(f"SELECT {call}"), version) is not None) == stored
        assert classify(f"SELECT {call}", version).calls_unknown == stored


def test_before_a_space_some_are_not(errno: Callable[[str], int]) -> None:
    parted = {name for name in HARMLESS if errno(f"SELECT {name} (1)") == NOT_WITH_A_SPACE}
    assert {"max", "now"} <= parted <= NEVER_PARTED


def test_words_that_call_nothing_are_reserved(mysql: Server) -> None:
    reserved = {row[0].lower() for row in mysql.execute("SELECT word FROM information_schema.keywords WHERE reserved")}
    assert reserved >= NO_FUNCTIONS
