"""How a key's answer is derived: the compiled parts of a reader, what deriving a key gives, and the work of each part
on some rows. `ReaderNode.derive` does all of it in one step, `dataflow/readers/in_steps.py` in several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dataflow.entries import ENTRY_BYTES, Entry
from dataflow.held.arrangement import UNBOUNDED, Arrangement
from dataflow.operators.aggregate import VALUES, Accumulator, State, add_value, empty_state, result
from dataflow.readers.ranges import Range
from sqltypes.errors import EvaluationError, UpwellError
from sqltypes.expression import Key, Row, Value
from sqltypes.spellings import SPELLINGS
from sqltypes.values import identical

Params = tuple[
    Value, ...
]  # the query's parameters by index; a list parameter's place holds the one value that this key is about
ROW_BYTES = 100  # of an entry's row, about


@dataclass(frozen=True, slots=True)
class Level:
    """A lookup, compiled over the joined row so far. `key` gives None as a whole where a part is NULL: it finds
    nothing.

    `key_values`: the parts as values, for SQL. `nulls`: what stands for a missing partner of an outer lookup.
    """

    node: Arrangement
    key: Callable[[Row, Params], Key]
    key_values: Callable[[Row, Params], Row]
    outer: bool
    on: Callable[[Row, Params], bool] | None
    nulls: Row
    direct: Callable[[Row, Params], Row] | None  # the parts from parameters alone (applied to an empty row)
    direct_key: Callable[[Row, Params], Key] | None


@dataclass(frozen=True, slots=True)
class Grouping:
    """Aggregation above the lookups, folded anew at each derivation."""

    key: Callable[[Row, Params], Key]
    values: Callable[[Row, Params], Row]
    arguments: Callable[[Row, Params], Row]
    accumulators: tuple[Accumulator, ...]
    exact: bool  # equal keys are the same group values
    implicit: bool  # no GROUP BY: one row even over nothing


@dataclass(frozen=True, slots=True)
class ReaderProgram:
    """The compiled parts of a reader. Functions take (row, params); the row is the joined row, or (group values,
    aggregates)."""

    root: Arrangement
    root_key: Callable[[Params], Key]
    root_values: Callable[[Params], Row]
    levels: tuple[Level, ...]
    filter: Callable[[Row, Params], bool] | None
    range: Range | None  # of the root's rows that can pass it
    grouping: Grouping | None
    having: Callable[[Row, Params], bool] | None
    project: Callable[[Row, Params], Row] | None  # None: the row is the answer's row already
    distinct: Callable[[Row], Key] | None
    order: Callable[[Row, Params], Any] | None
    limit: Callable[[Params], tuple[int | None, int]] | None  # (count, offset)
    limit_from_params: bool
    # By parameter the comparison of it with a column, for those that are nothing else (`planner/evict/crossings.py`).
    compared: Mapping[int, Callable[[Row, Params], bool]] = field(default_factory=dict)
    # By which the rows of one key are sorted where there is no ORDER BY.
    reading: Callable[[Row], Any] | None = None

    def passing(self, joined: Iterable[Row], params: Params) -> Iterable[Row]:
        """The joined rows of one key that pass the filter. A value of an IN-list may stand in it, so each key has its
        own."""
        passes = self.filter
        return joined if passes is None else [row for row in joined if passes(row, params)]

    def passing_in_order(self, joined: Iterable[Row], params: Params) -> Iterable[Row]:
        """As `passing`, in the order in which MySQL reads one key's rows, where that is known."""
        rows = joined if self.filter is None else self.passing(joined, params)
        return rows if self.reading is None else read_in_order(self.reading, list(rows))

    def finish(self, joined: Iterable[Row], params: Params) -> list[Row]:
        """What is above the lookups for one key: filter, aggregate, having, project, distinct, order, limit."""
        return self.finish_passed(self.passing_in_order(joined, params), params)

    def finish_passed(self, rows: Iterable[Row], params: Params) -> list[Row]:
        """What is above the filter, for the rows of one key or of all keys of an IN-list."""
        if self.grouping is not None:
            rows = aggregate(self.grouping, rows, params)
        if self.having is not None:
            passes = self.having
            rows = [row for row in rows if passes(row, params)]
        project = self.project
        if self.order is None:
            answer = [project(row, params) for row in rows] if project is not None else list(rows)
        else:
            order = self.order
            keyed = sorted(((order(row, params), row) for row in rows), key=lambda pair: pair[0])
            answer = [project(row, params) if project is not None else row for _, row in keyed]
        if self.distinct is not None:
            first: dict[Key, Row] = {}
            keep_distinct(answer, self.distinct, first)
            answer = list(first.values())
        if self.limit is not None:
            count, offset = self.limit(params)
            answer = answer[offset : None if count is None else offset + count]
        return answer


@dataclass(slots=True)
class Hole:
    """A key that an arrangement does not hold. `level`: -1 is the root."""

    level: int
    key: Key
    values: Row


def read_in_order(reading: Callable[[Row], Any], rows: list[Row]) -> list[Row]:
    """The rows as MySQL reads them. Where the place of one is not known they stay as they are: any order is right."""
    if len(rows) > 1:
        with suppress(UpwellError):
            return sorted(rows, key=reading)
    return rows


class TooLong(Exception):
    """To derive a key takes more than a short step: `dataflow/readers/in_steps.py` does it in several."""


@dataclass(slots=True)
class Derivation:
    """What deriving one key gave: the joined rows, the entries consulted, and what was missing.

    `rows` are complete only if there is no hole. `blind`: levels below one that had a hole, so that their keys are not
    known.
    """

    rows: Sequence[Row] = field(default_factory=list)
    deps: list[Entry] = field(default_factory=list)
    holes: list[Hole] = field(default_factory=list)
    blind: bool = False


def expand(
    found: Derivation,
    rows: Sequence[Row],
    number: int,
    level: Level,
    entry_of: Callable[[Key], Entry | None],
    params: Params,
    partners_by_key: dict[Key, Iterable[Row] | None],
    most: int = UNBOUNDED,
) -> list[Row]:
    """One lookup for these rows. `entry_of`: of the level's entries. Partners of one key are fetched once: they are
    kept in `partners_by_key`, which begins as {None: ()}. What is consulted and what is missing goes to `found`.
    Raises TooLong where these are, or become, more than `most` rows."""
    out: list[Row] = []
    on = level.on
    if most < UNBOUNDED and len(rows) > most:
        raise TooLong
    for row in rows:
        if len(out) > most:
            raise TooLong
        key = level.key(row, params)
        if key in partners_by_key:
            partners = partners_by_key[key]
        else:
            entry = entry_of(key)
            if entry is None:
                found.holes.append(Hole(number, key, level.key_values(row, params)))
                partners = None
            else:
                if most < UNBOUNDED and entry.size - ENTRY_BYTES > most * ROW_BYTES:
                    raise TooLong  # before its rows are listed
                found.deps.append(entry)
                partners = level.node.rows(entry.content)
            partners_by_key[key] = partners
        if partners is None:
            continue
        matched = False
        for partner in partners:
            joined = row + partner
            if on is None or on(joined, params):
                out.append(joined)
                matched = True
        if not matched and level.outer:
            out.append(row + level.nulls)
    if len(out) > most:
        raise TooLong
    return out


def keep_distinct(rows: Iterable[Row], key: Callable[[Row], Key], first: dict[Key, Row]) -> None:
    """Puts into `first` the rows that are the first of their key."""
    for row in rows:
        shown = first.setdefault(key(row), row)
        if shown is not row and not identical(shown, row):
            raise EvaluationError(SPELLINGS)


def aggregate(grouping: Grouping, rows: Iterable[Row], params: Params) -> list[Row]:
    """Folds the joined rows into one row a group: group values, then aggregates."""
    states: dict[Key, State] = {}
    fold(grouping, rows, params, states)
    return groups_of(grouping, list(states.values()))


def fold(grouping: Grouping, rows: Iterable[Row], params: Params, states: dict[Key, State]) -> None:
    """Adds these rows to the groups."""
    for row in rows:
        key = grouping.key(row, params)
        state = states.get(key)
        if state is None:
            state = states[key] = empty_state(grouping.values(row, params), grouping.accumulators)
        elif not grouping.exact and not identical(state[VALUES], grouping.values(row, params)):
            raise EvaluationError(SPELLINGS)
        for item, value in zip(grouping.accumulators, grouping.arguments(row, params), strict=True):
            add_value(state, item, value)


def groups_of(grouping: Grouping, states: Sequence[State]) -> list[Row]:
    """The rows of the groups; without GROUP BY there is one even where there are none."""
    if grouping.implicit and not states:
        states = [empty_state((), grouping.accumulators)]
    return [(*state[VALUES], *(result(state, item) for item in grouping.accumulators)) for state in states]
