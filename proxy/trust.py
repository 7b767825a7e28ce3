"""A cache earns its trust: its first answers are compared with MySQL's own before anybody gets them.

    a fill         the client's own text runs in the upquery's snapshot, after its statements (`FillCheck`)
    a held answer  that a change has made stale is derived again, and compared with MySQL's answer to the client's own
                   text at the same position (`proxy/comparison.py`), before it is given

`proxy/ledger.py` says which answers. Trust is of one plan: it is earned anew after each start, each DDL statement and
each change of plan. A difference is a fault of Upwell: it is logged with all that reproduces it, the read is MySQL's to
answer, and the cache goes to evict mode with MySQL's own answers (`Catalog.distrust`), where what changes have not
emptied is compared in the same way; from there any change of its tables empties it, and then it is closed.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

import upwell
from dataflow.arrangement import Entries
from dataflow.check import Finding
from dataflow.engine import Engine
from dataflow.entries import Held
from dataflow.messages import Differs, OwnAnswer, StreamEvent, Transaction
from dataflow.reader import ReaderNode
from gtid_tracker.bracket import Bracket
from planner.explain import explain
from planner.plan import Mode
from proxy.agreement import Verdict, agreement
from proxy.api import Encoder, ParameterValue
from proxy.comparison import DATA_ERRORS, Comparer, Comparison, Outcome, marks_of
from proxy.keys import Binding, Bound
from proxy.ledger import Ledger
from sqltypes.errors import EvaluationError, SourceError, UpwellError
from sqltypes.expression import Key, Row

if TYPE_CHECKING:
    from proxy.caches import NamedCache

log = structlog.get_logger("upwell.trust")

PATIENCE = 0.1  # seconds that a read waits for its comparison, beside what the query takes; then MySQL answers it
SLOW_SECONDS = 0.2  # an answer of evict mode that MySQL takes longer for is given first, and compared behind
LATEST = 256  # answers of a cache that changes leave to be compared
MAX_KEYS = 100  # of an IN-list: longer ones are filled by several upqueries, and compared once they are held
LOGGED_ROWS, LOGGED_TEXT = 20, 4096


class Trust:
    """What one plan of a cache has earned. `unproved`: held answers that are being compared, not to be given yet.
    `filling`: keys of long lists that are being filled, and are compared once all is held. `recent`: those whose bytes
    were stored last."""

    def __init__(self, wanted: int, mode: Mode) -> None:
        self.evict = mode is Mode.EVICT
        self.fills = Ledger(wanted)
        self.changes = Ledger(wanted)
        self.unproved: dict[Held, None] = {}
        self.filling: Counter[Key] = Counter()
        self.recent: deque[Held] = deque(maxlen=LATEST)
        self.changed = False  # a table of the query has changed since
        self.behind = False  # an answer that was due has been given, and is to be compared

    @property
    def over(self) -> bool:
        return self.changes.over and (self.evict or self.fills.over)

    def holds_back(self, held: Held, seconds: float, *, given: bool = True) -> bool:
        """Must this answer be compared before it is given? `seconds`: that MySQL takes for the query. `given`: it will
        be, if not."""
        if given:
            self.recent.append(held)
        if held in self.unproved or held.key in self.filling:
            return True
        return held.bodies is None and self.holds_back_derived(seconds, given=given)

    def holds_back_derived(self, seconds: float, *, given: bool = True) -> bool:
        """Likewise of an answer that is not stored, but derived at each read."""
        due = self.changes.due
        if due and self.evict and seconds > SLOW_SECONDS:
            self.behind |= given
            return False
        if given and not due:
            self.changes.let_through()
        return due

    def on_change(self) -> None:
        """A table of the query has changed. Whatever answers that has left alone, the next read of each looks whether
        it should have: a change that was sought in the wrong place is not seen at the answer."""
        self.changed = True
        if self.changes.due:
            while self.recent:
                held = self.recent.popleft()
                if held.alive and held not in self.unproved:
                    held.stale()


@dataclass(slots=True, eq=False)
class FillCheck:
    """Implements `dataflow.check.Check`."""

    sql: str
    cache: NamedCache
    reader: ReaderNode
    binding: Binding
    parameters: Sequence[ParameterValue]
    encode: Encoder
    note: Callable[[FillCheck, Finding], None]
    rows: list[Row] = field(default_factory=list)
    own: OwnAnswer | SourceError = field(default_factory=lambda: OwnAnswer([]))
    made: bool = False  # it has come to compare

    def close(self) -> None:
        """The read is over. Another's check of the same text may have been made in its place."""
        if not self.made:
            self.made = True
            self.note(self, Finding.UNKNOWN)

    def compare(self, rows: list[Row] | None, own: OwnAnswer | SourceError, levels: Sequence[Entries]) -> Finding:
        self.own, self.made = own, True
        finding = Finding.UNKNOWN
        if rows is not None:
            self.rows = rows
            try:
                finding = self._found(rows, own, levels)
            except EvaluationError:
                finding = Finding.UNKNOWN
            except Exception:  # the fill's other readers must not suffer
                log.exception("answers_not_compared", cache=self.cache.name, sql=self.sql)
        self.note(self, finding)
        return finding

    def _found(self, rows: list[Row], own: OwnAnswer | SourceError, levels: Sequence[Entries]) -> Finding:
        if isinstance(own, SourceError):
            return Finding.DIFFERS if own.errno in DATA_ERRORS else Finding.UNKNOWN
        keys = self.binding.keys
        verdict = agreement(self.reader, keys, self.cache.columns, self.encode, rows, own.rows, levels)
        if verdict is Verdict.DIFFERENT:
            return Finding.DIFFERS
        if own.rows and self.cache.encoding is not None:
            self.cache.encoding.on_own_answer(own.columns)
        return Finding.AGREES


@dataclass(frozen=True, slots=True)
class Difference:
    """All that reproduces a fault. `kind`: of answer."""

    kind: str
    cache: NamedCache
    reader: ReaderNode
    sql: str
    parameters: Sequence[ParameterValue]
    held: Sequence[Row]
    own: Sequence[Row]
    error: SourceError | None
    bracket: Bracket | None
    began: str = ""  # the position when the comparison began


class Auditor:
    """Checks the answers of caches that are new. `wanted`: checks that must agree; 0: none are made, and no cache
    loses its trust. `distrust`: puts a cache out of use, with the reason; called between two events."""

    def __init__(
        self,
        engine: Engine,
        comparer: Comparer,
        wanted: int,
        distrust: Callable[[NamedCache, str], None],
        *,
        substituted: Callable[[str, Sequence[ParameterValue]], str],
        source_version: Callable[[], str] = lambda: "",
        clock: Callable[[], float],
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._engine = engine
        self._comparer = comparer
        self._wanted = wanted
        self._distrust = distrust
        self._substituted = substituted
        self._source_version = source_version
        self._clock = clock
        self._by_table: dict[str, dict[NamedCache, None]] = {}  # those that are checked
        self._asked: dict[tuple[NamedCache, str], asyncio.Future[Comparison | None]] = {}

    def begin(self, cache: NamedCache) -> None:
        """The cache has another plan than before. Requires: it has a reader."""
        self.end(cache)
        if self._wanted and cache.plan is not None:
            cache.trust = Trust(self._wanted, cache.plan.mode)
            for table in cache.plan.tables:
                self._by_table.setdefault(table.qualified, {})[cache] = None

    def end(self, cache: NamedCache) -> None:
        """The cache has no plan any more, or has earned its trust."""
        if cache.trust is None or cache.plan is None:
            return
        cache.trust = None
        for table in cache.plan.tables:
            caches = self._by_table.get(table.qualified, {})
            caches.pop(cache, None)
            if not caches:
                self._by_table.pop(table.qualified, None)

    # -- fills ---------------------------------------------------------------------------------------------------------

    def fill_is_due(self, cache: NamedCache, binding: Binding) -> bool:
        """Is this miss to be checked?"""
        trust = cache.trust
        if trust is None or trust.evict or len(binding.keys) > MAX_KEYS:
            return False
        due = trust.fills.due
        if not due:
            trust.fills.let_through()
        return due

    def list_is_due(self, cache: NamedCache, binding: Binding) -> bool:
        """Is this miss one of so many keys that several upqueries fill it, and to be compared once it is held?"""
        trust = cache.trust
        if trust is None or trust.evict or len(binding.keys) <= MAX_KEYS:
            return False
        return trust.holds_back_derived(0.0)

    @contextmanager
    def filling(self, cache: NamedCache, reader: ReaderNode, binding: Binding) -> Iterator[None]:
        """While the keys are filled, and until they are compared, nobody is given what is held of them."""
        keys, trust = [key for key, _ in binding.keys], cache.trust
        if trust is not None:
            trust.filling.update(keys)
        try:
            yield
        finally:
            if trust is not None:
                trust.filling -= Counter(keys)
        self.unprove(reader, binding)

    def unprove(self, reader: ReaderNode, binding: Binding) -> None:
        """What is held for these keys is as if it had changed: nobody is given it before it is compared."""
        for key, _ in binding.keys:
            if (held := reader.entries.get(key)) is not None:
                held.bodies = None

    def fill_check(
        self,
        cache: NamedCache,
        reader: ReaderNode,
        binding: Binding,
        parameters: Sequence[ParameterValue],
        sql: str,
        encode: Encoder,
    ) -> FillCheck:
        """What a miss that is due must pass."""
        return FillCheck(sql, cache, reader, binding, parameters, encode, self._note_fill)

    def _note_fill(self, check: FillCheck, finding: Finding) -> None:
        trust = check.cache.trust
        if trust is not None:
            if finding is Finding.AGREES:
                trust.fills.agree(_name_of(check.binding.keys), rows=bool(check.rows))
            elif finding is Finding.UNKNOWN:
                trust.fills.in_vain()
        self._count(check.cache, finding)

    def on_differs(self, effect: Differs) -> None:
        """A fill's check has found a difference."""
        check = effect.check
        assert isinstance(check, FillCheck)
        error = check.own if isinstance(check.own, SourceError) else None
        own = check.own.rows if isinstance(check.own, OwnAnswer) else []
        self._lose(
            Difference(
                "fill", check.cache, check.reader, check.sql, check.parameters, check.rows, own, error, effect.bracket
            )
        )

    # -- held answers --------------------------------------------------------------------------------------------------

    async def compared(
        self,
        cache: NamedCache,
        reader: ReaderNode,
        binding: Binding,
        parameters: Sequence[ParameterValue],
        sql: str,
        format_: int,
        *,
        together: bool,
    ) -> Comparison | None:
        """The held answer, once MySQL's own is the same; None where that cannot be told soon."""
        future = self._asked.get((cache, sql))
        if future is None:
            started = self.compare(cache, reader, binding, parameters, sql, format_, together=together)
            if started is None:
                return None
            future = self._asked[cache, sql] = started
        patience = PATIENCE + 2 * self._engine.latency.get(reader.tag, 0.0)
        done, _ = await asyncio.wait((future,), timeout=patience)
        comparison = future.result() if done else None
        return comparison if comparison is not None and comparison.format_ == format_ else None

    def compare(
        self,
        cache: NamedCache,
        reader: ReaderNode,
        binding: Binding,
        parameters: Sequence[ParameterValue],
        sql: str,
        format_: int,
        *,
        together: bool,
        body: bytes | None = None,
    ) -> asyncio.Future[Comparison | None] | None:
        """Begins to compare a held answer; None where it is not held. `body`: as it was given already. Raises
        EvaluationError."""
        trust = cache.trust
        held = [self._engine.hold(reader, key, params) for key, params in binding.keys]
        new = [item for item in held if item is not None and item.bodies is None]
        marks = None
        try:
            marks = marks_of(reader, binding.keys)
        finally:
            if trust is None or marks is None:  # what was derived in vain stays as it was
                for item in new:
                    item.stale()
        if trust is None or marks is None:
            return None
        trust.unproved.update(dict.fromkeys(new))
        future: asyncio.Future[Comparison | None] = asyncio.get_running_loop().create_future()

        def ended(comparison: Comparison, outcome: Outcome) -> None:
            good = outcome in (Outcome.EQUAL, Outcome.FREE)
            for item, bodies in marks:
                if item in trust.unproved:
                    del trust.unproved[item]
                    if not good and item.bodies is bodies:
                        item.stale()
            if self._asked.get((cache, sql)) is future:
                del self._asked[cache, sql]  # at once: who comes from now on may have been shown more
            future.set_result(comparison if good else None)
            self._note_held(comparison, outcome)

        position = self._engine.ring.position.freeze()
        self._comparer.start(
            Comparison(
                cache, reader, binding, together, format_, parameters, sql, position, marks, self._clock(), ended, body
            )
        )
        return future

    def behind(
        self,
        cache: NamedCache,
        reader: ReaderNode,
        binding: Binding,
        parameters: Sequence[ParameterValue],
        format_: int,
        body: bytes,
        *,
        together: bool,
    ) -> None:
        """Compares a hit that was just answered by `body`. Until that has ended nobody is given it again."""
        assert cache.trust is not None
        cache.trust.behind = False
        with suppress(UpwellError):  # the hit is answered
            text = self._substituted(cache.sql, parameters)
            self.unprove(reader, binding)
            future = self.compare(cache, reader, binding, parameters, text, format_, together=together, body=body)
            if future is not None:
                self._asked[cache, text] = future

    def behind_changes(self, cache: NamedCache, parameters: Sequence[ParameterValue]) -> None:
        """A subscriber was told of changes of a key: what it has now is compared, if that is due. A difference ends the
        subscription, for the cache gets another plan."""
        trust = cache.trust
        if trust is not None and trust.holds_back_derived(0.0):
            asyncio.get_running_loop().call_soon(self._compare_told, cache, trust, parameters)

    def _compare_told(self, cache: NamedCache, trust: Trust, parameters: Sequence[ParameterValue]) -> None:
        reader, binder = cache.reader, cache.binder
        if cache.trust is trust and reader is not None and binder is not None:
            with suppress(UpwellError):  # the subscriber has been told
                text = self._substituted(cache.sql, parameters)
                if (cache, text) not in self._asked:
                    future = self.compare(
                        cache,
                        reader,
                        binder.bind(parameters),
                        parameters,
                        text,
                        0,
                        together=reader.program.limit_from_params,
                    )
                    if future is not None:
                        self._asked[cache, text] = future

    def _note_held(self, comparison: Comparison, outcome: Outcome) -> None:
        trust = comparison.cache.trust
        if trust is not None and comparison.reader.installed:
            if outcome in (Outcome.EQUAL, Outcome.FREE):
                proves = outcome is Outcome.EQUAL and bool(comparison.held)
                trust.changes.agree(_name_of(comparison.keys), rows=proves)
            elif outcome is Outcome.UNKNOWN:
                trust.changes.in_vain()
        self._count(comparison.cache, _FINDINGS[outcome])
        if outcome is Outcome.DIFFERENT:
            self.on_different(comparison)

    def on_different(self, comparison: Comparison) -> None:
        """A held answer differs; the always-on sample's findings come here, too."""
        if not self._wanted:
            return
        kind = "answer in evict mode" if comparison.reader.plan.mode is Mode.EVICT else "answer after changes"
        self._lose(
            Difference(
                kind,
                comparison.cache,
                comparison.reader,
                comparison.sql,
                comparison.parameters,
                comparison.held,
                comparison.rows,
                comparison.error,
                comparison.bracket,
                str(comparison.position),
            )
        )

    def on_stream(self, event: StreamEvent) -> None:
        """The engine has processed the event."""
        if self._by_table and isinstance(event, Transaction):
            for change in event.changes:
                for cache in self._by_table.get(change.table, ()):
                    assert cache.trust is not None
                    cache.trust.on_change()

    # -- what comes of it ----------------------------------------------------------------------------------------------

    def _count(self, cache: NamedCache, finding: Finding) -> None:
        match finding:
            case Finding.AGREES:
                self.counters["trust_agrees"] += 1
            case Finding.DIFFERS:
                self.counters["trust_differs"] += 1
            case Finding.UNKNOWN:
                self.counters["trust_unknown"] += 1
        if cache.trust is not None and cache.trust.over:
            self.end(cache)

    def _lose(self, difference: Difference) -> None:
        """The cache has lost its trust."""
        cache = difference.cache
        if cache.reader is not difference.reader:
            return  # it has another plan by now, or none
        self.counters["caches_distrusted"] += 1
        self._report(difference)
        moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
        self._distrust(cache, f"at {moment} UTC its {difference.kind} was not MySQL's own answer")

    def _report(self, difference: Difference) -> None:
        cache, bracket, plan = difference.cache, difference.bracket, difference.reader.plan
        mine, theirs = Counter(map(repr, difference.held)), Counter(map(repr, difference.own))
        error = difference.error
        log.error(
            "cache_distrusted",
            cache=cache.name,
            kind=difference.kind,
            query=cache.sql[:LOGGED_TEXT],
            database=cache.database,
            sql=difference.sql[:LOGGED_TEXT],
            parameters=repr(difference.parameters)[:LOGGED_TEXT],
            rows_of_upwell=_shown(difference.held),
            rows_of_mysql=_shown(difference.own) if error is None else f"error {error.errno}: {error.message}",
            too_many=list((mine - theirs).elements())[:LOGGED_ROWS],
            missing=list((theirs - mine).elements())[:LOGGED_ROWS],
            position=str(self._engine.ring.position),
            began_at=difference.began,
            lower=str(bracket.lower) if bracket is not None else "",
            uncertain=str(bracket.uncertain) if bracket is not None else "",
            server_uuid=bracket.server_uuid if bracket is not None else "",
            mode=plan.mode.value,
            plan=explain(plan)[:LOGGED_TEXT],
            version=upwell.__version__,
            server_version=self._source_version(),
        )


_FINDINGS = {
    Outcome.EQUAL: Finding.AGREES,
    Outcome.FREE: Finding.AGREES,
    Outcome.DIFFERENT: Finding.DIFFERS,
    Outcome.UNKNOWN: Finding.UNKNOWN,
}


def _name_of(keys: Bound) -> object:
    return tuple(key for key, _ in keys)


def _shown(rows: Sequence[Row]) -> list[str]:
    return [repr(row)[:LOGGED_TEXT] for row in rows[:LOGGED_ROWS]]
