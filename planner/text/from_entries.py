"""Where a text names tables in its FROM clauses, by its tokens alone. Pure.

No grammar is known here: a name that stands where an entry of FROM begins is one. (So is that of `TRIM('a' FROM b)`.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from planner.text.scan import KEYWORDS, Token, words

_ENTRY = words("FROM JOIN STRAIGHT_JOIN")  # an entry of FROM follows
_OTHERWISE = words("SELECT WHERE GROUP HAVING ORDER LIMIT UNION EXCEPT INTERSECT WINDOW")  # a clause without entries
_NAMES = ("word", "quoted")


class Entry(NamedTuple):
    """`qualified`: its database is named. `end`: of the entry in the text, behind its alias."""

    name: str
    qualified: bool
    end: int


def entries(tokens: Sequence[Token]) -> Iterator[Entry]:
    """Those that are names, in order; queries in brackets are none, but what stands in these."""
    in_from = [False]  # at each depth of brackets
    wanted = False  # the next token begins an entry
    at = 0
    while at < len(tokens):
        token, at = tokens[at], at + 1
        word = token.text.upper() if token.kind == "word" else ""
        if token.text == "(":
            in_from.append(wanted)
        elif token.text == ")":
            wanted = False
            if len(in_from) > 1:
                in_from.pop()
        elif token.text == ",":
            wanted = in_from[-1]
        elif word in _ENTRY:
            in_from[-1] = wanted = True
        elif word in _OTHERWISE:
            in_from[-1] = wanted = False
        elif wanted and token.kind in _NAMES and word != "LATERAL":
            wanted = qualified = False
            while at + 1 < len(tokens) and tokens[at].text == ".":
                token, at, qualified = tokens[at + 1], at + 2, True
            at = _behind_alias(tokens, at)
            yield Entry(_name(token), qualified, tokens[at - 1].end)


def _behind_alias(tokens: Sequence[Token], at: int) -> int:
    """The token behind an entry's alias, if it has one. `at`: behind its name."""
    if at < len(tokens) and tokens[at].kind == "word" and tokens[at].text.upper() == "AS":
        return min(at + 2, len(tokens))
    if at < len(tokens) and (tokens[at].kind == "quoted" or _is_alias(tokens[at])):
        return at + 1
    return at


def _is_alias(token: Token) -> bool:
    return token.kind == "word" and token.text.upper() not in KEYWORDS


def _name(token: Token) -> str:
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text
