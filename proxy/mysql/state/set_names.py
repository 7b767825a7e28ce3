"""What SET NAMES makes of a session.

MySQL's trackers tell the character sets that it sets, but neither the collation nor the number of the set of results.
These are the same each time for the same statement, in sessions with the same default collation: MySQL is asked once
for each, and a session that does what another one has done is known at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

SET_BY_NAMES = ("character_set_client", "character_set_connection", "character_set_results", "collation_connection")
DEFAULT = "default_collation_for_utf8mb4"
MOST = 200  # statements that are remembered
_NAMES = re.compile(
    rb"""\s*set\s+names\s+(['"]?)(\w+)\1 (?: \s+collate\s+(['"]?)(\w+)\3 )? \s*;?\s*""", re.IGNORECASE | re.VERBOSE
)

Names = tuple[bytes, bytes]  # the character set, and the collation or b"", in lower case


class Named(NamedTuple):
    """`values`: of the variables of SET_BY_NAMES; `number`: of the character set of results."""

    values: tuple[str, ...]
    number: int


def names_of(text: bytes) -> Names | None:
    """What a lone SET NAMES says; None for other texts. What DEFAULT means the server may change."""
    found = _NAMES.fullmatch(text)
    if found is None or found[2].lower() == b"default":
        return None
    return found[2].lower(), (found[4] or b"").lower()


class SetNames:
    """What is known, for all sessions."""

    def __init__(self) -> None:
        self._known: dict[tuple[Names, str], Named] = {}

    def forget(self) -> None:
        """Another server may answer."""
        self._known.clear()

    def find(self, names: Names, values: Mapping[str, str]) -> Named | None:
        """`values`: of the session's variables."""
        return self._known.get((names, values.get(DEFAULT, "")))

    def learn(self, names: Names, values: Mapping[str, str], number: int) -> None:
        """MySQL has told what a session is like that has done this last."""
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[names, values[DEFAULT]] = Named(tuple(values[name] for name in SET_BY_NAMES), number)
