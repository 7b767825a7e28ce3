"""The clocks of time zones, as the source has them.

MySQL knows zones by tables of its own, and the zone SYSTEM by its machine; a name says nothing about either. So MySQL
is asked, once for each zone, when its clocks are set between 1970 and 2038, where TIMESTAMPs end. MySQL reads a zone
once while it runs, so an answer is good until its restart.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from proxy.source.source import Upqueries
from sqltypes.errors import UpwellError
from sqltypes.expression import Row
from sqltypes.zone import LAST, UTC, Zone, fixed

SYSTEM = "SYSTEM"
MOST = 32
"""Zones with different clocks: answers with TIMESTAMPs are encoded for each by itself."""
STEP = 3 * 86400
"""Seconds. No zone's clocks were ever set twice within twice of that, so that one change is looked for in each step."""
_NAME = re.compile(r"[\w+/:-]{1,64}", re.ASCII)
_SIDE = 92  # the square root of the number of steps, or more
_AHEAD = "TIMESTAMPDIFF(SECOND, FROM_UNIXTIME({0}), CONVERT_TZ(FROM_UNIXTIME({0}), '+00:00', '{{zone}}'))"
_NEXT = f"LEAST(at + {STEP}, {LAST})"
_MIDDLE = "((low + high) DIV 2)"
_IS_BEFORE = f"{_AHEAD.format(_MIDDLE)} = ahead"
QUESTION = (
    f"WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < {_SIDE - 1}),"
    f" steps (at) AS (SELECT 1 + {STEP} * ({_SIDE} * a.n + b.n) FROM n a JOIN n b"
    f" WHERE 1 + {STEP} * ({_SIDE} * a.n + b.n) < {LAST}),"
    f" changes (low, high, ahead) AS (SELECT at, {_NEXT}, {_AHEAD.format('at')} FROM steps"
    f" WHERE {_AHEAD.format('at')} <> {_AHEAD.format(_NEXT)}"
    f" UNION ALL SELECT IF({_IS_BEFORE}, {_MIDDLE}, low), IF({_IS_BEFORE}, high, {_MIDDLE}), ahead FROM changes"
    f" WHERE high - low > 1)"
    f" SELECT 1, {_AHEAD.format('1')}, {_AHEAD.format('1')}"
    f" UNION ALL SELECT high, ahead, {_AHEAD.format('high')} FROM changes WHERE high - low = 1"
)
"""Gives the first second, and each from which on the clocks are set otherwise: how far they are ahead before it, and
from it on. Where they are not the same at both ends of a step the change is looked for by halves."""
BY_NAME = frozenset({"utc", "gmt", "etc/utc", "universal", "zulu"})


async def ask(executor: Upqueries, name: str) -> Zone | None:
    """The zone's clocks; None where MySQL does not know it, or they are set in a way that is not understood. Raises as
    `Upqueries.question`."""
    rows = await executor.question(QUESTION.format(zone=name))
    return zone_of(name, rows)


async def ask_name(executor: Upqueries, name: str) -> Zone | None:
    """Of a source that has several servers, and so no clocks of its own: a zone is UTC if all call it so."""
    if name == SYSTEM:
        rows = await executor.question("SELECT @@global.system_time_zone")
        name = str(rows[0][0])
    return UTC if name.lower() in BY_NAME else None


def zone_of(name: str, rows: Sequence[Row]) -> Zone | None:
    """Of an answer to QUESTION, in any order."""
    changes: list[int] = []
    offsets: list[int] = []
    for at, before, after in sorted(rows):
        if not (isinstance(at, int) and isinstance(before, int) and isinstance(after, int)):
            return None
        if offsets and offsets[-1] != before:  # they are set twice within a step
            return None
        if offsets:
            changes.append(at)
        offsets.append(after)
    return Zone(name, changes, offsets) if offsets else None


class SourceZones:
    """Zones by name. Zones with the same clocks are the same object, as long as the proxy runs; UTC is `UTC`."""

    def __init__(
        self,
        ask: Callable[[str], Awaitable[Zone | None]],
        connected: Callable[[], bool] = lambda: True,
        on_known: Callable[[], None] = lambda: None,
    ) -> None:
        """`connected`: whether the source is followed; where it is not, it may be about to be started anew. `on_known`:
        is told when a zone is known that was asked for in vain."""
        self._on_known = on_known
        self._ask = ask
        self._connected = connected
        self._known: dict[str, Zone | None] = {}
        self._distinct: list[Zone] = [UTC]
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._refused = False  # a zone was not told, for the source is not followed

    def of(self, name: str) -> Zone | None:
        """The zone; None where its clocks are not known, or not yet."""
        if not self._connected() and fixed(name) is None:
            self._refused = True
            return None
        if name not in self._known:
            zone = fixed(name)
            if zone is None:
                self._want(name)
                return None
            self._note(name, zone)
        return self._known[name]

    def forget(self) -> None:
        """The source was started anew, or is another one."""
        for task in self._asking.values():
            task.cancel()
        self._known.clear()
        self._want(SYSTEM)

    def tick(self) -> None:
        """To be called now and then."""
        if self._refused and self._connected():
            self._refused = False
            self._on_known()

    async def look(self, name: str) -> None:
        """Asks for the zone. Where MySQL does not answer it is asked again when it is wanted next."""
        with suppress(UpwellError):
            self._note(name, await self._ask(name))
            self._on_known()

    def _note(self, name: str, zone: Zone | None) -> None:
        if len(self._known) >= 2 * MOST:
            self._known.clear()
        if zone is not None:
            same = next((one for one in self._distinct if one.same_clocks(zone)), None)
            if same is None and len(self._distinct) < MOST:
                self._distinct.append(zone)
                same = zone
            zone = same
        self._known[name] = zone

    def _want(self, name: str) -> None:
        if name not in self._asking and _NAME.fullmatch(name):
            self._asking[name] = task = asyncio.get_running_loop().create_task(self.look(name))
            task.add_done_callback(lambda done: self._ended(name, done))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if self._asking.get(name) is task:
            del self._asking[name]

    async def close(self) -> None:
        """Ends the questions under way."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
