"""An always-on sample: a few of the hits are asked of MySQL too, and compared at the same position.

A hit shows a key's answer at the position P1. The cache's own query is sent to MySQL with the same parameters, as an
upquery: its bracket (L, Q) says what the answer can have seen. With P1 inside L and, later, L and Q inside the
position, the snapshot lies between P1 and the position. If the key is still held then and nothing has touched it since
the hit, its answer was the same at every state in between, so MySQL's must equal it, up to what MySQL may choose
(`proxy/agreement.py`). In all other cases nothing is told: inconclusive.

A difference is a fault of Upwell. It is logged with all that is needed to find it, counted, and the key forgotten, so
that the next read has it from MySQL.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

import structlog

from dataflow.engine import Engine
from dataflow.entries import Held
from dataflow.messages import Ddl, Gap, Statement, StreamEvent, UpqueryAnswer, UpqueryFailed, UpqueryRequest
from dataflow.reader import ReaderNode
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import Gtid, GtidSet
from planner.plan import AnswerArrangement
from proxy.agreement import Verdict, agreement
from proxy.api import ParameterValue
from proxy.keys import Binding, Bound
from sqltypes.errors import EvaluationError, UpwellError
from sqltypes.expression import Row

if TYPE_CHECKING:
    from proxy.caches import NamedCache

log = structlog.get_logger("upwell.sample")

OFFERED = 64  # of a cache's hits one in so many is offered
PAUSE = 0.5  # seconds from the end of one sample to the next
BURDEN = 10  # and so many times what MySQL took for it
PATIENCE = 5.0  # seconds that MySQL has to answer, and then the position to contain what the answer may have seen
MAX_KEYS = 100  # of an IN-list
MAX_BYTES = 256 << 10  # of an answer: larger ones take too long to compare between two other reads
LOGGED_ROWS = 100

Submit = Callable[[UpqueryRequest, Callable[[UpqueryAnswer | UpqueryFailed], None], float], None]


@dataclass(slots=True)
class Sample:
    """One hit. `marks`: of each key what is held, with the list that a change would take away from it; `together`:
    the answer is of all keys at once, not of each after the other."""

    cache: NamedCache
    reader: ReaderNode
    keys: Bound
    together: bool
    format_: int
    parameters: Sequence[ParameterValue]
    sql: str
    body: bytes
    position: GtidSet
    marks: list[tuple[Held, list[bytes | None]]]
    asked_at: float
    rows: list[Row] = field(default_factory=list)  # MySQL's
    seconds: float = 0.0  # that MySQL took
    bracket: Bracket | None = None

    @property
    def untouched(self) -> bool:
        """Has nothing changed since the hit?"""
        return self.reader.installed and all(held.alive and held.bodies is bodies for held, bodies in self.marks)

    def held_rows(self) -> list[Row] | None:
        """The rows that the body was made of. Requires: `untouched`."""
        if self.together:
            return self.reader.answer(self.keys)
        rows: list[Row] = []
        for key, params in self.keys:
            found = self.reader.answer([(key, params)])
            if found is None:
                return None
            rows += found
        return rows


class Sampler:
    """At most one sample at a time. `share`: of all hits; 0: none. `source_up`: may MySQL be asked now? `followed`:
    the server whose stream it is. `substituted`: a query with literals for its parameters.
    `publish`: tells the subscribers to what was forgotten, now: on a source at rest nothing else would."""

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
        self._engine = engine
        self._submit = submit
        self._substituted = substituted
        self._likelihood = share * OFFERED
        self._source_up = source_up
        self._followed = followed
        self._clock = clock
        self._chance = chance
        self._publish = publish
        self._numbers = 0
        self._running: Sample | None = None
        self._lacks: Gtid | None = None  # what the position must still contain, the last of it
        self._next = 0.0

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
            marks = self._marks(reader, binding.keys)
            sql = self._substituted(cache.sql, parameters)
        except UpwellError:
            return
        if marks is None:
            return
        position = self._engine.ring.position.freeze()
        sample = Sample(
            cache, reader, binding.keys, together, format_, parameters, sql, body, position, marks, asked_at=now
        )
        self._running = sample
        self._numbers += 1
        # Negative: the engine's own requests are numbered from 1. As if slow: a narrow bracket is resolved soon.
        request = UpqueryRequest(-self._numbers, (Statement(sql),), reader.tables, cache.database, slow=True)
        self._submit(request, lambda result: self._on_answer(sample, result), now + PATIENCE)

    @staticmethod
    def _marks(reader: ReaderNode, keys: Bound) -> list[tuple[Held, list[bytes | None]]] | None:
        """What tells later whether the keys were touched; None if one of them is not held by itself."""
        marks = []
        for key, params in keys:
            held = reader.entries.get(key)
            if held is None or (held.bodies is None and reader.refresh(held, params) is None) or held.bodies is None:
                return None
            if any(entry.cut is not None for entry in held.deps):
                return None  # it stands ahead of the position
            marks.append((held, held.bodies))
        return marks

    def _on_answer(self, sample: Sample, result: UpqueryAnswer | UpqueryFailed) -> None:
        if sample is not self._running:
            return
        if isinstance(result, UpqueryFailed):
            # What never ends in time must not be asked for all the time.
            sample.seconds = self._clock() - sample.asked_at
            self._end("sample_inconclusive")
            return
        bracket = result.bracket
        sample.bracket, (sample.rows,), sample.seconds = bracket, result.results, result.seconds
        followed = self._followed()
        if (followed and bracket.server_uuid != followed) or not sample.position.issubset(bracket.lower):
            self._end("sample_inconclusive")  # it may be older than the hit, or of another history
            return
        self._look_again()

    # -- the position moves --------------------------------------------------------------------------------------------

    def on_stream(self, event: StreamEvent) -> None:
        """The engine has processed the event."""
        if self._lacks is not None and isinstance(event, Ddl):
            # A view may be another one from here on: the caches that name it learn of that only after this.
            self._end("sample_inconclusive")
        elif self._lacks is not None and (isinstance(event, Gap) or event.gtid == self._lacks):
            self._look_again()

    def tick(self) -> None:
        """To be called now and then: gives a sample up whose bracket the position does not come to contain."""
        sample = self._running
        if sample is not None and sample.bracket is not None and self._clock() > sample.asked_at + 2 * PATIENCE:
            self._end("sample_inconclusive")

    def _look_again(self) -> None:
        sample, self._lacks = self._running, None
        assert sample is not None and sample.bracket is not None
        if not sample.untouched:
            self._end("sample_inconclusive")
            return
        missing = sample.bracket.needed.difference(self._engine.ring.position.freeze())
        if missing:
            self._lacks = missing.last()
            return
        try:
            verdict = self._judge(sample)
        except Exception:  # the stream's own processing must not end with it
            log.exception("sample_not_compared", cache=sample.cache.name, sql=sample.sql)
            verdict = Verdict.UNDECIDED
        match verdict:
            case Verdict.EQUAL:
                self._end("sample_equal")
            case Verdict.DIFFERENT:
                self._end("sample_different")
            case Verdict.UNDECIDED:
                self._end("sample_inconclusive")

    def _judge(self, sample: Sample) -> Verdict:
        """Requires: nothing has touched the keys since the hit, and the position contains the bracket."""
        reader, encode = sample.reader, sample.reader.encoders[sample.format_]
        try:
            held = sample.held_rows()
            if held is None:
                return Verdict.UNDECIDED
            verdict = agreement(reader, sample.keys, sample.cache.columns, encode, held, sample.rows)
        except EvaluationError:
            return Verdict.UNDECIDED
        if verdict is Verdict.DIFFERENT and isinstance(reader.plan.reader.root, AnswerArrangement):
            names = {name.lower() for _, name in sample.cache.relations}
            if names - {table.name.lower() for table in reader.plan.tables}:
                verdict = Verdict.UNDECIDED  # a view: its own text, which is not looked at, may leave MySQL a choice
        served = encode(held) == sample.body
        if not served:
            verdict = Verdict.DIFFERENT
        if verdict is Verdict.DIFFERENT:
            self._report(sample, held, served)
        if verdict is not Verdict.EQUAL:
            self._forget(sample)
        return verdict

    def _report(self, sample: Sample, held: list[Row], served: bool) -> None:
        """Logs all that is needed to find the fault. `served`: the bytes of the hit are those of the rows held."""
        bracket = sample.bracket
        assert bracket is not None
        mine, theirs = Counter(map(repr, held)), Counter(map(repr, sample.rows))
        log.error(
            "sample_different",
            cache=sample.cache.name,
            query=sample.cache.sql,
            database=sample.cache.database,
            parameters=repr(sample.parameters),
            sql=sample.sql,
            mode=sample.reader.plan.mode.value,
            bytes_are_of_the_rows=served,
            bytes_served=sample.body[:4096].hex(),
            rows_held=[repr(row) for row in held[:LOGGED_ROWS]],
            rows_of_mysql=[repr(row) for row in sample.rows[:LOGGED_ROWS]],
            too_many=list((mine - theirs).elements())[:LOGGED_ROWS],
            missing=list((theirs - mine).elements())[:LOGGED_ROWS],
            position_of_the_hit=str(sample.position),
            position=str(self._engine.ring.position),
            lower=str(bracket.lower),
            uncertain=str(bracket.uncertain),
            server_uuid=bracket.server_uuid,
        )

    def _forget(self, sample: Sample) -> None:
        """Makes the keys holes, and all that they were derived from, whoever else needs it."""
        for held, _ in sample.marks:
            for entry in held.deps:
                if entry.content is not None:
                    entry.owner.discard(entry)
            held.reader.drop(held)
        self._publish()

    def _end(self, outcome: str) -> None:
        assert self._running is not None
        self.counters[outcome] += 1
        self._next = self._clock() + max(self.pause, BURDEN * self._running.seconds)
        self._running = self._lacks = None
