"""Types of columns, from their definitions and from what an answer announces."""

from __future__ import annotations

import pytest
from pymysql.constants import FIELD_TYPE, FLAG

from external_upquery.columns import RawColumn, to_result_column, to_sql_type
from external_upquery.mysql.column_types import column_type, members_of
from sqltypes.schema import SqlType


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("enum('a','b')", ("a", "b")),
        ("set('x')", ("x",)),
        ("enum('it''s','a,b','(c)')", ("it's", "a,b", "(c)")),
        (r"enum('back\\slash','new\nline','')", ("back\\slash", "new\nline", "")),
        ("enum('ü','日本')", ("ü", "日本")),
    ],
)
def test_members_are_read_with_their_quotes(text: str, members: tuple[str, ...]) -> None:
    assert members_of(text) == members


def test_definitions_become_types() -> None:
    def of(data_type: str, text: str, **facts: int | str) -> SqlType:
        names = ("length", "precision", "scale", "fraction", "collation")
        return column_type(data_type, text, **{name: facts.get(name) for name in names})  # type: ignore[arg-type]

    assert of("int", "int unsigned", precision=10, scale=0) == SqlType("int", unsigned=True)
    assert of("tinyint", "tinyint(1)") == SqlType("tinyint", length=1)
    assert of("decimal", "decimal(12,3) unsigned", precision=12, scale=3) == SqlType(
        "decimal", unsigned=True, precision=12, scale=3
    )
    assert of("bit", "bit(9)", precision=9) == SqlType("bit", length=9)
    assert of("timestamp", "timestamp(6)", fraction=6) == SqlType("timestamp", scale=6)
    assert of("vector", "vector(3)", length=12) == SqlType("vector", length=12)
    assert of("multipolygon", "multipolygon") == SqlType("geometry")
    assert of("varchar", "varchar(9)", length=9, collation="utf8mb4_bin") == SqlType(
        "varchar", length=9, collation="utf8mb4_bin"
    )
    assert of("enum", "enum('a')", length=1, collation="latin1_bin").members == ("a",)


def raw(code: int, *, charset: int = 63, length: int = 0, decimals: int = 0, flags: int = 0) -> RawColumn:
    return RawColumn("c", "t", code, flags, charset, length, decimals)


@pytest.mark.parametrize(
    ("announced", "expected"),
    [
        (raw(FIELD_TYPE.TINY, length=1), SqlType("tinyint", length=1)),
        (raw(FIELD_TYPE.TINY, length=3, flags=FLAG.UNSIGNED), SqlType("tinyint", unsigned=True)),
        (raw(FIELD_TYPE.NEWDECIMAL, length=12, decimals=2), SqlType("decimal", precision=10, scale=2)),
        (raw(FIELD_TYPE.NEWDECIMAL), SqlType("decimal", scale=0)),  # of vtgate, as the next
        (raw(FIELD_TYPE.DOUBLE), SqlType("double")),
        (
            raw(FIELD_TYPE.NEWDECIMAL, length=11, decimals=2, flags=FLAG.UNSIGNED),
            SqlType("decimal", unsigned=True, precision=10, scale=2),
        ),
        (
            raw(FIELD_TYPE.VAR_STRING, charset=45, length=40),
            SqlType("varchar", length=10, collation="utf8mb4_general_ci"),
        ),
        (raw(FIELD_TYPE.STRING, charset=8, length=10), SqlType("char", length=10, collation="latin1_swedish_ci")),
        (raw(FIELD_TYPE.STRING, length=10), SqlType("binary", length=10)),
        (raw(FIELD_TYPE.BLOB, length=65535), SqlType("blob", length=65535)),
        (
            raw(FIELD_TYPE.BLOB, charset=45, length=262140),
            SqlType("text", length=65535, collation="utf8mb4_general_ci"),
        ),
        (raw(FIELD_TYPE.BLOB, length=4294967295), SqlType("longblob", length=4294967295)),
        (raw(FIELD_TYPE.STRING, charset=45, flags=FLAG.ENUM), SqlType("enum", collation="utf8mb4_general_ci")),
        (raw(FIELD_TYPE.DATETIME, decimals=6), SqlType("datetime", scale=6)),
        (raw(FIELD_TYPE.NULL), SqlType("null")),
    ],
)
def test_announcements_become_types(announced: RawColumn, expected: SqlType) -> None:
    assert to_sql_type(announced) == expected


def test_nullability_is_announced_by_a_flag() -> None:
    assert not to_result_column(raw(FIELD_TYPE.LONG, flags=FLAG.NOT_NULL)).nullable
    assert to_result_column(raw(FIELD_TYPE.LONG)).nullable
