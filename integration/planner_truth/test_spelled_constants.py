"""A column that equals a constant, and is read by every kind of function: MySQL may read the constant in its place.

Where MySQL itself does not answer all spellings of the constant alike, written and bound, Upwell must answer each as
MySQL does: columns of every type, with each function and operator.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from integration.oracle.answers import Answer
from integration.oracle.asker import Asker
from integration.oracle.trees import Spelled

DOUBLE, LONGLONG, NEWDECIMAL, VAR_STRING = 0x05, 0x08, 0xF6, 0xFD
ASKED = 3  # times, by which the columns of a prepared statement are known and its keys held

# Of a column's type: the value, and spellings of what equals it.
TYPES = {
    "DECIMAL(5,2)": ("1.5", "1.5 1.50 '1.5' '1.50' 1.5e0"),
    "DECIMAL(5,0)": ("2", "2 2.0 '2' '2.0' 2e0 TRUE+1"),
    "INT": ("2", "2 2.0 '2' '02' 02 2e0"),
    "TINYINT(1)": ("1", "1 TRUE '1' 1.0"),
    "INT(5) ZEROFILL": ("2", "2 '2' 00002 2.0"),
    "BIGINT UNSIGNED": ("7", "7 '7' 7.0"),
    "BIT(8)": ("49", "49 '49' b'00110001' x'31' 49.0"),
    "BIT(1)": ("1", "1 TRUE '1' b'1'"),
    "YEAR": ("2024", "2024 '2024' 2024.0"),
    "FLOAT": ("1.5", "1.5 1.50 '1.5' 1.5e0"),
    "FLOAT(7,2)": ("1.5", "1.5 1.50 '1.5' 1.5e0"),
    "DOUBLE": ("2", "2 2.0 '2' '2.00' 2e0"),
    "DATE": ("'2024-01-02'", "'2024-01-02' '2024-1-2' 20240102 DATE'2024-01-02'"),
    "DATETIME(2)": ("'2024-01-02'", "'2024-01-02' '2024-1-2' 20240102 TIMESTAMP'2024-01-02'"),
    "TIMESTAMP": ("'2024-01-02'", "'2024-01-02' '2024-1-2' 20240102 TIMESTAMP'2024-01-02'"),
    "TIME(1)": ("'01:02:03'", "'01:02:03' '1:2:3' 10203 TIME'01:02:03'"),
    "CHAR(5)": ("'a'", "'a' 'A' 'a ' _latin1'a'"),
    "VARCHAR(5) COLLATE utf8mb4_general_ci": ("'a'", "'a' 'A' 'a ' x'61'"),
    "VARCHAR(5) COLLATE utf8mb4_bin": ("'a'", "'a' 'a ' x'61' _latin1'a'"),
    "VARBINARY(5)": ("'7'", "'7' x'37' 0x37"),
    "BINARY(3)": ("'7'", "'7' x'37' x'370000'"),
    "ENUM('a','b')": ("'a'", "'a' 'A' 1"),
    "SET('a','b')": ("'a'", "'a' 'A' 1"),
}
READ = """
LENGTH(c); CHAR_LENGTH(c); BIT_LENGTH(c); CONCAT(c); CONCAT(c, '|'); CONCAT_WS(',', c, 'x'); HEX(c); LOWER(c); UPPER(c)
CAST(c AS CHAR); CONVERT(c, CHAR(3)); CAST(c AS BINARY); CAST(c AS JSON); JSON_ARRAY(c); JSON_QUOTE(CONCAT(c)); QUOTE(c)
IF(1, c, 'x'); IF(1, c, 0); IFNULL(c, 'x'); COALESCE(c, 'x'); COALESCE(c, 0); COALESCE(NULL, c); NULLIF(c, 77)
CASE WHEN 1 THEN c ELSE 'x' END; CASE c WHEN c THEN c END; GREATEST(c, c); LEAST(c, 'zz'); c + 0; c / 3; c * 1.0; -c
c DIV 1; c % 5; ROUND(c, 1); TRUNCATE(c, 1); FORMAT(c, 1); ABS(c); FLOOR(c); SUBSTRING(c, 1); LEFT(c, 9); REVERSE(c)
TRIM(c); LPAD(c, 9, '.'); REPEAT(c, 2); REPLACE(c, 'q', ''); c LIKE '%5%'; c REGEXP '5'; ASCII(c); ORD(c); FIELD(c, 2)
BIN(c); c & 1; c << 1; MAKE_SET(1, c); ELT(1, c); TO_BASE64(c); INSERT(c, 1, 0, '-'); LOCATE('0', c); STRCMP(c, '1.50')
FIND_IN_SET(c, '1.50,2'); CRC32(c); SOUNDEX(c); DATE_FORMAT(c, '%H %i'); TIME_TO_SEC(c); EXTRACT(MINUTE FROM c)
'2024-01-01' + INTERVAL c MINUTE_SECOND; '2024-01-01' + INTERVAL c DAY; (SELECT CONCAT(q.c) FROM t q WHERE q.c = t.c)
"""
FUNCTIONS = [function.strip() for line in READ.strip().splitlines() for function in line.split(";")]


def string(text: str) -> Spelled:
    return Spelled("?", VAR_STRING, bytes([len(text)]) + text.encode())


def bound(literal: str) -> Iterator[Spelled]:
    """The ways to bind what the literal says, where there are some."""
    text = literal.strip("'")
    if literal == f"'{text}'":
        yield string(text)
        return
    try:
        number = float(literal)
    except ValueError:
        return
    yield Spelled("?", DOUBLE, struct.pack("<d", number))
    yield Spelled("?", NEWDECIMAL, bytes([len(text)]) + text.encode())
    if number.is_integer():
        yield Spelled("?", LONGLONG, struct.pack("<q", int(number)))


def spelled(literals: str) -> Iterator[tuple[str, list[Spelled] | None]]:
    """Each, written and bound: what stands in the text, and its values."""
    for literal in literals.split():
        yield literal, None
        for given in bound(literal):
            yield "?", [given]


def said(answer: Answer) -> str:
    return str(answer.errno or [answer.cells(row)[0] for row in answer.rows])


@pytest.mark.parametrize("type_", TYPES)
def test_every_spelling_has_mysqls_answer(asker: Asker, type_: str) -> None:
    value, literals = TYPES[type_]
    asker.new_database()
    asker.run([f"CREATE TABLE t (id INT PRIMARY KEY, c {type_})", f"INSERT INTO t VALUES (1, {value}), (2, NULL)"])
    equal = [
        (constant, values)
        for constant, values in spelled(literals)
        if asker.ask("direct", f"SELECT id FROM t WHERE c = {constant}", values).rows
    ]
    shown = asker.ask_all("direct", [(f"SELECT HEX(CAST({each} AS BINARY)) FROM t", None) for each in FUNCTIONS])
    wrong, depends = [], 0
    for function, answer in zip(FUNCTIONS, shown, strict=True):
        if answer.errno:
            continue
        cell = answer.cells(answer.rows[0])[0] or b""
        text = f"SELECT id FROM t WHERE c = {{}} AND HEX(CAST({function} AS BINARY)) = '{cell.decode()}'"
        asked = [(text.format(constant), values) for constant, values in equal]
        if len(set(map(said, asker.ask_all("direct", asked)))) == 1:
            continue
        depends += 1
        asker.create(f"CREATE CACHE c FROM {text.format('?')}")
        for spelling, values in asked * ASKED:
            wanted, found = (asker.ask(where, spelling, values) for where in ("direct", "through"))
            if said(wanted) != said(found):
                wrong.append(f"{spelling} {values}: {said(found)} ({asker.served()[0]}), MySQL says {said(wanted)}")
        asker.drop_caches()
    print(f"{type_}: {depends} of {len(FUNCTIONS)} depend on the spelling")
    assert not wrong, "\n".join(wrong)
