"""A held answer compared with MySQL's own at the same position.

The client's text is sent to MySQL with a bracket (L, Q), which says what the answer can have seen. P1 is the position
now. If L contains P1, and the position later contains L and Q, the snapshot lies between the two. If the keys are still
held then, and no change has touched them, their answer was the same at every state in between. So MySQL's must equal
it, up to what MySQL may choose (`proxy/checking/agreement.py`). In all other cases nothing is known.

A session's own answer (`told`) is compared with MySQL's under that session's variables, on a connection that takes them
on (`external_upquery/mysql/other_session.py`). Our other connections all have one set of variables.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING

import structlog

from dataflow.engine import Engine
from dataflow.entries import Held
from dataflow.messages import Ddl, Gap, Restarted, Statement, StreamEvent, UpqueryAnswer, UpqueryFailed, UpqueryRequest
from dataflow.readers.derivation import TooLong
from dataflow.readers.in_steps import Steps, answered, at_once
from dataflow.readers.reader import LARGE_BYTES, MANY_DEPS, ReaderNode
from external_upquery.columns import RawColumn
from external_upquery.mysql.other_session import OtherSession, Question, Told
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import Gtid, GtidSet
from planner.text.vindex_hints import as_asked
from planner.tree.plan import AnswerArrangement
from proxy.cache.key_binder import Binding, Bound
from proxy.checking.agreement import LARGE, Verdict, agreement
from proxy.checking.ddl_excuses import PATIENCE, Submit, Suspicions
from proxy.loop.metered import Metered
from proxy.loop.slices import Join, encode_in_slices, run_in_slices
from proxy.port.api import ParameterValue
from proxy.port.as_told import AsTold, shown
from sqltypes.errors import EvaluationError, SourceError, UpwellError
from sqltypes.expression import Row

if TYPE_CHECKING:
    from proxy.cache.named_cache import NamedCache

log = structlog.get_logger("upwell.comparison")

DATA_ERRORS = frozenset({1242, 1292, 1365, 1411, 1690, 3141, 3157})
"""MySQL's errors that come from the rows or the values: an answer that is held in their place is wrong."""

MOST_READ = 24 << 10  # bytes of packets that are read value by value in one step, where they are not the same

Mark = tuple[Held, int]  # and its version


class Outcome(Enum):
    EQUAL = "equal"
    FREE = "free"  # they differ in what MySQL may choose
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(slots=True, eq=False)
class Comparison:
    """One held answer. `marks`: for each key its held content, with the list that a change would replace. `suspect` is
    called at a difference, before it is known whether that is a fault (`proxy/checking/ddl_excuses.py`). `together`:
    one answer for all keys at once. `body`: the bytes served; None: none yet. `told`: the session's own answer, if that
    is compared; then `rows` and `held` are as shown. `ended` is called once."""

    cache: NamedCache
    reader: ReaderNode
    binding: Binding
    together: bool
    format_: int
    parameters: Sequence[ParameterValue]
    sql: str
    position: GtidSet
    marks: list[Mark]
    asked_at: float
    ended: Callable[[Comparison, Outcome], None]
    body: bytes | None = None
    rows: list[Row] = field(default_factory=list)  # MySQL's
    error: SourceError | None = None  # or what it said instead; judged if it is one of the data
    held: list[Row] = field(default_factory=list)
    served: bool = True  # `body` is that of the rows held
    at: str = ""  # the position at which they were found equal
    seconds: float = 0.0  # that MySQL took
    bracket: Bracket | None = None
    lacks: Gtid | None = None  # what the position must still contain, the last of it
    suspect: Callable[[], None] = lambda: None
    suspected: bool = False
    told: AsTold | None = None
    shown: list[Row] | None = None  # its rows

    @property
    def keys(self) -> Bound:
        return self.binding.keys

    @property
    def untouched(self) -> bool:
        """Has nothing changed since it began?"""
        held_by = self.reader.entries.get
        return self.reader.installed and all(
            held_by(held.key) is held and held.version == version for held, version in self.marks
        )

    @property
    def large(self) -> bool:
        """Is it to be derived and compared in steps?"""
        if len(self.rows) > LARGE or any(held.key in self.reader.long for held, _ in self.marks):
            return True
        if sum([len(held.deps) for held, _ in self.marks]) > MANY_DEPS:
            return True
        size = sum([entry.size for held, _ in self.marks for entry in held.deps])
        return size > LARGE_BYTES // 4  # it is encoded twice

    def held_in_steps(self) -> Steps[list[Row] | None]:
        """The rows that the answer is made of. They count only if the comparison is `untouched` afterwards."""
        reader = self.reader
        if self.told is not None:
            return self.shown
        if not self.keys:
            return reader.program.finish([], self.binding.params)
        if self.together:
            return (yield from answered(reader, self.keys, reader.held_levels))
        rows: list[Row] = []
        for one in self.keys:
            found = yield from answered(reader, [one], reader.held_levels)
            if found is None:
                return None
            rows += found
        return rows

    def take(self) -> Outcome | None:
        """Takes up what is held; None where that is to be compared. Requires: nothing has touched the keys since it
        began, and the position contains the bracket."""
        try:
            held = at_once(self.held_in_steps())
        except EvaluationError:
            return Outcome.UNKNOWN
        if held is None:
            return Outcome.UNKNOWN
        self.held = held
        if self.error is not None:
            return Outcome.DIFFERENT
        return None

    def compare(self) -> Verdict | None:
        """None: it cannot be told. Requires: nothing has touched the keys since what is held was taken."""
        return at_once(self.compare_in_steps())

    def compare_in_steps(self) -> Steps[Verdict | None]:
        """As `compare`. What it returns counts only if the comparison is `untouched` afterwards."""
        columns = self.cache.columns
        encode = self.reader.encodings.encoders[self.format_] if self.told is None else shown
        try:
            verdict = yield from agreement(self.reader, self.keys, columns, encode, self.held, self.rows)
        except EvaluationError:
            return None
        if verdict is Verdict.DIFFERENT and isinstance(self.reader.plan.reader.root, AnswerArrangement):
            names = {name.lower() for _, name in self.cache.relations}
            if names - {table.name.lower() for table in self.reader.plan.tables}:
                verdict = Verdict.UNDECIDED  # a view: its own text, which is not looked at, may leave MySQL a choice
        return verdict

    def judge(self, verdict: Verdict, body: bytes | None) -> Outcome:
        """`body`: of the held answer; None: the bytes that were served."""
        if body is None:
            body = self.body
        elif self.body is None:
            self.body = body
        self.served = body == self.body
        if not self.served or verdict is Verdict.DIFFERENT:
            return Outcome.DIFFERENT
        return Outcome.EQUAL if verdict is Verdict.EQUAL else Outcome.FREE


def marks_of(reader: ReaderNode, keys: Bound) -> list[Mark] | None:
    """Marks that tell later whether the keys were touched. None if a key is not held by itself, or telling takes long.
    Raises EvaluationError."""
    marks = []
    until = reader.memory.derived + reader.most_derived
    for key, params in keys:
        if reader.memory.derived > until:
            return None
        held = reader.entries.get(key)
        if held is None:
            return None
        with suppress(TooLong):
            if held.version is None:
                reader.link(held, params)
        if held.version is None:
            return None
        if any(entry.cut is not None for entry in held.deps):
            return None  # it stands ahead of the position
        marks.append((held, held.version))
    return marks


class Comparer:
    """The comparisons under way.

    Invariants:
    1. A comparison is in `running` until its `ended` is called.
    """

    def __init__(
        self,
        engine: Engine,
        submit: Submit,
        followed: Callable[[], str],
        clock: Callable[[], float],
        join: Callable[[int], Join] = lambda format_: b"".join,
        other: OtherSession | None = None,
        spent: Callable[[NamedCache, float], None] | None = None,
    ) -> None:
        """`followed`: the server whose stream it is. `join`: of a wire format. `other`: None where no connection can
        have the variables of a session. `spent`: is told what large answers take of the loop, in microseconds."""
        self.running: dict[Comparison, None] = {}
        self._engine = engine
        self._submit = submit
        self._followed = followed
        self._clock = clock
        self._numbers = count(1)
        self.suspicions = Suspicions(engine, submit, clock, self._numbers)
        self.other = other
        self._judging: set[asyncio.Task[None]] = set()
        self._join = join
        self._spent = spent

    def start(self, comparison: Comparison) -> None:
        self.running[comparison] = None
        if comparison.told is not None:
            self._ask_as(comparison, comparison.told)
            return
        # Negative: the engine's own requests are numbered from 1. As if slow: a narrow bracket is resolved soon.
        sql = as_asked(comparison.sql, comparison.reader.plan.tables)
        request = UpqueryRequest(
            -next(self._numbers),
            (),
            comparison.reader.tables,
            comparison.cache.database,
            slow=True,
            checks=(Statement(sql),),  # its errors come with a bracket, too
            shards=self._engine.fills.where(comparison.reader, comparison.keys),
        )
        deadline = comparison.asked_at + PATIENCE
        self._submit(request, lambda result: self._on_answer(comparison, result), deadline)

    def _on_answer(self, comparison: Comparison, result: UpqueryAnswer | UpqueryFailed) -> None:
        if comparison not in self.running:
            return
        if isinstance(result, UpqueryFailed):
            self._on_failure(comparison)
        else:
            (own,) = result.checks
            answer = own if isinstance(own, SourceError) else own.rows
            self._on_told(comparison, result.bracket, result.seconds, answer)

    def _ask_as(self, comparison: Comparison, told: AsTold) -> None:
        """Asks under the variables of the session that was told."""
        assert self.other is not None
        tables, database = comparison.reader.tables, told.database or comparison.cache.database
        question = Question(told.settings, told.text, told.execution, database, tables, PATIENCE)
        self.other.ask(question, lambda answer: self._on_answer_as(comparison, told, answer))

    def _on_answer_as(self, comparison: Comparison, told: AsTold, answer: Told | UpwellError) -> None:
        if comparison not in self.running:
            return
        if isinstance(answer, UpwellError):
            self._on_failure(comparison)
            return
        own: list[Row] | SourceError | None
        if isinstance(answer.rows, SourceError):
            own = answer.rows
        else:
            own = self._shown(comparison, told, answer.columns, answer.rows)
        if own is None:
            comparison.seconds = answer.seconds
            self._end(comparison, Outcome.UNKNOWN)
        else:
            self._on_told(comparison, answer.bracket, answer.seconds, own)

    def _shown(
        self, comparison: Comparison, told: AsTold, columns: Sequence[RawColumn], rows: Sequence[bytes]
    ) -> list[Row] | None:
        """MySQL's rows and the session's as they are compared; None where they differ, and cannot be read."""
        planned, payloads = comparison.cache.columns, told.payloads
        try:
            if payloads != rows:
                if len(told.body) > MOST_READ:
                    return None
                comparison.shown = told.rows(planned, told.columns, payloads)
                return told.rows(planned, columns, rows)
        except (ValueError, IndexError, struct.error):  # in a character set that is not known here
            if not told.same_packets(rows):
                return None
        comparison.shown = [tuple([row] * len(planned)) for row in rows]
        return list(comparison.shown)

    def _on_failure(self, comparison: Comparison) -> None:
        # What never ends in time must not be asked for all the time.
        comparison.seconds = self._clock() - comparison.asked_at
        self._end(comparison, Outcome.UNKNOWN)

    def _on_told(self, comparison: Comparison, bracket: Bracket, seconds: float, own: list[Row] | SourceError) -> None:
        """MySQL has answered."""
        comparison.bracket, comparison.seconds = bracket, seconds
        if isinstance(own, SourceError):
            comparison.error = own
            if own.errno not in DATA_ERRORS:
                self._end(comparison, Outcome.UNKNOWN)
                return
        else:
            comparison.rows = own
        followed = self._followed()
        if (followed and bracket.history != followed) or not comparison.position.issubset(bracket.lower):
            self._end(comparison, Outcome.UNKNOWN)  # it may be older than what is held, or of another history
            return
        self._look_again(comparison)

    # -- the position moves --------------------------------------------------------------------------------------------

    def on_stream(self, event: StreamEvent) -> None:
        """The engine has processed the event."""
        for comparison in [item for item in self.running if item.lacks is not None]:
            if isinstance(event, Ddl | Gap | Restarted):
                # A view may be another one from here on: the caches that name it learn of that only after this. So it
                # may be by what was lost, and an answer of no keys is touched by nothing.
                self._end(comparison, Outcome.UNKNOWN)
            elif event.gtid == comparison.lacks:
                self._look_again(comparison)

    def tick(self) -> None:
        """To be called now and then: gives up what the position does not come to contain."""
        self.suspicions.tick()
        now = self._clock()
        for comparison in list(self.running):
            if comparison.suspected:
                continue
            if comparison.bracket is not None and now > comparison.asked_at + 2 * PATIENCE:
                self._end(comparison, Outcome.UNKNOWN)

    def _look_again(self, comparison: Comparison) -> None:
        comparison.lacks = None
        assert comparison.bracket is not None
        if not comparison.untouched:
            self._end(comparison, Outcome.UNKNOWN)
            return
        missing = comparison.bracket.needed.difference(self._engine.state.ring.position.freeze())
        if missing:
            comparison.lacks = missing.last()
            return
        self._judge(comparison)

    def _judge(self, comparison: Comparison) -> None:
        """Ends it; if the answer is large, in several steps of the loop."""
        comparison.at = str(self._engine.state.ring.position)
        try:
            if comparison.large:
                task = asyncio.get_running_loop().create_task(self._judge_metered(comparison))
                self._judging.add(task)
                task.add_done_callback(self._judging.discard)
                return
            outcome = comparison.take()
            if outcome is None and (verdict := comparison.compare()) is not None:
                encode = comparison.reader.encodings.encoders[comparison.format_]
                body = encode(comparison.held) if comparison.told is None else None
                outcome = comparison.judge(verdict, body)
        except Exception:  # the stream's own processing must not end with it
            log.exception("answers_not_compared", cache=comparison.cache.name, sql=comparison.sql)
            outcome = Outcome.UNKNOWN
        self._judged(comparison, outcome if outcome is not None else Outcome.UNKNOWN)

    async def _judge_metered(self, comparison: Comparison) -> None:
        metered = Metered(self._judge_large(comparison))
        try:
            await metered
        finally:
            if self._spent is not None:
                self._spent(comparison.cache, metered.us)

    async def _judge_large(self, comparison: Comparison) -> None:
        """A change before they are compared leaves it open: to compare them may look at what is held."""
        outcome = Outcome.UNKNOWN
        try:
            verdict = await self._verdict(comparison)
            if comparison.error is not None and verdict is not None:
                outcome = Outcome.DIFFERENT
            elif verdict is not None:
                await asyncio.sleep(0)
                encode = comparison.reader.encodings.encoders[comparison.format_]
                body = None
                if comparison.told is None:
                    body = await encode_in_slices(encode, self._join(comparison.format_), comparison.held)
                outcome = comparison.judge(verdict, body)
                comparison.at = str(self._engine.state.ring.position)
                if outcome is not Outcome.DIFFERENT and not comparison.untouched:
                    outcome = Outcome.UNKNOWN  # readers that have come since may have been shown more
        except Exception:  # an edge, as above
            log.exception("answers_not_compared", cache=comparison.cache.name, sql=comparison.sql)
        if comparison in self.running:
            self._judged(comparison, outcome)

    async def _verdict(self, comparison: Comparison) -> Verdict | None:
        """Of a large one; None where it cannot be told."""
        with suppress(EvaluationError):
            held = await run_in_slices(comparison.held_in_steps())
            if held is None or not comparison.untouched:
                return None
            comparison.held = held
            if comparison.error is not None:
                return Verdict.DIFFERENT
            verdict = await run_in_slices(comparison.compare_in_steps())
            if comparison.untouched:
                return verdict
        return None

    def _judged(self, comparison: Comparison, outcome: Outcome) -> None:
        """Ends it; a difference when it is explained."""
        if outcome is not Outcome.DIFFERENT:
            self._end(comparison, outcome)
            return
        assert comparison.bracket is not None

        def ended(fault: bool) -> None:
            self._end(comparison, Outcome.DIFFERENT if fault and comparison.reader.installed else Outcome.UNKNOWN)

        comparison.suspected = True
        comparison.suspect()
        names = comparison.cache.names
        self.suspicions.explain(comparison.bracket.history, names, comparison.asked_at, ended)

    def _end(self, comparison: Comparison, outcome: Outcome) -> None:
        del self.running[comparison]
        comparison.ended(comparison, outcome)
