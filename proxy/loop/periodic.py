"""Repeated work that becomes due after a while (mostly a question to the source), and work that gets a share of the
time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine


class Periodic:
    """Invariants:
    1. It is under way once at most.
    """

    def __init__(self, do: Callable[[], Coroutine[None, None, None]], every: float, clock: Callable[[], float]) -> None:
        """`every`: seconds, at least, between two beginnings."""
        self._do, self._every, self._clock = do, every, clock
        self._began_at = float("-inf")
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def tick(self) -> None:
        """To be called now and then: begins where the time has come."""
        now = self._clock()
        if now - self._began_at >= self._every and not self.running:
            self._began_at = now
            self._task = asyncio.get_running_loop().create_task(self._do())

    def soon(self) -> None:
        """Makes it due now. A run that is under way may have begun too early to count."""
        self._began_at = float("-inf")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


class Share:
    """Work that takes a share of the time and no more: after a second of work it rests for `rest` seconds. `clock`:
    seconds."""

    def __init__(self, rest: float, clock: Callable[[], float]) -> None:
        self._rest, self._clock = rest, clock
        self._due = float("-inf")

    def tick(self, do: Callable[[], None]) -> None:
        """Call it regularly: it runs the work once that is due. Raises the work's errors."""
        began = self._clock()
        if began >= self._due:
            do()
            ended = self._clock()
            self._due = ended + (ended - began) * self._rest
