"""What is known of the texts that sessions send: for which cache each is, and what it does to a session. All sessions
share it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from planner.matcher import QueryMatcher
from planner.text.clock import MAY_HAVE
from planner.text.hints import SETS_MODE, with_hint
from planner.text.long_lists import LONG, without_lists
from planner.text.scan import ServerVersion, unwrap_version_comments
from proxy.auto.passed_reads import ProxiedQueries
from proxy.mysql.reads.announced import Heads
from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.reads.questions import may_be_question
from proxy.mysql.reads.routes import Route, Target, target_of
from proxy.mysql.state.ansi_quotes import named_by_quotes
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.text.clock_texts import HAS_DIGITS, ClockTexts
from proxy.mysql.text.own_sql_syntax import may_be_command
from proxy.mysql.text.statement_kind import ANYTHING, Kind, classify
from proxy.mysql.text.text_matcher import LONGEST_OTHER, Entry, TextMatcher, is_large, steering
from proxy.mysql.text.write_outline import LONGEST_WRITE, is_write, write_outline
from proxy.port.api import ParameterValue
from proxy.port.reasons import NO_REASON, Why
from proxy.port.session import SessionSystem
from sqltypes.errors import ParseError
from sqltypes.zone import Zone

TARGETS = 10_000  # texts of prepared statements that are remembered
TARGETS_BY_CLOCK = 1000  # and of those with what the clock says
HEADS = 10_000  # kinds of texts whose columns are known; then all are forgotten
WRITES = 256  # outlines of long writes that are remembered, each of 8 KiB at most
TargetKey = tuple[bytes, str, bool, bool, Zone | None]
"""Text, database, whether rows end with EOF, whether commands have query attributes, the session's clocks."""
READS = frozenset({Kind.READ})
QUESTIONS = frozenset({Kind.READ, Kind.HARMLESS})


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


class KnownTexts:
    """`entries`: what is known of texts, by all but their literals. `large`: the route of what is too large to be
    looked at. `utc`, `micros`: as `Shared` has them."""

    def __init__(
        self,
        system: SessionSystem,
        matcher: QueryMatcher,
        proxied: ProxiedQueries,
        utc: Callable[[], datetime | None],
        micros: Callable[[], tuple[int, int] | None],
    ) -> None:
        self.entries: TextMatcher[Route] = TextMatcher(matcher)
        self.large = Route(ANYTHING, large=True)
        self._system = system
        self._matcher = matcher
        self._proxied = proxied
        self._utc = utc
        self._micros = micros
        self._clock_texts = ClockTexts()
        self._targets: dict[TargetKey, Target] = {}
        self._targets_by_clock: dict[TargetKey, Target] = {}
        self._targets_of = -1  # the version of the caches that they are of
        self._writes: dict[bytes, Route] = {}  # by their outlines
        self._heads: dict[bytes, Heads] = {}  # by what texts have in common (`Entry.alike`)

    def read_as(self, version: ServerVersion | None) -> bool:
        """Texts are read as this version of MySQL reads them. Whether that is another one than before."""
        if version == self._matcher.version:
            return False
        self._writes.clear()
        self._heads.clear()
        self._matcher.read_as(version)
        return True

    def route(self, text: bytes, database: str) -> Route:
        """What is known of a text, whatever its literals are."""
        entry, _ = self.entries.find(text, database)
        return entry.attached or self._attach(entry, text, database)

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
            why = NO_REASON
            if name is not None:
                why = state.variables.differing(looked.route.needs(self._system, name, eof=eof))
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
        utc = self._utc() if zone is not None else None
        if zone is None or utc is None:
            return None
        ahead, steady = zone.ahead(utc), zone.is_steady
        micros = self._micros() if HAS_DIGITS.search(text) else None
        least, most = micros or (None, None)
        first = self._clock_texts.rewritten(text, utc + ahead, utc, steady=steady, micros=least)
        if first is None or least == most:
            return None if first is None else Now(first, first)
        last = self._clock_texts.rewritten(text, utc + ahead, utc, steady=steady, micros=most)
        return None if last is None else Now(first, last)

    def _looked(self, text: bytes, database: str) -> Looked:
        entry, values = self.entries.find(text, database)
        return Looked(text, entry, values, entry.attached or self._attach(entry, text, database))

    def _attach(self, entry: Entry[Route], text: bytes, database: str) -> Route:
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
            if route.statement.kind is Kind.READ and route.effects.simple:
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
        noted = self._proxied.texts(sql, database) if statement.kind in READS else None
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
        version = self._system.caches.version
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
                statement, route, self._system, eof=eof, steer=steer, text=text, hint=hint, clocks=clocks
            )
        return target


def _is_long_by_placeholders(text: bytes) -> bool:
    """Whether all that makes a text too large to be looked at is lists of `?`."""
    if text.count(b"?") < LONG:
        return False
    short = without_lists(text.decode("utf-8", "replace"))[0].encode()
    return len(short) < len(text) and not is_large((short,))
