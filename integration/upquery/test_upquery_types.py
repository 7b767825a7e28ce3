"""Every column type: what an upquery decodes is the canonical value of sqltypes/schema.py."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from decimal import Decimal

import pytest

from external_upquery.address import parse_upstream
from external_upquery.executor import Executor
from external_upquery.mysql.schema_source import SchemaSource
from integration.servers.private_mysql import Server
from integration.support.upqueries import answer, request, run
from sqltypes.schema import ResultColumn, SqlType, Table
from sqltypes.values import parse_text
from tests.support.type_cases import SQL_MODE, TYPE_CASES, TypeCase


@dataclass(frozen=True)
class Case:
    """A column's definition, literals to store, and the canonical values read back."""

    definition: str
    type: SqlType
    values: dict[str, object]


def binary32(value: float) -> float:
    widened: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return widened


TEXT = "utf8mb4_0900_ai_ci"
CASES = [
    Case("TINYINT", SqlType("tinyint"), {"-128": -128, "127": 127, "NULL": None}),
    Case("BOOL", SqlType("tinyint", length=1), {"TRUE": 1, "FALSE": 0}),
    Case("TINYINT UNSIGNED", SqlType("tinyint", unsigned=True), {"255": 255}),
    Case("SMALLINT", SqlType("smallint"), {"-32768": -32768}),
    Case("MEDIUMINT UNSIGNED", SqlType("mediumint", unsigned=True), {"16777215": 16777215}),
    Case("INT(8) ZEROFILL", SqlType("int", unsigned=True, zerofill=True), {"42": 42}),
    Case("BIGINT", SqlType("bigint"), {"-9223372036854775808": -(2**63)}),
    Case("BIGINT UNSIGNED", SqlType("bigint", unsigned=True), {"18446744073709551615": 2**64 - 1}),
    Case("YEAR", SqlType("year"), {"1901": 1901, "0000": 0}),
    Case("BIT(1)", SqlType("bit", length=1), {"b'1'": 1}),
    Case("BIT(64)", SqlType("bit", length=64), {"18446744073709551615": 2**64 - 1, "0": 0}),
    Case(
        "DECIMAL(65,30)",
        SqlType("decimal", precision=65, scale=30),
        {"-1.5": Decimal("-1.500000000000000000000000000000"), "0": Decimal("0E-30")},
    ),
    Case("DECIMAL(5,0) UNSIGNED", SqlType("decimal", unsigned=True, precision=5, scale=0), {"99999": Decimal(99999)}),
    Case("FLOAT", SqlType("float"), {"1.1": binary32(1.1), "-0e0": -0.0, "3e38": binary32(3e38)}),
    Case("DOUBLE", SqlType("double"), {"0.1": 0.1, "1e308": 1e308, "-5e-324": -5e-324}),
    Case("DATE", SqlType("date"), {"'2024-02-29'": "2024-02-29", "'0000-00-00'": "0000-00-00"}),
    Case("DATETIME", SqlType("datetime", scale=0), {"'2024-02-29 23:59:59.4'": "2024-02-29 23:59:59"}),
    Case("DATETIME(6)", SqlType("datetime", scale=6), {"'9999-12-31 0:0:0.000001'": "9999-12-31 00:00:00.000001"}),
    Case(
        "TIMESTAMP(3) NULL", SqlType("timestamp", scale=3), {"'2024-07-01 12:00:00.5+02:00'": "2024-07-01 10:00:00.500"}
    ),
    Case("TIME", SqlType("time", scale=0), {"'-838:59:59'": -3020399000000, "'00:00:01'": 1000000}),
    Case("TIME(6)", SqlType("time", scale=6), {"'-12:34:56.654321'": -45296654321, "'-00:00:00.000001'": -1}),
    Case("CHAR(10)", SqlType("char", length=10, collation=TEXT), {"'a  '": "a", "''": "", "'日本'": "日本"}),
    Case("CHAR(9) CHARACTER SET latin1", SqlType("char", length=9, collation="latin1_swedish_ci"), {"'é€'": "é€"}),
    Case(
        "VARCHAR(300)", SqlType("varchar", length=300, collation=TEXT), {"'a  '": "a  ", "REPEAT('x',300)": "x" * 300}
    ),
    Case("VARCHAR(9) CHARACTER SET utf16", SqlType("varchar", length=9, collation="utf16_general_ci"), {"'𝄞a'": "𝄞a"}),
    Case("VARCHAR(9) CHARACTER SET gbk", SqlType("varchar", length=9, collation="gbk_chinese_ci"), {"'中文'": "中文"}),
    Case("TINYTEXT", SqlType("tinytext", length=255, collation=TEXT), {"'é'": "é"}),
    Case("TEXT", SqlType("text", length=65535, collation=TEXT), {"REPEAT('é',30000)": "é" * 30000}),
    Case("MEDIUMTEXT", SqlType("mediumtext", length=16777215, collation=TEXT), {"REPEAT('a',70000)": "a" * 70000}),
    Case("LONGTEXT", SqlType("longtext", length=4294967295, collation=TEXT), {"'a'": "a"}),
    Case("ENUM('a','ü''x')", SqlType("enum", length=3, collation=TEXT, members=("a", "ü'x")), {"2": "ü'x", "'A'": "a"}),
    Case("SET('p','q','ü')", SqlType("set", length=5, collation=TEXT, members=("p", "q", "ü")), {"5": "p,ü", "''": ""}),
    Case("BINARY(4)", SqlType("binary", length=4), {"'a'": b"a\0\0\0"}),
    Case("VARBINARY(9)", SqlType("varbinary", length=9), {"x'00ff00'": b"\0\xff\0", "''": b""}),
    Case("TINYBLOB", SqlType("tinyblob", length=255), {"x'ff'": b"\xff"}),
    Case("BLOB", SqlType("blob", length=65535), {"REPEAT(x'80',300)": b"\x80" * 300}),
    Case("MEDIUMBLOB", SqlType("mediumblob", length=16777215), {"x'ff'": b"\xff"}),
    Case("LONGBLOB", SqlType("longblob", length=4294967295), {"x'ff'": b"\xff"}),
    Case(
        "POINT SRID 0",
        SqlType("geometry"),
        {"ST_GeomFromText('POINT(1 2)')": bytes(4) + struct.pack("<BIdd", 1, 1, 1.0, 2.0)},
    ),
    Case("VECTOR(2)", SqlType("vector", length=8), {"STRING_TO_VECTOR('[1,-2]')": struct.pack("<ff", 1.0, -2.0)}),
    Case(
        "JSON",
        SqlType("json"),
        {"""'{"b": 1.0, "a": ["ü", null]}'""": '{"a": ["ü", null], "b": 1.0}', "'null'": "null"},
    ),
]


def stored(mysql: Server, database: str, case: Case) -> None:
    values = ", ".join(f"({number}, {literal})" for number, literal in enumerate(case.values))
    mysql.execute(
        "SET sql_mode = ''",
        "SET time_zone = '+07:00'",
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, c {case.definition}) DEFAULT COLLATE {TEXT}",
        f"INSERT INTO {database}.t VALUES {values}",
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.definition)
def test_value_is_canonical_and_type_is_known(mysql: Server, database: str, case: Case) -> None:
    if "VECTOR" in case.definition and mysql.version() < "9":
        return
    stored(mysql, database, case)

    async def body(executor: Executor) -> tuple[list[tuple[object, ...]], ResultColumn]:
        found = await answer(executor, request(f"SELECT c FROM {database}.t ORDER BY id"))
        columns, _ = await executor.describe(f"SELECT c FROM {database}.t")
        return found.results[0], columns[0]

    rows, described = run(mysql, body)
    expected = [(value,) for value in case.values.values()]
    assert rows == expected
    assert [(type(value), str(value)) for (value,) in rows] == [(type(value), str(value)) for (value,) in expected]
    reflected = reflect(mysql, database).column("c").type
    assert reflected == case.type
    assert described.type.name == case.type.name
    assert described.type.unsigned == case.type.unsigned
    assert (described.type.precision, described.type.collation) == (case.type.precision, case.type.collation)
    if not case.type.members:
        assert described.type.scale == case.type.scale


def reflect(mysql: Server, database: str) -> Table:
    source = SchemaSource(parse_upstream(mysql.url))
    try:
        found = source.snapshot_now([(database, "t")]).relations[database, "t"]
    finally:
        source.close()
    assert isinstance(found, Table)
    return found


@pytest.mark.parametrize("case", TYPE_CASES, ids=lambda case: case.ddl[:60])
def test_edge_values_are_as_the_reflected_type_reads_them(mysql: Server, database: str, case: TypeCase) -> None:
    table = f"{database}.t"
    rows = ", ".join(f"({number}, {literal})" for number, literal in enumerate(("NULL", *case.literals)))
    mysql.execute(
        f"SET sql_mode = '{SQL_MODE}'",
        f"CREATE TABLE {table} (id INT PRIMARY KEY, c {case.ddl})",
        f"INSERT INTO {table} VALUES {rows}",
    )
    type_ = reflect(mysql, database).column("c").type
    # As upqueries select it: MySQL's text form of a FLOAT shows six digits.
    column = "CAST(c AS DOUBLE)" if type_.name == "float" else "c"
    sql = f"SELECT {column} FROM {table} ORDER BY id"

    async def body(executor: Executor) -> list[tuple[object, ...]]:
        return (await answer(executor, request(sql))).results[0]

    with mysql.connect(use_unicode=False, conv={}) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(sql)
        texts = [text for (text,) in cursor.fetchall()]
    parse = parse_text(type_)
    assert run(mysql, body) == [(None if text is None else parse(text),) for text in texts]
