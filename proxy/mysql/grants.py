"""Who may read which cache: asked of MySQL once for each account, remembered for a while.

What MySQL announced about the columns is remembered with it, for it depends on the session (its character sets), and
an answer begins with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.api import SessionCache
from proxy.mysql.rows import head
from proxy.mysql.session_state import SessionState

REMEMBERED = 60.0
"""Seconds after which MySQL is asked again. A change of rights that is in the binlog ends it at once."""
KEPT = 100_000  # entries; then all are forgotten


@dataclass(slots=True)
class Grant:
    """`definitions`: payloads of the column definitions; `until`: when it is forgotten, in seconds of the clock."""

    allowed: bool
    definitions: tuple[bytes, ...]
    until: float
    _heads: dict[bool, bytes] = field(default_factory=dict)

    def head(self, *, eof: bool) -> bytes:
        """What stands before the rows of an answer."""
        found = self._heads.get(eof)
        if found is None:
            found = self._heads[eof] = head(self.definitions, eof=eof)
        return found


Key = tuple[SessionCache, str, str, str]


class Grants:
    """Invariants:
    1. A grant is of one cache's text, one account with its roles, and one way of announcing columns.
    """

    def __init__(self, clock: Callable[[], float], version: Callable[[], tuple[int, int]]) -> None:
        self._clock = clock
        self._version = version
        self._of_version = (-1, -1)
        self._grants: dict[Key, Grant] = {}

    def granted(self, state: SessionState, cache: SessionCache) -> Grant | None:
        """None: MySQL must be asked."""
        if self._of_version != self._version():
            self.forget()
            self._of_version = self._version()
        grant = self._grants.get(_key(state, cache))
        return grant if grant is not None and grant.until > self._clock() else None

    def allow(self, state: SessionState, cache: SessionCache, definitions: tuple[bytes, ...]) -> None:
        self._put(state, cache, Grant(True, definitions, self._clock() + REMEMBERED))

    def refuse(self, state: SessionState, cache: SessionCache) -> None:
        self._put(state, cache, Grant(False, (), self._clock() + REMEMBERED))

    def _put(self, state: SessionState, cache: SessionCache, grant: Grant) -> None:
        if len(self._grants) >= KEPT:
            self.forget()
        self._grants[_key(state, cache)] = grant

    def forget(self) -> None:
        """Rights, accounts, or the caches have changed."""
        self._grants.clear()


def _key(state: SessionState, cache: SessionCache) -> Key:
    values = state.values
    return cache, state.identity, values.get("character_set_results", ""), values.get("collation_connection", "")
