"""Whether hits may be served. Not while the source cannot be reached or followed. Not after the process was frozen, nor
after a start with what another process has held, until it has read what its stream has brought meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from gtid_tracker.gtid import GtidSet
from proxy.pump.pump import CATCHING_UP
from proxy.read.host import ReadHost
from vstream.source import ChangeSource

CURRENT = 1.0  # seconds by which the position may be behind the source


class Gate:
    """Decides whether hits may be served: not when the source has been out of reach for longer than `max_staleness`
    seconds, nor while its stream lacks changes."""

    def __init__(self, host: ReadHost, stream: ChangeSource, max_staleness: float, end: Callable[[str], None]) -> None:
        """`end`: ends all subscriptions, for their rows may be older than was promised."""
        self._host = host
        self._end = end
        self._stream = stream
        self.max_staleness = max_staleness
        self._last_contact = monotonic()
        self._frozen: int | None = None  # how often the stream had been read to its end, when the process ran again
        self._until: GtidSet | None = None  # what the position must have, after a start; None: whatever it has
        self._begins = False  # that is not known yet

    def frozen(self) -> None:
        """The process did not run for a while: what is held is as old."""
        self._frozen = self._stream.drained
        if not self._host.closed:
            self._host.closed = CATCHING_UP

    def begins(self, until: GtidSet | None = None) -> None:
        """The position at the start is an old one. `until`: what the source has executed since, None while that is not
        known."""
        self._until, self._begins = until, until is None
        self.frozen()

    def empty(self) -> None:
        """Nothing of before is held any more: it need not become current."""
        self._until, self._begins = None, False

    def look(self) -> None:
        """To be called often: whether the stream has been read since. Costs nothing where the process has run."""
        if self._frozen is None or not self._stream.connected:
            return
        if self._begins:
            return
        if self._until is not None:
            if not (self._stream.recognised and self._host.engine.state.ring.position.covers(self._until)):
                return
            self._until = None
        if self._stream.drained != self._frozen and self._stream.lag() < CURRENT:
            self._frozen = None
            if self._host.closed is CATCHING_UP:
                self._host.closed = ""

    def tick(self) -> None:
        now = monotonic()
        if self._stream.connected:
            self._last_contact = now
        away = now - self._last_contact
        if self._stream.unfit:
            self._close(self._stream.unfit)
        elif away > self.max_staleness:
            limit = f"more than --max-staleness {self.max_staleness:.0f} s"
            self._close(f"the source has not been reached for {away:.0f} s, {limit}")
        else:
            self._host.closed = "" if self._frozen is None else CATCHING_UP

    def _close(self, reason: str) -> None:
        """No hit is served from now on, and every subscription ends."""
        if self._host.closed in ("", CATCHING_UP):
            self._end(reason)
        self._host.closed = reason
