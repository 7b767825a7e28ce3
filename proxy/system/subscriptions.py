"""Subscriptions: the rows of one key as they are held, then each change to them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dataflow.entries import row_bytes
from dataflow.messages import Changes
from proxy.cache.ledger import TIRED
from proxy.cache.named_cache import NamedCache
from proxy.loop.slices import emptied
from proxy.port.api import ParameterValue, SubscriptionEvent
from proxy.pump.pump import CACHE_DROPPED, DIFFERS, HOT_KEY, NOT_COMPARED, SUSPECTED
from proxy.read.host import ReadHost
from proxy.read.open_cache import OpenCache
from sqltypes.errors import BadParameters, SourceDown
from sqltypes.expression import Row

if TYPE_CHECKING:
    from proxy.catalog.catalog import Catalog

SLOW_SUBSCRIBER = 1000  # events that a subscriber may be behind before it is cut off
WAITING_BYTES = 64 << 20  # of rows that subscribers have not taken, of all together; beyond it the slowest is cut off
LOOKED_AT = 500  # rows of one event, at most, by which its size is known: 1 ms
TRIES = 2 * TIRED + 4  # to compare a subscription's first rows
LATER = frozenset({NOT_COMPARED, SUSPECTED, DIFFERS, HOT_KEY, CACHE_DROPPED})  # why another try may be answered


def rows_bytes(rows: Sequence[Row]) -> int:
    """Of many rows an estimate: some of them are looked at, for it is one step."""
    every = -(-len(rows) // LOOKED_AT) or 1
    return every * sum(map(row_bytes, rows[::every]))


class Waiting:
    """What one subscriber has not taken yet. `bytes`: of the rows. `stop`: tells the engine that no more is wanted."""

    def __init__(self) -> None:
        self.events: deque[tuple[SubscriptionEvent, int]] = deque()
        self.bytes = 0
        self.stop: Callable[[], None] = lambda: None
        self._there = asyncio.Event()

    def add(self, event: SubscriptionEvent, size: int = 0) -> None:
        self.bytes += size
        self.events.append((event, size))
        self._there.set()

    async def next(self) -> SubscriptionEvent:
        while not self.events:
            self._there.clear()
            await self._there.wait()
        event, size = self.events.popleft()
        self.bytes -= size
        return event

    def cut_off(self, why: str) -> list[object]:
        """Its end is all that is left. What it has not taken, which is to be freed in steps."""
        self.stop()
        gone: list[object] = list(self.events)
        self.events.clear()
        self.bytes = 0
        self.add(SubscriptionEvent(end=why))
        return gone


class Subscriptions:
    """Those that are open. `cut_off`: how many were cut off since the start, because they were slow."""

    def __init__(self, host: ReadHost, catalog: Catalog) -> None:
        self._host = host
        self._catalog = catalog
        self.cut_off = 0
        self._open: set[Waiting] = set()
        self._freeing: set[asyncio.Task[None]] = set()

    def end(self, reason: str) -> None:
        """Ends all of them."""
        for waiting in self._open:
            waiting.add(SubscriptionEvent(end=reason))

    def _cut_off(self, waiting: Waiting, why: str) -> None:
        self.cut_off += 1
        gone = waiting.cut_off(f"too slow: {why}")
        freeing = asyncio.get_running_loop().create_task(emptied(gone, at_once=1))
        self._freeing.add(freeing)
        freeing.add_done_callback(self._freeing.discard)

    def _limit(self) -> None:
        """The memory of all together."""
        while sum(waiting.bytes for waiting in self._open) > WAITING_BYTES:
            slowest = max(self._open, key=lambda waiting: waiting.bytes)
            self._cut_off(slowest, f"subscribers have not taken more than {WAITING_BYTES} bytes")

    async def subscribe(
        self, name: str, parameters: Sequence[ParameterValue]
    ) -> AsyncGenerator[SubscriptionEvent, None]:
        cache = self._catalog.get(name)
        if not self._host.closed:
            await self._compare_first(cache, parameters)
        if self._host.closed:  # who is not yet among the subscribers is not told when that begins
            raise SourceDown(self._host.closed)
        if cache.reader is None or cache.binder is None:
            raise SourceDown(f"cache {name!r} is not ready: {cache.why}")
        if why := cache.binder.too_many(parameters):
            raise BadParameters(f"a subscription is to one key: {why}")
        keys = cache.binder.bind(parameters).keys
        if len(keys) != 1:
            raise BadParameters(f"a subscription is to one key, the parameters give {len(keys)}")
        waiting = Waiting()

        def deliver(changes: Changes) -> None:
            if len(waiting.events) >= SLOW_SUBSCRIBER:
                self._cut_off(waiting, f"{SLOW_SUBSCRIBER} events behind")
                return
            position = self._host.position.text()
            if cache.trust is not None and not changes.lost:
                self._host.auditor.behind_changes(cache, parameters)
            size = rows_bytes(changes.removed) + rows_bytes(changes.added)
            waiting.add(
                SubscriptionEvent(changes.removed, changes.added, changes.snapshot, position, changes.lost), size
            )
            self._limit()

        number = 0
        self._open.add(waiting)
        try:
            number = self._host.pump.subscribe(cache.reader, keys, deliver)
            waiting.stop = partial(self._host.pump.unsubscribe, number)
            while True:
                event = await waiting.next()
                yield event
                if event.end:
                    return
        finally:
            self._open.discard(waiting)
            self._host.pump.unsubscribe(number)

    async def _compare_first(self, cache: NamedCache, parameters: Sequence[ParameterValue]) -> None:
        """Compares the first rows of a subscription like those of a read. Returns when they are held and no comparison
        is due before they are given. Raises SourceDown if that failed so often that a read would have been answered by
        MySQL."""
        opened, why = OpenCache(self._host, cache, 0), ""
        for _ in range(TRIES):
            if cache.trust is None or (not why and opened.proved(parameters)):
                return
            answer = await opened.fill(parameters)
            await self._host.auditor.settled(cache)
            if cache.reader is None:
                await self._catalog.settled()
            if isinstance(answer, str) and answer not in LATER:
                return  # the subscription ends for the same reason
            why = answer if isinstance(answer, str) else ""
        raise SourceDown(f"cache {cache.name!r}: {why or NOT_COMPARED}")
