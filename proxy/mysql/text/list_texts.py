"""Texts with a long list of whole numbers, known by what stands before and behind it.

What is known of one such text holds for all that differ from it in the list only, if the list is a parameter of their
cache: the other parameters have the same values. So they are not cut again: the list is found by its brackets, and its
numbers are read by C.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Generic, TypeVar

from planner.matcher import ParameterValue
from proxy.mysql.text.text_cuts import SLASH

LEAST_LISTED = 200  # bytes: a shorter text is cut as quickly
MOST_AROUND = 4096  # bytes before and behind the list together
REMEMBERED = 1000
_NUMBERS = b"0123456789, -"
_LISTS = re.compile(rb"\((?=[0-9])([0-9, -]++)\)")

E = TypeVar("E")
Around = tuple[str, bytes, bytes]  # the database, the text up to the list's bracket, and from the closing one on
Values = tuple[ParameterValue, ...]


class ListTexts(Generic[E]):
    """`E`: what is known of such texts, the caller's own.

    Of several lists it is the last or the longest one that is left out: a list of ids often stands beside a short one
    that the application's user always has.
    """

    def __init__(self) -> None:
        self._known: dict[Around, tuple[E, Values, int]] = {}  # and all values, and which of them is the list
        self._longest = False  # some are known by a list that is not their last one

    def find(self, text: bytes, database: str) -> tuple[E, Values] | None:
        """What is known of the text, and its values."""
        if not self._known:
            return None
        found = self._beside(text, database, *_last(text))
        if found is None and self._longest:
            found = self._beside(text, database, *_longest(text))
        return found

    def _beside(self, text: bytes, database: str, start: int, end: int) -> tuple[E, Values] | None:
        known = self._known.get((database, text[:start], text[end:]))
        if known is None:
            return None
        items = whole_numbers(text[start:end])
        if items is None:
            return None
        entry, values, at = known
        return entry, (items,) if len(values) == 1 else (*values[:at], items, *values[at + 1 :])

    def learn(
        self, text: bytes, database: str, parts: Sequence[bytes], compared: Collection[int], known: E, values: Values
    ) -> None:
        """`parts`: of the text, cut; on the bytes of those `compared` it depends what the text is for. `values`: its
        own."""
        last, longest = _last(text), _longest(text)
        start, end = max(last, longest, key=_length)
        if end < 0 or len(text) - (end - start) > MOST_AROUND or any(part[0] == SLASH for part in parts[1::2]):
            return  # comments often differ from text to text
        items = text[start:end]
        # The list is one part, cut from its bracket on, so that the next one is cut alike.
        before, at = 0, 0
        while at < len(parts) and before < start:
            before += len(parts[at])
            at += 1
        numbers = whole_numbers(items)
        if before != start or not at & 1 or parts[at] != items or at in compared or values.count(numbers) != 1:
            return
        if len(self._known) >= REMEMBERED:
            self._known.clear()
            self._longest = False
        self._longest = self._longest or (start, end) != last
        self._known[database, text[:start], text[end:]] = known, values, values.index(numbers)


def _last(text: bytes) -> tuple[int, int]:
    """Where the items of the text's last brackets begin and end; an end of -1 where there are none."""
    start = text.rfind(b"(") + 1
    return start, text.find(b")", start)


def _longest(text: bytes) -> tuple[int, int]:
    """As `_last`, of the longest list of whole numbers; the last one of several."""
    spans = [found.span(1) for found in _LISTS.finditer(text)]
    return max(reversed(spans), key=_length, default=(0, -1))


def _length(span: tuple[int, int]) -> int:
    return span[1] - span[0]


def whole_numbers(items: bytes) -> tuple[int, ...] | None:
    """The values of a list of two and more whole numbers that begins and ends with a digit; else None."""
    if items.translate(None, _NUMBERS) or b"," not in items or not (items[:1].isdigit() and items[-1:].isdigit()):
        return None
    try:
        return tuple(json.loads(b"[%b]" % items))
    except ValueError:  # 007, or more digits than are read
        return None
