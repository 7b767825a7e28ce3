"""One proxy, and the Spark that it starts, for the tests of large fills in several files: Spark takes seconds of both
processors to start. `conftest.py` keeps these files together, and ends the proxy behind the last of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from bulk.session import SparkSettings, why_unavailable
from integration.servers.debian_java import provide
from integration.servers.mysql_server import CannotStart, Server
from integration.support.grpc_app import Proxy
from integration.support.proxy_thread import Beside, proxy_in_thread
from proxy.fills.fills import Bulk

SHARERS = frozenset({"test_audit.py", "test_bulk_clusters.py", "test_bulk_fills.py"})


@dataclass
class Filler:
    """At most one proxy runs at a time. One that has ended is followed by a new one."""

    _open: ExitStack = field(default_factory=ExitStack)
    _beside: Beside | None = None

    def beside(self, mysql: Server, state: Path) -> Beside:
        """The proxy; the first caller starts it. It prefers Spark for every fill, however small."""
        if self._beside is None:
            self._beside = self._open.enter_context(proxy_in_thread(mysql, "", state, spark_min_rows="1"))
        return self._beside

    def close(self) -> None:
        """Ends it. Raises AssertionError where its loop has complained."""
        self._beside = None
        self._open.close()


FILLER = Filler()


def needs_spark() -> None:
    """Leaves the test out where there is no Spark, but not in continuous integration. A Java is brought."""
    with suppress(CannotStart):
        os.environ.update(provide(print))
    if why := why_unavailable(SparkSettings()):
        assert not os.environ.get("REQUIRE_SPARK"), why
        pytest.skip(f"without Spark: {why}")


def run_in(beside: Beside, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a test's coroutine on the proxy's loop."""
    asyncio.run_coroutine_threadsafe(asyncio.wait_for(scenario(), 270), beside.loop).result()


@contextmanager
def in_database(beside: Beside, database: str) -> Iterator[Proxy]:
    """The proxy with a database of the test's own. No cache is left of it."""
    found = replace(beside.proxy, database=database)
    yield found

    async def drop() -> None:
        for name in list(found.app.catalog.caches):
            await found.app.router.caches.drop(name)

    run_in(beside, drop)


def bulk_of(proxy: Proxy) -> Bulk:
    assert proxy.app.router.fills.bulk is not None
    return proxy.app.router.fills.bulk


@contextmanager
def same_spark(proxy: Proxy, beside: Beside) -> Iterator[None]:
    """The proxy, on the loop of `beside`, fills by the Spark of that one meanwhile."""
    bulk = bulk_of(proxy)
    own, bulk.spark = bulk.spark, bulk_of(beside.proxy).spark
    try:
        yield
    finally:
        bulk.spark = own
