"""What all sessions of the listener for MySQL's protocol share: options, what is known of texts, rights and columns,
and who is there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from time import monotonic

from external_upquery.pool import Packet
from gtid_tracker.gtid import GtidSet
from planner.matcher import QueryMatcher
from planner.text.scan import server_version
from proxy.auto.passed_reads import ProxiedQueries
from proxy.mysql.reads.announced import AnnouncedTexts
from proxy.mysql.reads.grants import Grants
from proxy.mysql.reads.questions import Questions
from proxy.mysql.reads.rights import is_admin
from proxy.mysql.reads.trackerless import Positions
from proxy.mysql.session.known_texts import KnownTexts
from proxy.mysql.session.open_sessions import OpenSessions
from proxy.mysql.session.questions_to_mysql import NewSessions
from proxy.mysql.session.snapshot_forecast import SnapshotForecast
from proxy.mysql.state.recoding import Recode, to_utf8mb3
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.state.session_variables import OF_BMP
from proxy.mysql.state.set_names import SetNames
from proxy.mysql.state.variable_values import ZoneOf
from proxy.port.api import Answer, ParameterValue
from proxy.port.faults import is_fault
from proxy.port.reasons import Reason, Why, of_error
from proxy.port.session import SessionCache, SessionSystem
from proxy.port.tracing import Spans
from proxy.settings.quantities import Transactions
from proxy.source.zones import SourceZones
from sqltypes.errors import CannotForce, UpwellError
from sqltypes.zone import fixed


@dataclass(frozen=True, slots=True)
class MysqlOptions:
    """Sizes in bytes, times in seconds. `idle` 0: as long as MySQL itself allows."""

    host: str = "127.0.0.1"
    port: int = 3307
    transactions: Transactions = Transactions.ON
    read_your_writes: bool = True
    own_writes_wait: float = 1.0
    largest_command: int = 1 << 30
    connections: int = 10_000
    idle: float = 0.0
    admins: tuple[str, ...] = ()


class Shared:
    """What all sessions of the listener share."""

    def __init__(
        self,
        system: SessionSystem,
        options: MysqlOptions,
        matcher: QueryMatcher,
        proxied: ProxiedQueries,
        clock: Callable[[], float] = monotonic,
        utc: Callable[[], datetime | None] = lambda: None,
        micros: Callable[[], tuple[int, int] | None] = lambda: None,
        zones: SourceZones | None = None,
        lives: Callable[[], Awaitable[bool]] | None = None,
        positions: Positions | None = None,
        packet: Packet | None = None,
        sessions: OpenSessions | None = None,
        spans: Spans | None = None,
    ) -> None:
        """`utc`: the whole second that MySQL's clock shows, None where that is not known; `micros`: between which
        microseconds of it that is. `zones`: the clocks of time zones; None: only offsets are known. `lives`: whether
        MySQL, which has closed a session's connection without a word, is still there; None: if it answers.
        `positions`: of a source that has no session trackers (`proxy/mysql/reads/trackerless.py`). `packet`: of the
        sessions that fill caches; None: of which nothing is known, and all that clients have is enough. `sessions`: who
        tells of changes of these two tells them, for they are judged by what is known of the source. `spans`: take
        reads that are no hits; None: none are made."""
        self.system = system
        self.position = system.position
        self.options = options
        self.clock = clock
        self.now = clock()  # as of the last tick
        self.proxied = proxied
        self.spans = spans
        self.positions = positions
        self.lives = lives or system.freshness.answers
        self.sessions = sessions if sessions is not None else OpenSessions()
        self.texts = KnownTexts(system, matcher, proxied, utc, micros)
        self.zone_of: ZoneOf = fixed if zones is None else zones.of
        # Bytes of the longest string of the sessions that fill caches; 0: they differ, None: not known.
        self.packet_of: Callable[[], int | None] = lambda: None if packet is None else packet.bytes
        self.grants = Grants(partial(getattr, system.accounts, "version"))
        self.announced = AnnouncedTexts(more_prepared=positions is not None)  # by vtgate: what it sorts by
        # How answers are recoded for a character set of results, by its name; None: not known.
        self.character_sets: dict[str, Recode | None] = dict.fromkeys(OF_BMP, to_utf8mb3)
        self.forecast = SnapshotForecast()
        self.passed = 0  # statements that MySQL has answered, reads or not
        self.visible = ""  # a position of the stream of which some session has seen that MySQL shows all of it
        # Are told of each read of a cache that MySQL has answered: its values, why, and in how many microseconds.
        self.on_passed: list[Callable[[str, Sequence[ParameterValue] | None, Why, float], None]] = []
        self.new_sessions = NewSessions()
        self.set_names = SetNames()
        self.questions = Questions()
        self.fills: set[asyncio.Task[Answer | Why]] = set()  # that their sessions may have left alone

    def server_is(self, version: str) -> None:
        """What MySQL has told of itself in its greeting: texts are read as that version reads them."""
        if self.texts.read_as(server_version(version)):
            self.grants.forget()
            self.set_names.forget()

    def note_fault(self, what: str, error: Exception, **facts: object) -> Why:
        """A read or a command could not be understood: the reason for which MySQL answers it."""
        if is_fault(error):
            error = self.system.faults.note("session", what, error, **facts)
        return of_error(error) if isinstance(error, UpwellError) else Reason.OTHER.why(repr(error))

    def note_passed(self, cache: str, values: Sequence[ParameterValue] | None, why: Why, took: float) -> None:
        """MySQL has answered a read of this cache, or of none, in so many microseconds."""
        self.system.note_passed(cache, why)
        for tell in self.on_passed:
            tell(cache, values, why, took)

    def figures(self) -> dict[str, int]:
        """Counters and gauges that are kept here, by name."""
        return {"mysql_sessions": len(self.sessions), "mysql_passed": self.passed}

    def forced(self, why: str) -> CannotForce:
        return CannotForce(f"the query asks for an answer from a cache, and MySQL would have to answer: {why}")

    def is_admin(self, account: str) -> bool:
        return is_admin(account, self.options.admins)

    @property
    def transactions(self) -> Transactions:
        return self.options.transactions

    @property
    def read_your_writes(self) -> bool:
        return self.options.read_your_writes

    def has(self, gtids: GtidSet) -> bool:
        """Whether the position has these transactions."""
        return self.system.freshness.demand_after(gtids).met()

    def refusal(self, state: SessionState, cache: SessionCache) -> Why | None:
        """As `Grants.refusal`."""
        return self.grants.refusal(state, cache)

    async def reached(self, own: GtidSet) -> bool:
        """Waits, for a bounded time, until the stream has brought a session's own writes."""
        return await self.system.freshness.reached(own, self.options.own_writes_wait)

    def keep_fill(self, task: asyncio.Task[Answer | Why]) -> None:
        """It goes on, whatever becomes of the session that has begun it."""
        self.fills.add(task)
        task.add_done_callback(self._fill_ended)

    def _fill_ended(self, task: asyncio.Task[Answer | Why]) -> None:
        self.fills.discard(task)
        if not task.cancelled():
            task.exception()  # who waits for it still has it from the task
