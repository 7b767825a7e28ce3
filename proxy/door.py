"""Whether MySQL takes new connections. A server that shuts down refuses them at once, and two seconds later closes
those that it has, as if each had been killed (measured with 9.7)."""

from __future__ import annotations

import asyncio

from external_upquery.login import connect
from external_upquery.upstream import Upstream
from sqltypes.errors import ConfigError, SourceDown

SECONDS = 2.0  # for one try
FULL = frozenset({1040, 1203, 1226})  # MySQL's errors: it takes none for now, because it has so many


class Door:
    """One try at a time, for all who ask."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._trying: asyncio.Task[bool] | None = None

    async def open(self) -> bool:
        """Whether MySQL takes a connection that is asked for from now on."""
        if self._trying is not None:  # it may have been answered already
            await asyncio.wait((self._trying,))
        if self._trying is None:
            self._trying = asyncio.get_running_loop().create_task(asyncio.to_thread(_knock, self._upstream))
            self._trying.add_done_callback(self._tried)
        return await asyncio.shield(self._trying)

    def _tried(self, task: asyncio.Task[bool]) -> None:
        self._trying = None


def _knock(upstream: Upstream) -> bool:
    try:
        connect(upstream, SECONDS).close()
    except SourceDown as error:
        return error.errno in FULL
    except ConfigError:  # it has answered
        return True
    return True
