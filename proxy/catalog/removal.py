"""Removes caches whose tables have changed their schema: closes all at once, takes them out a few at a time.

A table may have thousands of caches, and one ALTER TABLE ends them all. One short step closes all: no read finds them,
waiting reads are passed, and nothing more is inserted for them. The statement itself has emptied them. Then they are
taken out of the graph in slices. Between two slices, events find their arrangements empty. Nothing is installed
meanwhile, so no arrangement of the old table is shared with a cache of the new one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

from dataflow.engine import Engine
from dataflow.readers.reader import ReaderNode
from proxy.cache.named_cache import NamedCache
from proxy.loop.slices import SLICE
from proxy.pump.pump import Pump

TRIES = 2  # to take a reader out
LEAVES = "a cache that leaves"


class Leaving:
    """`taken_out` is told of each cache that is taken out, `on_gone` when all are.

    Invariants: (1) a reader that is here is no cache's; (2) while any is here, `_task` is on its way.
    """

    def __init__(
        self, engine: Engine, pump: Pump, taken_out: Callable[[NamedCache], None], on_gone: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._pump = pump
        self._taken_out = taken_out
        self._on_gone = on_gone
        self._readers: deque[tuple[NamedCache, ReaderNode]] = deque()
        self._task: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        return bool(self._readers)

    def add(self, cache: NamedCache) -> None:
        """The cache is open to nobody from now on. `close` must follow in the same step."""
        if cache.reader is not None:
            self._readers.append((cache, cache.reader))
            cache.reader = cache.binder = None
            cache.generation += 1

    def close(self) -> bool:
        """Closes the readers of what was added. Whether there are any."""
        if not self._readers:
            return False
        self._pump.handle(self._engine.close(reader for _, reader in self._readers))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._take_out())
        return True

    async def _take_out(self) -> None:
        while self._readers:
            until = perf_counter() + SLICE
            while self._readers and perf_counter() < until:
                self._take(*self._readers.popleft())
            await asyncio.sleep(0)
        self._on_gone()

    def _take(self, cache: NamedCache, reader: ReaderNode) -> None:
        try:
            self._taken_out(cache)
        except Exception as error:  # noqa: BLE001 - an edge: the others must leave, too
            self._pump.faults.note(LEAVES, cache.name, error)
        for _ in range(TRIES):  # a reader that no cache has would make each plan of its tables old
            try:
                self._pump.handle(self._engine.remove(reader))
                break
            except Exception as error:  # noqa: BLE001 - as above
                self._pump.faults.note(LEAVES, cache.name, error)

    async def gone(self) -> None:
        """Waits until none is left."""
        while self._task is not None and not self._task.done():
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
