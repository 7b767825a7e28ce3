"""Who may read which cache: asked of MySQL once for each account, remembered for a while. And whether what MySQL
announces about a text's columns is what the cache has."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence

from external_upquery.columns import parse_column, to_result_column
from proxy.api import SessionCache
from proxy.mysql.session_state import SessionState
from sqltypes.schema import ResultColumn

REMEMBERED = 60.0
"""Seconds after which MySQL is asked again, by `forget`. A change of rights that is in the binlog ends it at once."""
REFUSED = "MySQL refuses the query to this account"
NO_RIGHT = frozenset({1044, 1045, 1142, 1143, 1227, 1345, 1356, 1370, 1449})
"""MySQL's errors that are about an account (1356 and 1449: or about the definer of a view), whatever the text."""
OTHER_COLUMNS = "MySQL announces other columns than the cache has"
KEPT = 100_000  # entries; then all are forgotten


class Grants:
    """Invariants:
    1. What is remembered is of one cache, and one account with its roles, in sessions whose rights MySQL has read at
       the same versions: it keeps global rights until a session ends, a database's until USE, a role's until SET ROLE.
    2. It was asked at the version that `_of_version` is.
    """

    def __init__(self, version: Callable[[], tuple[int, int]]) -> None:
        self._version = version
        self._of_version = (-1, -1)
        self._refusals: dict[tuple[SessionCache, str, tuple[int, ...]], str] = {}

    @property
    def version(self) -> tuple[int, int]:
        """Of caches and accounts: to be remembered by who asks MySQL."""
        return self._version()

    def refusal(self, state: SessionState, cache: SessionCache) -> str | None:
        """Why the session's account may not read the cache, "" if it may. None: MySQL must be asked."""
        if self._of_version != self._version():
            self.forget()
            self._of_version = self._version()
        return self._refusals.get((cache, state.identity, state.rights))

    def note(self, state: SessionState, cache: SessionCache, asked: tuple[int, int], *, allowed: bool) -> None:
        """What MySQL has said, asked at that version. Not remembered if it is another since: a REVOKE may have come
        first."""
        if asked != self._version():
            return
        if asked != self._of_version or len(self._refusals) >= KEPT:
            self.forget()
            self._of_version = asked
        self._refusals[cache, state.identity, state.rights] = "" if allowed else REFUSED

    def forget(self) -> None:
        """Rights, accounts, or the caches have changed."""
        self._refusals.clear()


def announce(definitions: Sequence[bytes], columns: Sequence[ResultColumn]) -> bool:
    """Whether column definitions (their payloads) are of a cache's columns. Not where MySQL has changed the tables and
    the stream has still to tell."""
    if len(definitions) != len(columns):
        return False
    try:
        announced = [to_result_column(parse_column(payload)) for payload in definitions]
    except (ArithmeticError, LookupError, ValueError, struct.error):  # no column's definition at all
        return False
    return all(_shape(one) == _shape(other) for one, other in zip(announced, columns, strict=True))


_NOT_NAMED = re.compile(r"/\*.*?\*/|[\s`]+", re.DOTALL)


def _shape(column: ResultColumn) -> tuple[object, ...]:
    # A column without an alias is named as it is written: SUM( n ) and sum(n) are the same to a cache.
    name = _NOT_NAMED.sub("", column.name).casefold()
    return name, column.type.name, column.type.unsigned, column.type.scale
