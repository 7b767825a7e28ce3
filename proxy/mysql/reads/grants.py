"""Who may read which cache: asked of MySQL once for each account, remembered for a while."""

from __future__ import annotations

from collections.abc import Callable

from proxy.mysql.state.session_state import SessionState
from proxy.port.reasons import NO_REASON, Reason, Why
from proxy.port.session import SessionCache

REMEMBERED = 60.0
"""Seconds after which MySQL is asked again, by `forget`. A change of rights that is in the binlog ends it at once."""
REFUSED = Reason.RIGHTS.why("MySQL refuses the query to this account")
NO_RIGHT = frozenset({1044, 1045, 1142, 1143, 1227, 1345, 1356, 1370, 1449})
"""MySQL's errors that are about an account (1356 and 1449: or about the definer of a view), whatever the text."""
KEPT = 100_000  # entries; then all are forgotten


Asked = tuple[int, int]
"""When MySQL was asked: the cache's plan, and the version of accounts."""


class Grants:
    """Invariants:
    1. What is remembered is of one plan of a cache (its `generation`), and one account with its roles, in sessions of
       whose rights MySQL has read the same versions: it keeps global rights until a session ends, a database's until
       USE, a role's until SET ROLE. Where that is not known, a session has a version of its own
       (`SessionState.rights`).
    2. It was asked at the version of accounts that `_of_version` is.
    """

    def __init__(self, version: Callable[[], int]) -> None:
        self._version = version
        self._of_version = -1
        self._refusals: dict[tuple[SessionCache, int, str, tuple[int, ...]], Why] = {}

    @property
    def version(self) -> int:
        """Of accounts."""
        return self._version()

    def asks(self, cache: SessionCache) -> Asked:
        """To be remembered by who asks MySQL."""
        return cache.generation, self._version()

    def refusal(self, state: SessionState, cache: SessionCache) -> Why | None:
        """Why the session's account may not read the cache, "" if it may. None: MySQL must be asked."""
        if self._version() != self._of_version:
            self._renew()
        return self._refusals.get((cache, cache.generation, state.identity, state.rights))

    def note(self, state: SessionState, cache: SessionCache, asked: Asked, *, allowed: bool) -> None:
        """What MySQL has said, asked then. Not remembered if another plan or version came since: a REVOKE, or another
        view, may have come first."""
        self._renew()
        if asked == (cache.generation, self._of_version):
            if len(self._refusals) >= KEPT:
                self.forget()
            self._refusals[cache, cache.generation, state.identity, state.rights] = NO_REASON if allowed else REFUSED

    def _renew(self) -> None:
        now = self._version()
        if now != self._of_version:
            self.forget()
            self._of_version = now

    def forget(self) -> None:
        """Rights or accounts have changed."""
        self._refusals.clear()
