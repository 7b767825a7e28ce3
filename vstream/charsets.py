"""Decodes the bytes of a character column, by MySQL's name of the character set.

It has only character sets whose decoder equals MySQL's own conversion, or raises, for every sequence of one and two
bytes: a test asks the real server for all of them. Others are refused, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

TextDecoder = Callable[[bytes], str]

BINARY_COLLATION = 63

_CODECS = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ascii": "ascii",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "cp932": "cp932",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "euckr": "cp949",
}

# Single-byte character sets: the codec, then what MySQL has otherwise. Bytes that the codec lacks are "?" to MySQL.
_SINGLE_BYTE: dict[str, tuple[str, dict[int, str]]] = {
    "latin1": ("cp1252", {n: chr(n) for n in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}),
    "latin2": ("iso8859-2", {}),
    "latin5": ("iso8859-9", {}),
    "latin7": ("iso8859-13", {}),
    "cp850": ("cp850", {}),
    "cp852": ("cp852", {}),
    "cp866": ("cp866", {0xFC: "\u207f", 0xFD: "\u00b2"}),
    "cp1250": ("cp1250", {}),
    "cp1251": ("cp1251", {}),
    "cp1256": ("cp1256", dict.fromkeys((0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF), "?")),
    "cp1257": ("cp1257", {}),
    "greek": ("iso8859-7", {0xA1: "\u02bd", 0xA2: "\u02bc", 0xA4: "?", 0xA5: "?", 0xAA: "?"}),
    "hebrew": ("iso8859-8", {0xAF: "\u203e"}),
    "koi8r": ("koi8-r", {}),
    "koi8u": ("koi8-u", {0x95: "\u2022"}),
    "macce": ("mac-latin2", {}),
    "macroman": ("mac-roman", {}),
    "tis620": ("tis-620", dict.fromkeys((0xA0, 0xDB, 0xDC, 0xDD, 0xDE, 0xFC, 0xFD, 0xFE, 0xFF), "\ufffd")),
}


def text_decoder(charset: str) -> TextDecoder | None:
    """The exact decoder of a character set; None where there is none. The decoder may raise UnicodeDecodeError."""
    if charset in _SINGLE_BYTE:
        return _single_byte(*_SINGLE_BYTE[charset])
    codec = _CODECS.get(charset)
    if codec is None:
        return None
    return lambda data: data.decode(codec)


def supported_charsets() -> frozenset[str]:
    return frozenset(_CODECS) | frozenset(_SINGLE_BYTE)


def _single_byte(codec: str, differing: Mapping[int, str]) -> TextDecoder:
    table = []
    for number in range(256):
        try:
            table.append(differing.get(number) or bytes((number,)).decode(codec))
        except UnicodeDecodeError:
            table.append("?")
    translation = {number: text for number, text in enumerate(table) if chr(number) != text}

    def decode(data: bytes) -> str:
        # latin-1 gives every byte its own number; ASCII needs no more than that.
        return data.decode("ascii") if data.isascii() else data.decode("latin-1").translate(translation)

    return decode
