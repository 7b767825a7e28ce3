"""MySQL's clock, without a question each time.

MySQL is asked about once a second while there is a caller. Its answer was made between the question and its arrival
here. So MySQL's clock is ahead of ours by a number between two bounds, which are a round trip apart. A second is known
if both bounds give the same one; at the moment of change it is unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from math import floor
from time import monotonic

from proxy.loop.periodic import Periodic
from proxy.source.source import Upqueries
from sqltypes.errors import UpwellError

EVERY = 1.0  # seconds between two questions
WANTED = 10.0  # seconds: so long after the last that wanted to know MySQL is asked
FRESH = 5.0  # seconds: an older answer says nothing, for the clock may have been set
EPOCH = datetime(1970, 1, 1)
ROUNDED = 2  # microseconds that are lost where seconds are added up
QUESTION = "SELECT SYSDATE(6)"  # init_connect may have set the clock that NOW() shows to this session


async def ask(executor: Upqueries) -> datetime:
    """MySQL's UTC, to the microsecond, for the session is pinned to it. Raises as `Upqueries.question`."""
    rows = await executor.question(QUESTION)
    return datetime.fromisoformat(str(rows[0][0]))


class SourceClock:
    """Invariants:
    1. One question is under way at most.
    2. As of the last answer MySQL's clock, in seconds since 1970, is ahead of ours by `_ahead[0]` to `_ahead[1]`.
    """

    def __init__(
        self, ask: Callable[[], Awaitable[datetime]], clock: Callable[[], float] = monotonic, tolerance: int = 0
    ) -> None:
        """`tolerance`: how many seconds the clock may be behind; it stands still for so long. 0: not at all."""
        self.tolerance = tolerance
        self._ask = ask
        self._clock = clock
        self._ahead = (0.0, 0.0)
        self._answered = float("-inf")
        self._wanted = float("-inf")
        self._round = Periodic(self.look, EVERY, clock)
        self._utc: tuple[int, datetime] = (0, EPOCH)  # the second that was told last

    def utc(self) -> datetime | None:
        """The whole second that MySQL's clock shows in UTC, or one that it has shown; None where that is not known."""
        now = self._clock()
        self._wanted = now
        if now - self._answered > FRESH:
            return None
        least, most = self._ahead
        second = floor(now + least)
        if self.tolerance:
            second -= second % self.tolerance
        elif second != floor(now + most):
            return None
        if second != self._utc[0]:
            self._utc = second, EPOCH + timedelta(seconds=second)
        return self._utc[1]

    def micros(self) -> tuple[int, int] | None:
        """Between which microseconds of the second that `utc` has told MySQL's clock is; None where it may be in
        another one. Requires: in the same step."""
        if self.tolerance:
            return 0, 0
        now, (second, _) = self._clock(), self._utc
        least, most = (floor((now + ahead - second) * 1e6) for ahead in self._ahead)
        least, most = least - ROUNDED, most + ROUNDED
        return (least, most) if least >= 0 and most < 1_000_000 else None

    def tick(self) -> None:
        """To be called now and then: asks where it is due."""
        if self._clock() - self._wanted < WANTED:
            self._round.tick()

    async def look(self) -> None:
        """Asks. Where MySQL does not answer nothing is known soon."""
        before = self._clock()
        try:
            told = await self._ask()
        except (UpwellError, ValueError):
            return
        after = self._clock()
        seconds = (told - EPOCH).total_seconds()
        self._ahead, self._answered = (seconds - after, seconds - before), after

    async def close(self) -> None:
        await self._round.close()

    def check_invariants(self) -> None:
        """Raises AssertionError. For tests."""
        assert self._ahead[0] <= self._ahead[1]
