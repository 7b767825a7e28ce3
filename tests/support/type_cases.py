"""One column of every type with its edge values, for tests that a value is the same whichever way it came."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TypeCase:
    """`ddl`: a column's type as CREATE TABLE takes it. `literals`: SQL expressions to insert; NULL is added to all."""

    ddl: str
    literals: tuple[str, ...]


def _integers(name: str, bits: int) -> tuple[TypeCase, TypeCase]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return (
        TypeCase(name, ("0", "1", "-1", str(low), str(high))),
        TypeCase(f"{name} UNSIGNED", ("0", "1", str(high), str(high + 1), str(2**bits - 1))),
    )


def _fractions(name: str, *values: str) -> tuple[TypeCase, ...]:
    return tuple(TypeCase(f"{name}({digits})", tuple(f"'{value}'" for value in values)) for digits in range(7))


_TIMES = ("0:0:0", "-0:0:0.000001", "-0:0:0.5", "-12:34:56.654321", "12:34:56.9", "838:59:59", "-838:59:59", "-1:0:0")
_DATETIMES = (
    "0000-00-00",
    "1000-01-01",
    "9999-12-31 23:59:59",
    "2024-02-29 12:34:56.123456",
    "2024-00-00",
    "2024-05-00",
)
_TIMESTAMPS = (
    "0000-00-00",
    "1970-01-01 00:00:01",
    "2038-01-19 03:14:07",
    "2024-02-29 12:34:56.123456",
    "2000-12-31 23:59:59",
)
_JSON = (
    "'null'", "'true'", "'[]'", "'{}'", "'0'", "'-1'", "'32767'", "'32768'", "'-32769'", "'65536'", "'4294967296'",
    "'18446744073709551615'", "'-9223372036854775808'", "'1.0'", "'0.1'", "'-1.5e-15'", "'1e20'", "'1e15'", "'1e14'",
    "'1.7976931348623157e308'", "'5e-324'", "'123456789012345678.0'", "'1e-5'", "'0.00012345'", "'100.0'", "'-0.0'",
    """'{"b": 1, "a": [1, 2, {"x": null}], "longer key": "v", "": "empty"}'""",
    r"""'"quote \\" back \\\\ tab \\t nl \\n cr \\r nul \\u0000 ff \\f bs \\b del \\u007f esc \\u001b"'""",
    "'\"ünïcödé 😀 \\\\u2028\"'", "'[1, \"two\", 3.5, false]'",
    "CAST(CAST('12345.678900' AS DECIMAL(20,6)) AS JSON)", "CAST(CAST(-0.5 AS DECIMAL(3,2)) AS JSON)",
    "CAST(DATE'2024-02-29' AS JSON)", "CAST(TIMESTAMP'2024-02-29 12:34:56.5' AS JSON)",
    "CAST(TIME'-12:34:56.654321' AS JSON)", "CAST(x'00ff10' AS JSON)", "JSON_ARRAY(x'41', b'101', DATE'1999-01-01')",
    "JSON_ARRAY(CAST(REPEAT('x', 200) AS BINARY))", "JSON_OBJECT('k', REPEAT('y', 70000), 'n', 70000)",
    "JSON_ARRAY(CAST('1' AS UNSIGNED), 2e0, 2.50)", "JSON_OBJECT('t', CAST('2024-01-01 00:00:00' AS DATETIME(6)))",
)  # fmt: skip

TYPE_CASES: tuple[TypeCase, ...] = (
    *_integers("TINYINT", 8),
    *_integers("SMALLINT", 16),
    *_integers("MEDIUMINT", 24),
    *_integers("INT", 32),
    *_integers("BIGINT", 64),
    TypeCase("YEAR", ("0", "1901", "2155", "2024")),
    *(TypeCase(f"BIT({n})", ("0", "1", f"{2**n - 1}")) for n in (1, 7, 8, 9, 16, 33, 64)),
    TypeCase("DECIMAL(10,2)", ("0", "-0.01", "99999999.99", "-99999999.99", "1.1", "1000000")),
    TypeCase("DECIMAL(65,30)", ("0", "1e34", f"-{'9' * 35}.{'9' * 30}", f"{'9' * 35}.{'9' * 30}", "1e-30")),
    TypeCase("DECIMAL(18,9)", ("123456789.123456789", "-123456789.000000001")),
    TypeCase("DECIMAL(1,0)", ("0", "9", "-9")),
    TypeCase("DECIMAL(3,3)", ("0", "0.999", "-0.001")),
    TypeCase("DECIMAL(65,0)", ("9" * 65, "-" + "9" * 65)),
    TypeCase("DECIMAL(19,4) UNSIGNED", ("0", "123456789012345.6789")),
    TypeCase("FLOAT", ("0", "1.1", "-1.1", "3.402823466e38", "1.175494351e-38", "16777217", "1e-45", "123456.789")),
    TypeCase("DOUBLE", ("0", "1.1", "-1e308", "2.2250738585072014e-308", "0.1e0+0.2e0", "1e15", "1e22", "5e-324")),
    TypeCase("DATE", ("'0000-00-00'", "'1000-01-01'", "'9999-12-31'", "'2024-02-29'", "'2024-02-00'", "'2024-00-00'")),
    *_fractions("DATETIME", *_DATETIMES),
    *_fractions("TIMESTAMP", *_TIMESTAMPS),
    *_fractions("TIME", *_TIMES),
    TypeCase("CHAR(10)", ("''", "'a'", "' a '", "'ünï'", "'😀'")),
    TypeCase("CHAR(255)", ("''", "REPEAT('é', 255)", "'x  '")),
    TypeCase("CHAR(64) CHARACTER SET latin1", ("'é'", "'€'")),
    TypeCase("VARCHAR(20)", ("''", "'a  '", "'ünïcödé'", "'😀'", r"'a\0b'")),
    TypeCase("VARCHAR(300)", ("''", "REPEAT('x', 300)", "REPEAT('😀', 300)")),
    *(
        TypeCase(f"VARCHAR(40) CHARACTER SET {charset}", ("''", *literals))
        for charset, literals in {
            "latin1": ("'é€ÿ'", "x'818d8f909d80ff'"),
            "ascii": ("'plain'",),
            "utf8mb3": ("'é漢'",),
            "utf16": ("'é漢😀'",),
            "utf16le": ("'é漢😀'",),
            "utf32": ("'é漢😀'",),
            "ucs2": ("'é漢'",),
            "gbk": ("'漢字中文'",),
            "gb2312": ("'中文'",),
            "cp932": ("'日本語ｱ'",),
            "euckr": ("'한국어'",),
            "cp1251": ("'Привет'",),
            "koi8r": ("'Привет'",),
            "latin2": ("'Łódź'",),
            "greek": ("'αβγ'",),
            "hebrew": ("'שלום'",),
        }.items()
    ),
    *(
        TypeCase(name, ("''", "'a '", "'ünïcödé 😀'", "REPEAT('z', 250)"))
        for name in ("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT")
    ),
    TypeCase("TEXT CHARACTER SET latin1", ("'é€'", "REPEAT('ÿ', 60000)")),
    TypeCase("BINARY(5)", ("''", "x'00'", "x'0000000000'", "x'01020000'", "'a  '", "x'ffffffffff'")),
    TypeCase("VARBINARY(300)", ("''", "x'00'", "x'ff00'", "REPEAT(x'ab', 300)")),
    *(
        TypeCase(name, ("''", "x'00ff00'", "REPEAT(x'c3', 250)"))
        for name in ("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")
    ),
    TypeCase("ENUM('a','b','ünï','x,y','it''s')", ("'a'", "'ünï'", "'x,y'", "'it''s'", "0")),
    TypeCase("ENUM('é','€') CHARACTER SET latin1", ("'é'", "'€'")),
    TypeCase(f"ENUM({','.join(repr(f'm{n}') for n in range(300))})", ("'m0'", "'m255'", "'m299'")),
    TypeCase("SET('a','b','c d','é')", ("''", "'a'", "'a,c d'", "'é,a,b'")),
    TypeCase("SET('é','ÿ') CHARACTER SET latin1", ("'é,ÿ'", "''")),
    TypeCase(f"SET({','.join(repr(f'm{n}') for n in range(64))})", ("'m0,m63'", "'m8,m31'", str(2**64 - 1))),
    TypeCase("JSON", _JSON),
    TypeCase("GEOMETRY", ("ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('LINESTRING(0 0,1 1)', 4326)")),
    TypeCase("POINT", ("POINT(1.5, -2.5)",)),
    TypeCase("VECTOR(3)", ("TO_VECTOR('[1,2,3.5]')",)),
)

SQL_MODE = "ALLOW_INVALID_DATES"
"""The mode under which all literals can be inserted: zero dates, cut fractions."""
