"""What is done again after a while, once it is due: a question to the source, mostly; what has a share of the time."""

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
        """It is due now. What is under way may have begun too early to count."""
        self._began_at = float("-inf")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


class Share:
    """Something that takes a share of the time and no more: what took a second is not done again for `rest` seconds.
    `clock`: seconds."""

    def __init__(self, rest: float, clock: Callable[[], float]) -> None:
        self._rest, self._clock = rest, clock
        self._due = float("-inf")

    def tick(self, do: Callable[[], None]) -> None:
        """To be called now and then: does it where the time has come. Raises what it raises."""
        began = self._clock()
        if began >= self._due:
            do()
            ended = self._clock()
            self._due = ended + (ended - began) * self._rest
