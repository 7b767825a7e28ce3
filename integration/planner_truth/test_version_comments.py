"""Version comments are read as MySQL reads them: a text and what is left of it have the same answer."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pymysql
import pytest

from integration.servers.mysql_server import Server
from planner.text.scan import unwrap_version_comments
from sqltypes.errors import ParseError

SEED = int(os.environ.get("UPWELL_COMMENT_SEED", "1"))
ERROR = "an error"
PIECES = (
    *("/*!", "/*!80000 ", "/*!080000 ", "/*!80400", "/*!99999 ", "/*!999999 ", "/*!8000 ", "/*!800001 "),
    *("/*", "*/", "*/", "*/", "/**/", "/*/", "/* c */", "/*+ x */", "-- x\n", "# */\n", "--", "!"),
    *("'*/'", "'/*'", '"*/"', "`a*/`", "'a'", "1", "2", "+", "*", "/", ",", " ", "\n", "-1", "AS x", "80000"),
)
PARTS = (
    *("+1", "-1", ",2", "/* x */", "/*!+1*/", "/*! -1 /*!80000 +1 */", "/*!80000 +1*/", "/*!80000 /* x */ +1*/"),
    *("/*!80000 /*!99999 x */*/", "/*!80000 '*/'*/", "/*!80000 -- */ \n+1*/", "/*!99999 +1 */", "/*!99999 /* x */ */"),
    *("/*!99999 /* x */ /* y */ */", "/*!99999 '*/ */", "/*!99999 /*!80000 a*/ */", "/*!99999 /* /* */ */", "*/"),
)


class Asked:
    def __init__(self, cursor: Any, version: tuple[int, int, int]) -> None:
        self._cursor = cursor
        self._version = version

    def rows(self, sql: str) -> object:
        try:
            self._cursor.execute(sql)
        except pymysql.err.MySQLError:
            return ERROR
        return self._cursor.fetchall()

    def left(self, sql: str) -> object:
        """Of what is left of the text."""
        try:
            return self.rows(unwrap_version_comments(sql, self._version))
        except ParseError:
            return ERROR


@pytest.fixture
def asked(mysql: Server) -> Iterator[Asked]:
    major, minor, patch = re.findall(r"\d+", mysql.version())[:3]
    with closing(mysql.connect()) as connection, connection.cursor() as cursor:
        yield Asked(cursor, (int(major), int(minor), int(patch)))


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 1 /*! + 1 */", ((2,),)),
        ("SELECT 1 /*!80000 + 1 */", ((2,),)),
        ("SELECT 1 /*!080000 + 1 */", ((2,),)),
        ("SELECT 1 /*!999999 + 1 */", ((1,),)),
        ("SELECT 1 /*!80000 /* + 5 */ + 1 */", ((2,),)),
        ("SELECT '/*!80000 x */' /*!80000 , '*/' */", (("/*!80000 x */", "*/"),)),
        ("SELECT 1 /*!999999 /* x */ + 1 */", ((1,),)),
        ("SELECT 1 -- /*!80000 \n + 1", ((2,),)),
        ("SELECT 1 /*!80000 + 1", ERROR),
        ("SELECT 1 /*! /*/ 'a'", ERROR),
    ],
)
def test_what_is_left_of_a_text_has_its_answer(asked: Asked, sql: str, rows: object) -> None:
    assert asked.rows(sql) == rows
    assert asked.left(sql) == rows


def test_any_text_with_version_comments_is_read_as_mysql_does(asked: Asked) -> None:
    rng = random.Random(SEED)
    answered = 0
    for _ in range(3000):
        pieces, between = rng.choice(((PIECES, " "), (PARTS, "")))
        sql = "SELECT 1 " + between.join(rng.choices(pieces, k=rng.randint(1, 9)))
        rows = asked.rows(sql)
        assert asked.left(sql) == rows, sql
        answered += rows != ERROR
    assert answered > 500, f"seed {SEED}"
