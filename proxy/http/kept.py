"""How much is kept for clients that have not taken it yet, of all connections of the HTTP listener together.

An answer that is written in pieces is kept until its client has taken it. A connection has what was written and not
sent yet. Where there would be more than the limit, the client that has taken nothing for the longest is left; if each
one takes what it is given, the next answer is refused.
"""

from __future__ import annotations

from typing import Protocol

from starlette.exceptions import HTTPException
from starlette.requests import Request

KEPT_BYTES = 64 << 20
STALLED_SECONDS = 1.0
"""Who has taken nothing for so long may be left for an answer of another."""
OF_ANSWERS = 4  # of the longest: what may be kept at least


class Keeping(Protocol):
    """A connection. `kept`: bytes that are kept for it beside what was written."""

    kept: int

    @property
    def unsent(self) -> int:
        """Bytes that were written and are not sent yet."""
        ...

    def leave(self) -> None:
        """Ends it at once."""
        ...


class Kept:
    """Of a listener's connections. `refused`, `left`: answers and clients since the start. `limit`: bytes.

    Invariants: 1. `stalled` has those whose clients do not take what was written, and since when, the slowest first.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.open: dict[Keeping, None] = {}
        self.stalled: dict[Keeping, float] = {}
        self.refused = self.left = 0

    def size(self) -> int:
        """Bytes."""
        return sum(each.kept + each.unsent for each in self.open)

    def has_room(self, size: int, now: float) -> bool:
        """Whether so many bytes more may be kept. An answer that is alone may have any size."""
        while (kept := self.size()) and kept + size > self.limit:
            slowest = next(iter(self.stalled), None)
            if slowest is None or now - self.stalled[slowest] < STALLED_SECONDS:
                self.refused += 1
                return False
            self._leave(slowest)
        return True

    def has_stalled(self, one: Keeping, now: float) -> None:
        """Its client does not take what was written."""
        self.stalled[one] = now
        while self.stalled and self.size() > self.limit:
            self._leave(next(iter(self.stalled)))

    def goes_on(self, one: Keeping) -> None:
        self.stalled.pop(one, None)

    def _leave(self, one: Keeping) -> None:
        self.left += 1
        self.forget(one)
        one.leave()

    def forget(self, one: Keeping) -> None:
        """It is ended."""
        self.stalled.pop(one, None)
        self.open.pop(one, None)


def check_room(request: Request, size: int) -> None:
    """Keeps so many bytes for the request's client until it has the answer. Raises HTTPException where there is no
    room."""
    if not request.state.connection.keep(size):
        raise HTTPException(503, "other clients have not taken their answers yet: ask again")
