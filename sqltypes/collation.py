"""Strings compared as MySQL compares them under a collation.

`key_function(collation)` gives a function from a string to its canonical key: keys are equal iff MySQL's `=` is true.
`sort_key(collation)` gives keys that order as MySQL's ORDER BY does. Both raise UnprovenString for strings whose
weights are not proven.

Weights come from MySQL itself (`collation_tables.py`; the generator asks WEIGHT_STRING for every code point). Nearly
all keys are ASCII. Those take one `str.translate` without the tables: a key spells each weight by an ASCII character
that has it, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from sqltypes.collation_tables import Weights, load
from sqltypes.errors import UnprovenString, UnsupportedQuery

CODECS = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "latin1": "cp1252", "ascii": "ascii", "binary": "utf-8"}
EXACT_NO_PAD = frozenset({"binary", "utf8mb4_0900_bin"})
EXACT_PAD = frozenset({"utf8mb4_bin", "utf8mb3_bin", "utf8_bin", "ascii_bin", "latin1_bin"})
WEIGHTED = {
    "utf8mb4_0900_ai_ci": "utf8mb4_0900_ai_ci",
    "utf8mb4_general_ci": "utf8mb4_general_ci",
    "utf8mb3_general_ci": "utf8mb4_general_ci",  # the same weights; only characters of the BMP occur
    "utf8_general_ci": "utf8mb4_general_ci",
    "utf8mb4_unicode_ci": "utf8mb4_unicode_ci",
    "utf8mb3_unicode_ci": "utf8mb4_unicode_ci",
    "utf8_unicode_ci": "utf8mb4_unicode_ci",
    "latin1_swedish_ci": "latin1_swedish_ci",
    "ascii_general_ci": "ascii_general_ci",
}
_UNDEFINED = b"\x81\x8d\x8f\x90\x9d"  # in cp1252; characters of these code points in MySQL
# MySQL's latin1 is cp1252: the byte of a character that has another code point, in which latin1_bin orders.
_LATIN1_BYTES = {ord(bytes((byte,)).decode("cp1252")): byte for byte in range(0x80, 0xA0) if byte not in _UNDEFINED}
Key = Callable[[str], str]


def character_set(collation: str) -> str:
    """The character set that a collation belongs to."""
    name = collation.partition("_")[0]
    return "utf8mb3" if name == "utf8" else name


def encodes(charset: str, text: str) -> bool:
    """Whether the character set has all characters of the text. Unknown sets have none but ASCII."""
    if charset == "utf8mb3":
        return all(character <= "\uffff" for character in text)
    try:
        text.encode(CODECS.get(charset, "ascii"))
    except UnicodeEncodeError:
        return False
    return True


def pads(collation: str) -> bool:
    """Whether the collation compares strings as if spaces followed them: PAD SPACE."""
    return collation != "binary" and "_0900_" not in collation


def supported(collation: str | None) -> bool:
    """Whether comparison under the collation is reproduced."""
    return collation in EXACT_NO_PAD or collation in EXACT_PAD or collation in WEIGHTED


def require(collation: str | None) -> str:
    """The collation's name. Raises UnsupportedQuery where its comparison is not reproduced."""
    if collation is None or not supported(collation):
        raise UnsupportedQuery("collation", f"comparison under the collation {collation} is not reproduced")
    return collation


@cache
def key_function(collation: str | None) -> Key:
    """The canonical key of a string under the collation. Raises UnsupportedQuery for collations that are not
    reproduced.
    """
    name = require(collation)
    if name in EXACT_NO_PAD:
        return _identity
    if name in EXACT_PAD:
        return _without_trailing_spaces
    return _weighted_key(load(WEIGHTED[name]))


@cache
def sort_key(collation: str | None) -> Key:
    """A key that orders strings as the collation does (by its weights; ties are ties)."""
    name = require(collation)
    if name in EXACT_NO_PAD:
        return _identity
    if name == "latin1_bin":
        return _latin1_sort_key
    if name in EXACT_PAD:
        return _padded_sort_key
    return _weighted_sort_key(load(WEIGHTED[name]))


def _identity(text: str) -> str:
    return text


def _without_trailing_spaces(text: str) -> str:
    return text.rstrip(" ")


def _padded_sort_key(text: str) -> str:
    """Requires no character below the space, which would sort before the padding that MySQL compares it with."""
    if text and min(text) < " ":
        raise UnprovenString(f"order of a string with control characters under PAD SPACE: {text[:40]!r}")
    return text.rstrip(" ")


def _latin1_sort_key(text: str) -> str:
    return _padded_sort_key(text.translate(_LATIN1_BYTES))


def _weighted_key(weights: Weights) -> Key:
    """Printable ASCII is its own key in lower case (asserted here): a third of the time of the table."""
    ascii_map, rest = weights.ascii_keys, weights.key
    assert all(ascii_map[point] == chr(point).lower() for point in range(32, 127)), "letters differ by case only"

    def key(text: str) -> str:
        if text.isascii():
            return text.lower() if text.isprintable() else text.translate(ascii_map)
        return rest(text)

    def padded(text: str) -> str:
        return key(text).rstrip(" ")

    return padded if weights.pad_space else key


def _weighted_sort_key(weights: Weights) -> Key:
    space, pad, order = weights.space, weights.pad_space, weights.sort_key

    def padded(text: str) -> str:
        found = order(text)
        if found and min(found) < space:
            raise UnprovenString(f"order of a string with characters before the space under PAD SPACE: {text[:40]!r}")
        return found.rstrip(space)

    return padded if pad else order
