"""How long to wait before the next attempt to connect: twice as long after each failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Pauses:
    """`failures`: in a row, by which the next pause is as long. `count`: the pauses until now."""

    def __init__(self, smallest: float, largest: float, chance: Callable[[], float]) -> None:
        """In seconds. `chance`: from 0 to 1; no two streams come back at once."""
        self.failures = 0
        self.count = 0
        self._smallest, self._largest, self._chance = smallest, largest, chance

    async def wait(self) -> None:
        self.count += 1
        pause = min(self._smallest * 2.0 ** min(self.failures - 1, 20), self._largest)
        await asyncio.sleep(pause * (0.5 + self._chance() / 2))
