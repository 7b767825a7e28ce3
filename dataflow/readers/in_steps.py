"""An answer of many rows, derived in steps of about a millisecond.

`ReaderNode.derive` and `ReaderProgram.finish_passed` do the same in one.

The functions are generators. Each step looks at the entries, so these must not change until the last step is made, or
what comes of it must be thrown away.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar

from dataflow.entries import EMPTY, Entries, Entry, Held, Linking, add_dependent, release
from dataflow.held.arrangement import Arrangement
from dataflow.operators.aggregate import State
from dataflow.readers.derivation import Derivation, Hole, Level, Params, TooLong, fold, groups_of, keep_distinct
from dataflow.readers.ranges import Range
from dataflow.readers.reader import ReaderNode
from sqltypes.errors import UpwellError
from sqltypes.expression import Key, Row

Item = TypeVar("Item")
Result = TypeVar("Result")
Steps = Generator[None, None, Result]
Holes = dict[Key, list[Hole]]  # by a reader's key
AT_ONCE = 500  # rows of a step
FIRST = itemgetter(0)
MOST_WAITED = 10_000  # steps, for somebody else who links the same key


def at_once(steps: Steps[Result]) -> Result:
    """What the steps return, all made now."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: Result = ended.value
            return result


def answered(
    reader: ReaderNode, keys: Sequence[tuple[Key, Params]], levels: Sequence[Entries]
) -> Steps[list[Row] | None]:
    """The rows for one key or for several of an IN-list; None if there is a hole."""
    joined: list[Row] = []
    for _, params in keys:
        found = yield from derived(reader, params, levels)
        if found.holes:
            return None
        joined += yield from passing(reader, found.rows, params)
    return (yield from _finished(reader, joined, keys[0][1]))


class RowsAt:
    """The rows for one key or for several of an IN-list from what is held, in steps, while changes may come.

    `rows` are the answer at the position of the first step; None: a change has come before that was known. `holes`: by
    key what is missing.
    """

    def __init__(self, reader: ReaderNode, keys: Sequence[tuple[Key, Params]]) -> None:
        self.rows: list[Row] | None = None
        self.holes: Holes = {}
        self._reader = reader
        self._keys = keys

    def steps(self) -> Steps[None]:
        reader, since = self._reader, self._reader.memory.sequence
        joined: list[Row] = []
        done = 0
        for key, params in self._keys:
            done += 1 + reader.weight(params, reader.held_levels)
            try:
                if done > AT_ONCE:
                    raise TooLong
                found = reader.derive(params, reader.held_levels, reader.memory.most_rows)
                done += len(list(found.rows)) if reader.program.levels else 0
            except TooLong:
                done = 0
                yield
                found = yield from derived(reader, params, reader.held_levels)
            if found.holes:
                self.holes[key] = found.holes
            if self.holes:
                continue
            joined += yield from passing(reader, found.rows, params)
            for some in parts(found.deps):
                # What has not changed since was, when it was looked at, as it was at the first step.
                if not _unchanged(some, since):
                    return
                if some is not found.deps:
                    yield
        if not self.holes:
            self.rows = yield from _finished(reader, joined, self._keys[0][1])


class Linked:
    """A held key that is linked in steps to all that it is derived from, while changes may come.

    `version`: of the key's answer; None: a change has come before that was done, or the key has gone. `holes`: what is
    missing below the key.
    """

    def __init__(self, reader: ReaderNode, held: Held, params: Params) -> None:
        self.version: int | None = None
        self.holes: list[Hole] = []
        self._reader = reader
        self._held = held
        self._params = params

    def steps(self) -> Steps[list[Row]]:
        """Returns the joined rows. They count only where there is a `version`."""
        held, reader = self._held, self._reader
        before, since = held.version, reader.memory.sequence
        found = yield from derived(reader, self._params, reader.held_levels)
        self.holes = found.holes
        if found.holes:
            return []
        if before is None or held.version != before:
            deps: dict[Entry, None] = {}
            for some in parts(found.deps):
                yield
                deps.update(dict.fromkeys(some))
            if not (yield from linked(held, list(deps), since)):
                return []
        self.version = held.version
        return list(found.rows)


class HeldRows:
    """The rows of a held key, in steps, while changes may come.

    `rows` are the answer as long as `version` is the key's. Both None: a change has come before that was
    known, or the key has gone. `holes`: nothing can be derived, for that is missing.
    """

    def __init__(self, reader: ReaderNode, held: Held, params: Params) -> None:
        self.rows: list[Row] | None = None
        self._link = Linked(reader, held, params)
        self._reader = reader
        self._params = params

    @property
    def version(self) -> int | None:
        return self._link.version

    @property
    def holes(self) -> list[Hole]:
        return self._link.holes

    def steps(self) -> Steps[None]:
        joined = yield from self._link.steps()
        if self._link.version is not None:
            self.rows = yield from finished(self._reader, joined, self._params)


def linked(held: Held, deps: list[Entry], since: int) -> Steps[bool]:
    """Links a held key to these entries, and to no others. False: one of
    them has changed since that event of the stream, or is held no more, or the key has gone, or somebody else has
    linked it to others meanwhile.

    Until the last step the key may be linked to more entries than it needs, and has no `version`.
    """
    for _ in range(MOST_WAITED):
        if not isinstance(held.watch, Linking):
            break
        yield  # somebody else links it
    else:
        return False
    linking = held.watch = Linking(held.watch)
    try:
        is_linked = yield from _linked(held, deps, since, linking)
        if is_linked and held.marks & EMPTY:
            held.filled()
        if is_linked and held.version is None:
            held.renew()
        return is_linked
    finally:
        if held.is_linked_by(linking):
            held.watch = linking.watch


def _linked(held: Held, deps: list[Entry], since: int, linking: Linking) -> Steps[bool]:
    own = held.links
    had = set(held.deps)
    yield
    for some in parts(deps):
        if not _is_ours(held, own, linking) or not _unchanged(some, since):
            return False
        fresh = [entry for entry in some if entry not in had]
        for entry in fresh:
            add_dependent(entry, held)
        own = held.links = (*held.deps, *fresh)
        yield
    if len(held.deps) > len(deps):
        needed = set(deps)
        yield
        spare = [entry for entry in had if entry not in needed]
        for first in range(0, len(spare), AT_ONCE):
            yield
            if not _is_ours(held, own, linking):
                return False
            own = held.links = (*deps, *spare[first + AT_ONCE :])
            for entry in spare[first : first + AT_ONCE]:
                release(entry, held)
    return _is_ours(held, own, linking)


def _is_ours(held: Held, own: Entry | tuple[Entry, ...], linking: Linking) -> bool:
    """Is the key held, linked by nobody else to others than `own`, and unchanged as far as it is linked?"""
    is_held = held.alive and held.reader.entries.get(held.key) is held
    return is_held and held.links is own and not linking.changed


def _unchanged(entries: Iterable[Entry], since: int) -> bool:
    """Are these held, and the same since that event?"""
    return all(entry.since <= since and entry.owner.entries.get(entry.key) is entry for entry in entries)


def derived(reader: ReaderNode, params: Params, levels: Sequence[Entries]) -> Steps[Derivation]:
    """The joined rows of one key, as `ReaderNode.derive` gives them."""
    program = reader.program
    key = program.root_key(params)
    entry = levels[0].get(key)
    if entry is not None and program.range is not None and levels is reader.held_levels:
        yield from in_range(program.root, entry, program.range)
        entry = levels[0].get(key)  # the one before may have been let go meanwhile
    if entry is None:
        return reader.derive(params, levels)
    joined: list[Row] = []
    found = Derivation(joined, deps=[entry])
    rows = program.range.rows(entry.content, params) if program.range is not None else None
    for part in parts(rows) if rows is not None else program.root.rows_in_parts(entry.content, AT_ONCE):
        joined += part
        yield
    for number, level in enumerate(program.levels):
        found.rows = yield from _joined(found, found.rows, number, level, levels[number + 1].get, params)
        if found.holes:
            found.blind = number + 1 < len(program.levels)
            break
    return found


def in_range(root: Arrangement, entry: Entry, range_: Range) -> Steps[None]:
    """Puts a held entry's rows in the order in which the range is looked up, where that is worth it."""
    if not range_.is_worth(entry):
        return
    content = entry.content
    size = yield from content.put_in_order(range_.column)
    if entry.content is content:
        root.note_size(entry, size)


def _joined(
    found: Derivation,
    rows: Sequence[Row],
    number: int,
    level: Level,
    entry_of: Callable[[Key], Entry | None],
    params: Params,
) -> Steps[list[Row]]:
    """One lookup for these rows, as `expand` makes it. A row may have very many partners."""
    out: list[Row] = []
    on = level.on
    partners_by_key: dict[Key, list[Row] | None] = {None: []}
    done = 0
    for row in rows:
        key = level.key(row, params)
        if key in partners_by_key:
            partners = partners_by_key[key]
        elif (entry := entry_of(key)) is None:
            found.holes.append(Hole(number, key, level.key_values(row, params)))
            partners = partners_by_key[key] = None
        else:
            found.deps.append(entry)
            partners = partners_by_key[key] = []
            for part in level.node.rows_in_parts(entry.content, AT_ONCE):
                if partners:
                    yield
                partners += part
        done += 1
        matched = False
        for some in parts(partners or ()):
            for partner in some:
                joined = row + partner
                if on is None or on(joined, params):
                    out.append(joined)
                    matched = True
            done += len(some)
            if done > AT_ONCE:
                done = 0
                yield
        if partners is not None and not matched and level.outer:
            out.append(row + level.nulls)
    yield
    return out


def finished(reader: ReaderNode, joined: Sequence[Row], params: Params) -> Steps[list[Row]]:
    """What is above the lookups for one key, as `ReaderProgram.finish` gives it."""
    passed = yield from passing(reader, joined, params)
    return (yield from _finished(reader, passed, params))


def passing(reader: ReaderNode, joined: Sequence[Row], params: Params) -> Steps[list[Row]]:
    """The rows of one key that pass the filter, as `ReaderProgram.passing_in_order` gives them."""
    out: list[Row] = []
    for some in parts(joined) if reader.program.filter is not None else ():
        out += reader.program.passing(some, params)
        if some is not joined:
            yield
    rows = out if reader.program.filter is not None else list(joined)
    reading = reader.program.reading
    if reading is not None:
        with suppress(UpwellError):  # the place of a row is not known
            return [row for _, row in (yield from in_order(reading, rows, params))]
    return rows


def grouped(reader: ReaderNode, rows: list[Row], params: Params) -> Steps[list[Row]]:
    """The rows of the groups, if there are any, that pass HAVING."""
    program = reader.program
    if program.grouping is not None:
        states: dict[Key, State] = {}
        for some in parts(rows):
            fold(program.grouping, some, params, states)
            yield
        rows = []
        for few in parts(list(states.values())) if states else [[]]:
            rows += groups_of(program.grouping, few)
            yield
    if program.having is not None:
        passes, having = program.having, []
        for some in parts(rows):
            having += [row for row in some if passes(row, params)]
            yield
        rows = having
    return rows


def _finished(reader: ReaderNode, rows: list[Row], params: Params) -> Steps[list[Row]]:
    program = reader.program
    rows = yield from grouped(reader, rows, params)
    if program.order is not None:
        pairs = yield from in_order(program.order, rows, params)
        rows = [row for _, row in pairs]
    if program.project is not None:
        project, shown = program.project, []
        for some in parts(rows):
            shown += [project(row, params) for row in some]
            yield
        rows = shown
    if program.distinct is not None:
        first: dict[Key, Row] = {}
        for some in parts(rows):
            keep_distinct(some, program.distinct, first)
            yield
        rows = list(first.values())
    if program.limit is not None:
        count, offset = program.limit(params)
        rows = rows[offset : None if count is None else offset + count]
    return rows


def in_order(order: Any, rows: list[Row], params: Params) -> Steps[list[tuple[Any, Row]]]:
    """The rows sorted, each behind what it is ordered by: parts are, then they are merged."""
    runs: list[list[tuple[Any, Row]]] = []
    for some in parts(rows):
        runs.append(sorted([(order(row, params), row) for row in some], key=FIRST))
        yield
    if len(runs) == 1:
        return runs[0]
    found: list[tuple[Any, Row]] = []
    merged = heapq.merge(*runs, key=FIRST)
    while some := list(islice(merged, AT_ONCE)):
        found += some
        yield
    return found


def same_bag(
    ours: Sequence[Item], theirs: Sequence[Item], shown: Callable[[Item], object] | None = None
) -> Steps[bool]:
    """Whether both have the same items, in whatever order. `shown`: what of an item is compared; None: itself."""
    if len(ours) != len(theirs):
        return False
    bag: Counter[object] = Counter()
    for take, items in ((bag.update, ours), (bag.subtract, theirs)):
        for some in parts(items):
            take(some if shown is None else map(shown, some))
            yield
    for few in parts(list(bag.values())):
        if any(few):
            return False
        yield
    return True


def parts(rows: Sequence[Item]) -> Iterable[Sequence[Item]]:
    """What each step is to take of them."""
    if len(rows) <= AT_ONCE:
        return (rows,)
    return (rows[first : first + AT_ONCE] for first in range(0, len(rows), AT_ONCE))
