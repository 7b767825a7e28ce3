"""An always-on sample: compares a few of the hits with MySQL's answers at the same position.

How: `proxy/checking/comparison.py`. A difference is a fault of Upwell. It is counted, and logged with all that is
needed to find it. The key is forgotten, so the next read gets MySQL's answer, and the cache loses its trust
(`proxy/cache/trust.py`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from time import monotonic

import structlog

from dataflow.engine import Engine
from proxy.checking.comparison import Comparer, Comparison, Outcome, marks_of
from proxy.checking.ddl_excuses import PATIENCE
from proxy.checking.given_hit import GivenHit
from proxy.port.api import ParameterValue
from proxy.port.as_told import AsTold
from sqltypes.errors import UpwellError

__all__ = ["PATIENCE", "Sampler"]

log = structlog.get_logger("upwell.sample")

OFFERED = 64  # of a cache's hits one in so many is offered
PAUSE = 0.5  # seconds from the end of one sample to the next
BURDEN = 10  # and so many times what MySQL took for it
MAX_KEYS = 100  # of an IN-list
MAX_BYTES = 256 << 10  # of an answer: larger ones take too long to compare between two other reads
LOGGED_ROWS = 100
IN_SESSION = 0.5  # of the samples of sessions with variables of their own, under these
TRIES = 3  # in which the first hit of sessions of a kind is compared, where that cannot be told


def at_once(work: Callable[[], object]) -> object:
    return work()


class Sampler:
    """At most one sample at a time.

    `share`: of all hits; 0: none. `source_up`: whether MySQL may be asked now. `substituted`: a query with literals for
    its parameters.
    `publish`: tells subscribers of forgotten keys at once, because on an idle source nothing else would.
    `soon`: calls once the loop's step in which a hit is offered has ended.
    `on_different`: called last, with a difference.

    `fresh`: the comparison of the hit that was offered in this step, which its session may take over.
    """

    def __init__(
        self,
        engine: Engine,
        comparer: Comparer,
        substituted: Callable[[str, Sequence[ParameterValue]], str],
        on_different: Callable[[Comparison], None] = lambda comparison: None,
        *,
        share: float = 0.0,
        source_up: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = monotonic,
        chance: Callable[[], float] = random.random,
        publish: Callable[[], None] = lambda: None,
        soon: Callable[[Callable[[], object]], object] = at_once,
    ) -> None:
        self.pause = PAUSE
        self.fresh: Comparison | None = None
        self.counters: Counter[str] = Counter()
        self.comparer = comparer
        self._engine = engine
        self._substituted = substituted
        self._on_different = on_different
        self._offered = OFFERED
        self.sample(share)
        self._source_up = source_up
        self._clock = clock
        self._chance = chance
        self._publish = publish
        self._soon = soon
        self._running: Comparison | None = None
        self._next = 0.0

    def sample(self, share: float) -> None:
        """Of all hits so many are compared from now on; 0: none."""
        self._share = share
        self._likelihood = share * self._offered

    def offered_every(self, hits: int) -> None:
        """One in so many hits of a cache is offered, on average."""
        self._offered = hits
        self.sample(self._share)

    def offer(self, hit: GivenHit) -> None:
        """It may be taken as the next sample."""
        if self._chance() >= self._likelihood or not self.ready:
            return
        made = self._made(hit)
        if made is not None:
            self._running = self.fresh = made
            self._soon(self._start)

    @property
    def ready(self) -> bool:
        """Whether a comparison may begin now."""
        return self._running is None and self._share > 0 and self._source_up() and self._clock() >= self._next

    @property
    def asks_as(self) -> bool:
        """Whether MySQL can be asked under a session's variables, and the next hit that allows it should be."""
        return self.comparer.other is not None and self.ready

    def takes(self, body: bytes) -> bool:
        """Whether the hit that was offered in this step, with this body, is to be compared under its session's
        variables."""
        fresh = self.fresh
        return (
            fresh is not None and fresh.body is body and self.comparer.other is not None and self._chance() < IN_SESSION
        )

    def offer_told(self, hit: GivenHit, told: AsTold) -> None:
        """What a session was told by a hit in this step: it is compared. Requires: `takes` or `asks_as`."""
        made = self.fresh
        if made is None:
            made = self._made(hit)
            if made is None:
                return
        fresh, self._running, self.fresh = self.fresh, made, made
        made.told, made.sql = told, told.text.decode("utf-8", "replace")
        if fresh is None:
            self._soon(self._start)

    def _made(self, hit: GivenHit) -> Comparison | None:
        """A comparison of a hit; None where it would take long, or cannot be told."""
        cache, reader, binding, parameters, format_, body, together = hit
        if not 0 < len(binding.keys) <= MAX_KEYS or len(body) > MAX_BYTES:
            return None
        try:
            marks = marks_of(reader, binding.keys)
            sql = self._substituted(cache.text, parameters)
        except UpwellError:
            return None
        if marks is None:
            return None
        position, now = self._engine.state.ring.position.freeze(), self._clock()
        made = Comparison(
            cache, reader, binding, together, format_, parameters, sql, position, marks, now, self._on_end, body
        )
        made.suspect = lambda: self._forget(made)
        return made

    def _start(self) -> None:
        made, self.fresh = self.fresh, None
        if made is not None:
            self.comparer.start(made)

    def tick(self) -> None:
        """To be called now and then: gives a sample up whose bracket the position does not come to contain."""
        self.comparer.tick()

    def _on_end(self, sample: Comparison, outcome: Outcome) -> None:
        if outcome is Outcome.DIFFERENT:
            self._report(sample)
        if sample.told is not None:
            self.counters["sample_as_session"] += 1
            sample.told.on_end(outcome in (Outcome.EQUAL, Outcome.FREE))
        if outcome is Outcome.FREE:
            self._forget(sample)
        match outcome:
            case Outcome.EQUAL:
                self.counters["sample_equal"] += 1
            case Outcome.DIFFERENT:
                self.counters["sample_different"] += 1
            case _:
                self.counters["sample_inconclusive"] += 1
        self._next = self._clock() + max(self.pause, BURDEN * sample.seconds)
        self._running = None
        if outcome is Outcome.DIFFERENT:
            self._on_different(sample)

    def _report(self, sample: Comparison) -> None:
        """Logs all that is needed to find the fault."""
        bracket, held, body = sample.bracket, sample.held, sample.body or b""
        mine, theirs = Counter(map(repr, held)), Counter(map(repr, sample.rows))
        log.error(
            "sample_different",
            cache=sample.cache.name,
            query=sample.cache.sql,
            database=sample.cache.database,
            parameters=repr(sample.parameters),
            sql=sample.sql,
            session=str(sample.told.settings) if sample.told is not None else "",
            mode=sample.reader.plan.mode.value,
            bytes_are_of_the_rows=sample.served,
            bytes_served=body[:4096].hex(),
            rows_held=[repr(row) for row in held[:LOGGED_ROWS]],
            rows_of_mysql=[repr(row) for row in sample.rows[:LOGGED_ROWS]],
            error_of_mysql=str(sample.error or ""),
            too_many=list((mine - theirs).elements())[:LOGGED_ROWS],
            missing=list((theirs - mine).elements())[:LOGGED_ROWS],
            position_of_the_hit=str(sample.position),
            position=str(self._engine.state.ring.position),
            lower=str(bracket.lower) if bracket is not None else "",
            uncertain=str(bracket.uncertain) if bracket is not None else "",
            server_uuid=bracket.history if bracket is not None else "",
        )

    def _forget(self, sample: Comparison) -> None:
        """Makes the keys holes, and all entries that they were derived from, even if other keys need these."""
        for held, _ in sample.marks:
            for entry in held.deps:
                if entry.content is not None:
                    entry.owner.discard(entry)
            held.reader.drop(held)
        self._publish()
