"""A gRPC listener over the fake system and a client of it, both on the test's event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from proxy.grpc.server import GrpcListener, GrpcOptions
from tests.support.fake_system import FakeSystem
from upwell.aio import Client


@dataclass
class Served:
    """What `serving` gives: the system behind, its port, a client."""

    system: FakeSystem
    client: Client
    port: int
    listener: GrpcListener

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(options: GrpcOptions = GrpcOptions(), token: str | None = None) -> AsyncIterator[Served]:  # noqa: B008 - frozen
    """A system with the cache `story` of the keys 1 to 9, key n has the row (n, "title n"); nothing is held."""
    system = FakeSystem()
    listener = GrpcListener(system, replace(options, port=0))
    port = await listener.start()
    system.caches.add("story", {key: [(key, f"title {key}")] for key in range(1, 10)})
    try:
        async with Client(f"127.0.0.1:{port}", token=token, timeout=60) as client:
            yield Served(system, client, port, listener)
    finally:
        await listener.stop(0)
