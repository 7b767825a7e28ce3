"""Tables of one column each, of every kind of type, that MySQL reads by an index and without one.

Each has values that constants, and columns of other types, are near to. What MySQL answers in two ways no answer may be
held of; the planner is asked for that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pymysql

from planner.api import plan_query
from sqltypes.errors import UnknownName, UnsupportedQuery
from tests.support.schema_text import snapshot_of

WHOLE = bool(os.environ.get("UPWELL_WHOLE"))
"""All cases are tried, instead of a part of them: some minutes."""
_WORDS = """
    '1.5' | 'a' | 'A' | '' | ' 1' | '1' | '1 ' | '0' | 'abc' | '20240229' | '2024-02-29' | '2024-02-29 12:34:56'
    '12:34:56' | '2024' | '24' | '0000-00-00' | 'a,b'
"""
_MOMENTS = "'2024-02-29 12:34:57' | '2024-02-29' | '2024-03-01' | '2001-01-01' | '9999-12-31 23:59:59'"
_STAMPS = "'2024-02-29 12:34:57' | '2024-02-29' | '2024-03-01' | '2001-01-01'"
_TIMES = "'12:34:57' | '-01:00:00' | '00:00:00' | '838:59:59' | '00:20:24'"


def listed(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split("|")]


TYPES: Mapping[str, tuple[str, str]] = {
    "ts": ("TIMESTAMP NULL", f"'2024-02-29 12:34:56' | {_STAMPS}"),
    "dt": ("DATETIME", f"'2024-02-29 12:34:56' | {_MOMENTS} | '0000-00-00'"),
    "dt3": ("DATETIME(3)", f"'2024-02-29 12:34:56.789' | {_MOMENTS} | '2024-02-29 00:00:00.4' | '0000-00-00'"),
    "d": ("DATE", "'2024-02-29' | '2024-03-01' | '2001-01-01' | '0000-00-00' | '9999-12-31'"),
    "tm": ("TIME", f"'12:34:56' | {_TIMES}"),
    "tm3": ("TIME(3)", f"'12:34:56.789' | '12:34:56' | {_TIMES}"),
    "y": ("YEAR", "2024 | 0 | 2001 | 2020 | 1901 | 2155"),
    "i": ("INT", "1 | 0 | 2 | -1 | 2024 | 20240229"),
    "u8": ("BIGINT UNSIGNED", "18446744073709551615 | 0 | 1 | 20240229"),
    "de": ("DECIMAL(6,2)", "1.24 | 0 | 1 | 1.25 | 2 | -1 | 2024"),
    "f": ("FLOAT", "1.1 | 0 | 1 | 1.25 | 2024 | -1"),
    "b": ("BIT(8)", "97 | 0 | 1 | 2 | 49 | 255"),
    "b64": ("BIT(64)", "97 | 0 | 1 | 49 | 20240229 | 18446744073709551615"),
    "v": ("VARCHAR(20)", _WORDS),
    "vb": ("VARCHAR(20) COLLATE utf8mb4_bin", _WORDS),
    "bin": ("VARBINARY(20)", _WORDS),
    "e": ("ENUM('a','1','2024-02-29','24','0','b')", "'24' | 'a' | '1' | '2024-02-29' | '0'"),
    "s": ("SET('a','1','b','0')", "'a,b' | 'a' | '1' | '' | '0'"),
    "j": ("JSON", "'1.5' | '1' | '\"a\"' | '\"2024-02-29\"' | 'null'"),
}


def ddl(name: str) -> str:
    column, key = TYPES[name][0], "" if name == "j" else ", KEY ka (a)"
    return f"CREATE TABLE t_{name} (id INT NOT NULL, a {column}, k INT, PRIMARY KEY (id){key}, KEY kk (k));"


def fill(cursor: Any) -> None:
    """Makes the tables; of each value two rows, and some of NULL."""
    cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
    cursor.execute("CREATE TABLE o (id INT NOT NULL, PRIMARY KEY (id))")
    cursor.execute("INSERT INTO o VALUES (1), (2)")
    for name, (_, values) in TYPES.items():
        cursor.execute(ddl(name))
        rows = [(value, 1) for value in listed(values) for _ in range(2)] + [("NULL", 2)] * 3
        given = ", ".join(f"({at}, {value}, {k})" for at, (value, k) in enumerate(rows, start=1))
        cursor.execute(f"INSERT INTO t_{name} VALUES {given}")
    cursor.execute("ANALYZE TABLE " + ", ".join(f"t_{name}" for name in TYPES))


def answer(cursor: Any, sql: str) -> str:
    """The rows that MySQL finds, or the number of its error."""
    try:
        cursor.execute(sql)
        return str(sorted(cursor.fetchall(), key=str))
    except pymysql.MySQLError as error:
        return f"error {error.args[0]}"


def answers(cursor: Any, queries: Sequence[str]) -> list[str]:
    """The rows of each query, which has its own number first. They are asked together; if one has an error, alone."""
    try:
        cursor.execute(" UNION ALL ".join(f"({query})" for query in queries))
    except pymysql.MySQLError:
        return [answer(cursor, query) for query in queries]
    found: list[list[Any]] = [[] for _ in queries]
    for row in cursor.fetchall():
        found[row[0]].append(row)
    return [str(sorted(rows, key=str)) for rows in found]


def held(sql: str, names: Iterable[str]) -> str:
    """How the query is cached, also if something of it cannot be maintained; "" where it is not."""
    tables = ["CREATE TABLE o (id INT NOT NULL, PRIMARY KEY (id));", *map(ddl, dict.fromkeys(names))]
    snapshot = snapshot_of("\n".join(tables), "d")
    for text in (sql, sql.replace("SELECT ", "SELECT RANK() OVER (ORDER BY k), ", 1)):
        try:
            return plan_query(text.replace("ORDER BY k", "ORDER BY t.k"), "d", snapshot).mode.name
        except (UnsupportedQuery, UnknownName):
            continue
    return ""
