"""Asks MySQL about once a second what it has executed: a stream may lose its source's history unnoticed.

After RESET BINARY LOGS AND GTIDS the old stream goes on, as if nothing were written any more. Transactions that MySQL
counts as executed without having them in a binlog (gtid_purged, set by hand) never come. A new login shows which of the
two it is (`vstream/history.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic

from gtid_tracker.bracket import History
from gtid_tracker.gtid import GtidSet
from proxy.loop.periodic import Periodic
from proxy.port.accounts import Accounts
from sqltypes.errors import UpwellError

EVERY = 1.0  # seconds
PATIENCE = 3.0
"""Seconds that a stream which believes to be current may take to bring what MySQL has executed."""


@dataclass(frozen=True, slots=True)
class Reading:
    """MySQL's answer. `owned` was read before `executed`; `position`: what the stream had brought before that. `asked`:
    a time before the question."""

    at: float
    position: GtidSet
    history: History
    owned: GtidSet
    executed: GtidSet
    asked: float = float("-inf")


class SourceWatch:
    def __init__(
        self,
        ask: Callable[[], Awaitable[tuple[str, GtidSet, GtidSet, str]]],
        position: Callable[[], GtidSet],
        accounts: Accounts,
        clock: Callable[[], float] = monotonic,
        longest: float = float("inf"),
    ) -> None:
        """`ask` gives the server's UUID, the owned and the executed GTIDs, and the settings on which rights depend.
        `longest`: seconds that a stream may take if it does not claim to be current; if one of several shards is late,
        that says nothing of the others."""
        self._longest = longest
        self._ask = ask
        self._position = position
        self._accounts = accounts
        self._rights = ""
        self._clock = clock
        self._round = Periodic(self._read, EVERY, clock)
        self._reading: Reading | None = None
        self._missing: tuple[float, GtidSet] | None = None  # what the stream lacked, and since when it was executed

    def tick(self) -> None:
        """To be called now and then."""
        self._round.tick()

    async def _read(self) -> None:
        asked, position = self._clock(), self._position()
        try:
            server, owned, executed, rights = await self._ask()
        except UpwellError:  # out of reach: the stream finds out itself
            self._reading = None
            return
        self._reading = Reading(self._clock(), position, server, owned, executed, asked)
        if rights != self._rights:
            self._rights = rights
            self._accounts.changed()

    def doubt(self, followed: str, lag: float) -> str:
        """Why the stream may not be the source's history; "" if nothing says so. Told once for each reading.
        `followed`: the server of the stream. `lag`: by how many seconds the stream believes to be behind."""
        reading, self._reading = self._reading, None
        return self.judge(reading, followed, lag) if reading is not None else ""

    def judge(self, reading: Reading, followed: str, lag: float) -> str:
        if followed and reading.history != followed:
            return f"server {reading.history} answers, the stream is of {followed}"
        # The stream tells of a transaction before it is executed: as long as it is not, it is owned.
        if not reading.position.issubset(reading.executed.union(reading.owned)):
            return "the source does not have all that its stream has brought"
        position = self._position()
        lacking = reading.executed.difference(position)
        if not lacking:
            self._accounts.current_at = reading.asked
        since, before = self._missing or (reading.at, lacking)
        still = lacking.intersection(before)
        late = lag > PATIENCE / 2
        if not still or (late and self._longest == float("inf")):
            self._missing = (reading.at, lacking) if lacking else None
            return ""
        self._missing = since, still
        if reading.at - since < (self._longest if late else PATIENCE):
            return ""
        self._missing = None
        return "the source has executed transactions that the stream has not brought"

    async def close(self) -> None:
        await self._round.close()
