"""A fill: the upquery of one batch of misses of one reader, from what to ask to what to insert.

An answer holds the state at some snapshot, the graph is at the position P. Everything here is about that one race
(docs/consistency.md, "Insertion"):

* `Fill.request`: the SQL for all holes below the asked keys, under one bracket. Keys that are known go by value. The
  keys of a lookup whose rows are themselves missing go by a semi-join, evaluated by MySQL in the same snapshot.
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

from dataflow.entries import Entries, Entry, Held, Linking
from dataflow.fills.carried import Record, drop_touched, replay
from dataflow.fills.demand import Demand
from dataflow.held.arrangement import ROWS_AT_ONCE, UNBOUNDED, Arrangement
from dataflow.messages import Check, Finding, OwnAnswer, Statement, UpqueryAnswer, UpqueryRequest
from dataflow.operators.answer import AnswerEntry, AnswerNode
from dataflow.operators.standing import Reach, reached
from dataflow.readers.derivation import Params, TooLong
from dataflow.readers.in_steps import Holes, answered, derived
from dataflow.readers.reader import ReaderNode
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import GtidSet, MutableGtidSet
from planner.fill.upquery_sql import FOUND_ROWS, answer_sql, crossing_sqls, semijoin_sql
from planner.text.vindex_hints import as_asked
from planner.tree.plan import AnswerArrangement, Crossing
from sqltypes.errors import EvaluationError, InvariantViolated, SourceError, UpwellError
from sqltypes.expression import Key, Row, Value
from sqltypes.schema import ResultColumn

Hold = Callable[[ReaderNode, Key, Params], Held | None]
LARGE_JOIN = 100, 30, 15  # rows, by the number of lookups, that may join to a thousand or two
LARGE_ANSWER = 1_000  # rows, or keys of those who wait, from which on an answer is prepared before it is delivered
SLOW_SECONDS = 0.02  # an upquery expected to run longer uses the snapshot form, which keeps its bracket narrow


@dataclass(slots=True, eq=False)
class Read:
    """A read that waits. `keys`: all of an IN-list's, each with its parameters. `check`: what its answer must pass
    first. `doubted`: it has no check, and what is filled for it is to be compared before anybody else is given it.
    `group`: an upquery that it shared with others was refused, which has not to be about its keys; those of one number
    share another. `splits`: how often that was so."""

    waiter: int
    reader: ReaderNode
    keys: list[tuple[Key, Params]]
    fills: set[int] = field(default_factory=set)
    attempts: int = 0
    since: GtidSet | None = None  # the position when it began: it is told nothing older
    demand: Demand | None = None
    check: Check | None = None
    doubted: bool = False
    group: int = 0
    splits: int = 0
    holes: Holes = field(default_factory=dict)  # found in steps: what was missing below keys that are long to derive

    def covers(self, fill: Fill) -> bool:
        """Whether it asks for all keys that the fill does."""
        asked = len(fill.whole) + len(fill.partial)
        return len(self.keys) >= asked and {key for key, _ in self.keys}.issuperset(fill.keys)


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


@dataclass(slots=True)
class Ask:
    """One statement of the request: what its answer fills."""

    level: int  # 0 is the root, n the lookup n - 1
    keys: dict[Key, Row]  # asked by value; empty for a semi-join
    semijoin: bool = False


@dataclass(slots=True, eq=False)
class Fill:
    """One upquery in flight, answered, or waiting for the position to contain its bracket."""

    id: int
    reader: ReaderNode
    whole: dict[Key, Params]  # reader keys all of whose inputs are asked for: answered from the snapshot alone
    partial: dict[Key, Params]  # reader keys of which only some lookups are missing
    holes: Holes = field(default_factory=dict)  # of each partial key: these
    asks: list[Ask] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    generations: tuple[int, ...] = ()
    floor: GtidSet | None = None  # the newest lower bound seen from the server when this was sent
    sent: int = 0  # the engine's count of requests and answers, to tell before from after
    answered: int = 0
    sent_at: float = 0.0
    answered_at: float = 0.0
    unasked: bool = False  # no read asked for it, and none waits for it
    audits: bool = False  # an unasked one that inserts nothing: it is compared with what is held
    different: list[tuple[Key, Params]] = field(default_factory=list)  # likewise: what differs
    error: UpwellError | None = None  # of an unasked one
    rows: int = 0  # likewise: those of its answer
    bracket: Bracket | None = None
    overlay: list[Entries] = field(default_factory=list)
    waiting: bool = False  # for the position
    placing: bool = False  # its entries are being inserted, and the overlay has the rest of them
    ended: bool = False
    ahead: bool = False  # its entries are held, ahead of the position, and wait for it
    overdue: bool = False  # has waited so long that the stream was doubted
    kept: dict[Key, bool] = field(default_factory=dict)  # of the asked keys, once inserted: are they held?
    checks: list[tuple[Check, Read]] = field(default_factory=list)  # one for each text
    proved: set[str] = field(default_factory=set)  # the texts whose answers agree
    doubts: list[Read] = field(default_factory=list)  # whose answers are to be compared; those that went away, too
    crossings: tuple[Crossing, ...] = ()  # behind each answer it is asked how far that reaches
    changed: bool = False  # something was received after the snapshot that concerns its tables
    # What `prepare` has done; it is of the answer as it came, and forgotten when that is brought forward.
    _pinned: list[Held] = field(default_factory=list)  # keys that stay until those who wait were told
    _prepared: bool = False
    _rows: dict[int, list[Row] | None] = field(default_factory=dict)
    _found: dict[str, Finding] = field(default_factory=dict)

    @property
    def keys(self) -> Iterable[Key]:
        return (*self.whole, *self.partial)

    def join(self, read: Read) -> None:
        """The read waits for this fill."""
        read.fills.add(self.id)
        self.reads.append(read)
        if read.check is not None or read.doubted:
            self.doubts.append(read)

    def doubtful(self) -> set[Key]:
        """The keys of reads that should have been compared, and were not."""
        reads = (read for read in self.doubts if read.check is None or read.check.sql not in self.proved)
        return {key for read in reads for key, _ in read.keys}

    # -- asking ------------------------------------------------------------------------------------------------------

    def request(self, slow: bool, exact: bool = False) -> UpqueryRequest:
        """Builds the statements. Requires: called once, before anything is sent.

        `exact`: only of those that read one table and can lock it without waiting; what a semi-join would bring is a
        hole still when they are inserted, and then asked for by value.
        """
        reader = self.reader
        plan = reader.plan
        self.generations = tuple(node.generation for node in reader.nodes)
        statements: list[Statement] = []
        if isinstance(plan.reader.root, AnswerArrangement):
            root = reader.nodes[0]
            asks = [reader.program.root_values(params) for params in self.whole.values()]
            if isinstance(root, AnswerNode) and not exact:
                for values in asks:
                    root.note_filled(values)
                self.crossings = root.crossings
            for params, values in zip(self.whole.values(), asks, strict=True):
                self.asks.append(Ask(0, {reader.program.root_key(params): values}))
                asked = answer_sql(plan.reader.root, values)
                if self.crossings:
                    crossings = crossing_sqls(plan.reader.root, values, self.crossings)
                    statements += [Statement(*asked), *map(Statement, crossings)]
                elif plan.reader.root.counts:  # right behind it
                    statements += [Statement(asked.sql, asked.before), Statement(FOUND_ROWS, after=asked.after)]
                else:
                    statements.append(Statement(*asked))
        else:
            statements += self._root_statement()
            for number in range(len(reader.program.levels)):
                statements += self._lookup_statements(number, exact)
        checks = tuple(Statement(as_asked(check.sql, plan.tables)) for check, _ in self.checks)
        return UpqueryRequest(
            self.id, tuple(statements), reader.tables, plan.database, slow, exact=exact, checks=checks
        )

    def add_checks(self, reads: Iterable[Read]) -> None:
        """Takes up the checks of reads that this fill answers whole. Requires: before `request`."""
        texts: set[str] = set()
        for read in reads:
            check = read.check
            if check is not None and check.sql not in texts and all(key in self.whole for key, _ in read.keys):
                texts.add(check.sql)
                self.checks.append((check, read))

    def _root_statement(self) -> list[Statement]:
        program = self.reader.program
        keys = {program.root_key(params): program.root_values(params) for params in self.whole.values()}
        if not keys:
            return []
        self.asks.append(Ask(0, keys))
        return [program.root.statement(list(keys.values()))]

    def _lookup_statements(self, number: int, exact: bool) -> list[Statement]:
        """By value: the holes that are known, and keys that follow from the parameters. The rest by a semi-join."""
        level = self.reader.program.levels[number]
        keys: dict[Key, Row] = {}
        statements: list[Statement] = []
        for key in self.partial:
            keys.update((hole.key, hole.values) for hole in self.holes[key] if hole.level == number)
        if self.whole and level.direct is not None and level.direct_key is not None:
            for params in self.whole.values():
                key = level.direct_key((), params)
                if key is not None:
                    keys[key] = level.direct((), params)
        elif self.whole and not exact:
            self.asks.append(Ask(number + 1, {}, semijoin=True))
            statements.append(Statement(semijoin_sql(self.reader.plan, number, self._key_values())))
        if keys:
            self.asks.append(Ask(number + 1, keys))
            statements.append(level.node.statement(list(keys.values())))
        return statements

    def _key_values(self) -> list[tuple[Value, ...]]:
        """Of each whole key the values of the reader's key parts, in order."""
        parts = [part.parameter for part in self.reader.plan.key]
        return [tuple(params[index] for index in parts) for params in self.whole.values()]

    # -- the answer --------------------------------------------------------------------------------------------------

    def is_large(self, answer: UpqueryAnswer) -> bool:
        """Whether to take the answer, and to tell all who wait for it, should be several steps."""
        rows = sum(map(len, answer.results))
        if rows > self._large_from:
            return True
        return sum([len(read.keys) for read in self.reads]) > LARGE_ANSWER

    @property
    def _large_from(self) -> int:
        lookups = len(self.reader.program.levels)
        return LARGE_JOIN[min(lookups, len(LARGE_JOIN)) - 1] if lookups else LARGE_ANSWER

    def prepare(self, answer: UpqueryAnswer) -> Iterator[None]:
        """Does what `take`, `answer` and `compare` do with a large answer, in steps. Others may have their turn between
        them, for nothing is looked at but the answer. `Engine.on_answer` must follow."""
        try:
            yield from self._load(answer.results, answer.columns)
            self._prepared = True
            many_rows = sum(map(len, answer.results)) > LARGE_ANSWER
            work = 0
            for read in list(self.reads):
                work += len(read.keys)
                if many_rows or work > LARGE_ANSWER // 2:
                    work = 0
                    yield
                with suppress(EvaluationError):  # it is told when the read is
                    if (many_rows or not self.linear) and all(key in self.whole for key, _ in read.keys):
                        self._rows[read.waiter] = yield from answered(self.reader, read.keys, self.overlay)
                    else:
                        self._derived(read)
            for (check, read), own in zip(self.checks, answer.checks, strict=True):
                yield
                rows = self._told(read)
                self._found[check.sql] = yield from check.compare_in_steps(rows, own, self.overlay)
        except Exception:  # noqa: BLE001 - `on_answer` begins anew, and says what it is
            self.overlay, self._prepared = [], False
            self._rows.clear()
            self._found.clear()

    def take(
        self, bracket: Bracket, results: Sequence[list[Row]], columns: Sequence[tuple[ResultColumn, ...]] = ()
    ) -> None:
        """Turns the answer's rows into entries of the overlay. Raises InvariantViolated, EvaluationError."""
        self.bracket = bracket
        if self.unasked:
            self.rows = sum(map(len, results))
        if not self._prepared:
            for _ in self._load(results, columns):
                pass

    def _load(self, results: Sequence[list[Row]], columns: Sequence[tuple[ResultColumn, ...]]) -> Iterator[None]:
        nodes, root = self.reader.nodes, self.reader.plan.reader.root
        evict = isinstance(root, AnswerArrangement)
        counts: Sequence[list[Row]] = ()
        if isinstance(root, AnswerArrangement) and root.counts:
            results, columns, counts = results[::2], columns[::2], results[1::2]
        reaches: list[Reach] = []
        if self.crossings:
            keys = [key for ask in self.asks for key in ask.keys.values()]
            results, columns, reaches = reached(self.crossings, keys, results, columns)
        if columns and self.reader.on_columns is not None and evict:
            for announced, rows in zip(columns, results, strict=True):
                if rows:  # without, MySQL may not have computed them as it would
                    self.reader.on_columns(announced)
        self.overlay = [{} for _ in nodes]
        for number, (ask, rows) in enumerate(zip(self.asks, results, strict=True)):
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
        yield
        yield from self._settle(sum(map(len, results)) > self._large_from)

    def answer(self, read: Read) -> list[Row] | None:
        """The answer for the read's keys from the snapshot alone, whole; None if part of it must come from held state,
        or it takes long to tell. Raises EvaluationError."""
        return None if self.bracket is None or self.placing else self._derived(read)

    def _derived(self, read: Read) -> list[Row] | None:
        if not self._prepared:
            return self.derive(read.keys)
        if read.waiter not in self._rows:
            try:
                self._rows[read.waiter] = self.derive(read.keys, self.reader.memory.most_rows)
            except TooLong:  # it came after the answer: it is told at the position
                return None
        return self._rows[read.waiter]

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
            joined += self.reader.passing_in_order(found.rows, params)
        return self.reader.finish_passed(joined, keys[0][1])

    def compare(self, own: Sequence[OwnAnswer | SourceError]) -> Check | None:
        """Compares with MySQL's own answers. Returns the check that found a difference."""
        for (check, read), answer in zip(self.checks, own, strict=True):
            match self._found.get(check.sql) or self._compared(check, read, answer):
                case Finding.DIFFERS:
                    return check
                case Finding.AGREES:
                    self.proved.add(check.sql)
        return None

    def _compared(self, check: Check, read: Read, own: OwnAnswer | SourceError) -> Finding:
        return check.compare(self._told(read), own, self.overlay)

    def _told(self, read: Read) -> list[Row] | None:
        with suppress(EvaluationError):  # the read is MySQL's to answer
            return self._derived(read)
        return None

    def _settle(self, large: bool) -> Iterator[None]:
        """Follows the overlay's rows down, so that empty keys of semi-joins are covered; from here on coverage is
        fixed."""
        if not self.reader.program.levels:
            return
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
        self._prepared = False
        self._rows.clear()
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

    def pin(self, held: Held) -> None:
        """The key is not evicted before `unpin`."""
        if held.watch is None:
            held.watch = stays
            self._pinned.append(held)

    def unpin(self) -> None:
        for held in self._pinned:
            if isinstance(held.watch, Linking) and held.watch.watch is stays:
                held.watch.watch = None
            elif held.watch is stays:
                held.watch = None
        self._pinned.clear()

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
        if self.unasked or doubtful:
            if held.version is None:
                held.doubt()
        elif own and not self.ahead and not self.changed:
            held.renew()  # the snapshot's answer still


def _count_in(rows: list[Row]) -> int:
    """What FOUND_ROWS() was. Raises InvariantViolated."""
    if len(rows) != 1 or not isinstance(count := rows[0][0], int):
        raise InvariantViolated("the source did not tell FOUND_ROWS()")
    return count


def stays() -> None:
    """The watch of a key that only stays."""
