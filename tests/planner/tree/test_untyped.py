"""Keys of parameters whose type no column tells."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import cast

import pytest

from planner.api import plan_query
from planner.tree.untyped import BOUND, TYPED, Around, Sent, as_in_key, key_of
from sqltypes.errors import ComparedElsewhere
from sqltypes.expression import Value
from sqltypes.parameters import AsBound, Moment
from sqltypes.schema import Column, SchemaSnapshot, SqlType, Table

ANY = Sent(around=Around.TEXTS)
VALUES: tuple[Value, ...] = ("abc", "it's", "5", "", 5, -5, 1.5, 1e300, Decimal("1.50"), Decimal(7), None)


@pytest.mark.parametrize("value", [*VALUES, Moment("2024-01-01"), Moment("2024-01-01 10:00:00.5")])
def test_a_key_is_itself_where_it_is_read_from_a_file(value: Value) -> None:
    key = key_of(value, ANY)
    assert key_of(as_in_key(key), ANY) == key
    assert key_of(as_in_key(BOUND + key), ANY) == BOUND + key


@pytest.mark.parametrize(
    "text", ["abc", "'a' OR 1", "1; DROP TABLE t", "5, 6", "(5)", "id", "--", "'a", "?", "-id", "DATE id"]
)
def test_what_is_no_literal_is_a_value(text: str) -> None:
    assert as_in_key(text) is text
    assert key_of(as_in_key(text), ANY).startswith("'")


@pytest.mark.parametrize(
    ("value", "around", "fine"),
    [
        ("1.5", Around.TEXTS, True),
        ("1.5", Around.NUMBERS, False),
        (" 1e5", Around.NUMBERS, False),
        ("15", Around.NUMBERS, True),
        (1.5, Around.NUMBERS, True),
        (0, Around.DATES, False),
        ("2024-01-01", Around.DATES, True),
        ("2024-1", Around.DATES, False),
        (None, Around.TEXTS, False),
        (Moment("2024-01-01"), Around.TEXTS, False),
    ],
)
def test_what_may_be_bound(value: Value, around: Around, fine: bool) -> None:
    sent = Sent(around=around)
    if fine:
        assert key_of(AsBound(value), sent) == BOUND + key_of(value, sent)
        sent = replace(sent, foreign=True)
    with pytest.raises(ComparedElsewhere):
        key_of(AsBound(value), sent)


@pytest.mark.parametrize(
    ("value", "sent", "literal"),
    [
        ("2024-01-01", Sent(), "DATE'2024-01-01'"),
        ("2024-01-01 10:00:00", Sent(), "TIMESTAMP'2024-01-01 10:00:00'"),
        ("2024-02-31", Sent(), ""),  # a literal would be an error
        ("0000-00-00 00:00:00", Sent(), ""),
        ("10:00:00", Sent(), ""),
        ("2024-01-01", Sent(around=Around.NUMBERS), ""),
        ("2024-01-01", Sent(around=Around.TEXTS), ""),  # MySQL compares a string with it in another way
        ("2024-01-01", Sent(list=True), ""),
        ("2024-01-01", Sent(dated=False), ""),
    ],
)
def test_a_date_that_is_bound_beside_dates_is_the_literal(value: str, sent: Sent, literal: str) -> None:
    if literal:
        assert key_of(AsBound(Moment(value)), sent) == literal == key_of(Moment(value), sent)
        return
    with pytest.raises(ComparedElsewhere):
        key_of(AsBound(Moment(value)), sent)


def test_a_number_without_a_sign_and_one_of_a_list_are_not() -> None:
    for bound, sent in ((AsBound(5, unsigned=True), ANY), (AsBound(5), Sent(around=Around.TEXTS, list=True))):
        with pytest.raises(ComparedElsewhere):
            key_of(bound, sent)


@pytest.mark.parametrize("value", [*VALUES, Moment("2024-01-01"), "NULL"])
def test_of_what_is_only_asked_whether_it_is_null_there_are_two_keys(value: Value) -> None:
    asked = Sent(null=True)
    key = "NULL" if value is None else "1"
    assert key_of(value, asked) == key_of(cast(Value, AsBound(value)), asked) == key
    assert key_of(as_in_key(key), asked) == key


@pytest.mark.parametrize(
    ("value", "around", "fine"),
    [
        (5, Around.NUMBERS, True),
        (1.5, Around.NUMBERS, True),
        ("a", Around.TEXTS, True),
        ("a", Around.NUMBERS, False),
        (Decimal("1.5"), Around.NUMBERS, False),
        (Moment("2024-01-01"), Around.DATES, False),
    ],
)
def test_what_is_bound_for_what_is_shown_tells_its_type(value: Value, around: Around, fine: bool) -> None:
    sent = Sent(around=around, tells=True)
    assert not key_of(value, sent).startswith(BOUND)  # a literal tells its own
    if fine:
        assert key_of(cast(Value, AsBound(value)), sent).startswith(BOUND)
    else:
        with pytest.raises(ComparedElsewhere):
            key_of(cast(Value, AsBound(value)), sent)


@pytest.mark.parametrize(
    ("condition", "around"),
    [
        ("CASE s WHEN 'b' THEN 1 WHEN ? THEN 2 END", None),  # its type is the column's
        ("CASE s WHEN n THEN 1 WHEN ? THEN 2 END", Around.DATES),
        ("CASE n WHEN ? THEN 1 WHEN s THEN 2 END", Around.DATES),
        ("CASE ? WHEN n THEN 1 WHEN s THEN 2 END", Around.DATES),
        ("CASE ? WHEN s THEN 1 WHEN 'b' THEN 2 END", Around.NUMBERS),
        ("CASE WHEN s = 'b' THEN ? WHEN n THEN 'c' END = 'd'", Around.NUMBERS),
    ],
)
def test_what_case_compares_has_one_type(condition: str, around: Around | None) -> None:
    big = SqlType("bigint")
    text = SqlType("varchar", length=9, collation="utf8mb4_0900_ai_ci")
    columns = (Column("id", big, False, 0), Column("n", big, True, 1), Column("s", text, True, 2))
    schema = SchemaSnapshot({("d", "t"): Table("d", "t", columns, ("id",))}, (9, 7, 0))
    parameter = plan_query(f"SELECT id FROM t WHERE {condition}", "d", schema).parameters[0]
    assert (None if parameter.sent is TYPED else parameter.sent.around) == around
