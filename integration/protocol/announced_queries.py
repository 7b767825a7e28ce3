"""Queries of every shape that may send rows through a temporary table, over columns of every type and what MySQL's
functions make of them: for comparing what is announced.

Many select items stand in one query, each announced for itself. Which arguments a function takes is tried at MySQL.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from integration.support.raw_client import RawClient
from planner.text.scan import words
from planner.tree.reasons import DETERMINISTIC
from proxy.mysql.wire.packets import ERR

# Columns by name: type, and a value that is none of the type's borders.
COLUMNS = {
    "ti": ("TINYINT", "1"),
    "b1": ("TINYINT(1)", "1"),
    "si": ("SMALLINT UNSIGNED", "2"),
    "i": ("INT", "4"),
    "iu": ("INT UNSIGNED", "5"),
    "iz": ("INT(7) ZEROFILL", "55"),
    "bi": ("BIGINT", "6"),
    "bu": ("BIGINT UNSIGNED", "7"),
    "d": ("DECIMAL(9,2)", "1.5"),
    "dl": ("DECIMAL(30,10)", "2.25"),
    "f": ("FLOAT", "1.1"),
    "fd": ("DOUBLE", "2.3"),
    "t1": ("BIT(1)", "b'1'"),
    "t9": ("BIT(9)", "b'101'"),
    "y": ("YEAR", "2000"),
    "da": ("DATE", "'2000-02-29'"),
    "dt": ("DATETIME", "'2000-02-29 10:11:12'"),
    "dm": ("DATETIME(3)", "'2000-02-29 10:11:12.5'"),
    "ts": ("TIMESTAMP NULL", "'2000-02-29 10:11:12'"),
    "tm": ("TIME", "'10:11:12'"),
    "tx": ("TIME(6)", "'10:11:12.25'"),
    "ch": ("CHAR(5)", "'12'"),
    "vc": ("VARCHAR(20)", "'ab é'"),
    "vl": ("VARCHAR(20) CHARACTER SET latin1", "'ä'"),
    "vx": ("VARCHAR(2000)", "'abc'"),
    "s1": ("TINYTEXT", "'abc'"),
    "s2": ("TEXT", "'abc'"),
    "s3": ("MEDIUMTEXT", "'abc'"),
    "s4": ("LONGTEXT", "'abc'"),
    "bn": ("BINARY(4)", "'ab'"),
    "vb": ("VARBINARY(9)", "'ab'"),
    "bl": ("BLOB", "'ab'"),
    "e": ("ENUM('a','b')", "'a'"),
    "st": ("SET('a','b')", "'a,b'"),
    "j": ("JSON", "'[1, \"a\"]'"),
}
MANY, FEW, NULLS, NONE = 1, 2, 3, 9
"""Values of `k`: of several different rows, of one row, of rows of NULLs, of none."""
GIVEN = (MANY, FEW, NULLS, NONE)

AGGREGATING = words(
    """
    any_value bit_and bit_or bit_xor group_concat json_arrayagg json_objectagg std stddev stddev_pop stddev_samp sum
    var_pop var_samp variance
    """
)
# Of a statement that MySQL runs a second time OCT() and its kind are announced with another flag than the first time.
CHANGING = words("bin oct conv")
SCALARS = frozenset(DETERMINISTIC) - AGGREGATING - CHANGING - words("interval get_format")
AGGREGATES = (
    "MIN({c})", "MAX({c})", "SUM({c})", "AVG({c})", "COUNT({c})", "COUNT(DISTINCT {c})", "ANY_VALUE({c})",
    "GROUP_CONCAT({c} ORDER BY id)", "BIT_OR({c})", "BIT_AND({c})", "BIT_XOR({c})", "STD({c})", "VAR_SAMP({c})",
    "JSON_ARRAYAGG({c})", "SUM(DISTINCT {c})",
)  # fmt: skip
WINDOWS = (
    "MIN({c}) OVER ()", "MAX({c}) OVER (PARTITION BY k)", "LAG({c}) OVER (ORDER BY id)",
    "LEAD({c}, 1, {c}) OVER (ORDER BY id)", "FIRST_VALUE({c}) OVER (ORDER BY id)", "SUM({c}) OVER (ORDER BY id)",
    "AVG({c}) OVER ()", "COUNT({c}) OVER ()", "NTH_VALUE({c}, 1) OVER (ORDER BY id)",
)  # fmt: skip
OPERATORS = (
    "{c}", "{c} + 1", "{c} * 1.5", "-{c}", "{c} / 3", "{c} DIV 2", "{c} % 3", "{c} IS NULL", "{c} = 1", "{c} > 'a'",
    "NOT {c}", "{c} & 3", "~{c}", "{c} << 1", "{c} LIKE 'a%'", "CASE WHEN k > 1 THEN {c} END",
    "CASE WHEN k > 1 THEN {c} ELSE 1 END", "CAST({c} AS CHAR)", "CAST({c} AS SIGNED)", "CAST({c} AS UNSIGNED)",
    "CAST({c} AS DECIMAL(12,3))", "CAST({c} AS DATE)", "CAST({c} AS DATETIME(2))", "CAST({c} AS TIME)",
    "CAST({c} AS BINARY)", "CAST({c} AS DOUBLE)", "CAST({c} AS FLOAT)", "EXTRACT(MONTH FROM {c})",
    "EXTRACT(DAY_MICROSECOND FROM {c})", "{c} + INTERVAL 1 DAY", "{c} BETWEEN 1 AND 2", "TRIM({c})",
    "POSITION('a' IN {c})", "CONVERT({c} USING latin1)", "(SELECT MAX(u.{n}) FROM u WHERE u.k = t.k)",
)  # fmt: skip
ARGUMENTS = (
    "{c}", "{c}, 2", "{c}, 'a'", "{c}, {c}", "2, {c}", "'a', {c}", "{c}, 2, 3", "{c}, 'a', 'b'", "{c}, {c}, {c}",
    "{c}, 1, 2, 'x'", "{c}, '$[0]'", "{c}, '$[0]', 1", "DAY, 1, {c}", "{c}, INTERVAL 1 DAY", "",
)  # fmt: skip


TEXTS: dict[str, Sequence[str]] = {
    "aggregates": AGGREGATES,
    "windows": WINDOWS,
    "scalars": (*OPERATORS, *(f"{name.upper()}({given})" for name in sorted(SCALARS) for given in ARGUMENTS)),
}


@dataclass(frozen=True)
class Shape:
    """`text`: a query with `{items}` for its select items and `?` for `k`; `of`: the expressions that it is for."""

    name: str
    text: str
    of: str = "scalars"


SHAPES = (
    Shape("plain", "SELECT {items} FROM t WHERE k = ?"),
    Shape("ordered", "SELECT {items} FROM t WHERE k = ? ORDER BY CONCAT(vc, id)"),
    Shape("distinct", "SELECT DISTINCT {items} FROM t WHERE k = ?"),
    Shape("grouped", "SELECT {items}, COUNT(*) n FROM t WHERE k = ? GROUP BY {aliases}"),
    Shape("grouped, ordered", "SELECT {items}, COUNT(*) n FROM t WHERE k = ? GROUP BY {aliases} ORDER BY n"),
    Shape("united", "SELECT {items} FROM t WHERE k = ? UNION SELECT {items} FROM t WHERE k = 2"),
    Shape("united, all", "SELECT {items} FROM t WHERE k = ? UNION ALL SELECT {items} FROM t WHERE k = 2"),
    Shape("derived", "SELECT * FROM (SELECT {items} FROM t WHERE k = ? LIMIT 100) s"),
    Shape("joined, distinct", "SELECT DISTINCT {items} FROM t JOIN u USING (id) WHERE u.k = ?"),
    Shape("joined, ordered", "SELECT {items} FROM t JOIN u ON u.i = t.i WHERE t.k = ? ORDER BY u.id"),
    Shape("one group", "SELECT k, {items} FROM t WHERE k = ? GROUP BY k", "aggregates"),
    Shape("aggregates", "SELECT {items} FROM t WHERE k = ?", "aggregates"),
    Shape("groups", "SELECT i, {items} FROM t WHERE k = ? GROUP BY i", "aggregates"),
    Shape("groups, ordered", "SELECT i, {items} FROM t WHERE k = ? GROUP BY i ORDER BY x0", "aggregates"),
    Shape("groups, having", "SELECT y, {items} FROM t WHERE k = ? GROUP BY y HAVING COUNT(*) > 0", "aggregates"),
    Shape("windows", "SELECT {items} FROM t WHERE k = ?", "windows"),
    Shape("windows, ordered", "SELECT {items} FROM t WHERE k = ? ORDER BY id", "windows"),
)


def tables() -> Iterator[str]:
    """Statements that make `t` and `u`, alike."""
    names = ", ".join(COLUMNS)
    types = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
    for table in "tu":
        yield f"CREATE TABLE {table} (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, {types}, KEY (k), KEY (y))"
        values = ", ".join(value for _, value in COLUMNS.values())
        nulls = ", ".join("NULL" for _ in COLUMNS)
        yield (
            f"INSERT INTO {table} (k, {names}) VALUES ({MANY}, {values}), ({MANY}, {nulls}), ({FEW}, {values}),"
            f" ({NULLS}, {nulls}), ({NULLS}, {nulls}), ({MANY}, {values})"
        )
        yield f"UPDATE {table} SET i = 77, d = -3.25, dt = '1999-12-31 23:59:59', vc = 'b', j = NULL WHERE id = 6"


def expressions(client: RawClient, of: str, rng: random.Random, most: int) -> list[str]:
    """Some of a kind that MySQL computes without an error over all rows of `t`."""
    texts = TEXTS[of]
    made = dict.fromkeys(
        text.replace("{c}", f"t.{column}").replace("{n}", column) for text in texts for column in COLUMNS
    )
    found: list[str] = []
    for text in rng.sample(list(made), len(made)):
        if len(found) == most:
            break
        if not failed(client.query(f"SELECT {text} FROM t")):
            found.append(text)
    return found


def failed(answer: bytes) -> bool:
    """Whether an answer is an error, or ends with one."""
    at = 0
    while at + 4 + (size := int.from_bytes(answer[at : at + 3], "little")) < len(answer):
        at += 4 + size
    return answer[at + 4] == ERR


def query(shape: Shape, items: Sequence[str]) -> str:
    """The shape's text with these select items."""
    named = ", ".join(f"{item} AS x{number}" for number, item in enumerate(items))
    return shape.text.format(items=named, aliases=", ".join(f"x{number}" for number in range(len(items))))
