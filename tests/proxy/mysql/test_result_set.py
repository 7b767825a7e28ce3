"""Result sets of our own, as the decoder of upqueries reads them."""

from __future__ import annotations

import pytest

from external_upquery.protocol import Answers, ResultSet
from proxy.mysql.packets import STATUS_AUTOCOMMIT, STATUS_IN_TRANS
from proxy.mysql.result_set import Kind, text_result
from sqltypes.errors import InvariantViolated

CACHES: tuple[str | tuple[str, Kind], ...] = ("name", ("hits", "bigint"), ("hit_p50_us", "double"), "why")
EOF = pytest.mark.parametrize("eof", [False, True], ids=["deprecate_eof", "eof"])


def read(answer: bytes, eof: bool) -> ResultSet:
    reader = Answers(deprecate_eof=not eof)
    reader.expect(1)
    (result,) = reader.feed(answer)
    assert isinstance(result, ResultSet)
    return result


@EOF
def test_rows_are_read_back(eof: bool) -> None:
    rows = [("stories_by_id", 12, 4.5, None), ("größe", 0, None, "a reason\nof two lines"), ("", None, 1e20, "")]
    assert read(text_result(CACHES, rows, eof=eof, status=STATUS_AUTOCOMMIT), eof).rows == rows


@EOF
def test_columns_are_described_as_those_of_an_expression(eof: bool) -> None:
    answer = read(text_result(CACHES, [("größe", 12, 4.5, None)], eof=eof, status=STATUS_AUTOCOMMIT), eof)
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
    answer = text_result(["a"], [], eof=eof, status=STATUS_IN_TRANS | STATUS_AUTOCOMMIT)
    if eof:
        assert answer.count(b"\xfe\0\0\3\0") == 2
    else:
        assert answer.endswith(b"\xfe\0\0\3\0\0\0")


def test_numbers_in_a_column_of_strings_are_shown_as_mysql_prints_them() -> None:
    shown = read(text_result(("name", "value"), [("a", 1), ("b", 1e20), ("c", None)], eof=False, status=2), False)
    assert shown.rows == [("a", "1"), ("b", "1e20"), ("c", None)]


def test_no_rows_are_columns_and_an_end() -> None:
    answer = read(text_result(CACHES, [], eof=False, status=2), False)
    assert (len(answer.layout.columns), answer.rows) == (4, [])


def test_a_value_that_is_not_of_its_columns_kind_is_an_internal_breach() -> None:
    with pytest.raises(InvariantViolated, match="hits"):
        text_result([("hits", "bigint")], [("many",)], eof=False, status=2)
