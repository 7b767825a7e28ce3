"""The column types, what is stored in them, and what they are compared with: every type and spelling of a value."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from integration.oracle.trees import (
    DATE,
    LONGLONG,
    NULL,
    SHORT,
    STRING,
    TIMESTAMP,
    TINY,
    Spelled,
    blob,
    clock,
    decimal,
    double,
    integer,
    moment,
    quoted,
    string,
)

NUMBERS = frozenset({"int", "dec", "real", "bit", "year"})
STRINGS = frozenset({"text", "bytes", "enum", "set"})
TIMES = frozenset({"date", "datetime", "time"})


@dataclass(frozen=True, slots=True)
class Kind:
    """A column type. `literals`: what is stored; `near`: what it is mostly compared with; `odd`: what it also is;
    `index`: how a key of it ends, None where it has none."""

    name: str
    ddl: str
    family: str
    literals: tuple[str, ...]
    near: tuple[Spelled, ...]
    odd: tuple[Spelled, ...]
    index: str | None = ""


def _number_spellings(numbers: tuple[int, ...]) -> tuple[Spelled, ...]:
    return tuple(
        made
        for number in numbers
        for made in (integer(number), integer(number, TINY if -129 < number < 128 else LONGLONG), integer(number))
    )


def _other_spellings(numbers: tuple[int, ...]) -> tuple[Spelled, ...]:
    out: list[Spelled] = []
    for number in numbers:
        out += [string(str(number)), decimal(f"{number}.0"), double(float(number))]
        if number in (0, 1):
            out += [Spelled("TRUE" if number else "FALSE"), Spelled(f"b'{number}'"), integer(number, SHORT)]
    return tuple(out)


_ODD_NUMBERS = (
    *(decimal("1.5"), decimal("2.50"), decimal("-1.10"), decimal("0.4999"), double(0.5), double(1.1), double(1e15)),
    *(string("1 "), string(" 1"), string("1abc"), string("1.0"), string("1e0"), string(""), string("a"), blob(b"1")),
    *(integer(2**63 - 1), integer(2**63), integer(2**64 - 1), integer(-(2**63)), NULL, Spelled("-0.0e0")),
    *(Spelled("x'31'"), Spelled("0x01"), Spelled("b'1'"), Spelled("+1"), Spelled("_utf8mb4'1'"), Spelled("N'2'")),
    *(Spelled("18446744073709551616"), Spelled("1e400"[:3] + "0"), Spelled("DATE'2024-02-29'"), decimal("3.0000")),
)


def _int(name: str, ddl: str, *numbers: int) -> Kind:
    known = (0, 1, 2, 3, *numbers)
    odd = _other_spellings(known) + _ODD_NUMBERS
    return Kind(name, ddl, "int", tuple(map(str, (1, 2, *known))), _number_spellings(known), odd)


def _decimal(name: str, ddl: str, *texts: str) -> Kind:
    near = tuple(map(decimal, (*texts, "0", "1.0", "2"))) + _number_spellings((0, 1, 2))
    odd = tuple(make(text) for text in texts for make in (string, _as_double))
    return Kind(name, ddl, "dec", ("0", "1", "2", *texts), near, odd + _other_spellings((0, 1, 2)) + _ODD_NUMBERS)


def _as_double(text: str) -> Spelled:
    return double(float(text))


def _real(name: str, ddl: str, *texts: str) -> Kind:
    """`texts`: what it is compared with as a DECIMAL, and holds."""
    literals = ("0", "-0.0e0", "1", "2", "0.5", "1.1", "-2.25", "1e15", *texts)
    near = (double(0.5), double(-2.25), double(1.1), double(0.0), *_number_spellings((0, 1, 2)), *map(decimal, texts))
    odd = (string("0.5"), decimal("1.1"), *_other_spellings((0, 1, 2)), *_ODD_NUMBERS, *map(_as_double, texts))
    return Kind(name, ddl, "real", literals, near, odd)


_WORDS = ("a", "A", "b", "B", "", " ", "a ", " a", "ab", "aB", "a_", "a%", "1", "01", "10")
_LATIN1 = ("€", "\u2019", "\u2013", "\u2018", "Ÿ")  # bytes below those of other letters with accents, in Unicode above
_ACCENTS = ("ä", "Ä", "ss", "ß", "é", "e", "z", "ÿ")


def _word_spellings(words: tuple[str, ...]) -> tuple[Spelled, ...]:
    return tuple(made for word in words for made in (string(word), string(word), string(word, STRING)))


def _other_words(words: tuple[str, ...]) -> tuple[Spelled, ...]:
    out: list[Spelled] = []
    for word in words:
        out += [blob(word.encode()), Spelled(f"N{quoted(word)}"), Spelled(f"_utf8mb4{quoted(word)}")]
        out.append(Spelled(f'"{word}"'))
    return tuple(out)


_ODD_WORDS = (
    *(string("nope"), string("a  "), string("A "), string("%"), string("_"), string("a%"), string("%b"), string("\\%")),
    *(integer(0), integer(1), integer(10), double(1.0), decimal("1.0"), NULL, Spelled("TRUE"), Spelled("_latin1'a'")),
    *(Spelled("_binary'a'"), Spelled("'a' 'b'"), Spelled("b'01100001'"), Spelled("0x6162"), moment("2024-02-29", DATE)),
    *(Spelled("'a' COLLATE utf8mb4_bin"), string("a\tb"), string("😀"), string("x" * 300)),
)


def _text(name: str, ddl: str, index: str | None = "", accents: bool = True, more: tuple[str, ...] = ()) -> Kind:
    words = _WORDS + (_ACCENTS if accents else ()) + more
    odd = _other_words(words) + _ODD_WORDS
    return Kind(name, ddl, "text", tuple(map(quoted, words)), _word_spellings(words), odd, index)


_DAYS = ("2024-02-29", "2024-03-01", "1999-12-31", "2024-12-31")
_MOMENTS = ("2024-02-29 00:00:00", "2024-02-29 12:34:56", "2024-02-29 12:34:56.789", "2024-03-01 00:00:00.4")
_FINER = ("2024-02-29 12:34:56.7891", "2024-02-29 12:34:56.5", "2024-02-29 12:34:55.9999999", "2024-03-01 00:00:00")
_ODD_DAYS = (
    *(string("2024-2-29"), string("20240229"), integer(20240229), integer(240229), string("2024-02-29T12:34:56")),
    *(string("2024-02-29 12:34"), string(""), string("a"), integer(0), string("2024-02-30"), NULL, string("24-02-29")),
    *(string("0000-00-00"), Spelled("20240229123456"), decimal("20240229123456.5"), string("2024-02-29 00:00:00 ")),
    *(clock("12:34:56"), string("2024-00-00"), string("2024-02-29 12:34:56+00:00"), blob(b"2024-02-29")),
)


def _day_spellings() -> tuple[Spelled, ...]:
    out = [make for day in _DAYS for make in (moment(day, DATE), string(day), moment(day))]
    for text in _MOMENTS:
        out += [moment(text), string(text), moment(text, TIMESTAMP), moment(text)]
    return tuple(out)


def _moment(name: str, ddl: str, literals: tuple[str, ...], zero: bool = False) -> Kind:
    zeros = ("'0000-00-00'",) * 2 if zero else ()
    family = "date" if ddl == "DATE" else "datetime"
    finer = tuple(made for text in _FINER for made in (moment(text[:26]), string(text)))
    return Kind(name, ddl, family, tuple(map(quoted, literals)) + zeros, _day_spellings(), finer + _ODD_DAYS)


_CLOCKS = ("00:00:00", "12:34:56", "-00:00:01", "100:00:00", "12:34:56.78", "01:11:12", "01:11:12.4", "838:59:59")


def _clock(name: str, ddl: str) -> Kind:
    near = tuple(make(text) for text in _CLOCKS for make in (clock, string))
    odd = (integer(123456), integer(0), string("12:34"), string("1 12:34:56"), string("a"), NULL, double(11112.4))
    more = (string("12:34:56.789"), clock("12:34:56.789"), moment("2024-02-29 12:34:56"), string("-12:34:56.5"))
    return Kind(name, ddl, "time", tuple(map(quoted, _CLOCKS)), near, odd + more)


_BYTES = (b"a", b"A", b"", b"\0", b"a\0", b"abc", b"a ", b"\xff\xfe", b"1")


def _bytes(name: str, ddl: str, index: str = "") -> Kind:
    stored = tuple(f"x'{raw.hex()}'" for raw in _BYTES)
    odd = (*map(_as_string, _BYTES), integer(1), NULL, string("a"), double(1.0))
    return Kind(name, ddl, "bytes", stored, tuple(map(blob, _BYTES)), odd, index)


def _as_string(raw: bytes) -> Spelled:
    return string(raw.decode("latin1"))


_JSON = ("1", "1.0", '"a"', "[1, 2]", '{"a": 1, "b": [2, null]}', "null", "true", '""', '{"b": "x"}', "[]", "-5")

KINDS: tuple[Kind, ...] = (
    _int("ti", "TINYINT", 127, -128),
    _int("tu", "TINYINT UNSIGNED", 255),
    _int("bo", "BOOLEAN"),
    _int("si", "SMALLINT", -32768),
    _int("mu", "MEDIUMINT UNSIGNED", 16777215),
    _int("it", "INT", 2147483647, -2147483648, -1),
    _int("iu", "INT UNSIGNED", 4294967295),
    _int("bi", "BIGINT", 2**63 - 1, -(2**63), -1),
    _int("bu", "BIGINT UNSIGNED", 2**64 - 1, 2**63),
    _int("zf", "INT(6) ZEROFILL", 123456),
    _decimal("dc", "DECIMAL(10,2)", "1.10", "2.50", "-1.10", "99999999.99", "0.01", "0.05"),
    _decimal("dw", "DECIMAL(30,10)", "1.1", "0.3333333333", "-12345678901234567890.0123456789"),
    _decimal("dz", "DECIMAL(5,0)", "99999", "-3"),
    _decimal("dl", "DECIMAL(65,30)", "1.1", "99999999999999999999999999999999999.999999999999999999999999999999"),
    _decimal("du", "DECIMAL(8,3) UNSIGNED", "1.125", "0.001"),
    _real("fl", "FLOAT"),
    _real("db", "DOUBLE"),
    Kind(
        "b1",
        "BIT(1)",
        "bit",
        ("b'0'", "b'1'"),
        _number_spellings((0, 1)),
        (*_other_spellings((0, 1)), blob(b"\1"), NULL),
    ),
    Kind(
        "b9",
        "BIT(9)",
        "bit",
        ("b'0'", "b'1'", "b'111111111'", "b'1100001'"),
        _number_spellings((0, 1, 511, 97)),
        (*_other_spellings((0, 1, 511)), blob(b"\1"), Spelled("b'111111111'"), string("a"), NULL),
    ),
    Kind(
        "b6",
        "BIT(64)",
        "bit",
        ("0", "1", "b'1'", str(2**64 - 1)),
        (*_number_spellings((0, 1)), integer(2**64 - 1)),
        _other_spellings((0, 1)),
    ),
    Kind(
        "yr",
        "YEAR",
        "year",
        ("1901", "2000", "2024", "0", "1970"),
        _number_spellings((2000, 2024, 0, 1901)),
        (*_other_spellings((2000, 24, 0)), *_ODD_NUMBERS, moment("2024-02-29", DATE)),
    ),
    _text("va", "VARCHAR(12) COLLATE utf8mb4_0900_ai_ci"),
    _text("vg", "VARCHAR(12) COLLATE utf8mb4_general_ci"),
    _text("vb", "VARCHAR(12) COLLATE utf8mb4_bin"),
    _text("vc", "VARCHAR(12) COLLATE utf8mb4_0900_as_cs"),
    _text("vn", "VARCHAR(12) COLLATE utf8mb4_0900_bin"),
    _text("vu", "VARCHAR(12) COLLATE utf8mb4_unicode_ci"),
    _text("vl", "VARCHAR(12) CHARACTER SET latin1"),
    _text("vd", "VARCHAR(12) CHARACTER SET latin1 COLLATE latin1_german2_ci"),
    _text("v3", "VARCHAR(12) CHARACTER SET utf8mb3"),
    _text("vx", "VARCHAR(12) CHARACTER SET ascii", accents=False),
    _text("v6", "VARCHAR(12) CHARACTER SET utf16"),
    _text("ca", "CHAR(5) COLLATE utf8mb4_0900_ai_ci"),
    _text("cu", "CHAR(5) COLLATE utf8mb4_unicode_ci"),
    _text("cb", "CHAR(5) COLLATE utf8mb4_bin"),
    _text("tx", "TEXT COLLATE utf8mb4_0900_ai_ci", "(8)"),
    _text("tt", "TINYTEXT COLLATE utf8mb4_general_ci", "(8)"),
    _text("mt", "MEDIUMTEXT COLLATE utf8mb4_bin", "(8)"),
    _text("lt", "LONGTEXT COLLATE utf8mb4_0900_as_ci", "(8)"),
    Kind(
        "en",
        "ENUM('b','a','c','1','')",
        "enum",
        ("'a'", "'b'", "'c'", "'1'", "''"),
        _word_spellings(("a", "A", "b", "1", "", "a ")),
        (*_other_words(("a", "")), integer(1), integer(2), integer(0), double(1.0), NULL),
    ),
    Kind(
        "st",
        "SET('x','y','z')",
        "set",
        ("''", "'x'", "'x,y'", "'z,x'"),
        _word_spellings(("", "x", "x,y", "y,x", "X")),
        (*_other_words(("x",)), integer(1), integer(3), NULL),
    ),
    _bytes("bn", "BINARY(3)"),
    _bytes("bv", "VARBINARY(6)"),
    _bytes("bl", "BLOB", "(8)"),
    Kind(
        "js",
        "JSON",
        "json",
        tuple(map(quoted, _JSON)),
        tuple(map(string, _JSON)),
        (integer(1), double(1.0), string("a"), NULL, Spelled("CAST('[1, 2]' AS JSON)")),
        None,
    ),
    _moment("da", "DATE", _DAYS, zero=True),
    _moment("d0", "DATETIME", (*_MOMENTS, *_DAYS), zero=True),
    _moment("d3", "DATETIME(3)", (*_MOMENTS, *_DAYS)),
    _moment("d6", "DATETIME(6)", (*_MOMENTS, "2024-02-29 12:34:56.789123")),
    _moment("ts", "TIMESTAMP NULL", (*_MOMENTS, "2001-01-01")),
    _moment("t3", "TIMESTAMP(3) NULL", _MOMENTS),
    _clock("c0", "TIME"),
    _clock("c2", "TIME(2)"),
    _clock("c6", "TIME(6)"),
)
BY_NAME = {kind.name: kind for kind in KINDS}


def _point(x: float, y: float) -> bytes:
    """As MySQL stores it: SRID 0 and WKB."""
    return struct.pack("<IBIdd", 0, 1, 1, x, y)


_SHAPES = ("POINT(1 2)", "POINT(0 1)", "LINESTRING(0 0, 1 1)", "POLYGON((0 0, 2 0, 2 2, 0 0))", "MULTIPOINT(1 2, 0 1)")
_SENTENCES = ("red apple", "green apple pie", "blue sky", "apple, apple and the sky", "Äpfel", "pie", "", "reddish")
_VECTORS = (struct.pack("<3f", 1, 2, 3), struct.pack("<3f", -0.5, 0, 1e10), struct.pack("<2f", 1, 2))
SEARCHES = (
    *(
        "'apple'",
        "'red sky'",
        "'+apple -pie' IN BOOLEAN MODE",
        "'app*' IN BOOLEAN MODE",
        "'\"apple pie\"' IN BOOLEAN MODE",
    ),
    *("'sky' IN NATURAL LANGUAGE MODE", "'' IN BOOLEAN MODE", "'>red <sky ~blue' IN BOOLEAN MODE"),
    *("'pie' WITH QUERY EXPANSION", "NULL", "'(apple pie) @4' IN BOOLEAN MODE"),
)
FULL_TEXT = " FULLTEXT"

# Of a share of the rounds only.
RARE: tuple[Kind, ...] = (
    Kind(
        "pt",
        "POINT",
        "geo",
        ("POINT(1, 2)", "POINT(0, 1)", "ST_GEOMFROMTEXT('POINT(1 2)')"),
        (blob(_point(1, 2)), blob(_point(0, 1))),
        (Spelled("POINT(1, 2)"), string("POINT(1 2)"), NULL, blob(b"a")),
        None,
    ),
    Kind(
        "ge",
        "GEOMETRY",
        "geo",
        tuple(f"ST_GEOMFROMTEXT('{shape}')" for shape in _SHAPES),
        (blob(_point(1, 2)), blob(_point(0, 1))),
        (*(Spelled(f"ST_GEOMFROMTEXT('{shape}')") for shape in _SHAPES), NULL, integer(1)),
        None,
    ),
    Kind(
        "ft",
        "VARCHAR(40) COLLATE utf8mb4_0900_ai_ci",
        "text",
        tuple(map(quoted, _SENTENCES)),
        tuple(map(string, _SENTENCES)),
        (*_other_words(("pie", "")), *_ODD_WORDS),
        FULL_TEXT,
    ),
    Kind(
        "ve",
        "VECTOR(3)",
        "vector",
        tuple(f"x'{raw.hex()}'" for raw in _VECTORS),
        tuple(map(blob, _VECTORS)),
        (Spelled("STRING_TO_VECTOR('[1, 2, 3]')"), string("[1,2,3]"), NULL, integer(1)),
        None,
    ),
)

_LONG = ("CONCAT(REPEAT('a', 520), 'b')", "CONCAT(REPEAT('a', 520), 'a')", "CONCAT(REPEAT('A', 520), 'b ')", "'a'")

# Of half of the rounds: what MySQL compares, orders or groups by rules of its own. They have an index behind `k`, too.
UNUSUAL: tuple[Kind, ...] = (
    _real("ff", "FLOAT(7,2)", "0.1", "0.2", "0.3"),
    _real("fd", "DOUBLE(9,2)", "0.1", "0.2", "0.3"),
    _text("lb", "VARCHAR(12) CHARACTER SET latin1 COLLATE latin1_bin", more=_LATIN1),
    _int("bz", "BIGINT UNSIGNED ZEROFILL", 2**64 - 1, 2**63, 2**64 - 1),
    _int("bm", "BIGINT", -1, -1, -(2**63)),
    Kind("lg", "TEXT COLLATE utf8mb4_general_ci", "text", _LONG, _word_spellings(("a", "A", "")), _ODD_WORDS, "(8)"),
    replace(BY_NAME["en"], name="e2", ddl="ENUM('c','b','a','1') NULL", literals=("'a'", "'b'", "'c'", "'1'")),
    replace(BY_NAME["c0"], name="cx"),
)


def with_partial_dates(kind: Kind) -> Kind:
    """The kind with '2024-00-00' in the place of one of two '0000-00-00', where it has them."""
    *others, last = kind.literals
    return replace(kind, literals=(*others, "'2024-00-00'")) if last == "'0000-00-00'" else kind
