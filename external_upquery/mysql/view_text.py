"""The text of a view, all characters of it.

information_schema tells definitions in utf8mb3: a character beyond that (an emoji) is a `?` there. `SHOW CREATE VIEW`
prints the same tree with all characters, but without the names of databases. So the strings are those of the one, and
everything else is the other's.
"""

from __future__ import annotations

from planner.text.scan import scan
from sqltypes.errors import ParseError

LOST = "?"
"""What information_schema tells in the place of a character that utf8mb3 lacks."""


def may_lack(definition: str) -> bool:
    return LOST in definition


def whole(definition: str, created: str) -> str | None:
    """The definition as information_schema tells it, with the strings that SHOW CREATE VIEW prints; None if the two
    differ otherwise.

    >>> whole("select '?' AS `a?` from `d`.`t`", "CREATE VIEW `v` AS select '😀' AS `a?` from `t`")
    "select '😀' AS `a?` from `d`.`t`"
    """
    try:
        places = [token for token in scan(definition) if token.kind == "string"]
        strings = [token.text for token in scan(created) if token.kind == "string"]
    except ParseError:
        return None
    if [token.text for token in places] != list(map(in_utf8mb3, strings)):
        return None
    for token, string in zip(reversed(places), reversed(strings), strict=True):
        definition = definition[: token.start] + string + definition[token.end :]
    return definition


def in_utf8mb3(text: str) -> str:
    return "".join(letter if letter <= "\uffff" else LOST for letter in text)
