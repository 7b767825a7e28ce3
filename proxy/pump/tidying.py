"""What the engine let go is taken apart in slices, between whatever else is to be done."""

from __future__ import annotations

import asyncio
from time import perf_counter

from dataflow.engine import Engine
from proxy.loop.slices import SLICE

TOGETHER = 100  # keys taken apart from one look at the clock to the next


class Tidying:
    """Invariants: 1. At most one step of the loop is on its way for it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        engine.memory.remains.on_more = self._soon

    def _soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._tidy)

    def _tidy(self) -> None:
        self._scheduled = False
        until = perf_counter() + SLICE
        more = True
        while more and perf_counter() < until:
            more = self._engine.limit.tidy(TOGETHER)
        if more:
            self._soon()
