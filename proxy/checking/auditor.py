"""Compares a cache's first answers with MySQL's own; `proxy/cache/trust.py` says which, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import structlog

from dataflow.engine import Engine
from dataflow.entries import Held
from dataflow.messages import Differs, Finding, OwnAnswer
from dataflow.readers.reader import ReaderNode
from planner.tree.plan import Mode
from proxy.cache.key_binder import Binding, Bound
from proxy.cache.ledger import Ledger
from proxy.cache.trust import IN_VAIN, Compared, Trust, unproved
from proxy.checking.comparison import Comparer, Comparison, Outcome, marks_of
from proxy.checking.earning import Earning
from proxy.checking.fill_check import FillCheck
from proxy.checking.given_hit import GivenHit
from proxy.checking.reports import LOGGED_TEXT, Difference, report
from proxy.loop.slices import Encoder
from proxy.port.api import ParameterValue
from sqltypes.errors import SourceError, UpwellError

if TYPE_CHECKING:
    from proxy.cache.named_cache import NamedCache

log = structlog.get_logger("upwell.trust")

PATIENCE = 0.1  # seconds that a read waits for its comparison, beside what the query takes; then MySQL answers it
MAX_KEYS = 100  # of an IN-list: longer ones are filled by several upqueries, and compared once they are held


class Auditor:
    """Checks the answers of caches that are new. `distrust`: puts a cache out of use, with the reason; called between
    two events."""

    def __init__(
        self,
        engine: Engine,
        comparer: Comparer,
        earning: Earning,
        distrust: Callable[[NamedCache, str], None],
        *,
        substituted: Callable[[str, Sequence[ParameterValue]], str],
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._comparer = comparer
        self._earning = earning
        self._distrust = distrust
        self._substituted = substituted
        self._clock = clock
        self._asked: dict[tuple[NamedCache, str], asyncio.Future[Comparison | None]] = {}

    # -- fills ---------------------------------------------------------------------------------------------------------

    def fill_is_due(self, cache: NamedCache, binding: Binding) -> bool:
        """Is this miss to be checked?"""
        trust = cache.trust
        if trust is None or trust.evict or len(binding.keys) > MAX_KEYS:
            return False
        due = trust.fills.due
        if not due:
            trust.let_through(trust.fills)
        return due

    def list_is_due(self, cache: NamedCache, binding: Binding) -> bool:
        """Whether this miss has so many keys that several upqueries fill it, and is to be compared once they
        are held."""
        trust = cache.trust
        if trust is None or trust.evict or len(binding.keys) <= MAX_KEYS:
            return False
        return trust.of_derived(unseen=True) is Compared.FIRST

    def fill_check(
        self,
        cache: NamedCache,
        reader: ReaderNode,
        binding: Binding,
        parameters: Sequence[ParameterValue],
        sql: str,
        encode: Encoder,
        *,
        together: bool,
    ) -> FillCheck:
        """What a miss that is due must pass. `together`: one answer for all keys at once."""
        trust = cache.trust
        began = trust.fills.ended if trust is not None else 0
        held = partial(trust.agreed, binding.keys, trust.watch()) if trust is not None and together else None
        told = self._note_fill, self.on_differs
        return FillCheck(sql, cache, reader, binding, parameters, encode, *told, began, held)

    def _note_fill(self, check: FillCheck, finding: Finding) -> None:
        if finding is Finding.DIFFERS:
            return  # `on_differs` counts it
        trust = check.cache.trust
        if trust is not None and check.reader is check.cache.reader:
            if finding is Finding.AGREES:
                trust.fills.agree(_name_of(check.binding.keys), rows=bool(check.rows))
            elif finding is Finding.UNKNOWN:
                self._in_vain(trust, trust.fills, check.began, check.cache, check.sql, check.own)
        self._earning.note(check.cache, finding)

    def on_differs(self, effect: Differs) -> None:
        """A fill's check has found a difference."""
        check = effect.check
        assert isinstance(check, FillCheck)
        error = check.own if isinstance(check.own, SourceError) else None
        own = check.own.rows if isinstance(check.own, OwnAnswer) else []
        difference = Difference(
            "fill", check.cache, check.reader, check.sql, check.parameters, check.rows, own, error, effect.bracket
        )
        trust = check.cache.trust if check.cache.reader is check.reader else None

        def ended(fault: bool) -> None:
            if trust is not None:
                trust.explain()
            fault = fault and check.cache.reader is check.reader  # else the cache has another plan, or none
            self._earning.note(check.cache, Finding.DIFFERS if fault else Finding.UNKNOWN)
            if fault:
                self._lose(difference)

        if trust is not None:
            trust.suspect()
        self._comparer.suspicions.explain(effect.bracket.history, check.cache.names, effect.sent_at, ended)

    async def settled(self, cache: NamedCache) -> None:
        """Waits until no difference of the cache is unexplained."""
        while cache.trust is not None and cache.trust.suspicions:
            await cache.trust.explained.wait()

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
        fresh: dict[Held, bool] | None = None,
    ) -> Comparison | None:
        """The held answer, once MySQL's own is the same; None where that cannot be told soon. `fresh`: as `compare`
        has it."""
        future = self._asked.get((cache, sql))
        if future is None:
            started = self.compare(cache, reader, binding, parameters, sql, format_, together=together, fresh=fresh)
            if started is None:
                return None
            future = self._asked[cache, sql] = started
        patience = PATIENCE + 2 * self._engine.fills.latency.get(reader.tag, 0.0)
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
        fresh: dict[Held, bool] | None = None,
    ) -> asyncio.Future[Comparison | None] | None:
        """Begins to compare a held answer; None where it is not held. `body`: as it was given already. `fresh`: keys
        that were linked for this, and whether they were `unseen` before; it is empty where they are taken over. Raises
        EvaluationError."""
        trust = cache.trust
        linked = fresh if fresh is not None else {}
        held = self._held(reader, binding)
        new = [item for item in held if item is not None and (item.version is None or item in linked)]
        unseen = any(linked.get(item, item.unseen) for item in new)
        marks = None
        try:
            marks = marks_of(reader, binding.keys) if len(held) == len(binding.keys) else None
        finally:
            if trust is None or marks is None:  # what was derived in vain stays as it was
                for item in new:
                    item.stale()
        self._engine.limit.keep()
        if trust is None or marks is None:
            return None
        future: asyncio.Future[Comparison | None] = asyncio.get_running_loop().create_future()
        taken = [item for item in held if item is not None and item in trust.unproved]
        trust.unproved.update(dict.fromkeys((*new, *taken), future))
        linked.clear()
        ledger = trust.ledger(unseen)
        began, unchanged = ledger.ended, trust.watch() if together else 0

        def ended(comparison: Comparison, outcome: Outcome) -> None:
            good = outcome in (Outcome.EQUAL, Outcome.FREE)
            trust.judged(future, marks, good=good)
            if good and together:
                trust.agreed(binding.keys, unchanged, [version for _, version in marks])
            if self._asked.get((cache, sql)) is future:
                del self._asked[cache, sql]  # at once: who comes from now on may have been shown more
            future.set_result(comparison if good else None)
            if comparison.suspected:
                trust.explain()
            self._note_held(comparison, outcome, trust, ledger, began)

        position = self._engine.state.ring.position.freeze()
        comparison = Comparison(
            cache, reader, binding, together, format_, parameters, sql, position, marks, self._clock(), ended, body
        )
        comparison.suspect = trust.suspect
        self._comparer.start(comparison)
        return future

    def _held(self, reader: ReaderNode, binding: Binding) -> list[Held | None]:
        """What is held for the keys; not of all of them where that takes long: what was linked has changed since."""
        held: list[Held | None] = []
        until = reader.memory.derived + reader.most_derived
        for key, params in binding.keys:
            if reader.memory.derived > until:
                break
            held.append(self._engine.sieve.hold(reader, key, params))
        return held

    def behind(self, hit: GivenHit) -> None:
        """Compares a hit. Nobody gets it again before the comparison has ended."""
        cache, reader, binding, parameters, format_, body, together = hit
        assert cache.trust is not None
        fresh: dict[Held, bool] = {}
        with suppress(UpwellError):  # the hit is answered
            text = self._substituted(cache.text, parameters)
            fresh = unproved(reader, [key for key, _ in binding.keys])
            cache.trust.unproved.update(dict.fromkeys(fresh, fresh))
            future = self.compare(
                cache, reader, binding, parameters, text, format_, together=together, body=body, fresh=fresh
            )
            if future is not None:
                self._asked[cache, text] = future
        cache.trust.leave(fresh)

    def behind_changes(self, cache: NamedCache, parameters: Sequence[ParameterValue]) -> None:
        """A subscriber was told of changes of a key: what it has now is compared, if that is due. A difference ends the
        subscription, for the cache gets another plan."""
        trust = cache.trust
        if trust is not None and trust.of_derived() is Compared.FIRST:
            asyncio.get_running_loop().call_soon(self._compare_told, cache, trust, parameters)

    def _compare_told(self, cache: NamedCache, trust: Trust, parameters: Sequence[ParameterValue]) -> None:
        reader, binder = cache.reader, cache.binder
        if cache.trust is trust and reader is not None and binder is not None:
            with suppress(UpwellError):  # the subscriber has been told
                text = self._substituted(cache.text, parameters)
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

    def _note_held(self, comparison: Comparison, outcome: Outcome, trust: Trust, ledger: Ledger, began: int) -> None:
        if trust is comparison.cache.trust and comparison.reader.installed:
            if outcome in (Outcome.EQUAL, Outcome.FREE):
                proves = outcome is Outcome.EQUAL and bool(comparison.held)
                ledger.agree(_name_of(comparison.keys), rows=proves)
            elif outcome is Outcome.UNKNOWN and not comparison.suspected:
                self._in_vain(trust, ledger, began, comparison.cache, comparison.sql, comparison.error)
        self._earning.note(comparison.cache, _FINDINGS[outcome])
        if outcome is Outcome.DIFFERENT:
            self.on_different(comparison)

    def on_different(self, comparison: Comparison) -> None:
        """A held answer differs; the always-on sample's findings come here, too."""
        if not self._earning.wanted:
            return
        kind = "answer in evict mode" if comparison.reader.plan.mode is Mode.EVICT else "answer after changes"
        if comparison.told is not None:
            kind = f"answer in a session with {comparison.told.settings}"
            comparison.cache.needs_doubted = True
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

    # -- what comes of it ----------------------------------------------------------------------------------------------

    @staticmethod
    def _in_vain(
        trust: Trust, ledger: Ledger, began: int, cache: NamedCache, sql: str, own: OwnAnswer | SourceError | None
    ) -> None:
        """A check could not tell. The first time that it is one too many, that is logged."""
        ledger.in_vain(began)
        if ledger.tired and not trust.warned:
            trust.warned = True
            error = f"error {own.errno}: {own.message}" if isinstance(own, SourceError) else ""
            log.warning("checks_in_vain", cache=cache.name, sql=sql[:LOGGED_TEXT], mysql=error, then=IN_VAIN)

    def _lose(self, difference: Difference) -> None:
        """The cache has lost its trust."""
        cache = difference.cache
        if cache.reader is not difference.reader:
            return  # it has another plan by now, or none
        self._earning.refute(cache)
        report(difference, str(self._engine.state.ring.position), self._earning.source_version)
        moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
        self._distrust(cache, f"at {moment} UTC its {difference.kind} was not MySQL's own answer")


_FINDINGS = {
    Outcome.EQUAL: Finding.AGREES,
    Outcome.FREE: Finding.AGREES,
    Outcome.DIFFERENT: Finding.DIFFERS,
    Outcome.UNKNOWN: Finding.UNKNOWN,
}


def _name_of(keys: Bound) -> object:
    return tuple(key for key, _ in keys)
