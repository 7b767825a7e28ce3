"""Drops keys of queries by the clock once their moment has passed.

Each second NOW() makes another key of each text, and nobody asks for the last one again. Such keys, 1.6 kB each, would
stay until memory is short or a change takes them. So a key of such a cache goes if nobody has read it between two
looks. That is sound for any key: it becomes a hole, and is filled at its next read (a day's key of CURDATE(), hours
later).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from dataflow.entries import Held
from dataflow.losses import CLOCK, emptied
from dataflow.readers.eviction import Sieve
from dataflow.readers.reader import ReaderNode
from proxy.loop.slices import in_slices

if TYPE_CHECKING:
    from proxy.cache.named_cache import NamedCache

EVERY = 300.0  # seconds from one look to the next


class ClockKeys:
    """Looks now and then. `dropped`: keys that went.

    Invariants: 1. of a reader in `_unread` each key listed was not read when it was listed, or its mark was taken away.
    """

    def __init__(
        self, caches: Callable[[], Iterable[NamedCache]], sieve: Callable[[], Sieve], clock: Callable[[], float]
    ) -> None:
        self.dropped = 0
        self._caches = caches
        self._sieve = sieve
        self._clock = clock
        self._looked = clock()
        self._unread: dict[ReaderNode, list[Held]] = {}
        self._task: asyncio.Task[None] | None = None

    def tick(self) -> None:
        """To be called now and then: begins a look when one is due and none is under way."""
        task = self._task
        if task is not None and task.done():
            self._task = None
            task.result()
        if self._task is None and self._clock() - self._looked >= EVERY:
            self._task = asyncio.get_running_loop().create_task(self.look())

    async def close(self) -> None:
        """Ends the look under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> None:
        """Drops keys that were not read since the last look, and notes the present ones."""
        self._looked = self._clock()
        before, self._unread = self._unread, {}
        readers = [cache.reader for cache in self._caches() if cache.by_clock and cache.reader is not None]
        for reader in readers:
            await self._drop(before.pop(reader, []))
            listed: list[Held] = []
            async for some in in_slices(self._sieve().keys_of(reader)):
                for held in some:
                    held.visited = False
                listed += some
            self._unread[reader] = listed

    async def _drop(self, listed: list[Held]) -> None:
        gone = 0
        async for held in in_slices(listed):
            if held.alive and not held.visited and held.watch is None:
                with emptied(held.reader.memory, CLOCK):
                    held.reader.drop(held)
                gone += 1
        if gone:
            self.dropped += gone
            self._sieve().prune_soon()  # their places in the queue
