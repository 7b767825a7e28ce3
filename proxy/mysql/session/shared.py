"""What all sessions of the listener for MySQL's protocol share: options, what is known of texts and rights, and who is
there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import NamedTuple, Protocol

from external_upquery.pool import Packet
from gtid_tracker.gtid import GtidSet
from planner.matcher import QueryMatcher
from planner.text.clock import MAY_HAVE
from planner.text.hints import SETS_MODE, with_hint
from planner.text.long_lists import LONG, without_lists
from planner.text.scan import server_version, unwrap_version_comments
from proxy.auto.passed_reads import ProxiedQueries
from proxy.mysql.reads.announced import AnnouncedTexts, Heads
from proxy.mysql.reads.grants import Grants
from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.reads.questions import Questions, may_be_question
from proxy.mysql.reads.rights import is_admin
from proxy.mysql.reads.routes import Route, Target, target_of
from proxy.mysql.reads.trackerless import Positions
from proxy.mysql.session.questions_to_mysql import NewSessions
from proxy.mysql.session.relay import Relay
from proxy.mysql.session.snapshot_forecast import SnapshotForecast
from proxy.mysql.state.ansi_quotes import named_by_quotes
from proxy.mysql.state.recoding import Recode, to_utf8mb3
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.state.session_variables import OF_BMP
from proxy.mysql.state.set_names import SetNames
from proxy.mysql.state.variable_values import ZoneOf
from proxy.mysql.text.clock_texts import HAS_DIGITS, ClockTexts
from proxy.mysql.text.own_sql_syntax import LastStatement, may_be_command
from proxy.mysql.text.statement_kind import ANYTHING, classify
from proxy.mysql.text.statement_kind import Kind as StatementKind
from proxy.mysql.text.text_matcher import LONGEST_OTHER, Entry, TextMatcher, is_large, steering
from proxy.mysql.text.write_outline import LONGEST_WRITE, is_write, write_outline
from proxy.port.api import Answer, ParameterValue
from proxy.port.faults import is_fault
from proxy.port.reasons import NO_REASON, Reason, Why, of_error
from proxy.port.session import SessionCache, SessionSystem
from proxy.settings.quantities import Transactions
from proxy.source.zones import SourceZones
from sqltypes.errors import CannotForce, ParseError, UpwellError
from sqltypes.zone import Zone, fixed

TARGETS = 10_000  # texts of prepared statements that are remembered
TARGETS_BY_CLOCK = 1000  # and of those with what the clock says
HEADS = 10_000  # kinds of texts whose columns are known; then all are forgotten
WRITES = 256  # outlines of long writes that are remembered, each of 8 KiB at most
TargetKey = tuple[bytes, str, bool, bool, Zone | None]
"""Text, database, whether rows end with EOF, whether commands have query attributes, the session's clocks."""
READS = frozenset({StatementKind.READ})
QUESTIONS = frozenset({StatementKind.READ, StatementKind.HARMLESS})


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


class Member(Protocol):
    """A session, as who looks after all of them sees it."""

    relay: Relay
    state: SessionState

    @property
    def connection_id(self) -> int: ...

    @property
    def active_at(self) -> float:
        """When the client has last sent a command, as of the last tick."""
        ...

    @property
    def server_used_at(self) -> float:
        """When MySQL has last been sent one."""
        ...

    @property
    def last_statement(self) -> LastStatement | None: ...

    def note_use(self, now: float) -> None: ...

    def ping_server(self) -> None: ...

    def forget_rights(self) -> None:
        """What the account may do is to be asked anew."""
        ...

    def interrupt(self) -> None:
        """KILL QUERY has come for it."""
        ...


class Looked(NamedTuple):
    """What is known of a text. `text`: as a session that fills caches would be sent it. `instead`: the cache that the
    text as it is would be for, if there is one, and why it may not answer. `upto`: the clock is between `values` and
    these; None: it is known."""

    text: bytes
    entry: Entry[Route]
    values: tuple[ParameterValue, ...]
    route: Route
    instead: tuple[str | None, Why] = (None, NO_REASON)
    upto: tuple[ParameterValue, ...] | None = None


class Now(NamedTuple):
    """A text with what the clock says: it says something between the two."""

    first: bytes
    last: bytes


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
    ) -> None:
        """`utc`: the whole second that MySQL's clock shows, None where that is not known; `micros`: between which
        microseconds of it that is. `zones`: the clocks of time zones; None: only offsets are known. `lives`: whether
        MySQL, which has closed a session's connection without a word, is still there; None: if it answers.
        `positions`: of a source that has no session trackers (`proxy/mysql/reads/trackerless.py`). `packet`: of the
        sessions that fill caches; None: of which nothing is known, and all that clients have is enough."""
        self.positions = positions
        self.utc = utc
        self._follow(zones, packet)
        self._micros = micros
        self.lives = lives or system.freshness.answers
        self.clock_texts = ClockTexts()
        self.system = system
        self.options = options
        self.clock = clock
        self._matcher = matcher
        self.texts: TextMatcher[Route] = TextMatcher(matcher)
        self.grants = Grants(lambda: system.accounts.version)
        self.announced = AnnouncedTexts(more_prepared=positions is not None)  # by vtgate: what it sorts by
        # How answers are recoded for a character set of results, by its name; None: not known.
        self.character_sets: dict[str, Recode | None] = dict.fromkeys(OF_BMP, to_utf8mb3)
        self.forecast = SnapshotForecast()
        self.now = clock()  # as of the last tick
        self.passed = 0  # statements that MySQL has answered, reads or not
        self.visible = ""  # a position of the stream of which some session has seen that MySQL shows all of it
        # Is told of each read of a cache that MySQL has answered: its values, why, and in how many microseconds.
        self.on_passed: Callable[[str, Sequence[ParameterValue] | None, str, float], None] | None = None
        self.large = Route(ANYTHING, large=True)
        self.new_sessions = NewSessions()
        self.set_names = SetNames()
        self.questions = Questions()
        self.sessions: set[Member] = set()
        self.orphans: set[Member] = set()
        self.closing: set[Member] = set()
        self.fills: set[asyncio.Task[Answer | Why]] = set()  # that their sessions may have left alone
        self.position = system.position
        self.proxied = proxied
        self._targets: dict[TargetKey, Target] = {}
        self._targets_by_clock: dict[TargetKey, Target] = {}
        self._targets_of = -1  # the version of the caches that they are of
        self._writes: dict[bytes, Route] = {}  # by their outlines
        self._heads: dict[bytes, Heads] = {}  # by what texts have in common (`Entry.alike`)

    def _follow(self, zones: SourceZones | None, packet: Packet | None) -> None:
        """Sessions are judged by what is known of the source, and anew when more is known."""
        self.zone_of: ZoneOf = fixed if zones is None else zones.of
        if zones is not None:
            zones.on_known = self._note_zones
        self._packet = packet
        if packet is not None:
            packet.on_change = self._note_packet

    def _note_zones(self) -> None:
        """The clocks of a time zone are known that were not."""
        for session in self.sessions:
            session.state.variables.note_zone()

    def packet_of(self) -> int | None:
        """Bytes of the longest string of the sessions that fill caches, 0 where they differ; None where nothing is
        known of them."""
        return None if self._packet is None else self._packet.bytes

    def _note_packet(self) -> None:
        for session in self.sessions:
            session.state.variables.note_packet()

    def server_is(self, version: str) -> None:
        """What MySQL has told of itself in its greeting: texts are read as that version reads them."""
        found = server_version(version)
        if found != self._matcher.version:
            self._writes.clear()
            self._heads.clear()
            self.grants.forget()
            self.set_names.forget()
            self._matcher.read_as(found)

    def route(self, text: bytes, database: str) -> Route:
        """What is known of a text, whatever its literals are."""
        entry, _ = self.texts.find(text, database)
        return entry.attached or self.attach(entry, text, database)

    def find(self, text: bytes, state: SessionState, *, eof: bool) -> Looked:
        """For which cache a text is in such a session: one of the text as it is, with what MySQL's clock says for its
        functions, or, where the session's sql_mode or collation counts, one of the text that sets them."""
        looked = self._looked(text, state.database)
        if looked.route.by_clock and (now := self.by_clock(text, state)) is not None:
            if now.last != now.first:
                return self._between(now, state.database)
            text, looked = now.first, self._looked(now.first, state.database)
        if state.variables.mode_hint and state.known and looked.route.noted is not None:
            name = looked.entry.cache
            why = (
                NO_REASON if name is None else state.variables.differing(looked.route.needs(self.system, name, eof=eof))
            )
            asked = why or (name is None and self.may_have(state.variables.mode_hint))
            other = with_hint(text, state.variables.mode_hint) if asked else None
            if other is not None:
                return self._looked(other, state.database)._replace(instead=(name, why))
        return looked

    def may_have(self, hint: bytes) -> bool:
        """Whether there may be a cache of a text with this hint where there is none of the text as it is. Most texts do
        not depend on the collation: as long as none does that has a cache, it is not looked for."""
        return SETS_MODE in hint or (hint != b"" and self._matcher.tells_collations)

    def _between(self, now: Now, database: str) -> Looked:
        """Of a text with fractions of a second, where MySQL's clock is known to be between two moments."""
        first, last = self._looked(now.first, database), self._looked(now.last, database)
        return first._replace(upto=last.values if last.entry is first.entry else ())

    def by_clock(self, text: bytes, state: SessionState) -> Now | None:
        """A text with what MySQL's clock says in the place of its functions; None where that is not known."""
        zone = state.now_zone
        utc = self.utc() if zone is not None else None
        if zone is None or utc is None:
            return None
        ahead, steady = zone.ahead(utc), zone.is_steady
        micros = self._micros() if HAS_DIGITS.search(text) else None
        least, most = micros or (None, None)
        first = self.clock_texts.rewritten(text, utc + ahead, utc, steady=steady, micros=least)
        if first is None or least == most:
            return None if first is None else Now(first, first)
        last = self.clock_texts.rewritten(text, utc + ahead, utc, steady=steady, micros=most)
        return None if last is None else Now(first, last)

    def _looked(self, text: bytes, database: str) -> Looked:
        entry, values = self.texts.find(text, database)
        return Looked(text, entry, values, entry.attached or self.attach(entry, text, database))

    def attach(self, entry: Entry[Route], text: bytes, database: str) -> Route:
        """Finds out about a text of which nothing is known yet."""
        if entry.large and _is_long_by_placeholders(text):
            entry.attached = self._route(text, database)
        elif entry.large:
            entry.attached = self._large(text, remembered=entry.alike != b"")
        elif len(text) > LONGEST_OTHER and is_write(text):
            entry.attached = self._write(write_outline(text)) if len(text) <= LONGEST_WRITE else self.large
        else:
            entry.attached = self._route(text, database, cached=entry.cache is not None)
            if entry.cache is not None and entry.alike:
                entry.attached.heads = self._heads_of(entry.alike)
        return entry.attached

    def _large(self, text: bytes, *, remembered: bool) -> Route:
        """Of a text that is too large for a cache. It may be a plain read all the same, as of ORMs that join whole
        tables, behind which nothing of the session need be asked. That is told once for all texts that are alike."""
        if may_be_command(text):
            return Route(ANYTHING, may_be_command(text))
        if remembered:
            route = Route(classify(text.decode(), self._matcher.version), large=True)
            if route.statement.kind is StatementKind.READ and route.effects.simple:
                return route
        return self.large

    def _heads_of(self, alike: bytes) -> Heads:
        """How the columns of such texts are announced stays known while their cache has its plan: routes end with each
        change of any cache, and MySQL would have to prepare all texts again."""
        found = self._heads.get(alike)
        if found is None:
            if len(self._heads) >= HEADS:
                self._heads.clear()
            found = self._heads[alike] = Heads()
        return found

    def _write(self, outline: bytes) -> Route:
        """Of a long write: one route for all that differ in values and rows."""
        route = self._writes.get(outline)
        if route is None:
            if is_large((outline,)):
                return self.large
            if len(self._writes) >= WRITES:
                self._writes.clear()
            statement = classify(outline.decode("utf-8", "replace"), self._matcher.version)
            route = self._writes[outline] = Route(statement)
        return route

    def _route(self, text: bytes, database: str, *, cached: bool = False) -> Route:
        """`cached`: it is a cache's, so it has few tokens, however long its literals are."""
        sql = text.decode("utf-8", "replace")
        version = self._matcher.version
        if version is not None:
            with suppress(ParseError):
                sql = unwrap_version_comments(sql, version)
        short = without_lists(sql)[0] if "/*!" not in sql else sql
        if not cached and len(short) > LONGEST_OTHER and is_large((short.encode(),)):
            return Route(ANYTHING, large=True)
        statement = classify(short, version)
        noted = self.proxied.texts(sql, database) if statement.kind in READS else None
        by_clock = noted is not None and MAY_HAVE.search(text) is not None
        asks = statement.kind in QUESTIONS and not statement.tables and may_be_question(text)
        spelled = noted is not None and "`" in short and named_by_quotes(short)
        return Route(statement, may_be_command(text), by_clock, asks, spelled, noted=noted)

    def target(
        self,
        statement: PreparedStatement,
        *,
        eof: bool,
        now: bytes | None = None,
        hint: bytes = b"",
        clocks: Zone | None = None,
    ) -> Target | None:
        """What a prepared statement is for: one object for all sessions that have prepared this text. `now`: the text
        with what the clock says, which is another a second later; `hint`: that is to stand in it; None where it has no
        place for that. `clocks`: the session's."""
        version = self.system.caches.version
        if version != self._targets_of:
            self._targets.clear()
            self._targets_by_clock.clear()
            self._targets_of = version
        known, most = (self._targets, TARGETS) if now is None else (self._targets_by_clock, TARGETS_BY_CLOCK)
        if len(known) >= most:
            known.clear()
        own = now or statement.text
        text = with_hint(own, hint) if hint else own
        if text is None:
            return None
        key = text, statement.database, eof, statement.attributes, clocks
        target = known.get(key)
        if target is None:
            route, steer = self.route(text if hint else statement.text, statement.database), steering(statement.text)
            target = known[key] = target_of(
                statement, route, self.system, eof=eof, steer=steer, text=text, hint=hint, clocks=clocks
            )
        return target

    def interrupt(self, connection_id: int) -> None:
        """MySQL has accepted a KILL QUERY for the session of this number."""
        for member in self.sessions:
            if member.connection_id == connection_id:
                member.interrupt()

    def asks_clock(self, statement: PreparedStatement) -> bool:
        return self.route(statement.text, statement.database).by_clock

    def note_fault(self, what: str, error: Exception, **facts: object) -> Why:
        """A read or a command could not be understood: the reason for which MySQL answers it."""
        if is_fault(error):
            error = self.system.faults.note("session", what, error, **facts)
        return of_error(error) if isinstance(error, UpwellError) else Reason.OTHER.why(repr(error))

    def note_passed(self, cache: str, values: Sequence[ParameterValue] | None, why: Why, took: float) -> None:
        """MySQL has answered a read of this cache, or of none, in so many microseconds."""
        self.system.note_passed(cache, why)
        if self.on_passed is not None:
            self.on_passed(cache, values, why, took)

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

    def orphaned(self, session: Member) -> None:
        self.orphans.add(session)

    def ending(self, session: Member) -> None:
        self.sessions.discard(session)
        self.orphans.discard(session)
        self.closing.add(session)

    def ended(self, session: Member) -> None:
        """Both connections are closed."""
        self.closing.discard(session)


def _is_long_by_placeholders(text: bytes) -> bool:
    """Whether all that makes a text too large to be looked at is lists of `?`."""
    if text.count(b"?") < LONG:
        return False
    short = without_lists(text.decode("utf-8", "replace"))[0].encode()
    return len(short) < len(text) and not is_large((short,))
