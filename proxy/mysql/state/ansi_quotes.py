"""Texts of sessions with the mode ANSI_QUOTES, as a session without it would be sent them. Pure.

In that mode a double quote stands around a name. A backtick does in every mode, and with it the text means the same. So
such a text is looked up with backticks; MySQL is always sent the client's own. It is done in one pass, and not at all
where the quotes stand in what is read in another way: hints, version comments, strings quoted by dollars.

MySQL names a column that is computed, and has no alias, by the letters of its text. These are others then, so a text
with such a name stays MySQL's (`named_by_quotes`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from planner.text.scan import Token, is_keyword, is_named, scan, select_items
from sqltypes.errors import ParseError

MOST_NAMES = 1000  # in double quotes, of one text
LONGEST = 1 << 16  # bytes: longer texts are not looked at

_READ = re.compile(
    rb"(?:[\s(]|/\*(?![!+])[^*]*+(?:\*(?!/)[^*]*+)*+\*/)*+(?:SELECT|WITH|INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE
)
"""Kinds of statements that are looked at. Of the others MySQL tells what they have done."""
_TO_NEXT_NAME = re.compile(
    rb"""
    ( (?: [^'"`\#/$-]++
        | '[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'
        | `[^`]*+(?:``[^`]*+)*+`
        | \#[^\n]*+
        | --(?=[\s\x00-\x1f]|\Z)[^\n]*+
        | -(?!-(?:[\s\x00-\x1f]|\Z))
        | /\*(?![!+])[^*]*+(?:\*(?!/)[^*]*+)*+\*/
        | /(?!\*)
      )*+
    )
    (?: "([^"]*+(?:""[^"]*+)*+)" | \Z )
    """,
    re.VERBOSE | re.DOTALL,
)


def with_backticks(text: bytes) -> bytes | None:
    """The text as it is read without the mode; None where that is not known. Requires: a backslash escapes.

    >>> with_backticks(b'''SELECT "n"."id" AS "a`b" FROM "n" WHERE s = 'say "a"' ''')
    b'SELECT `n`.`id` AS `a``b` FROM `n` WHERE s = \\'say "a"\\' '
    """
    if len(text) > LONGEST or text.count(b'"') > 2 * MOST_NAMES or _READ.match(text) is None:
        return None
    found: list[bytes] = []
    at = 0
    while at < len(text):
        match = _TO_NEXT_NAME.match(text, at)
        if match is None:
            return None
        before, name = match.groups()
        found.append(before)
        if name is not None:
            if not name:
                return None
            found.append(b"`%b`" % name.replace(b'""', b'"').replace(b"`", b"``"))
        at = match.end()
    return b"".join(found)


def named_by_quotes(sql: str) -> bool:
    """Whether a column of this text, or of a query in it, may be named by letters among which are backticks."""
    try:
        tokens = scan(sql)
    except ParseError:
        return True
    return any(_has_such_a_name(tokens[at:]) for at, token in enumerate(tokens) if is_keyword(token, "SELECT"))


def _has_such_a_name(tokens: Sequence[Token]) -> bool:
    """Of the first select list."""
    return any(
        not is_named(tokens, (first, end)) and any(token.kind == "quoted" for token in tokens[first:end])
        for first, end in select_items(tokens)
    )
