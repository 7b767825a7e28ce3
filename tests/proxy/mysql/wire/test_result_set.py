"""Result sets of our own, as the decoder of upqueries reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from external_upquery.protocol import Answers, ResultSet
from proxy.mysql.wire.packets import STATUS_AUTOCOMMIT, STATUS_IN_TRANS
from proxy.mysql.wire.result_set import Cell, Kind, result
from sqltypes.errors import InvariantViolated

CACHES: tuple[str | tuple[str, Kind], ...] = ("name", ("hits", "bigint"), ("hit_p50_us", "double"), "why")
EOF = pytest.mark.parametrize("eof", [False, True], ids=["deprecate_eof", "eof"])


def table(
    columns: Sequence[str | tuple[str, Kind]], rows: Sequence[Sequence[Cell]], *, eof: bool, status: int
) -> bytes:
    return asyncio.run(result(columns, rows, eof=eof, status=status))


def read(answer: bytes, eof: bool) -> ResultSet:
    reader = Answers(deprecate_eof=not eof)
    reader.expect(1)
    (result,) = reader.feed(answer)
    assert isinstance(result, ResultSet)
    return result


@EOF
def test_rows_are_read_back(eof: bool) -> None:
    rows = [("stories_by_id", 12, 4.5, None), ("größe", 0, None, "a reason\nof two lines"), ("", None, 1e20, "")]
    assert read(table(CACHES, rows, eof=eof, status=STATUS_AUTOCOMMIT), eof).rows == rows


@EOF
def test_columns_are_described_as_those_of_an_expression(eof: bool) -> None:
    answer = read(table(CACHES, [("größe", 12, 4.5, None)], eof=eof, status=STATUS_AUTOCOMMIT), eof)
    columns = answer.layout.result_columns
    assert [(item.name, item.type.name, item.nullable, item.charset) for item in columns] == [
        ("name", "varchar", False, 255),
        ("hits", "bigint", False, 63),
        ("hit_p50_us", "double", False, 63),
        ("why", "varchar", True, 255),
    ]
    assert columns[0].length == 4 * len("größe")


@EOF
def test_the_status_is_that_of_the_session(eof: bool) -> None:
    answer = table(["a"], [], eof=eof, status=STATUS_IN_TRANS | STATUS_AUTOCOMMIT)
    if eof:
        assert answer.count(b"\xfe\0\0\3\0") == 2
    else:
        assert answer.endswith(b"\xfe\0\0\3\0\0\0")


def test_numbers_in_a_column_of_strings_are_shown_as_mysql_prints_them() -> None:
    shown = read(table(("name", "value"), [("a", 1), ("b", 1e20), ("c", None)], eof=False, status=2), False)
    assert shown.rows == [("a", "1"), ("b", "1e20"), ("c", None)]


def test_no_rows_are_columns_and_an_end() -> None:
    answer = read(table(CACHES, [], eof=False, status=2), False)
    assert (len(answer.layout.columns), answer.rows) == (4, [])


def test_a_value_that_is_not_of_its_columns_kind_is_an_internal_breach() -> None:
    with pytest.raises(InvariantViolated, match="hits"):
        table([("hits", "bigint")], [("many",)], eof=False, status=2)


@EOF
@pytest.mark.parametrize("count", [255, 256, 257, 1000])
def test_many_rows_are_one_answer(eof: bool, count: int) -> None:
    rows = [(f"name {number}", number, number / 4, None if number % 3 else "x" * number) for number in range(count)]
    answer = table(CACHES, rows, eof=eof, status=STATUS_AUTOCOMMIT)
    assert read(answer, eof).rows == rows
    at, numbers = 0, []
    while at < len(answer):
        numbers.append(answer[at + 3])
        at += 4 + int.from_bytes(answer[at : at + 3], "little")
    assert numbers == [number & 0xFF for number in range(1, len(numbers) + 1)]
