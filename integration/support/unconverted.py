"""What MySQL sends as it is: a cursor whose values are the bytes or the text of the answer, not Python's types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pymysql

from integration.servers.mysql_server import Server


@contextmanager
def unconverted_cursor(mysql: Server, database: str, *, autocommit: bool = True) -> Iterator[Any]:
    """A PyMySQL cursor on the database. `autocommit` False: as MySQL has it for new sessions of this driver, which is
    what the server says."""
    connection = pymysql.connect(
        host=mysql.host,
        port=mysql.port,
        user=mysql.user,
        password=mysql.password,
        database=database,
        charset="utf8mb4",
        conv={},
        autocommit=autocommit or None,
    )
    with closing(connection), connection.cursor() as made:
        yield made
