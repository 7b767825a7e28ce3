"""What a row weighs is the same whoever has read it: a str keeps the UTF-8 spelling that it was once asked for."""

from __future__ import annotations

import ctypes
from decimal import Decimal
from sys import getsizeof

import pytest

from dataflow.entries import row_bytes, value_bytes
from dataflow.graph.build import _weighing
from sqltypes.expression import Value
from sqltypes.schema import SqlType

TEXTS = ("", "a" * 40, "é", "Straße", "日本語", "𝄞", "a" * 200 + "ä")
TEXT, JSON, NUMBER = SqlType("varchar", length=300, collation="utf8mb4_bin"), SqlType("json"), SqlType("int")


def spelled(text: str) -> str:
    """As gRPC leaves it behind: `PyUnicode_AsUTF8` keeps what it returns."""
    as_utf8 = ctypes.pythonapi.PyUnicode_AsUTF8
    as_utf8.argtypes, as_utf8.restype = [ctypes.py_object], ctypes.c_char_p
    assert as_utf8(text) == text.encode()
    return text


def anew(text: str) -> str:
    return text.encode().decode()


def test_a_str_that_was_sent_takes_more() -> None:
    """Else there would be nothing to this."""
    assert getsizeof(spelled(anew("éé"))) > getsizeof(anew("éé"))


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_weighs_the_same_before_and_after_it_is_sent(text: str) -> None:
    weigh = _weighing([NUMBER, TEXT, JSON, TEXT])
    for measure in (row_bytes, weigh):
        assert measure((1, spelled(anew(text)), text, None)) == measure((1, anew(text), text, None))
    assert getsizeof(anew(text)) / 2 < value_bytes(anew(text)) < 3 * getsizeof(anew(text))


@pytest.mark.parametrize("value", [None, b"\xff\x00", Decimal("1.50"), 2.5, 7, "2024-02-29"])
def test_what_has_one_size_weighs_that(value: Value) -> None:
    assert value_bytes(value) == getsizeof(value)
