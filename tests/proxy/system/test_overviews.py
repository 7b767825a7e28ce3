"""What is measured of caches, in turn."""

from __future__ import annotations

import asyncio
from time import process_time
from types import SimpleNamespace
from typing import Any

import uvloop

from proxy.cache.named_cache import NamedCache
from proxy.system.overviews import Overviews
from tests.support.fake_system import FakeSystem

COUNT = 20_000


class Listed:
    async def listed(self, *asked: object) -> list[Any]:
        return []


def test_many_caches_that_are_gone_are_forgotten_at_once() -> None:
    caches = {f"c{number}": NamedCache(f"c{number}", "SELECT 1", "d") for number in range(COUNT)}
    system: Any = FakeSystem()
    counters = {"source_waiting": 0, "source_held_back": 0, "source_upqueries": 0}
    source: Any = SimpleNamespace(upqueries=SimpleNamespace(connections=0, in_flight=0, running_at=int), shards_at={})
    catalog: Any = SimpleNamespace(caches=caches)
    lateness: Any = SimpleNamespace(lately=0.0)
    proxied: Any = Listed()

    def status() -> Any:
        found = system.status()
        found.counters.update(counters)
        return found

    async def scenario() -> None:
        overviews = Overviews(status, system.not_ready, catalog, str, proxied, source, lateness, checked=lambda: True)
        before = process_time()
        assert len((await overviews.look()).caches) == COUNT
        between = process_time()
        still_read = [caches.pop(f"c{number}") for number in range(COUNT // 2, COUNT)]
        caches["c0"] = NamedCache("c0", "SELECT 2", "d")
        seen = (await overviews.look()).caches
        assert process_time() - between < 2 * (between - before)
        assert len(seen) == COUNT // 2 and seen["c0"].sql == "SELECT 2"
        still_read.clear()
        del caches["c1"]  # nobody has it any more
        await overviews.look()
        assert len(overviews._measured) == len(overviews._turns) == COUNT // 2 - 1
        await overviews.close()

    uvloop.run(asyncio.wait_for(scenario(), 60))
