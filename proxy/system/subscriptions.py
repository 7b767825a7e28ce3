"""Subscriptions: the rows of one key as they are held, then each change to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

from dataflow.messages import Changes
from proxy.cache.ledger import TIRED
from proxy.cache.named_cache import NamedCache
from proxy.port.api import ParameterValue, SubscriptionEvent
from proxy.pump.pump import CACHE_DROPPED, DIFFERS, HOT_KEY, NOT_COMPARED, SUSPECTED
from proxy.read.host import ReadHost
from proxy.read.open_cache import OpenCache
from sqltypes.errors import BadParameters, SourceDown

if TYPE_CHECKING:
    from proxy.catalog.catalog import Catalog

SLOW_SUBSCRIBER = 1000  # events that a subscriber may be behind before it is cut off
TRIES = 2 * TIRED + 4  # to compare a subscription's first rows
LATER = frozenset({NOT_COMPARED, SUSPECTED, DIFFERS, HOT_KEY, CACHE_DROPPED})  # why another try may be answered


class Subscriptions:
    """Those that are open."""

    def __init__(self, host: ReadHost, catalog: Catalog) -> None:
        self._host = host
        self._catalog = catalog
        self._queues: set[asyncio.Queue[SubscriptionEvent]] = set()

    def end(self, reason: str) -> None:
        """Ends all of them."""
        for queue in self._queues:
            queue.put_nowait(SubscriptionEvent(end=reason))

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
        queue: asyncio.Queue[SubscriptionEvent] = asyncio.Queue()

        def deliver(changes: Changes) -> None:
            if queue.qsize() >= SLOW_SUBSCRIBER:
                self._host.pump.unsubscribe(number)
                queue.put_nowait(SubscriptionEvent(end=f"too slow: {SLOW_SUBSCRIBER} events behind"))
                return
            position = self._host.position.text()
            if cache.trust is not None and not changes.lost:
                self._host.auditor.behind_changes(cache, parameters)
            queue.put_nowait(
                SubscriptionEvent(changes.removed, changes.added, changes.snapshot, position, changes.lost)
            )

        number = 0
        self._queues.add(queue)
        try:
            number = self._host.pump.subscribe(cache.reader, keys, deliver)
            while True:
                event = await queue.get()
                yield event
                if event.end:
                    return
        finally:
            self._queues.discard(queue)
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
