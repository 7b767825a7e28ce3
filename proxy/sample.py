"""An always-on sample: a few of the hits are asked of MySQL too, and compared at the same position.

How: `proxy/comparison.py`. A difference is a fault of Upwell. It is logged with all that is needed to find it, counted,
and the key forgotten, so that the next read has it from MySQL; the cache is believed no more (`proxy/trust.py`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

import structlog

from dataflow.engine import Engine
from dataflow.messages import StreamEvent
from dataflow.reader import ReaderNode
from proxy.api import ParameterValue
from proxy.comparison import Comparer, Comparison, Outcome, marks_of
from proxy.keys import Binding
from proxy.suspicions import PATIENCE, Submit
from sqltypes.errors import UpwellError

if TYPE_CHECKING:
    from proxy.named_cache import NamedCache

__all__ = ["PATIENCE", "Sampler"]

log = structlog.get_logger("upwell.sample")

OFFERED = 64  # of a cache's hits one in so many is offered
PAUSE = 0.5  # seconds from the end of one sample to the next
BURDEN = 10  # and so many times what MySQL took for it
MAX_KEYS = 100  # of an IN-list
MAX_BYTES = 256 << 10  # of an answer: larger ones take too long to compare between two other reads
LOGGED_ROWS = 100


class Sampler:
    """At most one sample at a time. `share`: of all hits; 0: none. `source_up`: may MySQL be asked now? `followed`:
    the server whose stream it is. `substituted`: a query with literals for its parameters.
    `publish`: tells the subscribers to what was forgotten, now: on a source at rest nothing else would. `on_different`:
    is told of a difference, last."""

    def __init__(
        self,
        engine: Engine,
        submit: Submit,
        substituted: Callable[[str, Sequence[ParameterValue]], str],
        *,
        share: float = 0.0,
        source_up: Callable[[], bool] = lambda: True,
        followed: Callable[[], str] = lambda: "",
        clock: Callable[[], float] = monotonic,
        chance: Callable[[], float] = random.random,
        publish: Callable[[], None] = lambda: None,
    ) -> None:
        self.pause = PAUSE
        self.counters: Counter[str] = Counter()
        self.comparer = Comparer(engine, submit, followed, clock)
        self.on_different: Callable[[Comparison], None] = lambda comparison: None
        self._engine = engine
        self._substituted = substituted
        self._share = share
        self._likelihood = share * OFFERED
        self._source_up = source_up
        self._clock = clock
        self._chance = chance
        self._publish = publish
        self._running: Comparison | None = None
        self._next = 0.0

    def offered_every(self, hits: int) -> None:
        """One in so many hits of a cache is offered, on average."""
        self._likelihood = self._share * hits

    def offer(
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
        """A hit that was just answered by `body`; it may be taken as the next sample."""
        if self._chance() >= self._likelihood or self._running is not None or not self._source_up():
            return
        now = self._clock()
        if now < self._next or not 0 < len(binding.keys) <= MAX_KEYS or len(body) > MAX_BYTES:
            return
        try:
            marks = marks_of(reader, binding.keys)
            sql = self._substituted(cache.text, parameters)
        except UpwellError:
            return
        if marks is None:
            return
        position = self._engine.ring.position.freeze()
        running = self._running = Comparison(
            cache, reader, binding, together, format_, parameters, sql, position, marks, now, self._on_end, body
        )
        running.suspect = lambda: self._forget(running)
        self.comparer.start(running)

    def on_stream(self, event: StreamEvent) -> None:
        """The engine has processed the event."""
        self.comparer.on_stream(event)

    def tick(self) -> None:
        """To be called now and then: gives a sample up whose bracket the position does not come to contain."""
        self.comparer.tick()

    def _on_end(self, sample: Comparison, outcome: Outcome) -> None:
        if outcome is Outcome.DIFFERENT:
            self._report(sample)
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
            self.on_different(sample)

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
            mode=sample.reader.plan.mode.value,
            bytes_are_of_the_rows=sample.served,
            bytes_served=body[:4096].hex(),
            rows_held=[repr(row) for row in held[:LOGGED_ROWS]],
            rows_of_mysql=[repr(row) for row in sample.rows[:LOGGED_ROWS]],
            error_of_mysql=str(sample.error or ""),
            too_many=list((mine - theirs).elements())[:LOGGED_ROWS],
            missing=list((theirs - mine).elements())[:LOGGED_ROWS],
            position_of_the_hit=str(sample.position),
            position=str(self._engine.ring.position),
            lower=str(bracket.lower) if bracket is not None else "",
            uncertain=str(bracket.uncertain) if bracket is not None else "",
            server_uuid=bracket.history if bracket is not None else "",
        )

    def _forget(self, sample: Comparison) -> None:
        """Makes the keys holes, and all that they were derived from, whoever else needs it."""
        for held, _ in sample.marks:
            for entry in held.deps:
                if entry.content is not None:
                    entry.owner.discard(entry)
            held.reader.drop(held)
        self._publish()
