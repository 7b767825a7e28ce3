"""Asks vtgate on which shards keys are, before an upquery for them. Without that, keys of several shards would share an
upquery, and if one shard hangs, the keys of the others would wait.

vtgate answers without asking a shard. Each question costs the same, so keys that come while one is under way are asked
for together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from dataflow.messages import Keyed
from external_upquery.vitess.shard_of_key import Key
from sqltypes.errors import UpwellError

AT_ONCE = 2  # batches under way
MOST = 256  # keys of a batch

Ask = Callable[[Sequence[Key], Sequence[Keyed]], Awaitable[None]]
"""Has vtgate say where keys are; with rows of each table of which there are keys. Raises UpwellError."""


@dataclass(eq=False)
class Batch:
    """`done`: vtgate has told all of the keys. `rows`: some of each table with keys, by its qualified name."""

    done: asyncio.Future[None]
    keys: list[Key] = field(default_factory=list)
    rows: dict[str, Keyed] = field(default_factory=dict)


class Finding:
    """Lives on one event loop: make it there.

    Invariants:
    1. A key is in one batch at most, of those that are not done.
    2. While less than AT_ONCE batches are under way no key waits for longer than a turn of the loop.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._batches: dict[Key, Batch] = {}
        self._next: list[Batch] = []  # that are not under way
        self._running: dict[asyncio.Task[None], Batch] = {}
        self._scheduled = False

    def find(self, keys: Sequence[Key], rows: Keyed) -> Coroutine[None, None, None]:
        """Waits until vtgate has been asked for all of them. Those that it does not tell stay unknown. `rows`: whose
        keys they are."""
        batches = dict.fromkeys([self._batches.get(key) or self._put(key, rows) for key in keys])
        return self._all_done(list(batches))

    @staticmethod
    async def _all_done(batches: Sequence[Batch]) -> None:
        for batch in batches:
            await asyncio.shield(batch.done)  # others wait for it, too

    def _put(self, key: Key, rows: Keyed) -> Batch:
        """The batch that it is put into."""
        if not self._next or len(self._next[-1].keys) >= MOST:
            self._next.append(Batch(self._loop.create_future()))
        batch = self._batches[key] = self._next[-1]
        batch.keys.append(key)
        batch.rows.setdefault(rows.table.qualified, rows)
        self._schedule()
        return batch

    def _schedule(self) -> None:
        if self._next and not self._scheduled and len(self._running) < AT_ONCE:
            self._scheduled = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._scheduled = False
        if self._next:
            batch = self._next.pop(0)
            task = self._loop.create_task(self._run(batch))
            self._running[task] = batch
            task.add_done_callback(self._ended)
        self._schedule()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._told(self._running.pop(task))  # also where it was cancelled before it began
        self._schedule()

    async def _run(self, batch: Batch) -> None:
        with suppress(UpwellError):  # who asks for the keys is told what is wrong
            await self._ask(batch.keys, list(batch.rows.values()))

    def _told(self, batch: Batch) -> None:
        for key in batch.keys:
            del self._batches[key]
        batch.done.set_result(None)

    async def close(self) -> None:
        """Nobody waits any more."""
        left, self._next = self._next, []  # first: the end of one begins the next one
        for batch in left:
            self._told(batch)
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def check_invariants(self) -> None:
        """Raises AssertionError. For tests."""
        assert all(key in batch.keys and not batch.done.done() for key, batch in self._batches.items())
        assert len(self._running) <= AT_ONCE and all(len(batch.keys) <= MOST for batch in self._next)
        assert not self._next or self._scheduled or len(self._running) == AT_ONCE
