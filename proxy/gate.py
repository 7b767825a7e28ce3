"""Whether hits may be served while the source cannot be reached, or cannot be followed."""

from __future__ import annotations

from time import monotonic

from proxy.router import Router
from vstream.source import ChangeSource


class Gate:
    """Decides whether hits may be served: not when the source has been out of reach for longer than `max_staleness`
    seconds, nor while its stream lacks changes."""

    def __init__(self, router: Router, stream: ChangeSource, max_staleness: float) -> None:
        self._router = router
        self._stream = stream
        self._max_staleness = max_staleness
        self._last_contact = monotonic()

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
            self._router.closed = ""
