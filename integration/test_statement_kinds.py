"""What `proxy/mysql/statement_kind.py` believes of MySQL's words and functions, asked of MySQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pymysql
import pytest

from integration.mysql_server import Server
from proxy.mysql.built_in_functions import HARMLESS, NEVER_PARTED, NO_FUNCTIONS

NO_SUCH_FUNCTION, NOT_WITH_A_SPACE = 1305, 1630
MOVED_TO_A_COMPONENT = {"md5", "sha", "sha1"}  # newer servers have them only where it is installed


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
    assert foreign <= MOVED_TO_A_COMPONENT
    assert errno("SELECT no_function()") == NO_SUCH_FUNCTION


def test_before_a_space_some_are_not(errno: Callable[[str], int]) -> None:
    parted = {name for name in HARMLESS if errno(f"SELECT {name} (1)") == NOT_WITH_A_SPACE}
    assert {"max", "now"} <= parted <= NEVER_PARTED


def test_words_that_call_nothing_are_reserved(mysql: Server) -> None:
    reserved = {row[0].lower() for row in mysql.execute("SELECT word FROM information_schema.keywords WHERE reserved")}
    assert reserved >= NO_FUNCTIONS
