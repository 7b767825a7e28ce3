"""What a session's sql_mode makes of texts and of answers, and its character set of texts. Pure.

Most modes concern what is written. Of the others each counts for those queries whose answers it can change
(`planner/session/session_needs.py`). Two change what a mark in a text means (`MARKS`):

 mode                 | mark         | MySQL reads it as
----------------------+--------------+------------------------------------------
 ANSI_QUOTES          | double quote | what stands around a name, not a string
 NO_BACKSLASH_ESCAPES | backslash    | itself, not as the beginning of an escape

In a session whose texts are in gbk, big5, sjis, cp932 or gb18030 there is a third mark (`TAIL`): a backslash, a
backtick or an @ behind a byte that is not ASCII. It may be the last byte of a character, which neither escapes nor
closes anything.

Where a text has such quotes it is looked up with backticks in their place (`ansi_quotes.py`). One with a backslash is
MySQL's where that does not escape. So is one with digits of bytes, and an execution with a backslash in it: it may be
that of a pattern.

Where one of the others counts, a cache of the same text that sets the session's modes may answer, and likewise
of one that tells its collation (`hint_for`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from external_upquery.login import PINNED, SQL_MODE
from planner.session.needs import BY_CODES, BYTES, COLLATION, OF_MODE, SESSION_NEEDS, STRICT, STRINGS
from planner.text.hints import COLLATIONS, FULL_GROUP, SETTABLE, hint_of

_AS_DIGITS = re.compile(rb"(?<![\w$])(?:0[xb]|[xb]'[0-9a-f]*')", re.IGNORECASE)
JUDGED = frozenset(name.removeprefix(OF_MODE) for name in SESSION_NEEDS if name.startswith(OF_MODE)) | {"ANSI_QUOTES"}
"""Modes that count for some queries or texts."""
NO_MATTER = frozenset({
    "ONLY_FULL_GROUP_BY", "STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL", "NO_ENGINE_SUBSTITUTION",
    "NO_AUTO_VALUE_ON_ZERO", "NO_DIR_IN_CREATE", "IGNORE_SPACE", "ERROR_FOR_DIVISION_BY_ZERO", "ANSI",
})  # fmt: skip
"""Modes that change no answer of a SELECT that has one: only whether it is refused, what it warns of, and what writes
do. Which of the two strict ones it is does not matter either; whether there is one does (STRICT)."""
_STRICT = frozenset({"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"})
MARKS = {"ANSI_QUOTES": b'"', "NO_BACKSLASH_ESCAPES": b"\\"}
"""What stands in a text, and means something else in the mode."""
QUOTES, BACKSLASH = MARKS["ANSI_QUOTES"], MARKS["NO_BACKSLASH_ESCAPES"]
TAIL = b"\xff"
"""Stands for a byte that is ASCII's, and may be the last one of a character of several bytes."""
ALL_MARKS = QUOTES + BACKSLASH + TAIL
_TAIL = re.compile(rb"[\x80-\xff][\\`@]")

OWN_COLLATION = PINNED[COLLATION].strip("'")
_HINTED = SETTABLE & JUDGED | {FULL_GROUP}


@lru_cache(64)
def modes_of(text: str) -> frozenset[str]:
    """The modes in a value of sql_mode."""
    return frozenset(text.upper().split(",")) - {""}


@lru_cache(64)
def marks_of(text: str) -> bytes:
    """The marks that mean something else with this value of sql_mode than where caches are filled."""
    modes = modes_of(text)
    return b"".join(mark for mode, mark in MARKS.items() if mode in modes)


def hint_for(values: Mapping[str, str]) -> bytes:
    """The hint by which a text is read as in a session with these values of sql_mode and the collation of literals
    (`planner/text/hints.py`), where they can change the answers of some; else nothing."""
    return _hint(values["sql_mode"], values.get(COLLATION, "")) if "sql_mode" in values else b""


@lru_cache(64)
def _hint(sql_mode: str, collation: str) -> bytes:
    modes, own = modes_of(sql_mode), modes_of(SQL_MODE)
    counts = bool((modes ^ own) & _HINTED) or modes.isdisjoint(_STRICT) != own.isdisjoint(_STRICT)
    other = collation != OWN_COLLATION and COLLATIONS.fullmatch(collation) is not None
    return hint_of(modes if counts else None, collation if other else "").encode()


def marks_in(text: bytes, marks: bytes) -> bytes:
    """Those of the marks that a text has, or may have written by the digits of its bytes.

    >>> marks_in(b'SELECT "a"', ALL_MARKS), marks_in(b"SELECT x'5c'", ALL_MARKS)
    (b'"', b'\\\\')
    """
    found = [mark for mark in (QUOTES, BACKSLASH) if mark in marks and mark in text]
    if BACKSLASH in marks and BACKSLASH not in found and _AS_DIGITS.search(text) is not None:
        found.append(BACKSLASH)
    if TAIL in marks and _TAIL.search(text) is not None:
        found.append(TAIL)
    return b"".join(found)


def value_of(name: str, values: Mapping[str, str]) -> str:
    """The value of the variable of which a need is named, or whether a mode is on, ON or OFF. `name`: of a mode with
    `OF_MODE` before it."""
    if name in (STRINGS, BYTES):
        return values.get("character_set_connection", "")
    if name == BY_CODES:
        return values.get(COLLATION, "")
    if not name.startswith(OF_MODE):
        return values.get(name, "")
    modes = modes_of(values.get("sql_mode", ""))
    wanted = _STRICT if name == STRICT else {name.removeprefix(OF_MODE)}
    return "OFF" if modes.isdisjoint(wanted) else "ON"
