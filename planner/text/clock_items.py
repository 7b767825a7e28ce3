"""Select items in which functions of the clock stand.

MySQL names a column by the text of its item, where that has no name. With a literal in the function's place it would
name it otherwise. So the item gets the name that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.text.scan import Token, is_keyword

LONGEST_NAME = 64  # characters
_OPERATORS = frozenset({"+", "-", "*", "/", "%", "=", "<=>", "<", "<=", ">", ">=", "<>", "!=", "."})
_BEFORE = (
    *("SELECT", "DISTINCT", "DISTINCTROW", "ALL", "HIGH_PRIORITY", "STRAIGHT_JOIN", "SQL_CALC_FOUND_ROWS"),
    *("SQL_NO_CACHE", "SQL_SMALL_RESULT", "SQL_BIG_RESULT", "SQL_BUFFER_RESULT"),
)


@dataclass(frozen=True, slots=True)
class Item:
    """The tokens [first, end) of a select item. `named`: by AS."""

    first: int
    end: int
    named: bool


def item_at(tokens: Sequence[Token], at: int, brackets: int) -> Item | None:
    """The item in which that token stands, with so many brackets open within it; None where it is not understood, or
    has a name without AS."""
    first, depth = at, brackets
    while first and not (depth == 0 and _begins_behind(tokens[first - 1])):
        first -= 1
        depth += (tokens[first].text == ")") - (tokens[first].text == "(")
    depth = brackets
    for end in range(at, len(tokens)):
        depth += (tokens[end].text == "(") - (tokens[end].text == ")")
        if depth < 0 or (depth == 0 and (tokens[end].text == "," or is_keyword(tokens[end], "FROM"))):
            return _item(tokens, first, end) if first else None
    return None


def _begins_behind(token: Token) -> bool:
    return token.text == "," or token.text.startswith("/*") or is_keyword(token, *_BEFORE)


def _item(tokens: Sequence[Token], first: int, end: int) -> Item | None:
    last, before = tokens[end - 1], tokens[end - 2]
    if is_keyword(before, "AS") and last.kind in ("word", "quoted"):
        return Item(first, end, True)
    unit = end - 3 > first and is_keyword(tokens[end - 3], "INTERVAL")
    if last.text != ")" and last.kind != "number" and before.text not in _OPERATORS and not unit:
        return None
    return Item(first, end, False)


def name_of(text: str) -> str | None:
    """What follows an item with this text, so that it is named as it would be; None where that is not known."""
    name = " ".join(text.split())
    known = name.isascii() and "`" not in name and "/*" not in name and "#" not in name and "--" not in name
    return f" AS `{name}`" if known and len(name) <= LONGEST_NAME else None
