"""Random tables, their rows, and random writes to them: small pools of values that meet each other often and that
compare in surprising ways.

Everything comes from the `random.Random` that is passed in, so a seed makes the same statements again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

_WORDS = ("'a'", "'A'", "'b'", "'B'", "''", "' '", "'a '", "' a'", "'ab'", "'aB'", "'1'", "'01'")
_ACCENTS = ("'ä'", "'Ä'", "'ss'", "'ß'", "'é'", "'z'")
_WORD_PARAMETERS = ("a", "A", "b", "", " ", "a ", " a", "ab", "AB", "1", "ä", "Ä", "ss", "ß", "e", "nope", None)


@dataclass(frozen=True, slots=True)
class Kind:
    """A column type. `literals`: SQL to insert; `parameters`: what clients send to compare it with; `family`: columns
    of one family are compared with each other."""

    name: str
    ddl: str
    family: str
    literals: tuple[str, ...]
    parameters: tuple[Any, ...]
    ordered: bool = True  # MIN, MAX, < and ORDER BY make sense
    summable: bool = False


def _text(name: str, ddl: str, accents: bool = True, family: str = "text") -> Kind:
    return Kind(name, ddl, family, _WORDS + (_ACCENTS if accents else ()), _WORD_PARAMETERS)


KINDS: tuple[Kind, ...] = (
    Kind(
        "i",
        "INT",
        "number",
        ("0", "1", "2", "3", "-1", "2147483647", "-2147483648"),
        (
            0,
            1,
            2,
            3,
            -1,
            2147483647,
            2**40,
            "1",
            "1 ",
            "2.0",
            1.0,
            1.5,
            Decimal("1.0"),
            Decimal("2.5"),
            "a",
            None,
            True,
        ),
        summable=True,
    ),
    Kind("t", "TINYINT", "number", ("0", "1", "2", "127", "-128"), (0, 1, 2, 127, 128, -128, "1", None), summable=True),
    Kind(
        "u",
        "BIGINT UNSIGNED",
        "number",
        ("0", "1", "2", "18446744073709551615", "9223372036854775808"),
        (0, 1, 2, -1, 2**64 - 1, 2**63, 2**64, "1", "18446744073709551615", 1.0, 1.8446744073709552e19, None),
        summable=True,
    ),
    Kind(
        "d",
        "DECIMAL(10,2)",
        "number",
        ("0", "1", "1.10", "2.50", "-1.10", "99999999.99"),
        (
            0,
            1,
            Decimal("1.1"),
            Decimal("1.10"),
            Decimal("1.100"),
            Decimal("1.101"),
            2.5,
            1.1,
            "1.10",
            "2.5",
            -0.0,
            None,
        ),
        summable=True,
    ),
    Kind(
        "w",
        "DECIMAL(30,10)",
        "number",
        ("0", "1", "1.1", "0.3333333333", "-12345678901234567890.0123456789"),
        (0, 1, Decimal("1.1"), Decimal("0.3333333333"), Decimal("-12345678901234567890.0123456789"), 0.5, "1.1", None),
        summable=True,
    ),
    Kind(
        "f",
        "FLOAT",
        "number",
        ("0", "-0.0e0", "1", "0.5", "1.1", "-2.25"),
        (0, 1, 0.5, 1.1, -0.0, "0.5", Decimal("0.5"), None),
    ),
    Kind(
        "g",
        "DOUBLE",
        "number",
        ("0", "-0.0e0", "1", "0.5", "1.1", "1e15"),
        (0, 1, 0.5, 1.1, -0.0, "1.1", Decimal("1.1"), None),
    ),
    Kind("y", "YEAR", "year", ("1901", "2000", "2024", "0"), (2000, 2024, 0, 24, "2024", None)),
    _text("s", "VARCHAR(12) COLLATE utf8mb4_0900_ai_ci", family="ai"),
    _text("c", "VARCHAR(12) COLLATE utf8mb4_general_ci", family="general"),
    _text("n", "VARCHAR(12) COLLATE utf8mb4_bin", family="bin"),
    _text("x", "VARCHAR(12) COLLATE utf8mb4_0900_as_cs", family="cs"),
    _text("l", "VARCHAR(12) CHARACTER SET latin1", family="latin1"),
    _text("h", "CHAR(5) COLLATE utf8mb4_0900_ai_ci", family="ai"),
    _text("p", "CHAR(5) COLLATE utf8mb4_unicode_ci", family="unicode"),
    _text("q", "TEXT COLLATE utf8mb4_0900_bin", family="bin2"),
    Kind(
        "e",
        "ENUM('b','a','c','1')",
        "enum",
        ("'a'", "'b'", "'c'", "'1'"),
        ("a", "A", "b", "1", "", 1, None),
        ordered=False,
    ),
    Kind(
        "m",
        "SET('x','y','z')",
        "set",
        ("''", "'x'", "'x,y'", "'z,x'"),
        ("", "x", "x,y", "y,x", "X", None),
        ordered=False,
    ),
    Kind(
        "b",
        "BINARY(3)",
        "bytes",
        ("'a'", "'abc'", "x'000000'", "''", "'a '"),
        (b"a", b"a\0\0", b"abc", b"", b"\0\0\0", "abc", None),
    ),
    Kind(
        "v", "VARBINARY(6)", "bytes", ("'a'", "'A'", "''", "x'00'", "'a '"), (b"a", b"A", b"", b"\0", b"a ", "a", None)
    ),
    Kind("j", "BIT(9)", "bit", ("b'0'", "b'1'", "b'111111111'"), (0, 1, 511, 512, "1", b"\x01", None), ordered=False),
    Kind(
        "o",
        "DATE",
        "time",
        ("'2024-02-29'", "'2024-03-01'", "'1999-12-31'", "'0000-00-00'"),
        (
            date(2024, 2, 29),
            "2024-02-29",
            "2024-2-29",
            "2024-02-29 00:00:00",
            "2024-02-29 12:00:00",
            "0000-00-00",
            "20240229",
            datetime(2024, 3, 1),
            "2024-00-00",
            None,
        ),
    ),
    Kind(
        "k",
        "DATETIME(3)",
        "time",
        ("'2024-02-29'", "'2024-02-29 12:34:56.789'", "'2024-02-29 12:34:56'", "'0000-00-00'"),
        (
            datetime(2024, 2, 29),
            datetime(2024, 2, 29, 12, 34, 56, 789000),
            "2024-02-29 12:34:56.789",
            "2024-02-29T12:34:56",
            "2024-02-29 12:34:56.7890001",
            date(2024, 2, 29),
            None,
        ),
    ),
    Kind(
        "z",
        "TIMESTAMP(6) NULL",
        "time",
        ("'2024-02-29 12:34:56.789123'", "'2024-02-29 12:34:56'", "'2001-01-01'"),
        (datetime(2024, 2, 29, 12, 34, 56), datetime(2024, 2, 29, 12, 34, 56, 789123), "2024-02-29 12:34:56", None),
    ),
    Kind(
        "r",
        "TIME(2)",
        "clock",
        ("'00:00:00'", "'-00:00:01.50'", "'12:34:56.78'", "'100:00:00'"),
        (timedelta(0), timedelta(seconds=-1.5), "12:34:56.78", "12:34:56.780", timedelta(hours=100), "100:00:00", None),
    ),
)
BY_NAME = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class RandomColumn:
    name: str
    kind: Kind
    nullable: bool

    def literal(self, rng: random.Random) -> str:
        if self.nullable and rng.random() < 0.15:
            return "NULL"
        return rng.choice(self.kind.literals)


@dataclass
class RandomTable:
    """A table with the primary key `id` (or (`id`, `id2`), or none) and random columns."""

    name: str
    columns: list[RandomColumn]
    primary: tuple[str, ...]
    indexes: list[str] = field(default_factory=list)

    def ddl(self) -> str:
        lines = ["id INT NOT NULL", "id2 INT NOT NULL DEFAULT 0"]
        lines += [f"{c.name} {c.kind.ddl}{'' if c.nullable else ' NOT NULL'}" for c in self.columns]
        if self.primary:
            lines.append(f"PRIMARY KEY ({', '.join(self.primary)})")
        lines += [f"KEY ({name}{'(4)' if BY_NAME[name[0]].ddl.startswith('TEXT') else ''})" for name in self.indexes]
        return f"CREATE TABLE {self.name} ({', '.join(lines)})"

    def insert(self, rng: random.Random, ids: list[int]) -> str:
        names = ", ".join(["id", "id2", *(column.name for column in self.columns)])
        rows = [
            f"({', '.join([str(id_), str(rng.randrange(3)), *(column.literal(rng) for column in self.columns)])})"
            for id_ in ids
        ]
        verb = rng.choice(("INSERT IGNORE", "REPLACE")) if self.primary else "INSERT"
        return f"{verb} INTO {self.name} ({names}) VALUES {', '.join(rows)}"


IDS = 40  # ids of rows are below this


def random_tables(rng: random.Random) -> list[RandomTable]:
    """Three tables that share some columns, so that they can be joined."""
    shared = rng.sample(KINDS, 3)
    tables = []
    for name in ("t1", "t2", "t3"):
        kinds = dict.fromkeys([BY_NAME["i"], *shared, *rng.sample(KINDS, rng.randint(2, 5))])
        columns = [RandomColumn(f"{kind.name}{name[1]}", kind, rng.random() < 0.75) for kind in kinds]
        if rng.random() < 0.4:  # a second column of a kind, to be compared within the row
            twin = rng.choice(columns)
            columns.append(RandomColumn(twin.name + "b", twin.kind, True))
        primary = rng.choice((("id",), ("id",), ("id",), ("id", "id2"), ("id2", "id"), ()))
        indexed = [column.name for column in columns if rng.random() < 0.3]
        tables.append(RandomTable(name, columns, primary, indexed))
    return tables


def first_rows(rng: random.Random, tables: list[RandomTable]) -> list[str]:
    return [table.insert(rng, [rng.randrange(IDS) for _ in range(rng.choice((0, 8, 25)))] or [1]) for table in tables]


def one_write(rng: random.Random, table: RandomTable) -> str:
    """One statement: insert, update of some columns (keys among them), delete; of one row or of many."""
    column = rng.choice(table.columns)
    where = rng.choice(
        (
            f"id = {rng.randrange(IDS)}",
            f"id BETWEEN {rng.randrange(IDS)} AND {rng.randrange(IDS)}",
            f"{column.name} <=> {column.literal(rng)}",
            f"id2 = {rng.randrange(3)} AND id < {rng.randrange(IDS)}",
        )
    )
    match rng.randrange(10):
        case 0 | 1 | 2:
            return table.insert(rng, [rng.randrange(IDS) for _ in range(rng.choice((1, 1, 3, 8)))])
        case 3:
            return f"DELETE FROM {table.name} WHERE {where}"
        case 4:
            return f"UPDATE IGNORE {table.name} SET id = {rng.randrange(IDS)}, id2 = id2 + 1 WHERE {where}"
        case _:
            changed = rng.sample(table.columns, rng.randint(1, 2))
            sets = ", ".join(f"{item.name} = {item.literal(rng)}" for item in changed)
            return f"UPDATE IGNORE {table.name} SET {sets} WHERE {where}"


def one_transaction(rng: random.Random, tables: list[RandomTable]) -> list[str]:
    """Statements of one transaction, BEGIN and its end included; the row written twice and moved back among them."""
    if rng.random() < 0.5:
        return [one_write(rng, rng.choice(tables))]
    body = [one_write(rng, rng.choice(tables)) for _ in range(rng.randint(2, 4))]
    table = rng.choice(tables)
    id_ = rng.randrange(IDS)
    if rng.random() < 0.3:
        body += [table.insert(rng, [id_]), f"DELETE FROM {table.name} WHERE id = {id_}"]
    if rng.random() < 0.3:
        body += [f"DELETE FROM {table.name} WHERE id = {id_}", table.insert(rng, [id_])]
    if rng.random() < 0.2:
        body.insert(1, "SAVEPOINT s")
        body.insert(2, one_write(rng, table))
        body.insert(3, "ROLLBACK TO s")
    return ["BEGIN", *body, rng.choice(("COMMIT", "COMMIT", "COMMIT", "COMMIT", "ROLLBACK"))]
