"""Which calls of a text may be of stored or loadable functions, told from the tokens: the parser has classes for
functions of other databases, under whose names a stored function can hide.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.text.built_in_functions import HARMLESS, MOVED, MOVED_IN, NEVER_PARTED, NEWER, NEWER_FROM, NO_FUNCTIONS
from planner.text.scan import ServerVersion, Token

READS = ("SELECT", "WITH", "TABLE", "VALUES")


def word(tokens: Sequence[Token], index: int) -> str:
    """The word at that place in upper case, "" where there is none."""
    if index < len(tokens) and tokens[index].kind == "word":
        return tokens[index].text.upper()
    return ""


_WRITES = frozenset({"INSERT", "REPLACE", "IGNORE", "DELAYED", "LOW_PRIORITY", "HIGH_PRIORITY"})
"""Words ahead of a written table's name, where INTO is left out. SELECT HIGH_PRIORITY may stand in such a statement."""


def unknown_call(tokens: Sequence[Token], version: ServerVersion) -> Token | None:
    """The first name before a bracket that may call what is no function of MySQL's own, or one that writes, locks,
    waits or changes the session. `version`: the server's."""
    closings = _closings(tokens)
    for opening in closings:
        if opening > 0:
            before = tokens[opening - 1]
            parted = tokens[opening].start != before.end
            if _unknown(tokens, opening - 1, closings[opening], parted, version):
                return before
    return None


def _closings(tokens: Sequence[Token]) -> dict[int, int]:
    """For each bracket that opens, the one that closes it; the end where none does."""
    closings: dict[int, int] = {}
    open_: list[int] = []
    for index, token in enumerate(tokens):
        if token.text == "(":
            open_.append(index)
            closings[index] = len(tokens)
        elif token.text == ")" and open_:
            closings[open_.pop()] = index
    return closings


def _unknown(tokens: Sequence[Token], index: int, closed: int, parted: bool, version: ServerVersion) -> bool:
    """Whether the name at `index`, before a bracket, may call what is not known. `closed`: where that bracket is
    closed. `parted`: there is space between."""
    token = tokens[index]
    if token.kind not in ("word", "quoted") or _names_no_function(tokens, index, closed):
        return False
    behind = word(tokens, index + 2)
    is_column = behind == "VALUES" and index + 3 < len(tokens) and tokens[index + 3].text == "("  # no VALUES ROW(...)
    if behind in READS and not is_column:
        return False  # ANY (SELECT ...): an argument would have brackets of its own
    name = token.text.lower()
    qualified = index > 0 and tokens[index - 1].text == "."
    if qualified or token.kind == "quoted":
        return True
    if name in NO_FUNCTIONS:
        return False
    if name == "last_insert_id":
        return tokens[index + 2 : index + 3] == [] or tokens[index + 2].text != ")"
    if (name in MOVED and version >= MOVED_IN) or (name in NEWER and version < NEWER_FROM):
        return True
    return name not in HARMLESS or not token.text.isascii() or (parted and name in NEVER_PARTED)


def _names_no_function(tokens: Sequence[Token], index: int, closed: int) -> bool:
    """The table of INSERT INTO t (...), a common table expression, an alias: their brackets hold names of columns; so
    do those of COLUMNS behind the path of a JSON_TABLE. Those of DATETIME there hold digits."""
    if word(tokens, index) == "COLUMNS" and index and tokens[index - 1].kind == "string":
        return True
    qualified = index > 0 and tokens[index - 1].text == "."
    if word(tokens, index) == "DATETIME" and not qualified and word(tokens, closed + 1) in ("PATH", "EXISTS"):
        return True  # without its database's name no function of this one can be called
    start = index
    while start > 1 and tokens[start - 1].text == ".":
        start -= 2
    if start == 0:
        return False
    before = word(tokens, start - 1)
    if before in ("INTO", "AS") or tokens[start - 1].text == ")":
        return True
    if before in _WRITES:
        return word(tokens, 0) in ("INSERT", "REPLACE") and all(word(tokens, at) in _WRITES for at in range(start))
    return word(tokens, closed + 1) == "AS" and closed + 2 < len(tokens) and tokens[closed + 2].text == "("
