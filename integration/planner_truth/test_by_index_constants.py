"""A sweep of types over comparisons with constants: where MySQL finds other rows by an index than without one, no
answer is cached; so it is with what parameters are bound as.

MySQL is the judge. A part of the cases is tried, `UPWELL_WHOLE=1` tries all.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import product
from random import Random
from typing import Any

from integration.planner_truth.index_sweep import TYPES, WHOLE, answers, ddl, fill, held, listed
from integration.prepared.test_surprising_parameters import FINER, MORE
from integration.servers.mysql_server import Server
from planner.api import plan_evict
from proxy.cache.key_binder import held_value
from sqltypes.errors import BadParameters, UnsupportedQuery
from sqltypes.values import sql_literal
from tests.support.schema_text import snapshot_of

CONSTANTS = listed("""
    0 | 1 | 1.0 | 1.2 | 1.24 | 1.245 | 1.5 | 0.4 | 1.24e0 | 1.1e0 | 1.1 | 1e0 | 1.5e0 | -1 | -1.0 | -0.4 | -0.6e0
    -0.0e0 | 2024 | 24 | 70 | 100 | 255 | 255.4 | 256 | 1900 | 1901 | 2155 | 2155.4 | 2156 | 2024.4 | 2024.5
    2024e0 | 2024.4e0 | 20240229 | 20240229.0 | 20240229.5 | 20240230 | 123456 | 123456.4 | 20240229123456
    20240229123456.4 | 2147483648 | 9223372036854775808 | 18446744073709551615 | 18446744073709551616
    -9223372036854775808 | TRUE | FALSE | 1e30 | 0x31 | b'1' | 0x61 | x'' | x'2D31' | '' | ' ' | 'a' | 'A' | 'a '
    'b' | 'a,b' | 'b,a' | 'abc' | '0' | '1' | '1 ' | ' 1' | '01' | '1.0' | '1.5' | '1.2' | '1e0' | '1a' | '-1'
    '24' | '2024' | '2024.4' | '2156' | '100' | '255' | '256' | '20240229' | '20240229123456' | '240229'
    '2024-02-29' | '2024-2-29' | '2024-02-29 ' | '2024-02-30' | '2024-02-29 12:34' | '2024-02-29 12:34:56'
    '2024-02-29T12:34:56' | '2024-02-29 12:34:56.0' | '2024-02-29 12:34:56.4' | '2024-02-29 12:34:56.789'
    '2024-02-29 12:34:56.78951' | '2024-02-29 23:59:59.9' | '2024-02-29 00:00:00' | '2024-02-29 00:00:00.4'
    '2024-02-29 12:34:56+00:00' | '2024-02-29 12:34:56.789+01:00' | '2024-02-29 12:34:56+01:00' | '0000-00-00'
    '0000-00-00 00:00:00' | '2024-00-00' | '9999-12-31' | '9999-12-31 23:59:59.9' | '1000-01-01' | '2038-02-01'
    '12:34:56' | '12:34' | '12:34:56.0' | '12:34:56.4' | '12:34:56.789' | '-01:00:00' | '-01:00:00.4' | '1 12:34:56'
    '839:00:00' | '838:59:59' | '123456' | '12:34:56 x' | '[1]' | '"a"' | 'true' | DATE'2024-02-29'
    DATE'2001-01-01' | TIMESTAMP'2024-02-29 12:34:56' | TIMESTAMP'2024-02-29 12:34:56.4'
    TIMESTAMP'2024-02-29 12:34:56.789' | TIMESTAMP'2024-02-29 12:34:56.78951' | TIMESTAMP'2024-02-29 12:34:56.000'
    TIMESTAMP'2024-02-29 00:00:00' | TIMESTAMP'2024-02-29 00:00:00.4' | TIMESTAMP'2024-02-29 23:59:59.9'
    TIMESTAMP'2024-02-29 12:34:56+00:00' | TIMESTAMP'2024-02-29 12:34:56.789+00:00' | TIME'12:34:56'
    TIME'12:34:56.789' | TIME'12:34:56.78951' | TIME'-01:00:00.4' | TIME'00:20:24' | NULL | _latin1'a' | _binary'a'
    N'a' | 'a' COLLATE utf8mb4_bin | 'A' COLLATE utf8mb4_0900_ai_ci | CAST('a' AS BINARY) | 1+0.2 | 1+0
    CAST('1' AS SIGNED) | CAST(1.2 AS DECIMAL(5,1)) | CAST('1.2' AS DOUBLE) | CAST('2024-02-29' AS DATE)
    CAST('2024-02-29 12:34:56.789' AS DATETIME(3)) | CAST('2024-02-29 12:34:56.789' AS DATETIME) | CAST('1' AS JSON)
    CAST('12:34:56.789' AS TIME(3)) | CAST('2024' AS YEAR) | CAST('"a"' AS JSON) | CAST('"2024-02-29"' AS JSON)
    CAST('null' AS JSON) | POINT(1,1) | NULLIF(1,1) | CONCAT('a') | CONCAT('2024-02-29') | CONCAT('1')
    MAKEDATE(2024,60) | ADDTIME(TIMESTAMP'2024-02-29 12:34:56','0:0:0.789') | '2024-02-28' + INTERVAL 1 DAY
    DATE'2024-02-28' + INTERVAL 1 DAY | DATE'2024-02-29' + INTERVAL 12 HOUR | DATE('2024-02-29')
    YEAR('2024-02-29') | COALESCE('2024-02-29 12:34:56.789','a') | IF(1,1.5,1) | UPPER('a') | JSON_QUOTE('a')
    5 DIV 2 | -TRUE
""")  # fmt: skip
# c: the constant, d: a value of the column
CONDITIONS = (
    "t.a = c", "c = t.a", "t.a <=> c", "t.a IN (c)", "t.a IN (c, d)", "t.a BETWEEN c AND c", "t.a >= c AND t.a <= c",
    "NOT t.a <> c", "(t.a, k) = (c, 1)", "(t.a, k) IN ((c, 1), (d, 1))", "t.a = ANY (SELECT c)", "t.a IN (SELECT c)",
    "t.a = (SELECT c)", "t.a > c", "t.a < c", "t.a >= c", "t.a <= c", "t.a <> c", "t.a BETWEEN d AND c",
    "t.a BETWEEN c AND d", "t.a NOT IN (c, d)", "t.a = c OR t.a = d", "t.a NOT BETWEEN c AND d",
    "c BETWEEN t.a AND t.a", "c IN (t.a, d)", "(t.a, k) > (c, 0)",
)  # fmt: skip
JOINED = CONDITIONS[:6] + CONDITIONS[7:8] + CONDITIONS[13:18] + CONDITIONS[23:25]
FORMS = ("SELECT {n}, t.id, 0 FROM t_{t} t {h} WHERE {c}", "SELECT {n}, o.id, t.id FROM o LEFT JOIN t_{t} t {h} ON {c}")
HINTS = ("FORCE INDEX (ka)", "IGNORE INDEX (ka, kk)")


def condition(text: str, constant: str, value: str) -> str:
    spaced = text.replace("(", "( ").replace(",", " ,").replace(")", " )")
    return " ".join({"c": constant, "d": value}.get(word, word) for word in spaced.split())


def test_constants(mysql: Server, database: str) -> None:
    """Every constant is tried beside some types, every comparison with it."""
    random = Random(5)
    wrong: list[str] = []
    differ: Counter[str] = Counter()
    with mysql.connect(database=database, autocommit=True) as connection, connection.cursor() as cursor:
        fill(cursor)
        for name, (_, values) in TYPES.items():
            if name == "j":
                continue
            value = listed(values)[1]
            for constant in CONSTANTS if WHOLE else random.sample(CONSTANTS, 60):
                for form, conditions in zip(FORMS, (CONDITIONS, JOINED), strict=True):
                    texts = [condition(text, constant, value) for text in conditions]
                    asked = [
                        [form.format(n=n, t=name, h=hint, c=text) for n, text in enumerate(texts)] for hint in HINTS
                    ]
                    found = zip(*(answers(cursor, queries) for queries in asked), strict=True)
                    for text, (by_index, without) in zip(texts, found, strict=True):
                        if by_index == without:
                            continue
                        differ[name] += 1
                        sql = form.format(n="t.k", t=name, h="", c=text)
                        if mode := held(sql, [name]):
                            wrong.append(f"{mode}: {sql}: {by_index} by the index, {without} without")
    print(differ)
    assert not wrong, f"{len(wrong)} are cached\n" + "\n".join(wrong[:40])
    assert all(differ[name] > 10 for name in ("ts", "dt", "d", "tm", "y", "i", "b", "b64", "bin")), differ


PARAMETERS = ("t.a = ?", "t.a <=> ?", "t.a <> ?", "t.a IN (?, ?)", "t.a > ?", "t.a <= ?", "t.a BETWEEN ? AND ?")
VALUES = tuple({repr(value): value for value in (*MORE, *FINER, -1, 1.5, "1.5", 24, 2024, "0", 255.5)}.values())


def bound_as(form: str, name: str, text: str) -> list[tuple[Any, str]]:
    """The values that are bound where MySQL's answer is held, each with the literal that it is then; of others MySQL is
    asked with the client's own."""
    snapshot = snapshot_of(f"{ddl(name)}\nCREATE TABLE o (id INT NOT NULL, PRIMARY KEY (id));", "d")
    found = []
    with suppress(UnsupportedQuery):
        sql = form.format(n=1, t=name, h="", c=text.replace("(?, ?)", "(?)"))
        type_ = plan_evict(sql, "d", snapshot).parameters[0].type
        for value in VALUES:
            with suppress(BadParameters):
                found.append((value, sql_literal(held_value(value, type_), type_)))
    return found


def test_what_parameters_are_bound_as(mysql: Server, database: str) -> None:
    """A value that MySQL would look up otherwise than it compares it is passed on to it."""
    wrong: list[str] = []
    held_ones = 0
    with mysql.connect(database=database, autocommit=True) as connection, connection.cursor() as cursor:
        fill(cursor)
        for name, form, text in product(TYPES.keys() - {"j"}, FORMS, PARAMETERS):
            judged = bound_as(form, name, text)
            held_ones += len(judged)
            texts = [text.replace("?", literal) for _, literal in judged]
            asked = [[form.format(n=n, t=name, h=hint, c=c) for n, c in enumerate(texts)] for hint in HINTS]
            found = zip(*(answers(cursor, queries) for queries in asked if queries), strict=True)
            for (value, literal), (by_index, without) in zip(judged, found, strict=True):
                if by_index != without:
                    wrong.append(f"{name} {text} {value!r}, bound as {literal}")
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:60])
    assert held_ones > 2000, f"the sweep reaches what it is for: {held_ones}"
