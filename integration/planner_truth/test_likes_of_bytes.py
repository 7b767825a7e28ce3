"""Where a binary string must equal a constant, LIKE has one answer for 'a' and for x'61'."""

from __future__ import annotations

from contextlib import closing

import pytest

from integration.servers.mysql_server import Server

VALUES = ("a", "a%", "1", "12", "7F00", "7F%", "", "`%", "A")
LIKES = (
    "b LIKE 'a%'", "b LIKE '7F%' ESCAPE '`'", "b NOT LIKE '1%'", "'a' LIKE b", "s LIKE b", "b LIKE s", "b LIKE w",
    "w LIKE b", "b LIKE '1'", "NOT (b LIKE 'A%')", "b LIKE '`%' ESCAPE '`'",
)  # fmt: skip


@pytest.mark.parametrize("type_", ["VARBINARY(9)", "BINARY(4)", "TINYBLOB"])
@pytest.mark.parametrize("index", ["", ", KEY (b(2))"], ids=["no index", "an index"])
def test_likes(mysql: Server, database: str, type_: str, index: str) -> None:
    with closing(mysql.connect(database=database)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE t (id INT PRIMARY KEY, b {type_}, s VARCHAR(9), w VARBINARY(9){index})")
        cursor.executemany("INSERT INTO t VALUES (%s, %s, %s, %s)", [(n, v, v, v) for n, v in enumerate(VALUES)])

        def ids(condition: str) -> tuple[object, ...]:
            cursor.execute(f"SELECT id, b FROM t WHERE {condition}")
            return tuple(sorted(cursor.fetchall()))

        for like in LIKES:
            for value in filter(None, VALUES):
                for form in ("b = {}", "b <=> {}", "b >= {}", "b IN ({})"):
                    for outer in ("AND", "OR"):
                        text, hexadecimal = f"'{value}'", f"x'{value.encode().hex()}'"
                        one, other = (ids(f"{form.format(each)} {outer} {like}") for each in (text, hexadecimal))
                        assert one == other, (form, value, outer, like)
