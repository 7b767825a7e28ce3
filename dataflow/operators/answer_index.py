"""Where the held answers are that a changed row may concern: by parts of their keys, and by intervals.

Values of the parts lead to the entries whose keys have them; of these an interval that the key spans leaves out those
that do not have the row's value. Few are not worth that: they are tried one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, cast

from dataflow.entries import Entry
from dataflow.held.arrangement import Arrangement
from dataflow.held.intervals import Intervals
from dataflow.operators.standing import Reach
from sqltypes.expression import Key, Row, Value

MOST_COMBINATIONS = 4000
"""Of the values of a key's parts that one table tells: to enter so many into the index takes 1 or 2 ms. A key with
more is emptied by each change that passes the table's filter."""
REACH_BYTES = 400  # what is known of other keys, and a place in a dict
FEW_INTERVALS = 16  # with the same parts: each is tried
ANY = object()  # what no comparison key equals
UNSURE = object()  # a row's value that is in no order with the ends

Parts = tuple[int, ...]  # positions in the arrangement's key
Compared = Callable[[Value], Key]  # from a value of a key's part to its comparison key
Ordered = Callable[[Value], Any]  # from a value to what stands for it in an order; None: it has no place there
Choices = tuple[frozenset[Key], ...]  # of each part that a table tells the comparison keys
Several = dict[Entry, None]  # in the order in which they came
There = Entry | Several | Intervals  # where there is only one entry, it stands for itself
Ends = tuple[Any, Any]  # of an interval, None where it is open


@dataclass(frozen=True, slots=True)
class Way:
    """`parts` that a row tells; `low`, `high`: the parts between which a value of the row lies, both included."""

    parts: Parts
    low: int | None = None
    high: int | None = None

    @property
    def spans(self) -> bool:
        return self.low is not None or self.high is not None


@dataclass(frozen=True, slots=True)
class RowWay:
    """A way, and what of a row it goes by: the comparison key of the parts, and the value that an interval is to have:
    None if it is NULL, UNSURE if it has no place in the order. `value` None: the way spans nothing."""

    way: Way
    part_key: Callable[[Row], Key]
    value: Callable[[Row], Any] | None


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


def chosen(key: Key, parts: Parts, compared: tuple[Compared, ...]) -> Choices | None:
    """For each of the parts its values; None if these have too many combinations."""
    assert isinstance(key, tuple)
    choices: list[frozenset[Key]] = []
    for at, by in zip(parts, compared, strict=True):
        part = key[at]
        if not isinstance(part, tuple):
            choices.append(frozenset((by(part),)))
        elif len(part) > MOST_COMBINATIONS:
            return None
        else:
            choices.append(frozenset(map(by, part)))
    return tuple(choices) if prod(map(len, choices)) <= MOST_COMBINATIONS else None


def add_to(found: Several, there: There, value: Any, most: int) -> bool:
    """Adds what stands at one place for the value of a row; False where more is found than so many."""
    if isinstance(there, Entry):
        found[there] = None
    elif isinstance(there, dict):
        found.update(there)
    else:
        having = list(there) if value is UNSURE else there.having(value, most)
        if having is None:
            return False
        found.update(dict.fromkeys(having))
    return len(found) <= most


class AnswerIndex:
    """The index of one way. `compared`: of its parts. `ordered`: of its ends.

    Invariant: `by_value[value]` leads from each combination of the values of the parts to exactly the entries that were
    entered and have not left, and whose keys have it; from ANY to those with more than MOST_COMBINATIONS. One whose end
    is NULL is nowhere: nothing concerns it.
    """

    def __init__(self, way: Way, compared: tuple[Compared, ...], ordered: Ordered | None) -> None:
        self.way = way
        self.by_value: dict[Any, There] = {}
        self.compared = compared
        self._ordered = ordered

    def places(self, entry: Entry) -> Iterable[Any]:
        """The values at which it stands."""
        assert isinstance(entry, AnswerEntry)
        return () if self.way.spans and self._ends(entry) is None else self._values(entry)

    def _values(self, entry: AnswerEntry) -> Iterable[Any]:
        """Combinations of the values of the parts; ANY where they are too many."""
        assert isinstance(entry.key, tuple)
        parts, compared = self.way.parts, self.compared
        if entry.choices is None:
            if len(parts) == 1:
                return (compared[0](entry.key[parts[0]]),)
            return (tuple([by(entry.key[at]) for at, by in zip(parts, compared, strict=True)]),)
        choices = entry.choices[parts]
        if choices is None:
            return (ANY,)
        return choices[0] if len(choices) == 1 else product(*choices)

    def has(self, entry: Entry, values: Collection[Key]) -> bool:
        """Whether the entry's key has one of these combinations of the parts' values, entered or not."""
        assert isinstance(entry, AnswerEntry)
        if not self.way.parts:
            return True
        if entry.choices is None:
            return any(value in values for value in self._values(entry))
        choices = entry.choices[self.way.parts]
        if choices is None:
            return True
        if len(choices) == 1:
            return not choices[0].isdisjoint(values)
        combinations = cast("Iterable[tuple[Key, ...]]", values)
        return any(all(map(frozenset.__contains__, choices, combination)) for combination in combinations)

    # -- what is entered

    def enter(self, entry: Entry) -> None:
        for value in self.places(entry):
            there = self.by_value.setdefault(value, entry)
            if isinstance(there, dict):
                there[entry] = None
                if self.way.spans and len(there) > FEW_INTERVALS:
                    self.by_value[value] = self._in_order(there)
            elif isinstance(there, Intervals):
                there.add(*self._known_ends(entry), entry)
            elif there is not entry:
                self.by_value[value] = {there: None, entry: None}

    def leave(self, entry: Entry, value: Any) -> None:
        """Takes the entry out of one place. Nothing where it is not there."""
        there = self.by_value.get(value)
        if there is entry:
            del self.by_value[value]
        elif isinstance(there, dict):
            there.pop(entry, None)
            if not there:
                del self.by_value[value]
        elif isinstance(there, Intervals):
            there.remove(*self._known_ends(entry), entry)
            if not there:
                del self.by_value[value]

    def _in_order(self, entries: Iterable[Entry]) -> Intervals:
        intervals = Intervals()
        for entry in entries:
            intervals.add(*self._known_ends(entry), entry)
        return intervals

    def _known_ends(self, entry: Entry) -> Ends:
        ends = self._ends(entry)
        assert ends is not None
        return ends

    def _ends(self, entry: Entry) -> Ends | None:
        """None where an end is NULL. An end that has no place in the order is open; so is one up to which the answer
        stands for other keys, too."""
        assert isinstance(entry, AnswerEntry) and isinstance(entry.key, tuple) and self._ordered is not None
        ends: list[Any] = []
        for at in (self.way.low, self.way.high):
            if at is None or (entry.reach is not None and at in entry.reach.ends):
                ends.append(None)
            elif (value := entry.key[at]) is None:
                return None
            else:
                ends.append(self._ordered(value))
        return ends[0], ends[1]

    def __iter__(self) -> Iterator[tuple[Any, Entry]]:
        """All places."""
        for value, there in self.by_value.items():
            if isinstance(there, Entry):
                yield value, there
            else:
                yield from ((value, entry) for entry in there)

    def check_invariants(self) -> None:
        for there in self.by_value.values():
            if isinstance(there, Intervals):
                assert self.way.spans and there, "intervals where none are"
                there.check_invariants()
