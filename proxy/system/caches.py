"""The caches, as callers make, find, open and drop them: implements `proxy.port.session.SessionCaches`. The catalog
behind it plans and installs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dataflow.losses import FLUSH, emptied
from planner.explain import dot, explain
from planner.matcher import QueryMatcher
from proxy.cache.named_cache import NamedCache
from proxy.catalog.catalog import Catalog
from proxy.loop.slices import Slices, in_slices, taken
from proxy.port.api import CacheInfo, ParameterValue
from proxy.port.made_by import BY_GRPC, MadeBy
from proxy.read.host import ReadHost
from proxy.read.open_cache import OpenCache
from sqltypes.errors import UnknownCache


class Caches:
    """`default`: the database of a query that names none. `decided`: what is to become of an automatic cache, by its
    name; automatic caching makes its caches here, so it comes after this. `hold_all`: as `Bulk` has it.
    `opened`: opens one."""

    def __init__(
        self,
        catalog: Catalog,
        matcher: QueryMatcher,
        host: ReadHost,
        default: str,
        hold_all: Callable[[str, int], None],
        opened: Callable[[ReadHost, NamedCache, int], OpenCache] = OpenCache,
    ) -> None:
        self.decided: Callable[[str], str] = lambda name: ""
        self.hold_all = hold_all
        self._catalog = catalog
        self._matcher = matcher
        self._host = host
        self._default = default
        self._opened = opened
        self._open: dict[tuple[str, int], OpenCache] = {}

    @property
    def version(self) -> int:
        return self._matcher.changes

    @property
    def rebuilding(self) -> bool:
        return self._catalog.rebuilding

    def match(
        self, sql: str, database: str, parameters: Sequence[ParameterValue]
    ) -> tuple[str, tuple[ParameterValue, ...]] | None:
        return self._matcher.match(sql, database, parameters)

    def open(self, name: str, format: str) -> OpenCache:
        cache, format_ = self._catalog.get(name), self._host.pump.formats.number(format)
        opened = self._open.get((name, format_))
        if opened is None or opened.named is not cache:
            opened = self._open[name, format_] = self._opened(self._host, cache, format_)
        return opened

    async def create(self, name: str, sql: str, database: str, made_by: MadeBy = BY_GRPC) -> CacheInfo:
        cache, existed = await self._catalog.create(name, sql, database or self._default, made_by)
        self._close_dropped()  # an automatic one may have made room for its namesake
        return replace(cache.info(), existed=existed)

    async def drop(self, name: str, only_of: str = "") -> None:
        await self._catalog.drop(name, only_of=only_of)
        self._close_dropped()

    async def flush(self, name: str) -> int:
        reader, turns = self._catalog.get(name).reader, Slices()
        if reader is None:  # it holds nothing, as long as it has no plan
            return 0
        keys = len(reader.entries)
        for held in taken(list(reader.entries.values())):
            if held.alive and held.watch is None:
                with emptied(reader.memory, FLUSH):
                    reader.drop(held)
            await turns.turn()
        for node in reader.nodes:
            for entry in taken(list(node.entries.values())):
                if node.entries.get(entry.key) is entry:
                    with emptied(reader.memory, FLUSH):
                        node.discard(entry)
                await turns.turn()
        self._host.engine.sieve.prune_soon()  # of the places of those keys
        if reader.installed:
            self._host.pump.empty(reader, FLUSH)  # what has come meanwhile, and what is ahead of the position
        return keys

    def automatic(self) -> list[NamedCache]:
        """The caches that automatic caching has made, but for those that somebody has made his own."""
        return self._catalog.automatic()

    async def drop_automatic(self, name: str) -> None:
        """Raises UnknownCache where there is none of that name, or it is somebody's own."""
        await self._catalog.drop(name, only_automatic=True)
        self._close_dropped()

    def _close_dropped(self) -> None:
        self._open = {key: opened for key, opened in self._open.items() if not opened.named.dropped}

    async def listed(self) -> list[CacheInfo]:
        caches = list(self._catalog.caches.values())
        return [self._info(cache) async for cache in in_slices(caches) if not cache.dropped]

    def _info(self, cache: NamedCache) -> CacheInfo:
        """With what automatic caching has decided of it, where it has made it."""
        info = cache.info()
        decided = self.decided(cache.name) if cache.is_automatic else ""
        return replace(info, decided=decided) if decided else info

    def find(self, name: str) -> CacheInfo | None:
        cache = self._catalog.caches.get(name)
        return cache.info() if cache is not None else None

    async def explain(self, name: str, sql: str, database: str) -> tuple[str, str]:
        if name:
            plan = self._catalog.get(name).plan
            if plan is None:
                raise UnknownCache(f"cache {name!r} is not planned: {self._catalog.get(name).why}")
        else:
            plan = (await self._catalog.plan(sql, database or self._default)).plan
        return explain(plan), dot(plan)
