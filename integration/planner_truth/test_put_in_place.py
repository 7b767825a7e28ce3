"""A sweep of types over comparisons: where the answer changes with the way in which a constant is written that a column
must equal, the query is not cached.

MySQL is the judge: each comparison is asked for with the constant in several spellings, as text and prepared. The
planner is asked for the same query with a parameter in the constant's place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pymysql

from integration.servers.mysql_server import Server
from planner.api import plan_query
from sqltypes.errors import UnsupportedQuery
from tests.support.schema_text import snapshot_of

Cursor = pymysql.cursors.Cursor


@dataclass(frozen=True)
class Type:
    """`text` and `number`: one value of it, as MySQL tells it; `spellings`: constants that equal it."""

    ddl: str
    text: str
    number: str
    spellings: Sequence[str]


TYPES = {
    "date": Type("DATE", "2024-02-29", "20240229", ["'2024-02-29'", "DATE'2024-02-29'"]),
    "datetime": Type(
        "DATETIME", "2024-02-29 12:34:56", "20240229123456", ["'2024-02-29 12:34:56'", "TIMESTAMP'2024-02-29 12:34:56'"]
    ),
    "time": Type("TIME", "12:34:56", "123456", ["'12:34:56'", "TIME'12:34:56'", "'12:34:56.0'"]),
    "year": Type("YEAR", "2024", "2024", ["2024", "'2024'"]),
    "enum": Type("ENUM('x','10','7')", "10", "2", ["'10'", "2"]),
    "set": Type("SET('x','10','7')", "10", "2", ["'10'", "2"]),
    "int": Type("INT", "10", "10", ["10", "'10'", "10.0"]),
    "decimal": Type("DECIMAL(10,2)", "1.50", "1.50", ["1.50", "1.5", "'1.5'"]),
    "double": Type("DOUBLE", "1.5", "1.5", ["1.5", "'1.50'"]),
    "varchar": Type("VARCHAR(20)", "10", "10", ["'10'", "x'3130'"]),
    "latin1": Type("VARCHAR(20) CHARACTER SET latin1", "10", "10", ["'10'", "x'3130'"]),
    "varbinary": Type("VARBINARY(20)", "10", "10", ["'10'", "x'3130'"]),
}
# x: the column, x2: another of its type; n, t: a number and a text that it equals
COMPARISONS = (
    "n IN (x, 5)", "t IN (x, 5)", "t IN (x, 'q')", "x IN (n, 5)", "x IN (n, 'a')", "x IN (t, 5)", "x IN (i, 5)",
    "x IN (x2, 5)",
    "x2 IN (x, 5)", "x2 IN (x, v)", "i IN (x, 5)", "i IN (x, v)", "v IN (x, 5)", "y IN (x, 5)", "e IN (x, 5)",
    "j IN (x, 5)",
    "n BETWEEN x AND x", "t BETWEEN x AND x", "t BETWEEN x AND 'z'", "x BETWEEN n AND n", "x BETWEEN 5 AND n",
    "x BETWEEN i AND i", "x BETWEEN x2 AND i", "x2 BETWEEN x AND n", "i BETWEEN x AND x", "i BETWEEN 5 AND x",
    "f BETWEEN x AND x", "v BETWEEN x AND x", "x BETWEEN v AND v", "x BETWEEN t AND n",
    "n = x", "i = x", "i <=> x", "i <> x", "i <= x", "c = x", "f = x", "v = x", "y = x", "e = x", "j = x", "m = x",
    "x2 = x",
    "x2 + 0 = x", "ABS(i) = x", "CONCAT(v) = x", "COALESCE(x2, 5) = x", "COALESCE(x, 5) = i", "IF(id, x, 5) = i",
    "CASE x WHEN i THEN 1 END", "GREATEST(x, 5) = i", "x + 0 = i", "CONCAT(x) = v", "CAST(x AS SIGNED) = i",
    "(x, 1) = (i, 1)", "(i, 1) IN ((x, 1), (5, 2))", "(SELECT x) = i", "x = ANY (SELECT i FROM o)",
    "i = ANY (SELECT x)",
    "x IN (SELECT i FROM o)", "i IN (SELECT x FROM o)", "EXISTS (SELECT 1 FROM o WHERE o.i = x)",
    "EXISTS (SELECT 1 FROM o WHERE o.i IN (x, 5))", "x IN (SELECT v FROM o)", "EXISTS (SELECT 1 FROM o WHERE o.v = x)",
)  # fmt: skip


def tables(of: Type) -> tuple[str, str]:
    return (
        f"CREATE TABLE r (id INT NOT NULL, x {of.ddl}, x2 {of.ddl}, m DATETIME, i BIGINT, c DECIMAL(20,2), f DOUBLE,"
        f" v VARCHAR(40), y YEAR, e ENUM('q','{of.text}'), j JSON, PRIMARY KEY (id))",
        "CREATE TABLE o (id INT NOT NULL, i BIGINT, v VARCHAR(40), PRIMARY KEY (id))",
    )


def condition(text: str, of: Type) -> str:
    """The comparison with the type's constants in the places of n and t."""
    constants = {"n": of.number, "t": f"'{of.text}'"}
    spaced = text.replace("(", "( ").replace(",", " ,").replace(")", " )")
    return " ".join(constants.get(word, word) for word in spaced.split())


ONE = "SELECT id FROM r WHERE x = ? AND {}"
# The constant is r.x, and what is compared is of s, whose columns have the same names.
LINKED = (
    "SELECT r.id FROM r, r s WHERE r.x = ? AND {}",
    "SELECT r.id FROM r JOIN r s ON r.x = s.x WHERE r.x = ? AND {}",
    "SELECT r.id FROM r JOIN r s USING (x) WHERE x = ? AND {}",
    "SELECT r.id FROM r LEFT JOIN r s ON s.x = r.x AND {} WHERE r.x = ? AND s.id IS NULL",
    "SELECT r.id FROM r WHERE r.x = ? AND r.id = (SELECT MAX(s.id) FROM r s WHERE {})",
    "SELECT r.id FROM r WHERE r.x = ? AND r.x = (SELECT MAX(s.x) FROM r s WHERE {})",
    "SELECT r.id FROM r WHERE r.x = ? AND EXISTS (SELECT 1 FROM r s WHERE {})",
    "SELECT r.id FROM r WHERE r.x = ? AND EXISTS (SELECT 1 FROM r s WHERE s.x = r.x AND {})",
    "SELECT r.id FROM r WHERE r.x = ? AND r.x IN (SELECT s.x FROM r s WHERE {})",
    "SELECT r.id FROM r WHERE r.x = ? AND (1, r.x) IN (SELECT 1, s.x FROM r s WHERE {})",
    "SELECT r.id FROM r WHERE r.x = ? AND r.x = ANY (SELECT s.x AS z FROM r s WHERE {})",
    "SELECT d.id FROM (SELECT s.x AS z, s.id FROM r s WHERE {}) d WHERE d.z = ?",
    "WITH d (z, id) AS (SELECT s.x, s.id FROM r s WHERE {}) SELECT id FROM d WHERE z = ?",
    "SELECT r.id FROM r JOIN (SELECT s.x AS z FROM r s WHERE {}) d ON (d.z, 1) = (r.x, 1) WHERE r.x = ?",
)


def answers(cursor: Cursor, of: Type, query: str) -> Iterator[object]:
    """What MySQL finds for each way to write the constant: how many rows, or the number of its error."""
    for spelling in of.spellings:
        yield _rows(cursor, query.replace("?", spelling))
    cursor.execute("PREPARE s FROM %s", (query,))
    for spelling in of.spellings[:2]:
        if not spelling.startswith("x'"):  # the variable would be a string of bytes, which equals less
            cursor.execute(f"SET @a = {spelling}")
            yield _rows(cursor, "EXECUTE s USING @a")


def _rows(cursor: Cursor, sql: str) -> object:
    try:
        return cursor.execute(sql)
    except pymysql.err.MySQLError as error:
        return error.args[0]


def queries(of: Type) -> Iterator[str]:
    for comparison in COMPARISONS:
        plain = condition(comparison, of)
        yield ONE.format(plain)
        yield ONE.format(f"NOT ({plain})")
        elsewhere = re.sub(r"(?<![\w.'])([xicfvyejm]2?|id)(?= |$)", r"s.\1", plain)
        for linked in LINKED:
            yield linked.format(elsewhere)


def test_what_depends_on_the_spelling_is_not_cached(mysql: Server, database: str) -> None:
    cached: list[str] = []
    depend: dict[str, int] = {}
    with mysql.connect(database=database, autocommit=True) as connection, connection.cursor() as cursor:
        for name, of in TYPES.items():
            ddl = tables(of)
            for statement in ("DROP TABLE IF EXISTS r, o", *ddl):
                cursor.execute(statement)
            text, number = f"'{of.text}'", of.number
            cursor.execute(
                f"INSERT INTO r VALUES (1, {text}, {text}, '2024-02-29 12:34:56', {number}, {number}, {number}, {text},"
                f" 2024, {text}, JSON_QUOTE({text}))"
            )
            cursor.execute(f"INSERT INTO o VALUES (1, {number}, {text})")
            snapshot = snapshot_of("; ".join((*ddl, "")), "d")
            for query in queries(of):
                if len(set(answers(cursor, of, query))) == 1:
                    continue
                depend[name] = depend.get(name, 0) + 1
                try:
                    plan_query(query, "d", snapshot)
                    cached.append(f"{name}: {query}")
                except UnsupportedQuery:
                    pass
    assert not cached
    assert depend.get("date", 0) > 20 and depend.get("enum", 0) > 5, f"the sweep reaches what it is for: {depend}"
