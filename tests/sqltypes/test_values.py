"""Literals, sizes and parameters without a MySQL."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from sqltypes.errors import BadParameters, ComparedElsewhere
from sqltypes.expression import Row
from sqltypes.schema import BIGINT, DOUBLE, SqlType
from sqltypes.values import client_literal, convert_parameter, identical, parse_text, sql_literal, time_text

TEXT = SqlType("varchar", length=20, collation="utf8mb4_0900_ai_ci")
LATIN = SqlType("varchar", length=20, collation="latin1_swedish_ci")
MONEY = SqlType("decimal", precision=10, scale=2)
WIDE = SqlType("decimal", precision=30, scale=2)
DATETIME = SqlType("datetime", scale=0)
TIME = SqlType("time", scale=0)
YEAR = SqlType("year")
D = Decimal


@pytest.mark.parametrize(
    ("value", "type_", "literal"),
    [
        (None, BIGINT, "NULL"),
        (-5, BIGINT, "-5"),
        (D("1.50"), MONEY, "1.50"),
        (D("1E+3"), MONEY, "1000"),
        (1.5, DOUBLE, "1.5e0"),
        (1e300, DOUBLE, "1e+300"),
        ("it's \\ a\n\0", TEXT, r"'it\'s \\ a\n\0'"),
        (b"\x00\xff", SqlType("varbinary"), "x'00ff'"),
        (-3661_000_000, TIME, "TIME'-01:01:01'"),
        (1_500_000, SqlType("time", scale=3), "TIME'00:00:01.500000'"),
        ("2020-01-01 00:00:00", DATETIME, "'2020-01-01 00:00:00'"),
        ('{"a": 1}', SqlType("json"), "CAST('{\"a\": 1}' AS JSON)"),
    ],
)
def test_canonical_value_as_literal(value: Any, type_: SqlType, literal: str) -> None:
    assert sql_literal(value, type_) == literal


def test_clients_values_as_literals_by_their_python_type() -> None:
    assert client_literal(True) == "1"
    assert client_literal(date(2020, 1, 2)) == "'2020-01-02'"
    assert client_literal(datetime(2020, 1, 2, 3, 4, 5, 6)) == "'2020-01-02 03:04:05.000006'"
    assert client_literal(timedelta(seconds=-1)) == "'-00:00:01'"


@pytest.mark.parametrize(
    ("given", "type_", "value"),
    [
        (True, BIGINT, 1),
        (2**70, BIGINT, 2**70),
        ("5", BIGINT, 5),
        (" 5.0", BIGINT, 5),
        (D("5.0"), BIGINT, 5),
        (D("5.5"), BIGINT, D("5.5")),
        (5.0, BIGINT, 5),
        (1, MONEY, D("1.00")),
        (D("1.5"), MONEY, D("1.50")),
        ("0.10", MONEY, D("0.10")),
        (0.1, MONEY, D("0.10")),
        (-1e3, MONEY, D("-1000.00")),
        (0.0, MONEY, D("0.00")),
        (D("1.505"), MONEY, D("1.505")),
        (1, DOUBLE, 1.0),
        ("1.5", DOUBLE, 1.5),
        ("\u00e9", LATIN, "\u00e9"),
        ("a", SqlType("varbinary"), b"a"),
        ("2020-01-02", DATETIME, "2020-01-02 00:00:00"),
        (date(2020, 1, 2), DATETIME, "2020-01-02 00:00:00"),
        ("2020-01-02 00:00:00", SqlType("date"), "2020-01-02"),
        ("2020-01-02 01:00:00", SqlType("date"), "2020-01-02 01:00:00"),
        (datetime(2020, 1, 2, 3, 4, 5, 500000), SqlType("datetime", scale=2), "2020-01-02 03:04:05.50"),
        ("01:00", TIME, 3600_000_000),
        (timedelta(seconds=-1), TIME, -1_000_000),
        (2020, YEAR, 2020),
        (None, BIGINT, None),
    ],
)
def test_parameter_in_the_columns_form(given: Any, type_: SqlType, value: Any) -> None:
    found = convert_parameter(given, type_)
    assert (found, type(found)) == (value, type(value))
    assert not isinstance(value, D) or str(found) == str(value)


@pytest.mark.parametrize(
    ("given", "type_"),
    [
        ("5a", BIGINT),
        ("", BIGINT),
        ("12345678901234567", BIGINT),
        (1e16, BIGINT),
        (1.505, MONEY),
        (-0.0, MONEY),
        (1e300, MONEY),
        (0.5, WIDE),
        ("1.50", WIDE),
        (5, TEXT),
        (b"a", TEXT),
        ("\u4e00", LATIN),
        (5, DATETIME),
        ("2020-02-30", DATETIME),
        ("0000-00-00", DATETIME),
        ("12", TIME),
        (datetime(2020, 1, 2, 3, 4, 5, 500000), DATETIME),
        ("2020-01-02 03:04:05.123", SqlType("timestamp", scale=2)),
        ("01:11:12.4", TIME),
        (timedelta(microseconds=1), SqlType("time", scale=3)),
        (70, YEAR),
        ("2020", YEAR),
        (-1, SqlType("bit", length=64)),
        (Decimal("-0.5"), SqlType("bit", length=8)),
        ("{}", SqlType("json")),
    ],
)
def test_parameter_that_mysql_compares_in_another_type_passes_through(given: Any, type_: SqlType) -> None:
    with pytest.raises(ComparedElsewhere):
        convert_parameter(given, type_)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (object(), None),
        ([1], None),
        (float("nan"), None),
        (D("NaN"), None),
        (datetime(2020, 1, 1, tzinfo=UTC), None),
        (timedelta(hours=839), None),
        ("abc", "decimal"),
        (1, "nonsense"),
    ],
)
def test_nonsense_is_refused_as_such(given: Any, kind: str | None) -> None:
    with pytest.raises(BadParameters) as caught:
        convert_parameter(given, BIGINT, kind)
    assert not isinstance(caught.value, ComparedElsewhere)


def test_kinds_that_python_types_do_not_tell() -> None:
    assert convert_parameter("1.5", MONEY, "decimal") == D("1.50")
    assert convert_parameter(3_000_000, TIME, "time") == 3_000_000
    assert convert_parameter("2020-01-02", DATETIME, "date") == "2020-01-02 00:00:00"


def test_text_of_types_that_mysql_does_not_print_as_stored() -> None:
    assert parse_text(SqlType("bit", length=10))(b"\x01\x02") == 258
    assert parse_text(SqlType("time", scale=2))(b"-838:59:58.50") == -(838 * 3600 + 59 * 60 + 58) * 10**6 - 500_000
    assert time_text(-500_000, 2) == "-00:00:00.50"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((), (), True),
        ((1, "a", None), (1, "a", None), True),
        ((1, "a"), (2, "a"), False),
        ((0.0, 1.5), (0.0, 1.5), True),
        ((0.0,), (-0.0,), False),
        ((1, -0.0, "a"), (1, -0.0, "a"), True),
        ((1, 2.5, 0.0), (1, 2.5, -0.0), False),
        ((0,), (0,), True),
    ],
)
def test_rows_are_identical_where_a_client_sees_no_difference(one: Row, other: Row, same: bool) -> None:
    assert identical(one, other) is same and identical(other, one) is same
