"""How MySQL announces columns to a session."""

from __future__ import annotations

from typing import NamedTuple

from proxy.mysql.state.session_variables import ASCII, BINARY, UNICODE
from sqltypes.collation import character_set


class Announces(NamedTuple):
    """On what it depends how MySQL announces a result's columns to a session."""

    eof: bool  # rows end with EOF
    # The number of the character set of results: its name does not tell the collation, which a client may have chosen
    # as it logged in.
    character_set: int
    collation: str  # collation_connection, which tells character_set_connection, too
    client: str  # character_set_client
    results: str  # character_set_results: without one the number is that of each column
    # STRICT_TRANS_TABLES: which casts may give NULL; IGNORE_SPACE: whether the name of an expression ends with the
    # space behind it.
    sql_mode: str

    @property
    def as_bytes(self) -> bool:
        """Whether all strings are announced as binary ones."""
        return self.results == BINARY

    @property
    def makes_foreign(self) -> bool:
        """Whether strings that MySQL makes are other bytes than in UTF-8 where they are sent as they are."""
        return character_set(self.collation) not in (*UNICODE, ASCII, BINARY)


NOBODY = Announces(False, 0, "", "", "", "")
