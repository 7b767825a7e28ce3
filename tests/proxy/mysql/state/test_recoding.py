"""Answers in other character sets than utf8mb4, made of those in utf8mb4."""

from __future__ import annotations

import pytest

from proxy.mysql.state.recoding import Recode, recode_by, recoded, to_utf8mb3
from proxy.mysql.wire.packets import lenenc, packet
from sqltypes.schema import BIGINT, ResultColumn, SqlType

TEXT = SqlType("varchar", length=200, collation="latin1_swedish_ci")
COLUMNS = (ResultColumn("id", BIGINT, False), ResultColumn("s", TEXT, True), ResultColumn("b", SqlType("blob"), True))
LATIN1 = recode_by("".join(map(chr, range(0x80, 0x100))).encode().hex())
END = packet(b"\xfe\0\0\2\0\0\0", 7)
NULL = b"\xfb"


def row(*values: bytes | None, number: int = 5) -> bytes:
    return packet(b"".join(NULL if value is None else lenenc(value) for value in values), number)


@pytest.mark.parametrize(
    ("recode", "text", "wanted"),
    [
        (LATIN1, "café", b"caf\xe9"),
        (LATIN1, "zwölf 日", b"zw\xf6lf ?"),
        (LATIN1, "plain", b"plain"),
        (to_utf8mb3, "é日", "é日".encode()),
        (to_utf8mb3, "a😀b", b"a?b"),
        (LATIN1, "é" * 200, b"\xe9" * 200),
    ],
)
def test_strings_are_recoded_and_nothing_else(recode: Recode, text: str, wanted: bytes) -> None:
    blob = "é".encode()
    body = row(b"1", text.encode(), blob) + row(b"2", None, None, number=6) + END
    assert recoded(body, COLUMNS, recode) == row(b"1", wanted, blob) + row(b"2", None, None, number=6) + END


def test_an_answer_without_rows() -> None:
    assert recoded(END, COLUMNS, LATIN1) == END


def test_what_mysql_tells_of_a_set() -> None:
    told = "".join(chr(0x400 + number) if number % 2 else "?" for number in range(127)) + ")"
    recode = recode_by(told.encode().hex())
    assert recode("\u0401?\u0402)".encode()) == b"\x81??)", "128 is no character, and 255 is not the bracket's byte"
    with pytest.raises(ValueError, match="characters of 128 bytes"):
        recode_by("41")
