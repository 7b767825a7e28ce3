"""How fresh an answer must be: who waits for the position, and what one call may be served.

A call asks for GTIDs that its answer must contain (`min_gtid`), or for all that was committed up to some seconds before
it came (`max_staleness`). The latter becomes the former where the stream was not heard of just now: MySQL is asked what
it has executed, and that the answer must contain. So no clock of another machine is trusted for less than a reading
would cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from dataflow.engine import Engine
from dataflow.messages import Gap, Restarted, StreamEvent
from gtid_tracker.gtid import Gtid, GtidSet
from proxy.port.api import DEFAULT_WAIT, Freshness, Otherwise
from sqltypes.errors import TooStale, UpwellError

Waiter = asyncio.Future[None]
NOTHING = GtidSet.empty()
ANYTHING = Freshness()


class Freshener:
    """Waits until the engine's position contains given GTIDs.

    `age`: seconds since which the position may lack something. `ask`: reads gtid_executed at the source.

    Invariants:
    1. A waiter is filed once, under a GTID that it needs and the position lacks: a transaction costs one lookup
       however many wait, and who gives up is found by that GTID.
    """

    def __init__(self, engine: Engine, age: Callable[[], float], ask: Callable[[], Awaitable[GtidSet]]) -> None:
        self.age = age
        self.waits = 0  # since start
        self.late = 0  # of them, those that were for nothing
        self.engine = engine
        self._ask = ask
        self.filed: dict[Gtid, dict[Waiter, GtidSet]] = {}  # by what each lacks
        self._reading: tuple[float, asyncio.Future[GtidSet]] | None = None  # the newest, and when it was begun

    def demand(self, freshness: Freshness) -> CallDemand:
        return CallDemand(self, freshness, freshness.not_before, monotonic())

    def demand_after(self, own: GtidSet, shown: GtidSet | None = None, wait: float = DEFAULT_WAIT) -> CallDemand:
        """As `SessionDemands.demand_after`."""
        position = self.engine.state.ring.position.freeze()
        asked = ANYTHING if own is NOTHING and wait == DEFAULT_WAIT else Freshness(min_gtid=own, wait=wait)
        return CallDemand(self, asked, position if shown is None else position.union(shown), monotonic())

    def covers(self, needed: GtidSet) -> bool:
        """Is all of it in the position?"""
        return self.engine.state.ring.position.covers(needed)

    def missing(self, needed: GtidSet) -> GtidSet:
        return needed.difference(self.engine.state.ring.position.freeze())

    @property
    def waiting(self) -> int:
        return sum(map(len, self.filed.values()))

    # -- the position moves --------------------------------------------------------------------------------------------

    def on_stream(self, event: StreamEvent) -> None:
        """The engine has processed the event."""
        if isinstance(event, Gap | Restarted):  # the position is another one, or who asks is told something else
            filed = list(self.filed.values())
            self.filed.clear()
            self._reading = None
            for waiters in filed:
                self._look_again(waiters)
        elif event.gtid is not None:
            arrived = self.filed.pop(event.gtid, None)
            if arrived is not None:
                self._look_again(arrived)

    def _look_again(self, waiters: dict[Waiter, GtidSet]) -> None:
        for waiter, needed in waiters.items():
            missing = self.missing(needed)
            if missing:
                self.filed.setdefault(missing.last(), {})[waiter] = needed
            elif not waiter.done():
                waiter.set_result(None)

    async def reached(self, needed: GtidSet, seconds: float) -> bool:
        """Waits until the position has all of it; False if it has not in time."""
        if self.covers(needed):
            return True
        if seconds <= 0:
            return False
        self.waits += 1
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._look_again({waiter: needed})
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            if not self.covers(needed):
                self.late += 1
                return False
        finally:
            if not waiter.done() or waiter.cancelled():
                self._forget(waiter, needed)
        return True

    def _forget(self, waiter: Waiter, needed: GtidSet) -> None:
        """Takes out one that gives up. It is filed under the last GTID that was missing when it was last looked at,
        which is still the last one missing: else it would have been looked at since. What it waited for may have come
        after it gave up, and before it was told to."""
        missing = self.missing(needed)
        if not missing:
            return
        gtid = missing.last()
        waiters = self.filed.get(gtid, {})
        waiters.pop(waiter, None)
        if not waiters:
            self.filed.pop(gtid, None)

    async def executed(self, since: float) -> GtidSet:
        """What the source had executed at some moment after `since` (of `time.monotonic`). Raises the source's
        errors."""
        reading = self._reading
        if reading is None or reading[0] < since or (reading[1].done() and reading[1].exception() is not None):
            reading = self._reading = monotonic(), asyncio.ensure_future(self._ask())
            reading[1].add_done_callback(_seen)
        return await asyncio.shield(reading[1])  # others wait for it too

    async def answers(self) -> bool:
        """Whether the source answers now."""
        try:
            await self.executed(monotonic())
        except UpwellError:
            return False
        return True


def _seen(reading: asyncio.Future[GtidSet]) -> None:
    """Who waited for it may be gone: then its error is nobody's."""
    if not reading.cancelled():
        reading.exception()


class CallDemand:
    """One call's demand, which begins with its arrival. Implements `proxy.port.api.Demand` and
    `dataflow.fills.demand.Demand`.

    Invariants:
    1. Whatever contains `needed` and `_shown` serves once `_recent`, which never becomes false again: all that must be
       in the answer had been committed before the call came. MySQL's own answer need not contain `_shown`, of which
       some may never be executed: it comes after the call, so it is no older than what was shown before.
    """

    __slots__ = ("_arrived", "_deadline", "_freshener", "_oldest", "_recent", "_shown", "asked", "needed")

    def __init__(self, freshener: Freshener, asked: Freshness, shown: GtidSet, arrived: float) -> None:
        """`shown`: what earlier answers may have shown, `asked.not_before` included."""
        self.asked = asked
        self.needed = asked.min_gtid
        self._shown = shown
        self._arrived = arrived
        self._freshener = freshener
        self._deadline = arrived + asked.wait
        staleness = asked.max_staleness
        self._oldest = float("-inf") if staleness is None else arrived - staleness
        self._recent = staleness is None

    def met(self) -> bool:
        staleness = self.asked.max_staleness
        if not self._recent and staleness is not None:
            self._recent = self._freshener.age() <= staleness
        needed, shown, position = self.needed, self._shown, self._freshener.engine.state.ring.position
        return (
            self._recent
            and (needed is NOTHING or position.covers(needed))
            and (shown is NOTHING or position.covers(shown))
        )

    def met_ahead(self, lower: GtidSet) -> bool:
        """Does an entry serve that has all of the position and all of `lower`?"""
        return self.met() or (self._recent and self._missing().issubset(lower))

    def met_by(self, lower: GtidSet, sent_at: float) -> bool:
        if self.needed is not NOTHING and not self.needed.issubset(lower):
            return False
        return sent_at >= self._arrived or (sent_at >= self._oldest and self._shown.issubset(lower))

    async def reached(self) -> bool:
        """Waits until a hit may be served; False if that takes too long. Raises the source's errors."""
        if not self.met() and not self._recent:
            self.needed = self.needed.union(await self._freshener.executed(self._oldest))
            self._recent = True
        return await self._freshener.reached(self.needed.union(self._shown), self.seconds_left)

    def met_by_source(self, executed: str) -> bool:
        """Does MySQL's own answer serve, which has all of `executed`? As to staleness it does: it was made just now."""
        return not self.asked.min_gtid or not self.lacking(executed)

    def lacking(self, executed: str) -> GtidSet:
        return self.asked.min_gtid.difference(GtidSet.parse(executed))

    @property
    def seconds_left(self) -> float:
        return self._deadline - monotonic()

    def refuse(self) -> None:
        """The wait was for nothing. Raises TooStale unless MySQL is to answer."""
        if self.asked.otherwise is Otherwise.FAIL:
            raise TooStale(f"{self.shortage()}, after {self.asked.wait:g} s of waiting")

    def shortage(self) -> str:
        """What is missing, as a sentence's beginning."""
        return f"the position lacks {self._missing()} of what the read asks for"

    def _missing(self) -> GtidSet:
        return self._freshener.missing(self.needed.union(self._shown))
