"""Answers of a query by its parameters: evict mode, which makes every deterministic SELECT safe to cache.

Law: content(key) = the rows that MySQL returned for the query with the key's parameters, and no change since concerns
them. A change is never applied. It makes holes of the keys that it may concern: those whose parts equal columns of the
changed row, and all keys where no column tells.

Invariants:
1. `_index[parts]` leads from each combination of the values of those key parts (their comparison key) to exactly the
   held entries whose keys have it, those ahead of the position included. From `ANY` it leads to those that have more
   than MOST_COMBINATIONS: whatever the values are, a change concerns them. Entries with many places that are held no
   more may be there, too, until `tidy` has taken them out (`dataflow/held/remains.py`).
2. `_standing[rest]` is the last entry, held or ahead of the position, whose reach has ends for what is asked now, and
   whose key has these other parts; none that has gone.
3. `crossings` are those of the plan at the positions `_asked`; `_others` are all other positions of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import Any, cast

from dataflow.entries import ENTRY_BYTES, Entries, Entry, Held, lose, row_bytes, touch
from dataflow.held.arrangement import UNBOUNDED, Arrangement, Memory, Seen
from dataflow.held.remains import Item
from dataflow.messages import Pair
from dataflow.operators.growth import Growth
from dataflow.operators.old_answers import AT_ONCE, OldAnswers
from dataflow.operators.standing import Reach
from planner.tree.plan import AnswerArrangement, Crossing
from sqltypes.expression import Key, Row, Value
from sqltypes.values import identical

MOST_COMBINATIONS = 4000
"""Of the values of a key's parts that one table tells: to enter so many into the index takes 1 or 2 ms. A key with
more is emptied by each change that passes the table's filter."""
REACH_BYTES = 400  # what is known of other keys, and a place in a dict
PLACE_BYTES, CHOICE_BYTES = 140, 65  # a place in the index; a value in a set of them. Measured
MOST_AT_ONCE = 5_000  # keys that one change makes holes: 3 ms. Where it concerns more, all keys become holes
FEW = 16  # places that are taken out of the index at once
WEIGHED_AT_ONCE = 10  # values of lists that are as much work as a key
ANY = object()  # what no comparison key equals

Parts = tuple[int, ...]  # positions in the arrangement's key
Compared = Callable[[Value], Key]  # from a value of a key's part to its comparison key
Choices = tuple[frozenset[Key], ...]  # of each part that a table tells the comparison keys
Several = dict[Entry, None]  # in the order in which they came
Index = dict[Any, Entry | Several]  # where there is only one entry, it stands for itself


@dataclass(frozen=True, slots=True)
class AnswerWatch:
    """One table that the query reads, compiled.

    `passes`: may the row concern any answer? `parts`: the key parts that the row tells, `part_key` their comparison
    key. `used`: all that the query reads of the row, comparable.
    """

    table: str
    passes: Callable[[Row], bool]
    parts: Parts
    part_key: Callable[[Row], Key]
    used: Callable[[Row], Any]


class AnswerEntry(Entry):
    """`choices`: for each set of parts that a table tells their values, None where they have too many combinations. Of
    a key without lists it is None as a whole. `places`: in the index, if there are lists. `found`: what FOUND_ROWS()
    was behind the rows, where the query counts. `reach`: of which other keys it is the answer, where that was asked
    for."""

    __slots__ = ("choices", "found", "places", "reach")

    def __init__(self, owner: Arrangement, key: Key, content: list[Row], size: int) -> None:
        super().__init__(owner, key, content, size)
        self.choices: dict[Parts, Choices | None] | None = None
        self.places = 0
        self.found: int | None = None
        self.reach: Reach | None = None

    def reach_to(self, reach: Reach) -> None:
        """Requires: called once, before it is held."""
        self.reach = reach
        self.size += REACH_BYTES


class AnswerNode(Arrangement):
    """Content: the list of the answer's rows."""

    def __init__(
        self,
        plan: AnswerArrangement,
        number: int,
        memory: Memory,
        watches: tuple[AnswerWatch, ...],
        compared: dict[Parts, tuple[Compared, ...]],
    ) -> None:
        super().__init__(plan, number, memory)
        self._watches: dict[str, list[AnswerWatch]] = {}
        for watch in watches:
            self._watches.setdefault(watch.table, []).append(watch)
        self.most_at_once = MOST_AT_ONCE
        self._compared = compared  # for each set of parts that a watch tells, part by part
        self._index: dict[Parts, Index] = {parts: {} for parts in compared}
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
        """What the index has for the changes; None where that is all, or more than so many."""
        found: Several = {}
        for watch in self._watches.get(table, ()):
            values = self._values(watch, pairs)
            if values is None:
                return None
            if not values:
                continue
            index = self._index[watch.parts]
            if ANY in index:
                values.append(ANY)
            for value in values:
                there = index.get(value)
                if isinstance(there, dict):
                    most -= len(there)
                    if most < 0:
                        return None
                    found.update(there)
                elif there is not None:
                    found[there] = None
        return found

    def _looked_through(self, table: str, pairs: Sequence[Pair], keys: Entries) -> Several | None:
        """Likewise of entries that are not in the index."""
        found: Several = {}
        for watch in self._watches.get(table, ()):
            values = self._values(watch, pairs)
            if values is None:
                return None
            if values:
                found.update(dict.fromkeys(entry for entry in keys.values() if self._has(entry, watch.parts, values)))
        return found

    def note_touched(self, table: str, pairs: Sequence[Pair], seen: Seen) -> None:
        for watch in self._watches.get(table, ()):
            values = self._values(watch, pairs)
            if values is None:
                seen[ANY] = set()
            elif values:
                seen.setdefault(watch.parts, set()).update(values)

    def was_touched(self, entry: Entry, seen: Seen) -> bool:
        return ANY in seen or any(self._has(entry, parts, values) for parts, values in seen.items())

    def _values(self, watch: AnswerWatch, pairs: Sequence[Pair]) -> list[Any] | None:
        """What the changes tell of the keys; None where they tell nothing, so that all keys are concerned."""
        values: list[Any] = []
        for before, after in pairs:
            for image in self._images(watch, before, after):
                if not watch.parts:
                    return None
                values.append(watch.part_key(image))
        return values

    @staticmethod
    def _images(watch: AnswerWatch, before: Row | None, after: Row | None) -> list[Row]:
        """The images of a change that may concern answers; none if both read the same to the query."""
        old = before if before is not None and watch.passes(before) else None
        new = after if after is not None and watch.passes(after) else None
        if old is not None and new is not None:
            same_key = not watch.parts or watch.part_key(old) == watch.part_key(new)
            if same_key and identical(watch.used(old), watch.used(new)):
                return []
            return [old, new]
        return [image for image in (old, new) if image is not None]

    def _has(self, entry: Entry, parts: Parts, values: Collection[Key]) -> bool:
        """Whether the entry's key has one of these combinations of values: what the index says of held ones."""
        assert isinstance(entry, AnswerEntry)
        if entry.choices is None:
            return any(place in values for place in self._places(entry, parts))
        choices = entry.choices[parts]
        if choices is None:
            return True
        if len(choices) == 1:
            return not choices[0].isdisjoint(values)
        combinations = cast("Iterable[tuple[Key, ...]]", values)
        return any(all(map(frozenset.__contains__, choices, combination)) for combination in combinations)

    def _places(self, entry: Entry, parts: Parts) -> Iterable[Any]:
        """Where the index has the entry."""
        assert isinstance(entry, AnswerEntry) and isinstance(entry.key, tuple)
        if entry.choices is None:
            compared = self._compared[parts]
            if len(parts) == 1:
                return (compared[0](entry.key[parts[0]]),)
            return (tuple([by(entry.key[at]) for at, by in zip(parts, compared, strict=True)]),)
        choices = entry.choices[parts]
        if choices is None:
            return (ANY,)
        return choices[0] if len(choices) == 1 else product(*choices)

    def _chosen(self, key: Key, parts: Parts) -> Choices | None:
        """For each of the parts its values; None if these have too many combinations."""
        assert isinstance(key, tuple)
        choices: list[frozenset[Key]] = []
        for at, compared in zip(parts, self._compared[parts], strict=True):
            part = key[at]
            if not isinstance(part, tuple):
                choices.append(frozenset((compared(part),)))
            elif len(part) > MOST_COMBINATIONS:
                return None
            else:
                choices.append(frozenset(map(compared, part)))
        return tuple(choices) if prod(map(len, choices)) <= MOST_COMBINATIONS else None

    def _place(self, entry: Entry, entries: Entries) -> None:
        super()._place(entry, entries)
        if self._old.kept:
            self._compare(entry)
        for parts, index in self._index.items():
            for value in self._places(entry, parts):
                there = index.setdefault(value, entry)
                if isinstance(there, dict):
                    there[entry] = None
                elif there is not entry:
                    index[value] = {there: None, entry: None}

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
        self.memory.remains.add([], *self._index.values())
        self._index = {parts: {} for parts in self._compared}

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
            for parts, index in self._index.items():
                for value in self._places(entry, parts):
                    _leave(index, value, entry)
        return super().discard(entry)

    def _take_out(self, entry: Entry) -> Iterator[None]:
        """Takes an entry out of the index, a place at a time."""
        for parts, index in list(self._index.items()):
            for value in self._places(entry, parts):
                _leave(index, value, entry)
                yield

    def weight(self, key: Key) -> int:
        """How much more than to ask for and to hold a key of single values it is to do so with this one."""
        assert isinstance(key, tuple)
        lengths = [len(part) if isinstance(part, tuple) else 1 for part in key]
        places = [prod(lengths[at] for at in parts) for parts in self._compared]
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
            entry.size += PLACE_BYTES * len(self._compared)
            return entry
        entry.choices = {parts: self._chosen(key, parts) for parts in self._compared}
        for choices in entry.choices.values():
            lengths = [1] if choices is None else list(map(len, choices))
            entry.places += prod(lengths)
            entry.size += PLACE_BYTES * prod(lengths) + CHOICE_BYTES * sum(lengths)
        return entry

    def rows(self, content: Any) -> Iterable[Row]:
        return content  # type: ignore[no-any-return]  # a list of rows

    def check_invariants(self) -> None:
        super().check_invariants()
        for parts, index in self._index.items():
            entries = [*self.entries.values(), *self.ahead.values()]
            expected = {(value, id(entry)) for entry in entries for value in self._places(entry, parts)}
            found = [(value, entry) for value, there in index.items() for entry in _entries_at(there)]
            held = {(value, id(entry)) for value, entry in found if entry.content is not None}
            assert held == expected, f"the index of parts {parts} is not that of what is held"
            left = [entry for _, entry in found if entry.content is None]
            assert not left or self.memory.remains, "the index has entries that nobody takes out"
        for rest, standing in self._standing.items():
            assert standing.reach is not None and standing.content is not None, "what is gone stands for keys"
            assert self._rest(standing.key) == rest, "an answer stands for keys that are not its own"
            assert standing.reach.ends.keys() == self._asked, "an answer stands for keys that it was not asked for"


def _leave(index: Index, value: Any, entry: Entry) -> None:
    """Takes the entry out of one place."""
    there = index.get(value)
    if there is entry:
        del index[value]
    elif isinstance(there, dict):
        there.pop(entry, None)
        if not there:
            del index[value]


def _entries_at(there: Entry | Several | None) -> Iterable[Entry]:
    if isinstance(there, dict):
        return there
    return () if there is None else (there,)
