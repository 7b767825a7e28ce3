"""Rows of many columns are decoded one column after the other, as the generated decoders do it."""

from __future__ import annotations

import random

import pytest

from external_upquery import rowcode
from external_upquery.rowcode import CONVERSIONS, WIDE, row_decoders
from proxy.mysql.wire.packets import lenenc, packet
from sqltypes.expression import Row

VALUES = {
    "int": b"-17",
    "decimal": b"1.50",
    "double": b"1e300",
    "float": b"0.1",
    "double zerofill": b"00001.5",
    "float zerofill": b"0000-0",
    "time": b"-12:34:56.789",
    "bit": b"\x01\x02",
    "text": "é".encode() * 200,
    "bytes": bytes(range(256)) * 300,
}


def payload(kinds: tuple[str, ...], rng: random.Random) -> bytes:
    return b"".join(b"\xfb" if rng.random() < 0.2 else lenenc(VALUES[kind]) for kind in kinds)


def test_each_kind_has_a_value_here() -> None:
    assert VALUES.keys() == CONVERSIONS.keys()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("columns", [1, WIDE, WIDE + 1, 300])
def test_rows_are_decoded_alike(columns: int, seed: int) -> None:
    rng = random.Random(seed)
    kinds = tuple(rng.choices(list(CONVERSIONS), k=columns))
    rows = [payload(kinds, rng) for _ in range(4)]
    generated, by_column = rowcode._generated(kinds), rowcode._by_column(kinds)
    assert [by_column[1](row) for row in rows] == [generated[1](row) for row in rows]
    data = b"".join(packet(row, number) for number, row in enumerate(rows)) + packet(b"\xfe" + bytes(6), 4) + b"more"
    for end in (len(data), len(data) - 12, len(data) // 2, 3):
        found: tuple[list[Row], list[Row], list[Row]] = [], [], []
        places = [
            decoders[0](data, 0, end, out.append)
            for decoders, out in zip((generated, by_column, row_decoders(kinds)), found, strict=True)
        ]
        assert places[0] == places[1] == places[2] and found[0] == found[1] == found[2]


def test_nothing_is_generated_for_rows_of_many_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rowcode, "_generated", None)
    kinds = ("int",) * 4096
    assert row_decoders(kinds)[1](lenenc(b"7") * 4096) == (7,) * 4096
