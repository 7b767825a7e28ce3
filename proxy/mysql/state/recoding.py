"""Answers in a session's character set of results, made of those in utf8mb4 that are held. Pure.

A character that the set lacks is `?`, as in MySQL. What the set has, MySQL itself has told (`characters_query`): so
only sets of one byte a character, and utf8mb3, are known. Answers in the binary protocol are not recoded, nor long
ones.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence

from proxy.mysql.state.session_variables import LIKE_ASCII
from proxy.mysql.wire.packets import lenenc, read_lenenc
from sqltypes.schema import ResultColumn

SEVERAL_BYTES = frozenset({"big5", "cp932", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "ujis"})
ONE_BYTE = LIKE_ASCII - SEVERAL_BYTES
MOST = 64 * 1024  # bytes of an answer that is recoded: about 3 ms
UPPER = bytes(range(0x80, 0x100))
Recode = Callable[[bytes], bytes]
"""From a string in utf8mb4 to one in a set."""

_NOT_THERE = "\ufffe"  # in the place of a byte that no character has, to `codecs.charmap_build`
_ASTRAL = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}")


def characters_query(name: str) -> str:
    """Asks MySQL for the characters of a set of one byte each, 128 and up. Requires: `name` is in `ONE_BYTE`."""
    return f"SELECT HEX(CONVERT(CONVERT(x'{UPPER.hex()}' USING {name}) USING utf8mb4)) LIMIT 1"


def recode_by(answer: str) -> Recode:
    """By what MySQL has answered to `characters_query`. Raises ValueError."""
    characters = bytes.fromhex(answer).decode()
    if len(characters) != len(UPPER):
        raise ValueError(f"{len(characters)} characters of {len(UPPER)} bytes")
    ascii_ = "".join(map(chr, range(0x80)))
    # Some sets have a character of ASCII in another place, too: MySQL encodes it as ASCII's.
    upper = "".join(character if character > "\x7f" else _NOT_THERE for character in characters)
    table = codecs.charmap_build(ascii_ + upper)
    return lambda value: codecs.charmap_encode(value.decode(), "replace", table)[0]


def to_utf8mb3(value: bytes) -> bytes:
    """A string of utf8mb4 in utf8mb3."""
    return _ASTRAL.sub(b"?", value)


def recoded(body: bytes, columns: Sequence[ResultColumn], recode: Recode) -> bytes:
    """An answer's rows and their end, of the text protocol. Requires: it is no longer than `MOST`."""
    strings = [column.type.is_string or column.type.name == "json" for column in columns]
    out: list[bytes] = []
    at = 0
    while at < len(body):
        start = at + 4
        at = start + int.from_bytes(body[at : at + 3], "little")
        payload = body[start:at]
        if at < len(body):  # the last one ends the rows
            payload = _row(payload, strings, recode)
        out.append(len(payload).to_bytes(3, "little") + body[start - 1 : start] + payload)
    return b"".join(out)


def _row(payload: bytes, strings: Sequence[bool], recode: Recode) -> bytes:
    out: list[bytes] = []
    at = 0
    for string in strings:
        if payload[at] == 0xFB:  # NULL
            out.append(payload[at : at + 1])
            at += 1
            continue
        value, at = read_lenenc(payload, at)
        out.append(lenenc(value if value.isascii() or not string else recode(value)))
    return b"".join(out)
