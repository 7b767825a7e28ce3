"""Characters that a session's character set lacks, told by the bytes of texts in UTF-8. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from proxy.mysql.state.session_variables import ASCII, BMP
from proxy.mysql.wire.bound_values import Undecoded
from sqltypes.parameters import AsBound

_OUTSIDE = {ASCII: re.compile(rb"[\x80-\xff]"), BMP: re.compile(rb"[\xf0-\xff]")}  # bytes that no such text has
OTHER_BYTES = {ASCII: re.compile(rb"[\xc2-\xf4][\x80-\xbf]"), BMP: re.compile(rb"[\xf0-\xf4][\x80-\xbf]")}
"""Bytes of characters that such a set lacks, in an answer in utf8mb4, among which are lengths and numbers, too."""
NO_ASCII = "\U0001f600"  # stands for what a session with another character set than UTF-8's may convert


def lacks(narrow: str, text: bytes, values: Sequence[object]) -> bool:
    """Whether such a set (ASCII, BMP) lacks characters of a text, or of strings among the values and lists in them."""
    outside = _OUTSIDE[narrow].search
    return outside(text) is not None or any(outside(string.encode()) is not None for string in _strings(values))


def _strings(values: Sequence[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Undecoded):
            yield NO_ASCII
        elif isinstance(value, tuple):
            yield from _strings(value)
        elif isinstance(value, AsBound):
            yield from _strings((value.value,))
