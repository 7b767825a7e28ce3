"""Texts with functions of the clock, rewritten with what the clock says (`planner/text/clock.py`).

Where such functions stand is found out once for all texts that have the same segments (`text_cuts.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from planner.text.clock import Function, finds
from planner.text.clock_items import name_of
from planner.text.clock_literals import read
from planner.text.scan import scan
from proxy.mysql.text.text_cuts import cut
from sqltypes.errors import ParseError

MOST_KNOWN = 2000  # lists of segments
LONGEST = 1 << 13  # bytes of a text
HAS_DIGITS = re.compile(rb"\(\s*[1-6]\s*\)")
"""Texts without a match have no function with digits of a second's fraction."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a function stands: from a byte of one part to one of another. `texts`: parts of which it is made. `item`:
    likewise, where the select item stands that gets a name behind it."""

    function: Function
    first: tuple[int, int]
    end: tuple[int, int]
    texts: tuple[int, ...]
    item: tuple[tuple[int, int], tuple[int, int]] | None = None


class ClockTexts:
    """What is known of texts, by their segments: None: they are not rewritten."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, ...], tuple[_Place, ...] | None] = {}

    def rewritten(
        self, text: bytes, local: datetime, utc: datetime, *, steady: bool = True, micros: int | None = None
    ) -> bytes | None:
        """The text with literals; None where it stays as it is. The others: as `read` has them."""
        if len(text) > LONGEST:
            return None
        parts = cut(text)
        key = tuple(parts[::2])
        try:
            places = self._known[key]
        except KeyError:
            places = self._learn(key, parts)
        if places is None:
            return None
        found = list(parts)
        for place in reversed(places):
            texts = [parts[part].decode("utf-8", "replace") for part in place.texts]
            literal = read(place.function, texts, local, utc, steady=steady, micros=micros)
            if literal is None:
                return None
            if place.item is not None:
                name = _name(parts, *place.item)
                if name is None:
                    return None
                part, behind_item = place.item[1]
                found[part] = found[part][:behind_item] + name + found[part][behind_item:]
            (first, start), (last, end) = place.first, place.end
            behind = found[last][end:]
            found[first : last + 1] = [found[first][:start] + literal.encode() + behind]
        return b"".join(found)

    def _learn(self, key: tuple[bytes, ...], parts: Sequence[bytes]) -> tuple[_Place, ...] | None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        places = self._known[key] = _places(parts)
        return places


def _places(parts: Sequence[bytes]) -> tuple[_Place, ...] | None:
    try:
        tokens = scan(b"".join(map(_plain, parts)).decode("ascii"))  # so that a character is a byte
    except (UnicodeDecodeError, ParseError):
        return None
    functions = finds(tokens)
    if not functions:
        return None
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + len(part))
    found = []
    for function in functions:
        first = _part_at(starts, tokens[function.first].start)
        last, end = _part_at(starts, tokens[function.end - 1].end - 1)
        texts = tuple(_part_at(starts, tokens[token].start) for token in function.texts)
        inside = [part for part in range(first[0], last + 1) if part % 2]
        if inside != [part for part, _ in texts] or any(offset for _, offset in texts):
            return None  # a comment, or a literal that is not cut by itself
        item = None
        if function.item is not None:
            item_end, byte = _part_at(starts, tokens[function.item.end - 1].end - 1)
            item = _part_at(starts, tokens[function.item.first].start), (item_end, byte + 1)
        found.append(_Place(function, first, (last, end + 1), tuple(part for part, _ in texts), item))
    return tuple(found)


def _name(parts: Sequence[bytes], first: tuple[int, int], end: tuple[int, int]) -> bytes | None:
    """What follows the select item with this text."""
    text = b"".join(parts[first[0] : end[0] + 1])
    text = text[first[1] : len(text) - (len(parts[end[0]]) - end[1])]
    name = name_of(text.decode("utf-8", "replace"))
    return None if name is None else name.encode()


def _plain(part: bytes) -> bytes:
    """As long a string, where it is one with other characters than ASCII's."""
    return part if part.isascii() or part[:1] not in (b"'", b'"') else b"'%b'" % (b"x" * (len(part) - 2))


def _part_at(starts: Sequence[int], offset: int) -> tuple[int, int]:
    """(the part, the byte in it) of a byte of the text."""
    part = next(number for number in range(len(starts) - 1) if starts[number] <= offset < starts[number + 1])
    return part, offset - starts[part]
