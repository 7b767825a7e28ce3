"""How far the clocks of a named time zone are ahead of UTC, as MySQL has it.

MySQL knows zones by tables of its own, and the zone SYSTEM by the machine's files. So it is asked: at both ends of the
minute that is wanted. Where they differ the zone's clocks are set within that minute, and nothing is told of it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from proxy.source import Upqueries
from sqltypes.errors import UpwellError

MINUTE = timedelta(minutes=1)
SOON = 30  # the second of a minute from which on the next one is asked for
MOST = 200  # zones
KEPT = 3  # minutes of each
_NAME = re.compile(r"[\w+/:-]{1,64}", re.ASCII)

Ends = tuple[datetime | None, datetime | None]


async def ask(executor: Upqueries, zone: str, first: datetime, last: datetime) -> Ends:
    """What the zone's clocks say at two moments of UTC; None where MySQL does not know it. Raises as
    `Upqueries.query`."""
    asked = ", ".join(f"CONVERT_TZ('{moment:%Y-%m-%d %H:%M:%S}', '+00:00', '{zone}')" for moment in (first, last))
    _, rows = await executor.query(f"SELECT {asked}")
    one, other = (None if value is None else datetime.fromisoformat(str(value)) for value in rows[0])
    return one, other


class SourceZones:
    """Invariant: of a zone one minute at a time is asked for."""

    def __init__(self, ask: Callable[[str, datetime, datetime], Awaitable[Ends]]) -> None:
        self._ask = ask
        self._known: dict[str, dict[datetime, timedelta | None]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def ahead(self, zone: str, utc: datetime) -> timedelta | None:
        """How far the zone is ahead at that second; None where that is not known, or not yet."""
        minute = utc.replace(second=0, microsecond=0)
        known = self._known.get(zone, {})
        if minute not in known:
            self._want(zone, minute)
            return None
        if utc.second >= SOON and minute + MINUTE not in known:
            self._want(zone, minute + MINUTE)
        return known[minute]

    def _want(self, zone: str, minute: datetime) -> None:
        if zone not in self._asking and _NAME.fullmatch(zone):
            self._asking[zone] = asyncio.get_running_loop().create_task(self._look(zone, minute))

    async def _look(self, zone: str, minute: datetime) -> None:
        try:
            first = minute
            last = minute + MINUTE - timedelta(seconds=1)
            one, other = await self._ask(zone, first, last)
            ahead = None if one is None or other is None or one - first != other - last else one - first
        except (UpwellError, ValueError):
            return
        finally:
            del self._asking[zone]
        if len(self._known) >= MOST and zone not in self._known:
            self._known.clear()
        known = self._known.setdefault(zone, {})
        known[minute] = ahead
        while len(known) > KEPT:
            del known[min(known)]

    async def close(self) -> None:
        """Ends the questions under way."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
