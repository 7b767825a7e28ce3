"""What a session's sql_mode makes of texts and of answers. Pure.

Most modes concern what is written. Of the others each counts for those queries whose answers it can change
(`planner/session_needs.py`), and two change how a text is read:

 mode                  | text                        | is read as
-----------------------+-----------------------------+----------------------------------------
 ANSI_QUOTES           | any without a double quote  | it stands there
                       | one with a double quote     | not: MySQL answers
 NO_BACKSLASH_ESCAPES  | any without a backslash     | it stands there
                       | one with a backslash        | not: MySQL answers
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.session_needs import BYTES, OF_MODE, SESSION_NEEDS, STRINGS

JUDGED = frozenset(name.removeprefix(OF_MODE) for name in SESSION_NEEDS if name.startswith(OF_MODE)) | {"ANSI_QUOTES"}
"""Modes that count for some queries or texts."""
NO_MATTER = frozenset({
    "ONLY_FULL_GROUP_BY", "STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL", "NO_ENGINE_SUBSTITUTION",
    "NO_AUTO_VALUE_ON_ZERO", "NO_DIR_IN_CREATE", "IGNORE_SPACE", "ERROR_FOR_DIVISION_BY_ZERO", "ANSI",
})  # fmt: skip
"""Modes that change no answer of a SELECT that has one: only whether it is refused, what it warns of, and what writes
do."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How texts are read where that is not the default way. One object for each way."""

    ansi_quotes: bool
    no_escapes: bool

    def of(self, text: bytes) -> bytes | None:
        """The text that means the same where texts are read the default way; None where there is none, or it is not
        known."""
        changed = (self.no_escapes and b"\\" in text) or (self.ansi_quotes and b'"' in text)
        return None if changed else text

    @staticmethod
    def changes(text: bytes) -> bool:
        """Whether the text may mean something else where texts are read in another way."""
        return b'"' in text or b"\\" in text


READINGS = {
    (quotes, escapes): Reading(quotes, escapes)
    for quotes, escapes in ((True, False), (False, True), (True, True))
}  # fmt: skip


def modes_of(text: str) -> frozenset[str]:
    """The modes in a value of sql_mode."""
    return frozenset(text.upper().split(",")) - {""}


def reading_of(text: str) -> Reading | None:
    """How a session with this sql_mode reads texts; None: the default way."""
    modes = modes_of(text)
    return READINGS.get(("ANSI_QUOTES" in modes, "NO_BACKSLASH_ESCAPES" in modes))


def value_of(name: str, values: Mapping[str, str]) -> str:
    """The value of a variable, or whether a mode is on, ON or OFF. `name`: of a mode with `OF_MODE` before it."""
    if name in (STRINGS, BYTES):
        return values.get("character_set_connection", "")
    if not name.startswith(OF_MODE):
        return values.get(name, "")
    return "ON" if name.removeprefix(OF_MODE) in modes_of(values.get("sql_mode", "")) else "OFF"
