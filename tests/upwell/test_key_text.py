"""Keys as text: each value comes back as it was, and what stands for none is refused."""

from __future__ import annotations

from decimal import Decimal

import pytest

from upwell.key_text import read, value_of, written

VALUES = (
    None, 0, -(2**63), 2**64 - 1, "", "caf\u00e9 \U0001f600 \n", b"", b"\x00\xff", Decimal("-12.50"), Decimal("0E-10"),
    0.1, -0.0, 1e308, "2024-00-00", (1, 2), ("a", None), (),
)  # fmt: skip


def test_values_come_back_as_they_were() -> None:
    assert list(map(repr, read(written(VALUES)))) == list(map(repr, VALUES))


@pytest.mark.parametrize(
    "plain",
    [{}, {"decimal": "x"}, {"decimal": 1}, {"bytes": "*"}, {"bytes": "A"}, {"float": "z"}, {"x": "1"}, [{"x": "1"}],
     {"bytes": "", "float": ""}],
)  # fmt: skip
def test_what_stands_for_no_value_is_refused(plain: object) -> None:
    with pytest.raises(ValueError):
        value_of(plain)
