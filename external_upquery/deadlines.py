"""One timer for many deadlines: it goes off at the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

NEVER = float("inf")


class Deadlines:
    """Times are those of the loop's clock. `due`: is called with the time when a deadline has passed; it watches those
    that are left. `at`: the next one."""

    def __init__(self, due: Callable[[float], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._due = due
        self._timer: asyncio.TimerHandle | None = None
        self.at = NEVER

    def watch(self, deadline: float | None) -> None:
        """Watches a deadline; None: there is none."""
        if deadline is not None and deadline < self.at:
            self.close()
            self.at = deadline
            self._timer = self._loop.call_at(deadline, self._on_time)

    def _on_time(self) -> None:
        self._timer, self.at = None, NEVER
        self._due(self._loop.time())

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.at = None, NEVER
