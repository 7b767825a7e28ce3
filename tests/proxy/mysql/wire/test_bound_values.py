"""Values of parameters, from the bytes of an execution."""

from __future__ import annotations

from decimal import Decimal

import pytest

from proxy.mysql.wire.bound_values import READERS, NotDecoded
from proxy.mysql.wire.packets import lenenc

NEWDECIMAL, DECIMAL = 0xF6, 0x00


@pytest.mark.parametrize("code", [NEWDECIMAL, DECIMAL])
@pytest.mark.parametrize(
    ("text", "value"),
    [("10", "10"), ("-1.50", "-1.50"), ("+.5", "0.5"), ("1.", "1"), (" 1.0 ", "1.0"), ("1e2", "1E+2"), ("0010", "10")],
)
def test_a_decimal_is_the_number_of_its_digits(code: int, text: str, value: str) -> None:
    data = lenenc(text.encode())
    found, at = READERS[code](data + b"more", 0)
    assert (str(found), at) == (str(Decimal(value)), len(data))


@pytest.mark.parametrize("code", [NEWDECIMAL, DECIMAL])
@pytest.mark.parametrize(
    "text", ["1_0", "1_0.5", "_1", "1__0", "1e1_0", "\uff11\uff10", "NaN", "Infinity", "-inf", "", "1 0", "0x10"]
)
def test_what_only_python_takes_for_a_number_is_mysqls(code: int, text: str) -> None:
    """MySQL reads 1 where the text is 1_0, and warns."""
    with pytest.raises(NotDecoded):
        READERS[code](lenenc(text.encode()), 0)
