"""Texts with one long list of whole numbers, known by what stands before and behind it.

What is known of one such text holds for all that differ from it in the list only, if the list is a parameter of their
cache, and its only one. So they are not cut again: the list is found by its brackets, and its numbers are read by C.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Generic, TypeVar

from planner.matcher import ParameterValue
from proxy.mysql.text_cuts import SLASH

LEAST_LISTED = 200  # bytes: a shorter text is cut as quickly
MOST_AROUND = 4096  # bytes before and behind the list together
REMEMBERED = 1000
_NUMBERS = b"0123456789, -"

E = TypeVar("E")
Around = tuple[str, bytes, bytes]  # the database, the text up to the list's bracket, and from the closing one on


class ListTexts(Generic[E]):
    """`E`: what is known of such texts, the caller's own."""

    def __init__(self) -> None:
        self._known: dict[Around, E] = {}

    def find(self, text: bytes, database: str) -> tuple[E, tuple[ParameterValue, ...]] | None:
        """What is known of the text, and its list as the only value."""
        if not self._known:
            return None
        start = text.rfind(b"(") + 1
        end = text.find(b")", start)
        known = self._known.get((database, text[:start], text[end:]))
        if known is None:
            return None
        values = whole_numbers(text[start:end])
        return None if values is None else (known, (values,))

    def learn(
        self,
        text: bytes,
        database: str,
        parts: Sequence[bytes],
        compared: Collection[int],
        known: E,
        value: ParameterValue,
    ) -> None:
        """`parts`: of the text, cut; on the bytes of those `compared` it depends what the text is for. `value`: its
        only one."""
        start = text.rfind(b"(") + 1
        end = text.find(b")", start)
        if end < 0 or len(text) - (end - start) > MOST_AROUND or any(part[0] == SLASH for part in parts[1::2]):
            return  # comments often differ from text to text
        items = text[start:end]
        # The list is one part, cut from its bracket on, so that the next one is cut alike.
        at = next((at for at in range(1, len(parts), 2) if parts[at] == items), 0)
        before = sum(map(len, parts[:at]))
        if at and before == start and at not in compared and whole_numbers(items) == value:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[database, text[:start], text[end:]] = known


def whole_numbers(items: bytes) -> tuple[int, ...] | None:
    """The values of a list of two and more whole numbers that begins and ends with a digit; else None."""
    if items.translate(None, _NUMBERS) or b"," not in items or not (items[:1].isdigit() and items[-1:].isdigit()):
        return None
    try:
        return tuple(json.loads(b"[%b]" % items))
    except ValueError:  # 007, or more digits than are read
        return None
