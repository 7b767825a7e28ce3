"""Whether hits may be served. Not while the source cannot be reached or followed. Not after the process was frozen,
until it has read what its stream has brought meanwhile."""

from __future__ import annotations

from time import monotonic

from proxy.pump.pump import CATCHING_UP
from proxy.system.system import Router
from vstream.source import ChangeSource

CURRENT = 1.0  # seconds by which the position may be behind the source


class Gate:
    """Decides whether hits may be served: not when the source has been out of reach for longer than `max_staleness`
    seconds, nor while its stream lacks changes."""

    def __init__(self, router: Router, stream: ChangeSource, max_staleness: float) -> None:
        self._router = router
        self._stream = stream
        self._max_staleness = max_staleness
        self._last_contact = monotonic()
        self._frozen: int | None = None  # how often the stream had been read to its end, when the process ran again

    def frozen(self) -> None:
        """The process did not run for a while: what is held is as old."""
        self._frozen = self._stream.drained
        if not self._router.closed:
            self._router.closed = CATCHING_UP

    def look(self) -> None:
        """To be called often: whether the stream has been read since. Costs nothing where the process has run."""
        if self._frozen is None or not self._stream.connected:
            return
        if self._stream.drained != self._frozen and self._stream.lag() < CURRENT:
            self._frozen = None
            if self._router.closed is CATCHING_UP:
                self._router.closed = ""

    def tick(self) -> None:
        now = monotonic()
        if self._stream.connected:
            self._last_contact = now
        away = now - self._last_contact
        if self._stream.unfit:
            self._router.close(self._stream.unfit)
        elif away > self._max_staleness:
            limit = f"more than --max-staleness {self._max_staleness:.0f} s"
            self._router.close(f"the source has not been reached for {away:.0f} s, {limit}")
        else:
            self._router.closed = "" if self._frozen is None else CATCHING_UP
