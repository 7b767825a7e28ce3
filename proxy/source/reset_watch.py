"""Asks MySQL about once a second how many RESET statements it has executed. RESET BINARY LOGS AND GTIDS begins another
history, and the old stream goes on as if nothing were written any more.

GTIDs show that only until as many transactions are committed as before. A RESET of something else (a replica, persisted
settings) looks the same: then the stream logs in again, and finds its history unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Protocol

from proxy.loop.periodic import Periodic
from proxy.source.source import Upqueries
from sqltypes.errors import UpwellError

EVERY = 1.0  # seconds
STATUS = "SHOW GLOBAL STATUS LIKE 'Com_reset'"  # who may log in may ask


class ResetStream(Protocol):
    """The change stream, reduced to the members needed here. `resets`: how many the server had executed when the stream
    logged in."""

    @property
    def logins(self) -> int: ...

    @property
    def resets(self) -> int: ...

    def reconnect(self, reason: str) -> None: ...


async def ask(executor: Upqueries) -> int:
    """How many RESET statements MySQL has executed since its start. Raises as `Upqueries.question`."""
    rows = await executor.question(STATUS)
    return int(str(rows[0][1]))


class ResetWatch:
    def __init__(
        self, ask: Callable[[], Awaitable[int]], stream: ResetStream, clock: Callable[[], float] = monotonic
    ) -> None:
        self._ask = ask
        self._stream = stream
        self._round = Periodic(self.look, EVERY, clock)

    def tick(self) -> None:
        """To be called now and then while the stream is connected."""
        self._round.tick()

    async def look(self) -> None:
        """Asks, and has the stream log in anew where its binlog may have been reset."""
        login = self._stream.logins
        try:
            resets = await self._ask()
        except UpwellError:  # out of reach: the stream finds out itself
            return
        if resets != self._stream.resets and login == self._stream.logins:
            self._stream.reconnect("the source has executed a RESET")

    async def close(self) -> None:
        await self._round.close()
