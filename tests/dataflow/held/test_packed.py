"""A packed row is that row, and packed rows are equal only where a client sees no difference."""

from __future__ import annotations

import random
import sys
from decimal import Decimal

import pytest

from dataflow.entries import row_bytes
from dataflow.held.packed import LARGE_ROW, packing
from sqltypes.expression import Row, Value
from sqltypes.schema import SqlType

WORD = SqlType("varchar", length=40, collation="utf8mb4_0900_ai_ci")
MONEY = SqlType("decimal", precision=20, scale=2)
VALUES: dict[SqlType, list[Value]] = {
    SqlType("bigint", unsigned=True): [None, 0, 1, -1, 1 << 31, (1 << 64) - 1, -(1 << 63)],
    SqlType("double"): [None, 0.0, -0.0, 1.5, 1e308, 5e-324],
    MONEY: [None, Decimal("0.00"), Decimal("-0.01"), Decimal("1E+3"), Decimal(10) ** 60],
    WORD: [None, "", "a", "é", "日本", "𝄞", "\0", "\udc80", "a" * 300],
    SqlType("varbinary", length=9): [None, b"", b"\0", b"\xff" * 9],
    SqlType("json"): [None, '{"a": 1}'],
}


@pytest.mark.parametrize("types", [list(VALUES), [MONEY], [WORD], [], [WORD, WORD]], ids=len)
def test_a_row_is_read_as_it_was_written(types: list[SqlType]) -> None:
    rng = random.Random(7)
    form = packing(types, row_bytes)
    rows = [tuple([rng.choice(VALUES[type_]) for type_ in types]) for _ in range(500)]
    for row in rows:
        packed = form.pack(row)
        assert packed.__class__ is bytes and packed and repr(form.unpack(packed)) == repr(row)
        assert form.length(packed) + form.frame == len(packed) + 41
        other = rng.choice(rows)
        assert (form.pack(other) == packed) == (repr(other) == repr(row))


def test_equal_values_are_written_alike_however_many_refer_to_them() -> None:
    """Else a row that a change takes away would not be found."""
    form = packing([WORD, WORD], row_bytes)
    word = "".join(["a", "b"])
    assert form.pack((word, word)) == form.pack(("".join(["a", "b"]), "".join(["a", "b"])))


def test_a_large_row_stays_as_it_is() -> None:
    text = SqlType("text", length=LARGE_ROW - 1, collation="utf8mb4_bin")
    form = packing([WORD, text, MONEY], row_bytes)
    row: Row = ("a", "b" * LARGE_ROW, Decimal("1.00"))
    assert form.pack(row) is row and form.unpack(row) is row and form.length(row) + form.frame == row_bytes(row)
    assert form.pack(("a", "b", Decimal("1.00"))).__class__ is bytes


def test_a_large_row_with_floats_is_packed() -> None:
    """Of two tuples 0.0 and -0.0 would be equal."""
    text = SqlType("text", length=LARGE_ROW - 1, collation="utf8mb4_bin")
    form = packing([SqlType("double"), text], row_bytes)
    assert form.pack((0.0, "b" * LARGE_ROW)) != form.pack((-0.0, "b" * LARGE_ROW))


def test_an_interned_string_is_written_as_any_other() -> None:
    form = packing([WORD], row_bytes)
    assert form.pack((sys.intern("abc"),)) == form.pack(("".join(["ab", "c"]),))
