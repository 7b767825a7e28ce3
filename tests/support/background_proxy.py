"""The fake system's gRPC listener on an event loop in a thread, for clients that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue

from proxy.grpc.server import GrpcOptions
from tests.support.grpc_listener import Served, serving


class Background:
    """`target`: HOST:PORT. `do` runs something on the listener's loop, where its system may be touched."""

    def __init__(self, served: Served, loop: asyncio.AbstractEventLoop) -> None:
        self.target = served.target
        self._served = served
        self._loop = loop

    def do(self, change: Callable[[Served], None]) -> None:
        async def there() -> None:
            change(self._served)

        asyncio.run_coroutine_threadsafe(there(), self._loop).result(60)


@contextmanager
def background_proxy(options: GrpcOptions = GrpcOptions()) -> Iterator[Background]:  # noqa: B008 - frozen
    """A listener over a fake system with the cache `story`."""
    started: Queue[tuple[Background, asyncio.Event]] = Queue()

    async def main() -> None:
        stop = asyncio.Event()
        async with serving(options) as served:
            started.put((Background(served, asyncio.get_running_loop()), stop))
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    background, stop = started.get(timeout=60)
    try:
        yield background
    finally:
        background.do(lambda served: stop.set())
        thread.join(60)
