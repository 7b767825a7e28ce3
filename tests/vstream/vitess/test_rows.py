"""Values of a VStream -> canonical values. The texts are what vtgate v24 has sent for these columns."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqltypes.schema import Column, SqlType, Table
from vstream import vitess_pb2 as pb
from vstream.vitess.json import mysql_steps, mysql_text
from vstream.vitess.rows import Unreadable, decoder, described

UTF8 = "utf8mb4_0900_ai_ci"
VALUES: tuple[tuple[SqlType, str, bytes, Any], ...] = (
    (SqlType("tinyint"), "tinyint", b"-128", -128),
    (SqlType("tinyint", length=1), "tinyint(1)", b"1", 1),
    (SqlType("bigint", unsigned=True), "bigint unsigned", b"18446744073709551615", 2**64 - 1),
    (SqlType("int", unsigned=True, zerofill=True), "int(7) unsigned zerofill", b"0000042", 42),
    (SqlType("year"), "year", b"2024", 2024),
    (SqlType("bit", length=9), "bit(9)", b"\x01\x05", 261),
    (SqlType("decimal", precision=10, scale=3), "decimal(10,3)", b"-1.500", Decimal("-1.500")),
    (SqlType("float"), "float", b"1.1e+00", 1.100000023841858),
    (SqlType("double"), "double", b"1e+30", 1e30),
    (SqlType("date"), "date", b"2024-00-00", "2024-00-00"),
    (SqlType("datetime", scale=6), "datetime(6)", b"2024-01-02 03:04:05.123456", "2024-01-02 03:04:05.123456"),
    (SqlType("timestamp", scale=3), "timestamp(3)", b"2024-01-02 03:04:05.678", "2024-01-02 03:04:05.678"),
    (SqlType("time", scale=2), "time(2)", b"-12:34:56.78", -45_296_780_000),
    (SqlType("char", length=5, collation=UTF8), "char(5)", b"cc", "cc"),
    (SqlType("varchar", length=9, collation="latin1_swedish_ci"), "varchar(9)", b"l\xe4\x80", "lä€"),
    (SqlType("text", collation=UTF8), "text", "tä😀".encode(), "tä😀"),
    (SqlType("enum", members=("a", "it's"), collation=UTF8), "enum('a','it''s')", b"it's", "it's"),
    (SqlType("set", members=("x", "y"), collation=UTF8), "set('x','y')", b"x,y", "x,y"),
    (SqlType("binary", length=4), "binary(4)", b"ab", b"ab\0\0"),
    (SqlType("varbinary", length=9), "varbinary(9)", b"\xff\0", b"\xff\0"),
    (SqlType("longblob"), "longblob", b"", b""),
    (SqlType("geometry"), "multipolygon", b"\0\0", b"\0\0"),
    (SqlType("json"), "json", b'{"bb": [1, 2.0], "a": null}', '{"a": null, "bb": [1, 2.0]}'),
)


def table_of(type_: SqlType) -> Table:
    return Table("shop", "t", (Column("id", SqlType("int"), False, 0), Column("v", type_, True, 1)), ("id",))


def fields_of(column_type: str) -> list[pb.Field]:
    return [pb.Field(name="id", column_type="int"), pb.Field(name="V", column_type=column_type)]


@pytest.mark.parametrize(("type_", "column_type", "text", "value"), VALUES, ids=[one[1] for one in VALUES])
def test_values(type_: SqlType, column_type: str, text: bytes, value: object) -> None:
    decode = decoder(table_of(type_), frozenset({0, 1}), fields_of(column_type), listed=True)
    found = decode(pb.Row(lengths=[1, len(text)], values=b"7" + text))
    assert found == (7, value) and type(found[1]) is type(value)
    assert decode(pb.Row(lengths=[1, -1], values=b"7")) == (7, None)
    only_id = decoder(table_of(type_), frozenset({0}), fields_of(column_type), listed=True)
    assert only_id(pb.Row(lengths=[1, len(text)], values=b"7" + text)) == (7, None)


@pytest.mark.parametrize(
    ("column_type", "listed", "why"),
    [
        ("bigint", True, "column 'V' is bigint in the stream"),
        ("enum('b','a')", True, "in the stream"),
        ("enum('a','b')", False, "come as numbers"),
    ],
)
def test_columns_that_are_others(column_type: str, listed: bool, why: str) -> None:
    type_ = SqlType("enum", members=("a", "b"), collation=UTF8)
    with pytest.raises(Unreadable, match=why):
        decoder(table_of(type_), frozenset({1}), fields_of(column_type), listed=listed)


def test_rows_that_do_not_fit() -> None:
    decode = decoder(table_of(SqlType("int")), frozenset({0, 1}), fields_of("int"), listed=True)
    for row in (pb.Row(lengths=[1], values=b"7"), pb.Row(lengths=[1, 1], values=b"777")):
        with pytest.raises(Unreadable):
            decode(row)


@given(st.lists(st.none() | st.text(max_size=3), min_size=1, max_size=40), st.data())
def test_rows_of_any_width_with_some_columns_wanted(values: list[str | None], data: st.DataObject) -> None:
    type_ = SqlType("varchar", length=9, collation=UTF8)
    table = Table("shop", "t", tuple(Column(f"c{at}", type_, True, at) for at in range(len(values))), ())
    fields = [pb.Field(name=f"c{at}", column_type="varchar(9)") for at in range(len(values))]
    wanted = data.draw(st.frozensets(st.integers(0, len(values) - 1)))
    texts = [None if value is None else value.encode() for value in values]
    row = pb.Row(lengths=[-1 if text is None else len(text) for text in texts], values=b"".join(filter(None, texts)))
    found = decoder(table, wanted, fields, listed=True)(row)
    assert found == tuple(value if at in wanted else None for at, value in enumerate(values))


@pytest.mark.parametrize("column_type", ["int", "int unsigned", "decimal(10,0)", "bit(1)", "datetime(0)", "double"])
def test_descriptions_are_of_one_form(column_type: str) -> None:
    assert described(column_type) == column_type


@pytest.mark.parametrize(
    ("vitess", "mysql"),
    [
        ('{"aaa": 1, "bb": 2, "é": 3, "zz": 4}', '{"bb": 2, "zz": 4, "é": 3, "aaa": 1}'),
        ("[-1.4956211520329715e15, 1e20, 1.5e15, 12345.678900]", "[-1495621152032971.5, 1e20, 1.5e15, 12345.678900]"),
        ('"q\\"\\\\ \\u0001\\n é😀 \u2028"', '"q\\"\\\\ \\u0001\\n é😀 \u2028"'),
        ("[true, false, null, {}, []]", "[true, false, null, {}, []]"),
    ],
)
def test_json_is_put_as_mysql_prints_it(vitess: str, mysql: str) -> None:
    assert mysql_text(vitess.encode()) == mysql
    assert in_steps(vitess.encode()) == mysql


@pytest.mark.parametrize("text", ['{"a": ""}', '["base64:type15:eHh4"]', "[" * 200_000, "{"])
def test_json_that_cannot_be_told(text: str) -> None:
    for made in (mysql_text, in_steps):
        with pytest.raises(ValueError):
            made(text.encode())


def in_steps(data: bytes, most: int = 1 << 30) -> str:
    """Requires: it takes no more than so many steps."""
    steps = mysql_steps(data)
    for _ in range(most):
        try:
            next(steps)
        except StopIteration as end:
            return str(end.value)
    raise AssertionError("more steps")


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(min_size=1),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(min_size=1), inner),
)


@given(DOCUMENTS)
def test_json_in_steps_is_the_same(document: object) -> None:
    for spaced in (None, 1):
        data = json.dumps(document, ensure_ascii=False, indent=spaced).encode("utf-8", "surrogatepass")
        try:
            text = mysql_text(data)
        except ValueError:
            with pytest.raises(ValueError):
                in_steps(data)
        else:
            assert in_steps(data) == text


@given(st.binary(max_size=40) | st.text('[]{}:,"0-1.e ntrueflsa', max_size=30).map(str.encode))
def test_what_is_no_json_is_none_in_steps(data: bytes) -> None:
    """Where json's decoder finds none there is none. (What it takes for a number may be none of JSON's: MySQL has
    none of those.)"""
    try:
        text = mysql_text(data)
    except ValueError:
        with pytest.raises(ValueError):
            in_steps(data)
    else:
        assert in_steps(data) == text


def test_a_large_document_takes_many_steps() -> None:
    members = {f"{'k' * (number % 7)}{number}": [number, {"é": None}, 1.5] for number in range(5000)}
    data = json.dumps(members, ensure_ascii=False).encode()
    assert in_steps(data) == mysql_text(data)
    with pytest.raises(AssertionError, match="more steps"):
        in_steps(data, 5 * 5000 // 100)
