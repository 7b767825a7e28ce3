"""Text that MySQL converts, against our own conversion: every character set, and the digits of doubles in JSON."""

from __future__ import annotations

import random
import struct

import pytest

from integration.servers.private_mysql import Server
from vstream.charsets import supported_charsets, text_decoder
from vstream.jsonb import double_text

_SINGLE = [bytes((n,)) for n in range(256)]
_DOUBLE = [bytes((first, second)) for first in range(128, 256) for second in range(256)]
_MULTI_BYTE = frozenset({"gbk", "gb2312", "cp932", "euckr"})
_WIDE = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}


def _sequences(charset: str) -> list[bytes]:
    if charset in _WIDE:
        zeros = bytes(_WIDE[charset] - 2)
        return [zeros + pair for pair in (n.to_bytes(2, "big") for n in range(0, 65536, 37))]
    return _SINGLE + _DOUBLE if charset in _MULTI_BYTE else _SINGLE


def _converted(mysql: Server, charset: str, part: list[bytes]) -> list[str | None]:
    """What the server makes of each sequence; None where it is not text of that character set."""
    cells = []
    for data in part:
        text = f"CONVERT(x'{data.hex()}' USING {charset})"
        cells += [f"HEX(CONVERT({text} USING utf8mb4))", f"HEX({text})"]
    (row,) = mysql.execute(f"SELECT {', '.join(cells)}")
    found: list[str | None] = []
    for data, text, same in zip(part, row[::2], row[1::2], strict=True):
        valid = text is not None and same is not None and bytes.fromhex(str(same)) == data
        found.append(bytes.fromhex(str(text)).decode() if valid else None)
    return found


@pytest.mark.parametrize("charset", sorted(supported_charsets() - {"utf8"}))
def test_a_character_set_is_decoded_as_mysql_does_or_refused(mysql: Server, charset: str) -> None:
    decode = text_decoder(charset)
    assert decode is not None
    sequences = _sequences(charset)
    equal = 0
    for at in range(0, len(sequences), 1024):
        part = sequences[at : at + 1024]
        for data, expected in zip(part, _converted(mysql, charset, part), strict=True):
            if expected is None:
                continue
            try:
                assert decode(data) == expected, data.hex()
                equal += 1
            except UnicodeDecodeError:
                continue  # refused loudly, the table is emptied
    assert equal >= 128


def test_doubles_in_json_have_mysqls_digits(mysql: Server) -> None:
    chance = random.Random(20)
    values = [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(1500)]
    values += [chance.random() * 10.0 ** chance.randint(-20, 25) for _ in range(1500)]
    values += [float(f"{chance.choice((-1, 1))}e{exponent}") for exponent in range(-323, 309)]
    values = [value for value in values if value == value and abs(value) != float("inf")]
    for at in range(0, len(values), 500):
        part = values[at : at + 500]
        literals = ", ".join(repr(value) if "e" in repr(value) else f"{value!r}e0" for value in part)
        (row,) = mysql.execute(f"SELECT CAST(JSON_ARRAY({literals}) AS CHAR)")
        assert str(row[0])[1:-1].split(", ") == [double_text(value) for value in part]
