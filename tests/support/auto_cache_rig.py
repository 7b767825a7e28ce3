"""Automatic caching with a clock, caches and a loop that tests move."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from proxy.auto.decisions import AutoCache
from proxy.auto.fill_budget import FillBudget
from proxy.auto.passed_reads import ProxiedQueries, ProxiedQuery
from proxy.auto.write_rates import WriteRates
from proxy.loop.loop_load import LoopLoad
from proxy.port.api import CacheInfo
from proxy.port.made_by import MadeBy, Origin
from proxy.settings.automatic import Policy
from sqltypes.errors import UnknownCache, UpwellError
from tests.support.fake_system import FakeJudge

POLICY = Policy(memory=1000)
SLOW = "SELECT a FROM t WHERE b = ?"


@dataclass
class Counted:
    figures: CacheInfo

    @property
    def name(self) -> str:
        return self.figures.name

    @property
    def hits(self) -> int:
        return self.figures.hits

    def info(self) -> CacheInfo:
        return self.figures


@dataclass
class FakeCaches:
    """Automatic caches by name; `others` have their shape already."""

    by_name: dict[str, Counted] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    failing: UpwellError | None = None
    made: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)  # whole

    def automatic(self) -> Sequence[Counted]:
        return list(self.by_name.values())

    async def create(self, name: str, sql: str, database: str, made_by: MadeBy) -> CacheInfo:
        assert made_by.origin is Origin.AUTOMATIC
        if self.failing is not None:
            raise self.failing
        name = name or f"auto{len(self.made) + 1}"
        info = CacheInfo(name, sql, database, "maintain", "ready", "", (), (), made_by=made_by)
        if sql in self.others:
            info.existed = True
            return info
        self.made.append(sql)
        self.by_name[name] = Counted(info)
        return info

    async def drop_automatic(self, name: str) -> None:
        if name not in self.by_name:
            raise UnknownCache(name)
        self.dropped.append(self.by_name.pop(name).figures.sql)

    def hold_all(self, name: str, most: int) -> None:
        self.held.append(self.by_name[name].figures.sql)

    def figures(self, sql: str = SLOW) -> CacheInfo:
        (found,) = [cache.figures for cache in self.by_name.values() if cache.figures.sql == sql]
        return found


class Rig:
    """Automatic caching with a clock that `seconds` moves, looking as often as it would."""

    def __init__(self, policy: Policy = POLICY) -> None:
        self.now = 0.0
        self.judge = FakeJudge()
        self.proxied = ProxiedQueries(self.judge, lambda: self.now)
        self.caches = FakeCaches()
        self.usable = True
        self.late = 0.0
        self.used = 0.0  # seconds that the loop's thread has run or waited for a core
        self.statements = 0
        self.writes: dict[str, int] = {}  # by table
        self.budget = FillBudget()
        self.load = LoopLoad(lambda: self.used, lambda: self.now)
        self.auto = AutoCache(
            policy,
            self.proxied,
            self.caches,
            lambda: self.now,
            lambda: self.usable,
            budget=self.budget,
            load=self.load,
            statements=lambda: self.statements,
            late=lambda: self.late,
            writes=WriteRates(self.writes),
        )

    def passed(self, times: int = 1, us: float = 5000.0, sql: str = SLOW) -> ProxiedQuery:
        entry = self.proxied.entry(sql, "shop")
        for _ in range(times):
            entry.note(us, "app@%")
        return entry

    def read(self, hits: float, misses: float, seconds: float, sql: str = SLOW) -> None:
        """Reads of its cache for so long, per minute. Stops where the cache is dropped."""
        asyncio.run(self._reads(hits, misses, self.now + seconds, sql))

    async def _reads(self, hits: float, misses: float, end: float, sql: str) -> None:
        every = self.auto.policy.every
        while self.now < end and sql in [cache.figures.sql for cache in self.caches.by_name.values()]:
            info = self.caches.figures(sql)
            info.hits += int(hits * every / 60)
            info.misses += int(misses * every / 60)
            await self._looks(self.now + every)

    def tick(self) -> None:
        """A tick, and the look that it begins."""
        asyncio.run(self._tick())

    async def _tick(self) -> None:
        self.auto.tick()
        while self.auto.looking:
            await asyncio.sleep(0)

    def seconds(self, seconds: float) -> None:
        asyncio.run(self._looks(self.now + seconds))

    async def _looks(self, end: float) -> None:
        while self.now < end:
            self.now = min(end, self.now + self.auto.policy.every)
            await self.auto.look()


def made(policy: Policy = POLICY) -> Rig:
    """A rig whose one cache has just been made, for 100 reads."""
    rig = Rig(policy)
    rig.passed(100)
    rig.seconds(policy.every)
    assert rig.caches.made == [SLOW]
    return rig
