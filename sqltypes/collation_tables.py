"""Weights of characters, from the committed files that `integration/planner_truth/generate_collations.py` writes from a
MySQL.

File: zlib of a count (u32) and entries; an entry is the numbers of its code points and of its weights (u8 each), the
code points (u32) and the weights (u16); little-endian. More than one code point: a contraction. Characters without an
entry have the collation's implicit weights. The weights are those of the first level, the only one that the collations
here compare.

A key (for equality) spells every weight as one character: an ASCII character that has this weight alone where there is
one, else the weight as a character above U+100000. A sort key spells weights as characters of that number.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from functools import cache, cached_property, lru_cache
from pathlib import Path

from sqltypes.errors import UnprovenString

DATA = Path(__file__).parent / "data"
NO_PAD = frozenset({"utf8mb4_0900_ai_ci"})
BEYOND = 0x100000
SHORT = 200  # characters: the sort keys of such strings are remembered
MOST_KNOWN = 16_384
Weight = tuple[int, ...]


def implicit(point: int, collation: str) -> Weight | None:
    """The weights of a character that its collation's table does not name; None: such a character is in the table or
    not in the set.
    """
    match collation:
        case "utf8mb4_general_ci":
            return (point,) if point <= 0xFFFF else (0xFFFD,)
        case "utf8mb4_unicode_ci" if point > 0xFFFF:
            return (0xFFFD,)
        case "utf8mb4_unicode_ci" | "utf8mb4_0900_ai_ci":
            return (_base(point) + (point >> 15), (point & 0x7FFF) | 0x8000)
    return None


def _base(point: int) -> int:
    """UCA's: unified ideographs, their extensions, all others. Where MySQL differs the table has an entry."""
    if 0x4E00 <= point <= 0x9FFF:
        return 0xFB40
    if 0x3400 <= point <= 0x4DBF or 0x20000 <= point <= 0x2FA1F:
        return 0xFB80
    return 0xFBC0


class _Spelling(dict[int, str]):
    """For str.translate: code point -> its weights as characters. Characters without an entry are spelt when they
    come.
    """

    def __init__(self, collation: str, spelt: dict[int, str]) -> None:
        super().__init__()
        self._collation = collation
        self._spelt = spelt

    def __missing__(self, point: int) -> str:
        weights = implicit(point, self._collation)
        if weights is None:
            raise UnicodeError(f"U+{point:04X} is not in the character set of {self._collation}")
        spelt = "".join(self._spelt.get(weight) or chr(BEYOND + weight) for weight in weights)
        return spelt if self._spelt else "".join(map(chr, weights))


class Weights:
    """The weights of one collation."""

    def __init__(self, collation: str) -> None:
        self.collation = collation
        self.pad_space = collation not in NO_PAD
        self._entries = _read(collation)
        self._first = {point: self._weights(point) for point in range(128)}
        self._spelt = self._spell_ascii()
        self.ascii_keys: dict[int, str | None] = {
            point: "".join(map(self._key_character, weights)) or None for point, weights in self._first.items()
        }
        self.space = "".join(map(chr, self._first[ord(" ")]))
        self.contractions = sorted((text for text in self._entries if len(text) > 1), key=len, reverse=True)
        longest_first = "|".join(map(re.escape, self.contractions))
        self._contraction = re.compile(longest_first) if longest_first else None
        # The rows of a table that is read often are sorted again and again.
        self._known_sort_key = lru_cache(MOST_KNOWN)(self._sort_key)

    def _weights(self, point: int) -> Weight:
        found = self._entries.get(chr(point))
        return (implicit(point, self.collation) or ()) if found is None else found

    def _spell_ascii(self) -> dict[int, str]:
        """Weight -> the ASCII character that stands for it in keys: the lower-case letter of a pair."""
        return {weights[0]: chr(point) for point, weights in self._first.items() if len(weights) == 1}

    def _key_character(self, weight: int) -> str:
        return self._spelt.get(weight) or chr(BEYOND + weight)

    @cached_property
    def _key_spelling(self) -> dict[int, str]:
        table = _Spelling(self.collation, self._spelt)
        table.update(
            (ord(text), "".join(map(self._key_character, weights)))
            for text, weights in self._entries.items()
            if len(text) == 1
        )
        return table

    @cached_property
    def _sort_spelling(self) -> dict[int, str]:
        table = _Spelling(self.collation, {})
        table.update(
            (ord(text), "".join(map(chr, weights))) for text, weights in self._entries.items() if len(text) == 1
        )
        return table

    def key(self, text: str) -> str:
        """The key of any string, trailing spaces included."""
        return self._spell(text, self._key_spelling, self._key_character)

    def sort_key(self, text: str) -> str:
        """The weights of any string as characters, trailing spaces included."""
        return self._known_sort_key(text) if len(text) <= SHORT else self._sort_key(text)

    def _sort_key(self, text: str) -> str:
        return self._spell(text, self._sort_spelling, chr)

    def _spell(self, text: str, table: dict[int, str], character: Callable[[int], str]) -> str:
        try:
            if self._contraction is None or self._contraction.search(text) is None:
                return text.translate(table)
            parts, end = [], 0
            for match in self._contraction.finditer(text):
                parts.append(text[end : match.start()].translate(table))
                parts.append("".join(map(character, self._entries[match.group()])))
                end = match.end()
            return "".join(parts) + text[end:].translate(table)
        except UnicodeError as error:
            raise UnprovenString(str(error)) from error


def _read(collation: str) -> dict[str, Weight]:
    data = zlib.decompress((DATA / f"{collation}.zlib").read_bytes())
    (count,) = struct.unpack_from("<I", data)
    entries, offset = {}, 4
    for _ in range(count):
        points, weights = data[offset], data[offset + 1]
        numbers = struct.unpack_from(f"<{points}I{weights}H", data, offset + 2)
        entries["".join(map(chr, numbers[:points]))] = numbers[points:]
        offset += 2 + 4 * points + 2 * weights
    return entries


@cache
def load(collation: str) -> Weights:
    """The weights of one of the collations that have a file."""
    return Weights(collation)
