"""Whether the source is still there, where it has closed a connection without a word.

A server that is told to shut down stops taking connections first, and then closes those of its sessions. One that ends
a single session goes on taking them. So a login tells the two apart, if it has begun behind the end of the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from external_upquery.address import Upstream
from external_upquery.login import log_in
from sqltypes.errors import SourceDown, UpwellError

SECONDS = 1.0  # for a login
SHUTDOWN = 1053  # MySQL's error: it is going
OF_CLIENTS = range(2000, 3000)  # numbers of a client library's own errors: the server has said nothing


class Admission:
    """Logs in at most once at a time. Used on one event loop.

    Invariant: a caller is answered by a login that begins after its call.
    """

    def __init__(self, upstream: Upstream, otherwise: Callable[[], Awaitable[bool]], seconds: float = SECONDS) -> None:
        """`otherwise`: whether the source is there, where a login cannot tell in so many `seconds`."""
        self._upstream = upstream
        self._otherwise = otherwise
        self._seconds = seconds
        self._running: asyncio.Task[bool | None] | None = None
        self._next: asyncio.Task[bool | None] | None = None  # waits for the one that runs

    async def lives(self) -> bool:
        """Whether the source is there, and is not about to go."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._ask(self._running))
        admits = await asyncio.shield(self._next)  # others wait for it, too
        return await self._otherwise() if admits is None else admits

    async def _ask(self, before: asyncio.Task[bool | None] | None) -> bool | None:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        return await asyncio.get_running_loop().run_in_executor(None, self._admits)

    def _admits(self) -> bool | None:
        """Whether the source takes a new connection; None where that cannot be told in time. In a thread."""
        began = monotonic()
        try:
            log_in(self._upstream, self._seconds).socket.close()
        except SourceDown as error:
            if error.errno not in OF_CLIENTS:
                return error.errno != SHUTDOWN
            return None if monotonic() - began >= self._seconds else False
        except UpwellError:  # it was there, to say what is not as it should be
            return True
        return True
