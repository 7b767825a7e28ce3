"""Answers of a query by its parameters: evict mode, which makes every deterministic SELECT safe to cache.

Law: content(key) = the rows that MySQL returned for the query with the key's parameters, and no change since concerns
them. A change is never applied. It makes holes of the keys that it may concern: those whose parts equal columns of the
changed row, and which pass with it what else tells (`AnswerInput`); all keys where nothing tells.

Invariants:
1. `_index[way]` has exactly the held entries, those ahead of the position included
   (`dataflow/operators/answer_index.py`). Entries with many places that are held no more may be there, too, until
   `tidy` has taken them out (`dataflow/held/remains.py`).
2. `_standing[rest]` is the last entry, held or ahead of the position, whose reach has ends for what is asked now, and
   whose key has these other parts; none that has gone.
3. `crossings` are those of the plan at the positions `_asked`; `_others` are all other positions of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import Any

from dataflow.entries import ENTRY_BYTES, Entries, Entry, Held, lose, row_bytes, touch
from dataflow.held.arrangement import UNBOUNDED, Arrangement, Memory, Seen
from dataflow.held.remains import Item
from dataflow.messages import Pair
from dataflow.operators.answer_index import (
    ANY,
    MOST_COMBINATIONS,
    UNSURE,
    AnswerEntry,
    AnswerIndex,
    Parts,
    RowWay,
    Several,
    Way,
    add_to,
    chosen,
)
from dataflow.operators.growth import Growth
from dataflow.operators.old_answers import AT_ONCE, OldAnswers
from planner.tree.plan import AnswerArrangement, Crossing
from sqltypes.errors import EvaluationError
from sqltypes.expression import Key, Row
from sqltypes.values import identical

PLACE_BYTES, CHOICE_BYTES = 140, 65  # a place in the index; a value in a set of them. Measured
MOST_AT_ONCE = 5_000  # keys that one change makes holes: 3 ms. Where it concerns more, all keys become holes
MOST_TRIED = 2_000  # rows times answers that a change is tried with: 2 ms. Where they are more, an index alone tells
MOST_NOTED = 32  # rows that are noted for fills under way. Where they are more, an index alone tells
FEW = 16  # places that are taken out of the index at once
WEIGHED_AT_ONCE = 10  # values of lists that are as much work as a key


Tells = Callable[[Row], Callable[[Entry], bool]]


@dataclass(frozen=True, slots=True)
class AnswerWatch:
    """One table that the query reads, compiled.

    `passes`: may the row concern any answer? `ways`: by which indexes what it concerns is found; none at all where no
    index tells. `tells`: may a row concern the answer of an entry? None: what is found is concerned. `used`: all
    that the query reads of the row, comparable.
    """

    table: str
    passes: Callable[[Row], bool]
    ways: tuple[RowWay, ...]
    tells: Tells | None
    used: Callable[[Row], Any]


class AnswerNode(Arrangement):
    """Content: the list of the answer's rows."""

    def __init__(
        self,
        plan: AnswerArrangement,
        number: int,
        memory: Memory,
        watches: tuple[AnswerWatch, ...],
        indexes: Callable[[], dict[Way, AnswerIndex]],
    ) -> None:
        super().__init__(plan, number, memory)
        self._watches: dict[str, list[AnswerWatch]] = {}
        for watch in watches:
            self._watches.setdefault(watch.table, []).append(watch)
        self.most_at_once = MOST_AT_ONCE
        self._indexes = indexes
        self._index = indexes()  # of each way that a watch has
        self._parts = {way.parts: index for way, index in self._index.items()}
        self._growths = {crossing.position: Growth() for crossing in plan.crossings}
        self._by_clock = False
        self._asked: frozenset[int] = frozenset()
        self.crossings: tuple[Crossing, ...] = ()  # that are asked for with the answers: how far they reach
        self._others = tuple(range(len(plan.key_types)))
        self._old = OldAnswers()
        self._standing: dict[Row, AnswerEntry] = {}  # by the other parts of the key the last entry that has a reach

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(self._watches)

    def apply(self, table: str, pairs: Sequence[Pair], entries: Entries) -> None:
        if not entries:
            return
        if entries is self.entries:
            keys = self.concerned(table, pairs)
            if keys is None or len(keys) > self.memory.remains.few:
                self._empty(keys)
            elif keys:
                self._fail_all(keys, entries)
            return
        self._fail_all(self.touched(table, pairs, entries), entries)

    def _empty(self, keys: list[Key] | None) -> None:
        """Makes many keys holes; None: all, or too many."""
        if keys is not None:
            self.let_go_of(keys)
        elif len(self.entries) <= self.memory.remains.few:
            self._fail_all(self.entries, self.entries)
        else:
            self.memory.count("evicted_by_change", len(self.entries))
            self.let_go()

    def _fail_all(self, keys: Iterable[Key], entries: Entries) -> None:
        for key in list(keys):
            entry = entries.get(key)
            if entry is not None:
                self.fail(entries, entry, "evicted_by_change")

    def touched(self, table: str, pairs: Sequence[Pair], keys: Entries) -> Iterable[Key]:
        if keys is self.entries or keys is self.ahead:
            found = self._found(table, pairs, UNBOUNDED)
        else:
            found = self._looked_through(table, pairs, keys)
        if found is None:
            return list(keys)
        return [entry.key for entry in found if keys.get(entry.key) is entry] if found else ()

    def concerned(self, table: str, pairs: Sequence[Pair]) -> list[Key] | None:
        """The held keys that the changes concern; None where these are all, or too many for one step."""
        found = self._found(table, pairs, self.most_at_once)
        if not found:
            return None if found is None else []
        entries = self.entries
        keys = [entry.key for entry in found if entries.get(entry.key) is entry]
        return None if len(keys) == len(entries) > self.memory.remains.few and not self.ahead else keys

    def _found(self, table: str, pairs: Sequence[Pair], most: int) -> Several | None:
        """Those of the held entries that the changes concern; None where that is all, or more than so many."""
        found: Several = {}
        for watch in self._watches.get(table, ()):
            images = self._images(watch, pairs)
            if not images:
                continue
            if watch.tells is None:
                if not self._add(found, watch, images, most):
                    return None
                continue
            there: Several = {}
            if not self._add(there, watch, images, most):
                return None
            found.update(_tried(watch.tells, images, there))
        return found if len(found) <= most else None

    def _add(self, found: Several, watch: AnswerWatch, images: Sequence[Row], most: int) -> bool:
        """Adds the held entries that the indexes have for rows; False where that is all, or more than so many."""
        if not watch.ways:
            if watch.tells is None or (len(self.entries) + len(self.ahead)) * len(images) > MOST_TRIED:
                return False
            found.update(dict.fromkeys((*self.entries.values(), *self.ahead.values())))
            return True
        for by in watch.ways:
            by_value, value_of = self._index[by.way].by_value, by.value
            for image in images:
                value = UNSURE if value_of is None else value_of(image)
                there = None if value is None else by_value.get(by.part_key(image))
                if there is not None and not add_to(found, there, value, most):
                    return False
            if ANY in by_value and not add_to(found, by_value[ANY], UNSURE, most):
                return False
        return True

    def _looked_through(self, table: str, pairs: Sequence[Pair], keys: Entries) -> Several | None:
        """Likewise of entries that are not in the index."""
        found: Several = {}
        for watch in self._watches.get(table, ()):
            images = self._images(watch, pairs)
            if not images:
                continue
            if not watch.ways and watch.tells is None:
                return None
            there = dict.fromkeys(keys.values())
            if watch.ways:
                values = self._values(watch, images)
                there = {entry: None for entry in there if self._has_one(entry, values)}
            found.update(there if watch.tells is None else _tried(watch.tells, images, there))
        return found

    def note_touched(self, table: str, pairs: Sequence[Pair], seen: Seen) -> None:
        """What has a condition is noted as rows, while these are few; then only by what an index tells."""
        for watch in self._watches.get(table, ()):
            images = self._images(watch, pairs)
            if not images:
                continue
            if watch.tells is not None and seen.setdefault(watch, []) is not None:
                seen[watch] += images
                if len(seen[watch]) <= MOST_NOTED:
                    continue
                images, seen[watch] = seen[watch], None
            if not watch.ways:
                seen[ANY] = True
            for parts, values in self._values(watch, images).items():
                seen.setdefault(parts, set()).update(values)

    def was_touched(self, entry: Entry, seen: Seen) -> bool:
        for by, noted in seen.items():
            if by is ANY:
                return True
            if isinstance(by, AnswerWatch):
                assert by.tells is not None
                if noted is not None and _tried(by.tells, noted, {entry: None}):
                    return True
            elif self._parts[by].has(entry, noted):
                return True
        return False

    def _has_one(self, entry: Entry, values: dict[Parts, set[Key]]) -> bool:
        return any(self._parts[parts].has(entry, several) for parts, several in values.items())

    @staticmethod
    def _values(watch: AnswerWatch, images: Iterable[Row]) -> dict[Parts, set[Key]]:
        """What rows tell of the parts of the keys that they concern, way by way."""
        values: dict[Parts, set[Key]] = {}
        for by in watch.ways:
            values.setdefault(by.way.parts, set()).update(map(by.part_key, images))
        return values

    @staticmethod
    def _images(watch: AnswerWatch, pairs: Sequence[Pair]) -> list[Row]:
        """The images of changes that may concern answers; none of a change of which both read the same to the query."""
        images: list[Row] = []
        for before, after in pairs:
            old = before if before is not None and watch.passes(before) else None
            new = after if after is not None and watch.passes(after) else None
            if (
                old is not None
                and new is not None
                and identical(watch.used(old), watch.used(new))
                and all(by.part_key(old) == by.part_key(new) for by in watch.ways)
            ):
                continue
            images += [image for image in (old, new) if image is not None]
        return images

    def _place(self, entry: Entry, entries: Entries) -> None:
        super()._place(entry, entries)
        if self._old.kept:
            self._compare(entry)
        for index in self._index.values():
            index.enter(entry)
        if isinstance(entry, AnswerEntry) and entry.reach is not None and entry.reach.ends.keys() == self._asked:
            self._standing[self._rest(entry.key)] = entry

    def _note_old(self, entries: Iterable[Entry]) -> None:
        """These are about to go. Where a change takes them, some are hashed."""
        memory = self.memory
        table = memory.because[1] if memory.because is not None else ""
        if table:
            for entry in entries:
                if memory.hashed > 0:
                    memory.hashed -= self._old.note(entry, table)

    def _compare(self, entry: Entry) -> None:
        found = self._old.compare(entry)
        if found is not None:
            for reader in self.readers:
                reader.losses.compare(found[0], equal=found[1])

    def crosses(self, places: Iterable[int]) -> bool:
        """Whether an answer may reach from one key to another that differs in these parts."""
        return bool(self._growths) and self._growths.keys() >= set(places)

    def ask_reaches(self) -> None:
        """From now on it is asked for with the answers how far they reach, where that can be told."""
        self._by_clock = True
        self._ask(frozenset(self._growths))

    def note_filled(self, values: Row) -> None:
        """A key of these values is about to be filled. How far its answer reaches is asked where such values grow."""
        if self._by_clock or not self._growths:
            return
        in_vain = tuple([values[at] for at in self._others]) in self._standing
        for at, growth in self._growths.items():
            growth.note(values[at], in_vain=in_vain)
        self._ask(frozenset(at for at, growth in self._growths.items() if growth.asked))

    def _ask(self, places: frozenset[int]) -> None:
        assert isinstance(self.plan, AnswerArrangement)
        if places != self._asked:
            self._asked, self._standing = places, {}
            self.crossings = tuple(crossing for crossing in self.plan.crossings if crossing.position in places)
            self._others = tuple(at for at in range(len(self.plan.key_types)) if at not in places)

    def _rest(self, key: Key) -> Row:
        assert isinstance(key, tuple)
        return tuple([key[at] for at in self._others])

    def standing(self, key: Key, values: Row) -> Row | None:
        """The values of a key that is held, whose answer is that of these, too. `key`: of the values."""
        entry = self._standing.get(self._rest(key))
        if entry is None or self.entries.get(entry.key) is not entry or entry.reach is None:
            return None
        if not entry.reach.has(values):
            return None
        for at in self._asked:
            if values[at] != entry.reach.values[at]:
                self._growths[at].used()
        return entry.reach.values

    def reached(self, key: Key, first: Row, last: Row) -> bool:
        """Whether one answer that is held is that of both, and of all between them. `key`: of the first one."""
        entry = self.entries.get(key) or self._standing.get(self._rest(key))
        if not isinstance(entry, AnswerEntry) or self.entries.get(entry.key) is not entry or entry.reach is None:
            return False
        return entry.reach.has(first) and entry.reach.has(last)

    def _stand_no_more(self, entry: Entry) -> None:
        if isinstance(entry, AnswerEntry) and entry.reach is not None:
            rest = self._rest(entry.key)
            if self._standing.get(rest) is entry:
                del self._standing[rest]

    def let_go(self) -> None:
        self._note_old(islice(self.entries.values(), AT_ONCE))
        super().let_go()
        self._standing = {}
        self.memory.remains.add([], *(index.by_value for index in self._index.values()))
        self._index = self._indexes()
        self._parts = {way.parts: index for way, index in self._index.items()}

    def let_go_of(self, keys: Iterable[Key]) -> None:
        """Makes these keys holes. What is left of their entries is taken apart later."""
        keys = list(keys)
        self._note_old([self.entries[key] for key in keys[:: 1 + len(keys) // AT_ONCE] if key in self.entries])
        items: list[Item] = []
        for key in keys:
            entry = self.entries.pop(key, None)
            if entry is not None:
                touch(entry)
                lose(entry.dependents)
                self._stand_no_more(entry)
                entry.content = None
                items.append(entry)
        self.table.gone += len(items)
        self.memory.count("evicted_by_change", len(items))
        self.memory.remains.add(items.copy())
        self.memory.remains.add_steps(self._take_all_out(items))

    def _take_all_out(self, entries: list[Item]) -> Iterator[None]:
        while entries:
            entry = entries.pop()
            assert isinstance(entry, Entry)
            yield from self._take_out(entry)

    def discard(self, entry: Entry) -> list[Held]:
        self._stand_no_more(entry)
        if self.entries.get(entry.key) is not entry and self.ahead.get(entry.key) is not entry:
            return super().discard(entry)  # it was let go: the index is of those that came since
        if self.memory.because is not None and self.memory.because[1]:
            self._note_old((entry,))
        if isinstance(entry, AnswerEntry) and entry.places > FEW:
            self.memory.remains.add_steps(self._take_out(entry))
        else:
            for index in self._index.values():
                for value in index.places(entry):
                    index.leave(entry, value)
        return super().discard(entry)

    def _take_out(self, entry: Entry) -> Iterator[None]:
        """Takes an entry out of the index, a place at a time."""
        for index in list(self._index.values()):
            for value in index.places(entry):
                index.leave(entry, value)
                yield

    def weight(self, key: Key) -> int:
        """How much more than to ask for and to hold a key of single values it is to do so with this one."""
        assert isinstance(key, tuple)
        lengths = [len(part) if isinstance(part, tuple) else 1 for part in key]
        places = [prod(lengths[at] for at in way.parts) for way in self._index]
        return 1 + (sum(lengths) + sum(count for count in places if count <= MOST_COMBINATIONS)) // WEIGHED_AT_ONCE

    def load(self, key: Key, rows: list[Row]) -> Entry:
        return self._entry(key, rows, sum(row_bytes(row) for row in rows))

    def saved(self, entry: Entry) -> Any:
        """How far its answer reaches is asked again where somebody counts on it."""
        assert isinstance(entry, AnswerEntry)
        return entry.content, entry.found

    def restored(self, key: Key, saved: Any) -> Entry:
        rows, found = saved
        entry = self.load(key, rows)
        assert isinstance(entry, AnswerEntry)
        entry.found = found
        return entry

    def load_in_parts(self, key: Key, rows: list[Row], most: int) -> Generator[None, None, Entry]:
        size = 0
        for first in range(0, len(rows), most):
            size += sum(row_bytes(row) for row in rows[first : first + most])
            yield
        return self._entry(key, rows, size)

    def _entry(self, key: Key, rows: list[Row], size: int) -> Entry:
        """`size`: bytes of the rows."""
        size += ENTRY_BYTES
        entry = AnswerEntry(self, key, rows, size)
        assert isinstance(key, tuple)
        if not any(isinstance(part, tuple) for part in key):
            entry.size += PLACE_BYTES * len(self._index)
            return entry
        entry.choices = {parts: chosen(key, parts, index.compared) for parts, index in self._parts.items()}
        for choices in entry.choices.values():
            lengths = [1] if choices is None else list(map(len, choices))
            entry.places += prod(lengths)
            entry.size += PLACE_BYTES * prod(lengths) + CHOICE_BYTES * sum(lengths)
        return entry

    def rows(self, content: Any) -> Iterable[Row]:
        return content  # type: ignore[no-any-return]  # a list of rows

    def check_invariants(self) -> None:
        super().check_invariants()
        for way, index in self._index.items():
            entries = [*self.entries.values(), *self.ahead.values()]
            expected = {(value, id(entry)) for entry in entries for value in index.places(entry)}
            held = {(value, id(entry)) for value, entry in index if entry.content is not None}
            assert held == expected, f"the index by {way} is not that of what is held"
            left = [entry for _, entry in index if entry.content is None]
            assert not left or self.memory.remains, "the index has entries that nobody takes out"
            index.check_invariants()
        for rest, standing in self._standing.items():
            assert standing.reach is not None and standing.content is not None, "what is gone stands for keys"
            assert self._rest(standing.key) == rest, "an answer stands for keys that are not its own"
            assert standing.reach.ends.keys() == self._asked, "an answer stands for keys that it was not asked for"


def _tried(tells: Tells, images: Sequence[Row], there: Several) -> Several:
    """Those of the entries that one of the rows concerns; all where they are too many to be tried. An answer that
    stands for other keys, too, is not tried with its own."""
    if len(there) * len(images) > MOST_TRIED:
        return there
    tests = [tells(image) for image in images]
    return {entry: None for entry in there if _concerns(tests, entry)}


def _concerns(tests: Sequence[Callable[[Entry], bool]], entry: Entry) -> bool:
    if isinstance(entry, AnswerEntry) and entry.reach is not None:
        return True
    try:
        return any([test(entry) for test in tests])
    except EvaluationError:
        return True
