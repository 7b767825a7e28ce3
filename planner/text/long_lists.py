"""Long IN-lists, taken out of a text as a whole before it is read token by token.

A list of many literals of one kind (whole numbers, strings, 0x...) or of many `?` is shortened to its first item. One
regular expression does that, in time in proportion to the text: nobody waits for somebody else's list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from sqltypes.errors import ParseError
from sqltypes.expression import Value

LONG = 16  # items, from which on a list is long
MOST_DIGITS = 4300  # Python reads no longer whole number from text, as a guard


@dataclass(frozen=True, slots=True)
class Taken:
    """A list that was shortened. `start`: of its first item, in the shortened text. `values`: of literals; None where
    it is a list of placeholders. `count`: its items."""

    start: int
    count: int
    values: tuple[Value, ...] | None


class LongList(NamedTuple):
    """A list as it stands in a text. `start`: of its first item, in the shortened text; `first`: that item."""

    start: int
    kind: str
    items: str
    first: str


_SINGLE = r"'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'"
_DOUBLE = r'"[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*+"'
_COMMENT = r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/|\#[^\n]*+|--(?=[\s\x00-\x1f])[^\n]*+"
_IN = r"(?<![\w$])[iI][nN]\s*+\(\s*+"


def _list_of(item: str) -> str:
    return rf"{item}(?:\s*+,\s*+{item}){{{LONG - 1},}}+(?=\s*+\))"


_ITEMS = {
    "ints": r"-?\d++",
    "strings": _SINGLE,
    "hexes": r"0x[0-9a-fA-F]++",
    "params": r"\?",
}
_LONG = "|".join(f"(?P<{kind}>{_list_of(item)})" for kind, item in _ITEMS.items())
_ANY_LONG = "|".join(_list_of(item) for item in _ITEMS.values())
# What stands before the next long list. Strings, names and comments are passed over whole.
_BEFORE = rf"(?:[^'\"`/\#iI-]++|{_SINGLE}|{_DOUBLE}|`[^`]*+`|{_COMMENT}|(?!{_IN}(?:{_ANY_LONG}))[iI]|[/-])*+"
_NEXT = re.compile(rf"({_BEFORE}{_IN})(?:{_LONG})", re.DOTALL | re.ASCII)
_STRINGS = re.compile(_SINGLE, re.DOTALL)


def shortened(text: str, unquote: Callable[[str], str]) -> tuple[str, list[Taken]]:
    """The text with each long list as its first item alone, and what was taken out, in order. `unquote`: the value of
    a string as written. Raises ParseError for a number that is too long.

    >>> short, taken = shortened("SELECT a FROM t WHERE a IN (" + ", ".join(map(str, range(5, 25))) + ")", str)
    >>> short, taken[0].count, taken[0].values[:3]
    ('SELECT a FROM t WHERE a IN (5)', 20, (5, 6, 7))
    """
    short, lists = without_lists(text)
    taken: list[Taken] = []
    for one in lists:
        values = _values(one.kind, one.items, unquote)
        taken.append(Taken(one.start, len(values) if values is not None else one.items.count(",") + 1, values))
    return short, taken


def without_lists(text: str) -> tuple[str, list[LongList]]:
    """As `shortened`, where nobody asks for the values.

    >>> short, lists = without_lists("SELECT a FROM t WHERE a IN (" + ", ".join(map(str, range(5, 25))) + ")")
    >>> short, lists[0].start
    ('SELECT a FROM t WHERE a IN (5)', 28)
    """
    if text.count(",") < LONG - 1:
        return text, []
    out: list[str] = []
    found: list[LongList] = []
    at = length = 0
    while (match := _NEXT.match(text, at)) is not None:
        kind = match.lastgroup
        assert kind is not None
        items = match[kind]
        first = items[: items.index(",")].rstrip() if kind != "strings" else _first_string(items)
        out += [match[1], first]
        length += len(match[1])
        found.append(LongList(length, kind, items, first))
        length += len(first)
        at = match.end()
    if not found:
        return text, []
    return "".join((*out, text[at:])), found


def put_back(short: str, lists: Iterable[LongList]) -> str:
    """The shortened text with these of its lists as they were."""
    out: list[str] = []
    at = 0
    for one in lists:
        out += [short[at : one.start], one.items]
        at = one.start + len(one.first)
    return "".join((*out, short[at:]))


def _values(kind: str, items: str, unquote: Callable[[str], str]) -> tuple[Value, ...] | None:
    if kind == "ints":
        try:
            return tuple(map(int, items.split(",")))
        except ValueError:
            raise ParseError(f"a number of more than {MOST_DIGITS} digits") from None
    if kind == "strings":
        if "\\" not in items and "''" not in items:
            return tuple(items.split("'")[1::2])
        return tuple(map(unquote, _STRINGS.findall(items)))
    if kind == "hexes":
        digits = [item.strip()[2:] for item in items.split(",")]
        return tuple(bytes.fromhex("0" * (len(one) % 2) + one) for one in digits)
    return None


def _first_string(items: str) -> str:
    match = _STRINGS.match(items)
    assert match is not None
    return match[0]
