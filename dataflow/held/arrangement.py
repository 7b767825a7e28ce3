"""An arrangement: one index of one node, key -> content, with holes.

A hole is a key that is absent. A key that is known to have no rows has an entry with empty content. Subclasses
(`dataflow/operators/`) say what the content is and how a signed change alters it; this module has what they share.

A change is a pair of row images. The before image is a negative record, the after image a positive one. Each is judged
by its own key, and a record for a hole is discarded. What cannot be computed from the content held makes the key a
hole (`fail`), never a guess.

`apply` works on any dict of entries, so that the very code which keeps the held entries current also brings an
upquery's answer forward.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from dataflow.entries import ENTRY_BYTES, Draft, Entries, Entry, Held, Reader, dependents_of, lose, touch, touch_all
from dataflow.held.counters import ENGINE
from dataflow.held.hits import NONE_HELD, WHOLE, Beside, Edit, Hits
from dataflow.held.remains import Item, Remains
from dataflow.held.table import Table
from dataflow.losses import DOUBT, Because, emptied
from dataflow.messages import Keyed, Pair, Statement
from gtid_tracker.gtid import Gtid
from gtid_tracker.tracker import Cut, Fate, FillTracker
from planner.fill.prepared_text import FillText
from planner.tree.plan import AggregateArrangement, AnswerArrangement, RowsArrangement, TopKArrangement
from planner.tree.plan import Arrangement as ArrangementPlan
from sqltypes.errors import EvaluationError, InvariantViolated
from sqltypes.expression import Key, Row


class Nowhere:
    """The key of a row that does not pass an arrangement's filter. It equals no key."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NOWHERE"


NOWHERE = Nowhere()
UNBOUNDED = 1 << 62
MOST_ROWS = 1_000  # that are joined in one step: less than a millisecond
ROWS_AT_ONCE = 500  # of an answer that is loaded in steps
USUAL_EFFORT = 6
HASHED = 32  # answers that one event empties: a millisecond
LARGE_CONTENT = 4 << 20  # bytes of a content that is not copied: its key becomes a hole
Seen = dict[Any, Any]  # what changes have concerned, in the form of the arrangement that notes it
Locate = Callable[[Row], Key]  # the key of a base table's row, or NOWHERE
LinearPlan = RowsArrangement | AggregateArrangement | TopKArrangement


def _no_text(keys: Sequence[Row]) -> str:
    raise InvariantViolated("an answer arrangement is filled by the client's own text")


@dataclass(slots=True)
class Memory:
    """What all parts of the state share: bytes held by entries and answers, as estimated; how often each rule has acted
    (`dataflow/held/counters.py`).

    `sequence` rises with each event of the stream, `version` whenever an answer may become another one. `room`: how
    many answers of entries that several share may still become stale one by one, in this step. `most_rows`: an answer
    of which more are joined is derived in steps. `derived`: rows from which answers were derived so far, those that
    were looked up at each level. `because`: why holes are made now; as long as nobody says it, what is held is doubted.
    `hashed`: how many answers that this event empties may still be hashed (`dataflow/operators/old_answers.py`).
    """

    used: int = 0
    sequence: int = 0
    version: int = 0
    room: int = UNBOUNDED
    most_rows: int = MOST_ROWS
    because: Because | None = DOUBT
    hashed: int = HASHED
    derived: int = 0
    applied: int = 0  # row changes applied to held entries: too many for `count`
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ENGINE, 0))
    remains: Remains = field(init=False)

    def __post_init__(self) -> None:
        self.remains = Remains(self.free)

    def free(self, size: int) -> None:
        self.used -= size

    def count(self, name: str, by: int = 1) -> None:
        self.counters[name] = self.counters.get(name, 0) + by


class Arrangement:
    """One fill arrangement of the running graph.

    Invariants:
    1. Every held entry equals what its plan's SQL would answer at the position (between two transactions).
    2. `memory.used` includes the size of each held entry exactly once.
    3. `generation` rises whenever all entries are dropped: an answer asked for before is not inserted after.
    """

    def __init__(self, plan: ArrangementPlan, number: int, memory: Memory) -> None:
        self.plan = plan
        self.number = number
        self.memory = memory
        self.entries: Entries = {}  # one dict for life: readers keep a reference
        self.table = Table(self.entries)
        self.ahead: Entries = {}  # entries ahead of the position, likewise; a hole to all but single reads
        self.cuts: dict[Entry, Cut] = {}  # where those stand
        self.readers: dict[Reader, None] = {}  # that use it
        self.generation = 0
        self.tracker: FillTracker[Any] = FillTracker()
        self.key_of_answer: Callable[[Row], Key] = lambda row: ()
        self.key_width = 0
        self.fill_text: FillText = _no_text

    def statement(self, keys: list[Row]) -> Statement:
        """What fills these keys. Requires: it is no answer's."""
        assert not isinstance(self.plan, AnswerArrangement)
        return Statement(self.fill_text(keys), keyed=Keyed(self.plan.table, self.plan.key, keys))

    # -- what an operator provides -----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def tables(self) -> frozenset[str]:
        """The base tables (`schema.name`) whose changes concern it."""

    @abstractmethod
    def apply(self, table: str, pairs: Sequence[Pair], entries: Entries) -> None:
        """Applies the changes of one table, in order, to `entries`: the held ones, or those of an answer being brought
        forward."""

    @abstractmethod
    def touched(self, table: str, pairs: Sequence[Pair], keys: Entries) -> Iterable[Key]:
        """Which of `keys` the changes concern, before and after images both: the footprint test."""

    @abstractmethod
    def note_touched(self, table: str, pairs: Sequence[Pair], seen: Seen) -> None:
        """Notes in `seen` which keys the changes concern, held or not. Raises EvaluationError."""

    @abstractmethod
    def was_touched(self, entry: Entry, seen: Seen) -> bool:
        """Whether what was noted concerns an entry: the footprint test, with one look for many changes."""

    @abstractmethod
    def load(self, key: Key, rows: list[Row]) -> Entry:
        """A new entry, not held yet, of the rows that an upquery returned for the key (key columns cut off)."""

    @abstractmethod
    def rows(self, content: Any) -> Iterable[Row]:
        """The rows that an entry's content gives upwards (`planner.tree.plan.root_columns`)."""

    def saved(self, entry: Entry) -> Any:
        """What is written of an entry to a snapshot (`dataflow/fills/keeping.py`), of which `restored` makes it anew:
        pickled at once. With its size, orders not included."""
        return entry.content, entry.size

    def restored(self, key: Key, saved: Any) -> Entry:
        """An entry like the one that was saved, not held yet."""
        content, size = saved
        return Entry(self, key, content, size)

    # Those of the following that are long for many rows have the same in parts. An operator whose content is small, or
    # made without a line of Python for each row, needs none.

    def load_in_parts(self, key: Key, rows: list[Row], most: int) -> Generator[None, None, Entry]:
        """`load`, with so many rows in a step."""
        yield from ()
        return self.load(key, rows)

    def note_size(self, entry: Entry, by: int) -> None:
        """What finds rows of a held entry has grown by so many bytes; not where it is held no more."""
        if self.entries.get(entry.key) is entry:
            entry.size += by
            self.memory.used += by

    def rows_in_parts(self, content: Any, most: int) -> Iterator[Iterable[Row]]:
        """`rows`, so many at a time."""
        yield self.rows(content)

    # -- shared ------------------------------------------------------------------------------------------------------

    def new_entry(self, key: Key, content: Any, content_bytes: int) -> Entry:
        return Entry(self, key, content, ENTRY_BYTES + content_bytes)

    def load_in_steps(self, rows: list[Row], keys: Iterable[Key], loaded: Entries) -> Iterator[None]:
        """Puts entries into `loaded`, for `keys` and for every key that occurs in the answer's rows; a key without rows
        is known to be empty. So many rows are a step (`ROWS_AT_ONCE`), and all rows of one key."""
        groups: dict[Key, list[Row]] = {key: [] for key in keys}
        for first in range(0, len(rows), ROWS_AT_ONCE):
            if first:
                yield
            self._group(rows[first : first + ROWS_AT_ONCE] if len(rows) > ROWS_AT_ONCE else rows, groups)
        done = len(rows) % ROWS_AT_ONCE
        for key, group in groups.items():
            done += len(group) + 1
            if done > ROWS_AT_ONCE:
                done = 0
                yield
            if len(group) > ROWS_AT_ONCE:
                loaded[key] = yield from self.load_in_parts(key, group, ROWS_AT_ONCE)
            else:
                loaded[key] = self.load(key, group)

    def _group(self, rows: Sequence[Row], groups: dict[Key, list[Row]]) -> None:
        """Puts the rows of an answer under their keys."""
        width = self.key_width
        key_of = self.key_of_answer
        for row in rows:
            key = key_of(row)
            group = groups.get(key)
            if group is None:
                groups[key] = [row[width:]]
            else:
                group.append(row[width:])

    def insert(self, entry: Entry) -> None:
        """Holds an entry that stands at the position, in place of one ahead of it. Requires: its key is a hole."""
        entry.since = self.memory.sequence
        ahead = self.ahead.get(entry.key)
        if ahead is not None:
            with emptied(self.memory, None):
                self.discard(ahead)
        self._place(entry, self.entries)

    def insert_ahead(self, entry: Entry, cut: Cut) -> None:
        """Holds an entry that stands at its cut. Requires: its key is a hole, and held by nobody ahead either."""
        if entry.key in self.entries:
            raise InvariantViolated(f"key {entry.key!r} of arrangement {self.number} is held already")
        self._place(entry, self.ahead)
        self.cuts[entry] = cut

    def _place(self, entry: Entry, entries: Entries) -> None:
        replaced = entries.setdefault(entry.key, entry)
        if replaced is not entry:
            raise InvariantViolated(f"key {entry.key!r} of arrangement {self.number} is held already")
        self.memory.used += entry.size

    def promote(self, entry: Entry) -> None:
        """The position contains the entry's cut: it is held like any other, unless it has gone since."""
        if self.ahead.get(entry.key) is entry:
            del self.ahead[entry.key]
            self.cuts.pop(entry, None)
            entry.since = self.memory.sequence
            self.entries[entry.key] = entry

    def apply_ahead(self, table: str, pairs: Sequence[Pair], gtid: Gtid | None) -> None:
        """Applies the changes of one transaction to the entries ahead of the position that do not reflect it yet. One
        that may or may not reflect it becomes a hole."""
        for key in list(self.touched(table, pairs, self.ahead)):
            entry = self.ahead.get(key)
            if entry is None:
                continue
            match self.cuts[entry].fate(gtid):
                case Fate.TAGGED:
                    self.memory.count("records_in_cut_skipped")
                case Fate.DOUBTFUL:
                    self.memory.count("conflicts")
                    self.discard(entry)
                case Fate.APPLIED:
                    self._apply_to(table, pairs, entry)

    def drop_ahead(self, gtid: Gtid) -> None:
        """Makes holes of the entries ahead of the position that do not reflect a transaction: it may concern them."""
        fates: dict[int, Fate] = {}
        for entry in list(self.ahead.values()):
            cut = self.cuts[entry]
            fate = fates.get(id(cut))
            if fate is None:
                fate = fates[id(cut)] = cut.fate(gtid)
            if fate is Fate.TAGGED:
                self.memory.count("records_in_cut_skipped")
            else:
                self.memory.count("conflicts")
                self.discard(entry)

    def _apply_to(self, table: str, pairs: Sequence[Pair], entry: Entry) -> None:
        """Applies changes to one entry ahead of the position."""
        size = entry.size
        self.memory.version += 1
        self.apply(table, pairs, {entry.key: entry})
        self.memory.used += entry.size - size
        if entry.content is None:
            self.discard(entry)

    def discard(self, entry: Entry) -> list[Held]:
        """Makes the entry's key a hole. The answers derived from it are stale; they are returned."""
        if self.entries.get(entry.key) is entry:
            del self.entries[entry.key]
            self.table.gone += 1
            self.memory.used -= entry.size
        elif self.ahead.get(entry.key) is entry:
            del self.ahead[entry.key], self.cuts[entry]
            self.memory.used -= entry.size
        self.memory.version += 1
        touch(entry)
        if self.memory.room >= 0 or not isinstance(entry.dependents, set):  # else the readers have let go of all keys
            lose(entry.dependents)
        concerned = list(dependents_of(entry))
        entry.content = None
        entry.dependents = None
        return concerned

    def fail(self, entries: Entries, entry: Entry, why: str) -> None:
        """The entry's content cannot be computed from what is held: its key becomes a hole."""
        self.memory.count(why)
        if entries is self.entries:
            self.discard(entry)
        else:
            entries.pop(entry.key, None)
            entry.content = None

    def cannot_evaluate(self) -> None:
        """A change of a table cannot be evaluated: no key is known any more."""
        self.memory.count("evaluation_failed")
        self.clear()

    def clear(self) -> None:
        """Makes every key a hole."""
        count = len(self.entries) + len(self.ahead)
        if count <= self.memory.remains.few:
            for entry in (*self.entries.values(), *self.ahead.values()):
                self.discard(entry)
        else:
            self.let_go()
        self.generation += 1
        self.tracker.clear()

    def let_go(self) -> None:
        """Makes every key a hole, and every key of the readers above, in a step that is short however many there are
        (`dataflow/held/remains.py`)."""
        for reader in self.readers:
            reader.let_go()
        self.memory.version += 1
        items: list[Item] = [*self.entries.values(), *self.ahead.values()]
        self.entries.clear()
        self.ahead.clear()
        self.cuts.clear()
        self.memory.remains.add(items)

    def __iter__(self) -> Iterator[Key]:
        return iter(self.entries)

    def check_invariants(self) -> None:
        """Raises AssertionError where an entry and its owner disagree."""
        assert not self.entries.keys() & self.ahead.keys(), "a key is held at the position and ahead of it"
        assert self.cuts.keys() == set(self.ahead.values()), "a cut is of no entry, or an entry has none"
        for key, entry in (*self.entries.items(), *self.ahead.items()):
            assert entry.owner is self, f"{key!r} has another owner"
            assert entry.key == key, f"{entry.key!r} is held under {key!r}"
            assert entry.content is not None, f"{key!r} is held and dropped"
            for held in dependents_of(entry):
                assert entry in held.deps, f"{key!r} does not know of {held.key!r}"


class LinearArrangement(Arrangement):
    """An arrangement over one base table, whose rows tell their key: all but those of answers."""

    def __init__(self, plan: LinearPlan, number: int, memory: Memory, locate: Locate) -> None:
        super().__init__(plan, number, memory)
        self.locate = locate
        # Where this is equal, `locate` gives the same for every row. (Two readings of one table may differ.)
        self.located_by = (id(plan.table), plan.key, plan.filter)
        self.key_column: int | None = None  # the position of the one column whose value, in any row, is the key
        # What a change of a held key takes, in times of that of a row of a few columns, which is half a microsecond.
        self.effort = USUAL_EFFORT
        self._tables = frozenset((plan.table.qualified,))

    @property
    def tables(self) -> frozenset[str]:
        return self._tables

    @abstractmethod
    def change(
        self, entries: Entries, before: Row | None, after: Row | None, old: Entry | None, new: Entry | None
    ) -> None:
        """Applies one change to the entries that it concerns: the before image's `old`, the after image's `new`.

        Requires: each is held in `entries`, or None for a hole, for no image and for one that does not pass; not both
        are None. They may be the same.
        """

    @abstractmethod
    def copied(self, content: Any) -> Any:
        """The content, so that what is done to one of the two leaves the other as it is."""

    def spared(self, content: Any) -> int:
        """Bytes of the content that a copy does without."""
        return 0

    def change_all(self, hits: Hits, beside: Beside | None = None) -> None:
        """Applies changes, in order, to the held entries that they were found to concern; some may have gone since.
        With `beside`: works out there what they make of them."""
        entries = self.entries if beside is None else NONE_HELD
        had = len(beside.made) if beside is not None else 0
        for before, after, old, new in hits.each():
            leaves = self._target(old, beside) if old is not None else None
            enters = leaves if new is old else self._target(new, beside) if new is not None else None
            if leaves is not None or enters is not None:
                try:
                    self.change(entries, before, after, leaves, enters)
                except EvaluationError:
                    self.fail_evaluation(entries, leaves, enters)
        if beside is not None:
            made = beside.made
            for entry in list(islice(made, had, None)):
                draft = made[entry]
                if isinstance(draft, Draft) and draft.since < 0 and draft.content is not None:
                    del made[entry]  # it reads nothing that has changed
                    beside.size -= draft.size

    def _target(self, entry: Entry, beside: Beside | None) -> Entry | None:
        """What a change of the entry is applied to: itself or its draft, if it is held and can be computed."""
        target = entry
        if beside is not None:
            found = beside.made.get(entry)
            target = found if isinstance(found, Draft) else self._draft(entry, found, beside)
        return target if target.content is not None else None

    def _fail_target(self, entry: Entry, beside: Beside | None, why: str) -> None:
        target = self._target(entry, beside)
        if target is not None:
            self.fail(self.entries if beside is None else NONE_HELD, target, why)

    def _draft(self, entry: Entry, edit: Edit | None, beside: Beside) -> Draft:
        """A copy of an entry, edited. One that is too large has no content, for it cannot be computed, nor has that of
        an entry that is not held any more."""
        content, size = entry.content, entry.size
        if content.__class__ is list:  # the commonest: a few rows
            content = content.copy() if size <= LARGE_CONTENT else None
        elif content is not None:
            size -= self.spared(content)
            content = self.copied(content) if size <= LARGE_CONTENT else None
        draft = beside.made[entry] = Draft(self, entry.key, content, size)
        if content is not None:
            beside.size += size
            if edit is not None:
                place, item, by = edit
                if place is WHOLE:
                    draft.content = item
                else:
                    content[place] = item
                draft.size += by
                draft.since = 0
        return draft

    def fail_evaluation(self, entries: Entries, *concerned: Entry | None) -> None:
        """A change cannot be evaluated, but where the row goes could: it concerns no others than these."""
        for entry in concerned:
            if entry is not None and entry.content is not None:
                self.fail(entries, entry, "evaluation_failed")

    def publish(self, made: Mapping[Entry, Draft | Edit]) -> None:
        """What was worked out of entries that are still held takes effect. A draft gets the content in whose place its
        own comes."""
        get, memory = self.entries.get, self.memory
        changed: list[Entry] = []
        for entry, new in made.items():
            if get(entry.key) is not entry:
                continue
            if not isinstance(new, Draft):
                place, item, by = new
                if place is WHOLE:
                    entry.content = item
                else:
                    entry.content[place] = item
            elif new.content is not None:
                entry.content, new.content = new.content, entry.content
                by = new.size - entry.size
            else:
                self.discard(entry)
                continue
            entry.size += by
            memory.used += by
            changed.append(entry)
        touch_all(changed)

    def apply(self, table: str, pairs: Sequence[Pair], entries: Entries) -> None:
        locate = self.locate
        get = entries.get
        for before, after in pairs:
            old = get(locate(before)) if before is not None else None
            new = get(locate(after)) if after is not None else None
            if old is not None or new is not None:
                self.change(entries, before, after, old, new)

    def touched(self, table: str, pairs: Sequence[Pair], keys: Entries) -> Iterable[Key]:
        locate = self.locate
        images = (image for pair in pairs for image in pair if image is not None)
        return {key for image in images if (key := locate(image)) is not NOWHERE and key in keys}

    def note_touched(self, table: str, pairs: Sequence[Pair], seen: Seen) -> None:
        locate = self.locate
        images = (image for pair in pairs for image in pair if image is not None)
        seen.setdefault(None, set()).update(map(locate, images))

    def was_touched(self, entry: Entry, seen: Seen) -> bool:
        return bool(seen) and entry.key in seen[None]

    def _resize(self, entries: Entries, entry: Entry, by: int) -> None:
        """The entry's content has grown by so many bytes."""
        entry.size += by
        if entries is self.entries:
            self.memory.used += by
