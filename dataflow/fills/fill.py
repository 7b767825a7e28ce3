"""A fill: the upquery of one batch of misses of one reader, from what to ask to what to insert.

An answer holds the state at some snapshot, the graph is at the position P. Everything here is about that one race
(docs/consistency.md, "Insertion"):

* `Fill.request`: the SQL for all holes below the asked keys, under one bracket (`dataflow/fills/asking.py`).
* `Fill.take`: the answer's rows as entries that nobody holds yet, level by level (`overlay`). A key is covered if it
  was asked by value, or if the overlay's own rows lead to it: held rows may lead elsewhere, as they stand at P and not
  at the snapshot.
* `Fill.bring_forward`: entries that a transaction of Q touches are dropped (they may or may not reflect it). The
  others get the ring's records that are not in L, once each, in order. Then they are exactly at P, to be inserted
  (`dataflow/fills/insertion.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter

from dataflow.entries import Entries, Entry, Held
from dataflow.fills.asking import Asked
from dataflow.fills.carried import drop_touched, replay
from dataflow.fills.checks import Checks
from dataflow.fills.pins import Pins
from dataflow.fills.read import Read
from dataflow.held.arrangement import ROWS_AT_ONCE, UNBOUNDED, Arrangement
from dataflow.messages import Record, Statement, UpqueryAnswer, UpqueryRequest
from dataflow.operators.answer_index import AnswerEntry
from dataflow.operators.standing import Reach, reached
from dataflow.readers.derivation import Params, TooLong
from dataflow.readers.in_steps import Holes, answered, derived
from dataflow.readers.reader import ReaderNode
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import GtidSet, MutableGtidSet
from planner.text.vindex_hints import as_asked
from planner.tree.plan import AnswerArrangement
from sqltypes.errors import EvaluationError, InvariantViolated, UpwellError
from sqltypes.expression import Key, Row
from sqltypes.schema import ResultColumn

Hold = Callable[[ReaderNode, Key, Params], Held | None]
KEYS = attrgetter("keys")
LARGE_JOIN = 100, 30, 15  # rows, by the number of lookups, that may join to a thousand or two
LARGE_ANSWER = 1_000  # rows, or keys of those who wait, from which on an answer is prepared before it is delivered
SLOW_SECONDS = 0.02  # an upquery expected to run longer uses the snapshot form, which keeps its bracket narrow


class Covered(dict[Key, Entry]):
    """The overlay of a level that was filled by a semi-join: a key without rows, to which the overlay's rows lead, is
    known empty."""

    __slots__ = ("node",)

    def __init__(self, node: Arrangement, entries: Entries) -> None:
        super().__init__(entries)
        self.node = node

    def get(self, key: Key, default: Entry | None = None) -> Entry | None:  # type: ignore[override]  # a default is never asked for
        entry = super().get(key)
        if entry is None:
            entry = self[key] = self.node.load(key, [])
        return entry


@dataclass(slots=True, eq=False)
class Unasked:
    """Of a fill that no read asked for. `audits`: it inserts nothing, but is compared with what is held; `different`:
    what differs. `rows`: those of its answer. `ended`: where the fill is put when it has ended."""

    audits: bool = False
    ended: list[Fill] = field(default_factory=list)
    different: list[tuple[Key, Params]] = field(default_factory=list)
    rows: int = 0


@dataclass(slots=True, eq=False)
class Fill:
    """One upquery in flight, answered, or waiting for the position to contain its bracket."""

    id: int
    reader: ReaderNode
    whole: dict[Key, Params]  # reader keys all of whose inputs are asked for: answered from the snapshot alone
    partial: dict[Key, Params]  # reader keys of which only some lookups are missing
    holes: Holes = field(default_factory=dict)  # of each partial key: these
    asked: Asked = field(init=False)  # by its request
    reads: list[Read] = field(default_factory=list)
    generations: tuple[int, ...] = ()
    floor: GtidSet | None = None  # the newest lower bound seen from the server when this was sent
    sent: int = 0  # the engine's count of requests and answers, to tell before from after
    answered: int = 0
    sent_at: float = 0.0
    answered_at: float = 0.0
    unasked: Unasked | None = None  # no read asked for it, and none waits for it
    error: UpwellError | None = None
    bracket: Bracket | None = None
    overlay: list[Entries] = field(default_factory=list)
    waiting: bool = False  # for the position
    placing: bool = False  # its entries are being inserted, and the overlay has the rest of them
    ended: bool = False
    ahead: bool = False  # its entries are held, ahead of the position, and wait for it
    overdue: bool = False  # has waited so long that the stream was doubted
    kept: dict[Key, bool] = field(default_factory=dict)  # of the asked keys, once inserted: are they held?
    checks: Checks = field(default_factory=Checks)
    pins: Pins = field(default_factory=Pins)
    changed: bool = False  # something was received after the snapshot that concerns its tables
    # By waiter, what `prepare` has told; None: it has not. It is of the answer as it came, and forgotten when that is
    # brought forward.
    _prepared: dict[int, list[Row] | None] | None = None

    @property
    def keys(self) -> tuple[Key, ...]:
        return (*self.whole, *self.partial)

    def join(self, read: Read) -> None:
        """The read waits for this fill."""
        read.fills.add(self.id)
        self.reads.append(read)
        if read.check is not None or read.doubted:
            self.checks.doubts.append(read)

    def request(self, slow: bool, exact: bool = False) -> UpqueryRequest:
        """Builds the statements. Requires: called once, before anything is sent. `exact`: as `Asked.statements`."""
        reader = self.reader
        plan = reader.plan
        self.generations = tuple([node.generation for node in reader.nodes])
        self.asked = Asked(reader, self.whole, self.partial, self.holes)
        statements = tuple(self.asked.statements(exact))
        checks = tuple([Statement(as_asked(check.sql, plan.tables)) for check, _ in self.checks.asked])
        return UpqueryRequest(self.id, statements, reader.tables, plan.database, slow, exact=exact, checks=checks)

    # -- the answer --------------------------------------------------------------------------------------------------

    def is_large(self, answer: UpqueryAnswer) -> bool:
        """Whether to take the answer, and to tell all who wait for it, should be several steps."""
        rows = sum(map(len, answer.results))
        if rows > LARGE_JOIN[-1] and rows > self._large_from:
            return True
        return sum(map(len, map(KEYS, self.reads))) > LARGE_ANSWER

    @property
    def _large_from(self) -> int:
        lookups = len(self.reader.program.levels)
        return LARGE_JOIN[min(lookups, len(LARGE_JOIN)) - 1] if lookups else LARGE_ANSWER

    def prepare(self, answer: UpqueryAnswer) -> Iterator[None]:
        """Does what `take`, `answer` and `Checks.compare` do with a large answer, in steps. Others may have their turn
        between them, for nothing is looked at but the answer. `Engine.on_answer` must follow."""
        checks = self.checks
        try:
            yield from self._load(answer.results, answer.columns)
            told: dict[int, list[Row] | None] = {}
            self._prepared = told
            many_rows = sum(map(len, answer.results)) > LARGE_ANSWER
            work = 0
            for read in list(self.reads):
                work += len(read.keys)
                if many_rows or work > LARGE_ANSWER // 2:
                    work = 0
                    yield
                with suppress(EvaluationError):  # it is told when the read is
                    if (many_rows or not self.linear) and all(key in self.whole for key, _ in read.keys):
                        told[read.waiter] = yield from answered(self.reader, read.keys, self.overlay)
                    else:
                        self._derived(read)
            for (check, read), own in zip(checks.asked, answer.checks, strict=True):
                yield
                rows = self.told(read)
                checks.found[check.sql] = yield from check.compare_in_steps(rows, own, self.overlay)
        except Exception:  # noqa: BLE001 - `on_answer` begins anew, and says what it is
            self.overlay, self._prepared = [], None
            checks.found.clear()

    def take(
        self, bracket: Bracket, results: Sequence[list[Row]], columns: Sequence[tuple[ResultColumn, ...]] = ()
    ) -> None:
        """Turns the answer's rows into entries of the overlay. Raises InvariantViolated, EvaluationError."""
        self.bracket = bracket
        if self.unasked is not None:
            self.unasked.rows = sum(map(len, results))
        if self._prepared is None:
            for _ in self._load(results, columns):
                pass

    def _load(self, results: Sequence[list[Row]], columns: Sequence[tuple[ResultColumn, ...]]) -> Iterator[None]:
        nodes, root, asked = self.reader.nodes, self.reader.plan.reader.root, self.asked
        evict = isinstance(root, AnswerArrangement)
        counts: Sequence[list[Row]] = ()
        if isinstance(root, AnswerArrangement) and root.counts:
            results, columns, counts = results[::2], columns[::2], results[1::2]
        reaches: list[Reach] = []
        if asked.crossings:
            keys = [key for ask in asked.of for key in ask.keys.values()]
            results, columns, reaches = reached(asked.crossings, keys, results, columns)
        if evict and columns:
            _tell_columns(self.reader, columns, results)
        self.overlay = [{} for _ in nodes]
        for number, (ask, rows) in enumerate(zip(asked.of, results, strict=True)):
            node = nodes[ask.level]
            if evict:
                loaded: Entries = {}
                for key in ask.keys:  # one
                    entry = loaded[key] = yield from node.load_in_parts(key, rows, ROWS_AT_ONCE)
                    if counts and isinstance(entry, AnswerEntry):
                        entry.found = _count_in(counts[number])
                    if reaches and isinstance(entry, AnswerEntry):
                        entry.reach_to(reaches[number])
            else:
                loaded = {}
                yield from node.load_in_steps(rows, ask.keys, loaded)
            if not ask.semijoin and len(loaded) != len(ask.keys):
                raise InvariantViolated("the source returned rows of a key that was not asked for")
            loaded.update(dict(self.overlay[ask.level]))
            semijoined = ask.semijoin or isinstance(self.overlay[ask.level], Covered)
            self.overlay[ask.level] = Covered(node, loaded) if semijoined else loaded
        if self.reader.program.levels:
            yield
            yield from self._settle(sum(map(len, results)) > self._large_from)

    def answer(self, read: Read) -> list[Row] | None:
        """The answer for the read's keys from the snapshot alone, whole; None if part of it must come from held state,
        or it takes long to tell. Raises EvaluationError."""
        if self.bracket is None or self.placing:
            return None
        return self.derive(read.keys) if self._prepared is None else self._derived(read)

    def _derived(self, read: Read) -> list[Row] | None:
        told = self._prepared
        if told is None:
            return self.derive(read.keys)
        if read.waiter not in told:
            try:
                told[read.waiter] = self.derive(read.keys, self.reader.memory.most_rows)
            except TooLong:  # it came after the answer: it is told at the position
                return None
        return told[read.waiter]

    def derive(self, keys: Sequence[tuple[Key, Params]], most: int = UNBOUNDED) -> list[Row] | None:
        """Raises TooLong where more than `most` rows are loaded for the root, or joined."""
        for key, _ in keys:
            if key not in self.whole:
                return None
        joined: list[Row] = []
        for _, params in keys:
            most -= self.reader.weight(params, self.overlay) if most < UNBOUNDED else 0
            if most < 0:
                raise TooLong
            found = self.reader.derive(params, self.overlay, most)
            if found.holes:
                return None
            joined += self.reader.program.passing_in_order(found.rows, params)
        return self.reader.program.finish_passed(joined, keys[0][1])

    def told(self, read: Read) -> list[Row] | None:
        """As `answer`; None also for what cannot be told."""
        with suppress(EvaluationError):  # the read is MySQL's to answer
            return self._derived(read)
        return None

    def _settle(self, large: bool) -> Iterator[None]:
        """Follows the overlay's rows down, so that empty keys of semi-joins are covered; from here on coverage is
        fixed. Requires: there are lookups."""
        for params in self.whole.values():
            if large:
                yield from derived(self.reader, params, self.overlay)
            else:
                self.reader.derive(params, self.overlay)
        self.overlay = [dict(entries) for entries in self.overlay]

    def becomes_overdue(self, position: MutableGtidSet) -> bool:
        """It has waited too long. Is that for what the stream may lack, executed long ago? Told once. (An entry ahead
        may wait.)"""
        first, self.overdue = not self.overdue, True
        return first and self.bracket is not None and not position.covers(self.bracket.lower)

    # -- to the position ---------------------------------------------------------------------------------------------

    def bring_forward(self, uncertain: Iterable[Record], later: Sequence[Record] | None) -> int:
        """Brings every overlay entry to the position, or drops it. Returns how many were dropped because of Q.

        Requires: the position contains L and Q; `uncertain` are the ring's records of Q, `later` those not in L, in
        order; None: they are not known.
        """
        conflicts = 0
        self._prepared = None
        doubtful = list(uncertain)
        self.changed |= later is None
        for node, entries, generation in zip(self.reader.nodes, self.overlay, self.generations, strict=True):
            if generation != node.generation or later is None:
                entries.clear()
                continue
            for record in doubtful:
                conflicts += drop_touched(node, entries, record)
            for record in later:
                self.changed |= replay(node, entries, record)
        return conflicts

    @property
    def linear(self) -> bool:
        """Is there no join between the entries and the reader? Then one cut holds for all that an answer is made of."""
        return not self.reader.program.levels

    def promote(self) -> None:
        """The position contains L and Q now: what is still held of the entries is like any other.

        Requires: `insert_ahead`.
        """
        (node,), (entries,) = self.reader.nodes, self.overlay
        for entry in entries.values():
            node.promote(entry)
        for key, params in self.whole.items():
            inserted = entries.get(self.reader.program.root_key(params))
            if inserted is not None and inserted.content is None:
                self.kept[key] = False

    def prove(self, held: Held, own: bool, *, doubtful: bool) -> None:
        """One of the asked keys is linked. Its answer counts as compared where all of it is the snapshot's (`own`) and
        that was. `doubtful`: it should have been, and was not."""
        if self.unasked is not None or doubtful:
            if held.version is None:
                held.doubt()
        elif own and not self.ahead and not self.changed:
            held.renew()  # the snapshot's answer still
            if self.checks.asked and held.version is not None:
                self.checks.versions[held.key] = held.version


def _count_in(rows: list[Row]) -> int:
    """What FOUND_ROWS() was. Raises InvariantViolated."""
    if len(rows) != 1 or not isinstance(count := rows[0][0], int):
        raise InvariantViolated("the source did not tell FOUND_ROWS()")
    return count


def _tell_columns(
    reader: ReaderNode, columns: Sequence[tuple[ResultColumn, ...]], results: Sequence[list[Row]]
) -> None:
    if reader.on_columns is not None:
        for announced, rows in zip(columns, results, strict=True):
            if rows:  # without, MySQL may not have computed them as it would
                reader.on_columns(announced)
