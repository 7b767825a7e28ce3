"""The HTTP listener over made-up figures, on a loop in a thread of its own: for what a browser shows of any figures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from planner.explain import Edge, Node, PlanGraph
from proxy.http.server import HttpListener
from proxy.port.overview import CacheView, HistoryView, Overview, ShardView
from tests.support.fake_system import SERVER, FakeSystem
from tests.support.http_calls import listener_of

T = TypeVar("T")
WAIT = 60.0
MINUTES = 40
SHARDS = {
    "-80": ShardView(f"MySQL56/{SERVER}:1-90,{SERVER}:95-100", 0.0, 1_699_999_999.0, 2),
    "80-": ShardView(f"MySQL56/{SERVER}:1-7", 2.5, 0.0, 0),
}
ACCESS = {
    "rows": 4321, "proxies": ["one:3306", "two:3306"], "oldest": 1.7e9 - 80_000, "newest": 1.7e9, "every": 1600.0,
    "skipped": 0, "reads": [[1.7e9 - 80_000 + 1600 * at, 50.0 + at, 5.0, 2.0] for at in range(51)],
    "caches": [
        {"name": "cache_1", "hits": 900, "misses": 60, "passed": 40, "why": ""},
        {"name": "cache_2", "hits": 1, "misses": 2, "passed": 0, "why": "more misses than hits"},
    ],
    "keys": [{"cache": "cache_1", "key": '["a long key of many letters, which a phone must break somewhere"]',
              "reads": 500, "part": 0.5}],
    "queries": [{"query": "SELECT title FROM stories WHERE user_id = ?", "database": "shop", "reads": 90,
                 "saved_seconds": 12.5}],
}  # fmt: skip
COLUMNS = ("at", "hits", "misses", "passed", "hit_rate", "miss_seconds", "memory", "lag_seconds")
GRAPH = PlanGraph(
    (
        Node("shop.item", "table", "shop.item"),
        Node("shop.part", "table", "shop.part"),
        Node("a0", "arrangement", "rows item(id)"),
        Node("a1", "answers", "answers"),
        Node("reader", "reader", "reader(item.id)"),
    ),
    (
        Edge("shop.item", "a0"), Edge("shop.part", "a1", whole=True), Edge("a0", "reader", "item"),
        Edge("a1", "reader", "part (left)"),
    ),
)  # fmt: skip


class MadeUp:
    """A listener that can be stopped and started again on its port. `system`: what it shows; hits rise at each look."""

    def __init__(self, caches: int, host: str, token: str | None) -> None:
        self.system = FakeSystem()
        self.shards: dict[str, ShardView] = {}
        self.host, self.token, self.port = host, token, 0
        self.listener: HttpListener | None = None
        for number in range(caches):
            self.system.caches.add(f"cache_{number}", {})
        self.system.overviews.changed = self.at_work
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def at_work(self, overview: Overview) -> Overview:
        looks, caches = self.system.overviews.looks, {}
        for number, (name, cache) in enumerate(overview.caches.items()):
            caches[name] = self._at_work(cache, number, looks)
        rows = [
            (overview.at - 5 * age, 900.0 + age, 20.0, 5.0, 0.9, 0.002, 1e8, 0.01) for age in range(MINUTES * 12, 0, -1)
        ]
        source = replace(overview.source, shards=self.shards)
        return replace(overview, caches=caches, source=source, history=HistoryView(5.0, COLUMNS, rows))

    def _at_work(self, cache: CacheView, number: int, looks: int) -> CacheView:
        return replace(
            cache,
            hits=1000 * number + 10 * looks,
            saved_seconds=float(number),
            mode="evict" if number % 3 == 1 else "maintain",
            trust="being checked" if number % 3 == 2 else "trusted",
            tables=["shop.part"] if number % 2 else ["shop.item"],
        )

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(WAIT)

    def start(self) -> None:
        self.listener = listener_of(self.system, self.host, self.port, self.token)
        self.port = self.call(self.listener.start())

    def stop(self) -> None:
        assert self.listener is not None
        self.call(self.listener.stop(0))

    def connections(self) -> int:
        """How many are open, the silent ones aside."""

        async def open_() -> int:
            assert self.listener is not None and self.listener.connections is not None
            return len(self.listener.connections.open.keys() - self.listener.connections.silent.keys())

        return self.call(open_())

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT)
        self._loop.close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


@contextmanager
def made_up(caches: int = 3, host: str = "127.0.0.1", token: str | None = "secret") -> Iterator[MadeUp]:
    shown = MadeUp(caches, host, token)
    shown.system.overviews.graph = GRAPH
    shown.start()
    try:
        yield shown
    finally:
        shown.close()
