"""A reader: the node that clients read, key -> answer. It holds derived answers only; all state is in the arrangements
below it.

Law: answer(key) = limit(order(distinct(project(having(aggregate(filter(root[key] |x| lookup_1 |x| ... )))))))
(`planner.tree.plan.Reader`).

A join is derived, not stored: the rows of the root's key look up their partners level by level. A change of any entry
that was consulted makes the answer stale (`entries.touch`), and the next read derives it again from what is held. So a
delta never meets a join: there is no order of "left before right" to get wrong, and no hole that could swallow a
record for somebody else.

Invariants:
1. A held key has a `version` only if all that it was derived from is held and unchanged (`entries`,
   invariant 2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice

from dataflow.entries import EMPTY, ENTRY_BYTES, Entries, Entry, Held, Owner, relink, unlinked
from dataflow.held.arrangement import UNBOUNDED, Arrangement, Memory
from dataflow.held.remains import Item
from dataflow.held.table import Table
from dataflow.losses import Losses
from dataflow.operators.answer_index import AnswerEntry
from dataflow.readers.alike import Alike
from dataflow.readers.derivation import (
    ROW_BYTES,
    Derivation,
    Hole,
    Params,
    ReaderProgram,
    TooLong,
    expand,
)
from dataflow.readers.encodings import Encodings
from gtid_tracker.gtid import GtidSet
from planner.fill.upquery_sql import quoted
from planner.tree.plan import AnswerArrangement, QueryPlan
from sqltypes.expression import Key, Row
from sqltypes.schema import ResultColumn


class ReaderNode:
    """One reader of the running graph. `tag`: the number of its path from its root's fills."""

    def __init__(
        self, plan: QueryPlan, tag: int, program: ReaderProgram, key_of: Callable[[Params], Key], memory: Memory
    ) -> None:
        self.plan = plan
        self.tag = tag
        self.program = program
        self.key_of = key_of  # the reader's own key from the parameters; as exact as the comparison of each part
        self.memory = memory
        self.entries: dict[Key, Held] = {}
        self._table = Table(self.entries)
        self.losses = Losses()  # of whose cache it is, it counts there
        self.empty = 0
        self.encodings = Encodings(memory)
        self.alike = Alike(program)
        # By wire format the encodings that lists of keys have asked for, of `bodies`.
        self.listed: list[dict[Key, bytes]] = [{} for _ in range(USUAL_FORMATS)]
        self.long: set[Key] = set()  # keys that are held, and were once more than a short step to derive
        # Is told with which columns MySQL has answered an upquery whose rows are held as they are.
        self.on_columns: Callable[[tuple[ResultColumn, ...]], None] | None = None
        self.installed = True
        self.key_is_value = _key_is_value(plan)  # of the only parameter
        self.watches: dict[Held, Callable[[], None]] = {}
        self.tables: tuple[str, ...] = tuple(quoted(table) for table in plan.tables)  # for an upquery's metadata locks
        # The arrangements by level, the root's first; the same one may occur more than once.
        self.nodes: tuple[Arrangement, ...] = (program.root, *(level.node for level in program.levels))
        # The held entries by level, as `derive` takes them.
        self.held_levels: tuple[Entries, ...] = tuple(node.entries for node in self.nodes)

    @property
    def fills_whole(self) -> bool:
        """Whether the next fill brings all rows of a table of which each read is given a range."""
        whole = self.program.range is not None and not self.plan.reader.root_key and not self.program.levels
        return whole and () not in self.nodes[0].entries and () not in self.nodes[0].ahead

    def params_of(self, held: Held) -> Params:
        """The parameters that a key is held for, or equal ones."""
        return held.params if held.params is not None else (held.key,)

    # -- derivation --------------------------------------------------------------------------------------------------

    def derive(
        self, params: Params, levels: Sequence[Entries], most: int = UNBOUNDED, upto: Params | None = None
    ) -> Derivation:
        """Looks the key's rows up, level by level. `levels[0]` is the root's entries, then each lookup's. `upto`: those
        of all keys between the parameters and these, as in `between`. Raises TooLong where more than `most` rows are
        joined."""
        program = self.program
        found = Derivation()
        key = program.root_key(params)
        entry = levels[0].get(key)
        if entry is None:
            found.holes.append(Hole(-1, key, program.root_values(params)))
            found.blind = bool(program.levels)
            return found
        if program.range is not None and levels is self.held_levels:
            program.range.put_in_order(program.root, entry)
        weight = self._weight(entry, params)
        if program.levels and most < UNBOUNDED and weight > most:
            raise TooLong  # before its rows are listed
        self.memory.derived += 1 + weight
        found.deps.append(entry)
        rows = program.range.rows(entry.content, params, upto) if program.range is not None else None
        if rows is None:
            rows = program.root.rows(entry.content)  # type: ignore[assignment]  # an iterable is enough
        found.rows = list(rows) if program.levels else rows  # type: ignore[arg-type,assignment]
        for number, level in enumerate(program.levels):
            try:
                found.rows = expand(found, found.rows, number, level, levels[number + 1].get, params, {None: ()}, most)
            except TooLong:
                self.memory.derived += most
                raise
            self.memory.derived += len(found.rows)
            if found.holes:
                found.blind = number + 1 < len(program.levels)
                break
        return found

    # -- what is held ------------------------------------------------------------------------------------------------

    def answer(self, keys: Sequence[tuple[Key, Params]], *, short: bool = False) -> list[Row] | None:
        """The rows for one key or for several of an IN-list, all at the position; None if there is a hole.

        Derives without storing: for reads whose answer is not stored by key (LIMIT ?, ORDER BY over several keys).
        `short`: raises TooLong where that is more than a short step.
        """
        joined: list[Row] = []
        levels = self.held_levels
        room = self.memory.most_rows if short else UNBOUNDED
        for _, params in keys:
            if short:
                room -= self.weight(params, levels)
                if room < 0:
                    raise TooLong
            found = self.derive(params, levels, room)
            if found.holes:
                return None
            if short and self.program.levels:
                room -= len(found.rows)
            joined += self.program.passing_in_order(found.rows, params)
        return self.program.finish_passed(joined, keys[0][1])

    def weight(self, params: Params, levels: Sequence[Entries]) -> int:
        """How many rows of the key's root must be looked at, about."""
        entry = levels[0].get(self.program.root_key(params))
        return self._weight(entry, params) if entry is not None else 0

    def _weight(self, entry: Entry, params: Params) -> int:
        count = self.program.range.count(entry.content, params) if self.program.range is not None else None
        return count if count is not None else (entry.size - ENTRY_BYTES) // ROW_BYTES

    def answer_ahead(self, params: Params) -> tuple[list[Row], GtidSet] | None:
        """One key's answer from an entry ahead of the position, and the lower bound of what it reflects beyond the
        position; None if there is none. Joins and IN-lists have none: their entries would stand at different cuts."""
        root = self.nodes[0]
        if self.program.levels or not root.ahead:
            return None
        entry = root.ahead.get(self.program.root_key(params))
        if entry is None or entry.cut is None:
            return None
        return self.program.finish(root.rows(entry.content), params), entry.cut.lower

    def deps_of(self, key: Key, params: Params) -> tuple[Entry, ...] | None:
        """The entries that the key's answer is derived from; None if one of them is a hole. Raises TooLong."""
        return self._deps(key, params, self.memory.most_rows)[0]

    def _deps(self, key: Key, params: Params, most: int) -> tuple[tuple[Entry, ...] | None, int]:
        """Likewise, and how many rows were joined for that, `most` at most, or entries are linked already."""
        if not self.program.levels:
            root_key, root = self.program.root_key(params), self.nodes[0]
            entry = root.entries.get(root_key) or root.ahead.get(root_key)
            return ((entry,) if entry is not None else None), 0
        held = self.entries.get(key)
        if held is not None and held.version is not None:
            return held.deps, len(held.deps)  # unchanged since
        found = self.derive(params, self.held_levels, most)
        return (None if found.holes else tuple(dict.fromkeys(found.deps))), len(found.rows)

    def root_of(self, params: Params) -> tuple[Entry, ...]:
        """The entry that the key's rows begin with. Requires: it is held."""
        return (self.held_levels[0][self.program.root_key(params)],)

    def holds(self, keys: Sequence[tuple[Key, Params]]) -> bool:
        """Whether the answer for all of these keys could be derived at the position. Raises EvaluationError and
        TooLong."""
        room = MOST_HELD
        for key, params in keys:
            if room <= 0:
                raise TooLong
            deps, joined = self._deps(key, params, self.memory.most_rows)
            if deps is None or any(entry.cut is not None for entry in deps):
                return False
            room -= joined
        return True

    @property
    def most_derived(self) -> int:
        """From so many rows (`Memory.derived`) keys are derived that `holds` has found to be short together."""
        return (MOST_HELD + self.memory.most_rows) * (2 + len(self.program.levels))

    def since(self, key: Key, params: Params) -> int | None:
        """The event of the stream from which on the key's answer is the same as now (`Entry.since`); None where it is
        not held at the position. Raises TooLong."""
        deps = self.deps_of(key, params)
        if deps is None or any(entry.cut is not None for entry in deps):
            return None
        return max(entry.since for entry in deps)

    def found(self, params: Params) -> int | None:
        """What FOUND_ROWS() is behind the key's answer at the position, of a query that counts; None: not known."""
        entry = self.held_levels[0].get(self.program.root_key(params))
        return entry.found if isinstance(entry, AnswerEntry) and entry.cut is None else None

    def refresh(self, held: Held, params: Params, most: int | None = None) -> list[Row] | None:
        """Derives a held key's answer again; None if a hole was met (the key stays,
        stale). `most`: as `derive` has it; a short step's. Raises TooLong."""
        found = self.derive(params, self.held_levels, self.memory.most_rows if most is None else most)
        if found.holes:
            return None
        relink(held, tuple(dict.fromkeys(found.deps)))
        held.renew()
        return self.program.finish(found.rows, params)

    def link(self, held: Held, params: Params) -> bool:
        """Links a held key to all that it is derived from: from now on a change makes it stale. False: there is a hole.
        Raises TooLong."""
        deps = self.deps_of(held.key, params)
        if deps is None or any(entry.cut is not None for entry in deps):
            return False
        relink(held, deps)
        held.renew()
        return True

    def body(self, held: Held, params: Params, format_: int) -> bytes | None:
        """The key's answer in a wire format: the stored bytes, else encoded now and stored; None if a hole was met.
        Raises TooLong."""
        if (stored := held.body(format_)) is not None:
            return stored
        rows = self.rows_of(held, params)
        if rows is None:
            return None
        encodings = self.encodings
        if rows:
            encodings.note(held, format_)
        encoded = encodings.encoders[format_](rows)
        encodings.store(held, format_, encoded)
        return encoded

    def is_large(self, held: Held, format_: int) -> bool:
        """Whether the answer is not stored, and so large that to derive and to encode it should be two steps."""
        if held.body(format_) is not None:
            return False
        deps = held.deps
        if held.key in self.long or len(deps) > MANY_DEPS:
            return True
        size = sum([entry.size for entry in deps])
        return size > LARGE_BYTES and size - self._spared(held) > LARGE_BYTES

    def _spared(self, held: Held) -> int:
        """Of the bytes that a key is derived from, those of rows that are not looked at."""
        range_, params = self.program.range, self.params_of(held)
        entry = self.held_levels[0].get(self.program.root_key(params)) if range_ is not None else None
        count = range_.count(entry.content, params) if range_ is not None and entry is not None else None
        if entry is None or count is None:
            return 0
        total: int = entry.content.total
        return entry.size - entry.size * count // max(1, total)

    def rows_of(self, held: Held, params: Params) -> list[Row] | None:
        """The answer's rows, to be encoded; None if a hole was met. They are the answer as long as the key has the
        `version` that it has then. Raises TooLong."""
        if held.version is None:
            return self.refresh(held, params)
        # Stored in another format: that stays, for what it was derived from is held and unchanged.
        return self.program.finish(self.derive(params, self.held_levels, self.memory.most_rows).rows, params)

    def drop(self, held: Held) -> None:
        """Evicts the key: the answer first, then what nobody else needs below."""
        if not held.alive:
            return
        if self.entries.get(held.key) is held:  # else it was let go
            del self.entries[held.key]
            self._table.gone += 1
            self.long.discard(held.key)
            if held.marks & EMPTY:
                self.empty -= 1
            else:
                self.losses.add(self.memory.because)
        held.go()
        self.memory.used -= held.size + held.body_size
        if len(held.deps) > self.memory.remains.few_deps:
            self.memory.remains.add_steps(unlinked(held))
        else:
            relink(held, ())

    def tidy(self) -> None:
        """Keys of it were evicted: their places are for others."""
        self._table.tidy()
        for node in self.nodes:
            node.table.tidy()

    def clear(self) -> None:
        if len(self.entries) > self.memory.remains.few:
            self.let_go()
        for held in list(self.entries.values()):
            self.drop(held)

    def let_go(self) -> None:
        """`clear`, in a step that is short however many keys there are. They are taken apart later."""
        if not self.entries:
            return
        self.memory.version += 1  # theirs may not be those of other answers
        self.losses.add(self.memory.because, len(self.entries) - self.empty)
        self.empty = 0
        items: list[Item] = list(self.entries.values())
        for held, watch in list(self.watches.items()):
            held.watch = None
            watch()
        self.entries.clear()
        self.long.clear()
        for rows in self.listed:
            rows.clear()
        self.memory.remains.add(items)

    def check_invariants(self) -> None:
        self.encodings.check_invariants()
        self.alike.check_invariants()
        assert self.empty == sum(1 for held in self.entries.values() if held.marks & EMPTY), "empty keys are miscounted"
        for key, held in self.entries.items():
            assert held.key == key and held.reader is self and held.alive
            assert held.bodies is None or held.version is not None, f"{key!r} shows what has changed"
            if held.version is not None:
                for entry in held.deps:
                    assert entry.owner.entries.get(entry.key) is entry, f"{key!r} shows what is no longer held"
        for format_, rows in enumerate(self.listed):
            for key, row in rows.items():
                held = self.entries[key]
                assert held.listed and held.bodies is not None and held.bodies[format_] is row, f"{key!r} is listed"
        for held in self.watches:
            assert self.entries.get(held.key) is held and held.watch is not None, f"{held.key!r} is watched"


USUAL_FORMATS = 8  # of the wire
LARGE_BYTES, MANY_DEPS = 200_000, 500  # of the entries below an answer, and how many of them
MOST_HELD = 1_000  # rows of several keys that are joined in one step, to see whether all are held


SAMPLED_KEYS, MOST_SAMPLED = 500, 2_000


def held_bytes(reader: ReaderNode) -> int:
    """Bytes that the reader's keys hold, entries below them included, each counted once.

    Taken from a sample of the keys, and of the entries below each: with millions of them a sum would hold up the loop.
    """
    own = keys = looked_at = 0
    below: dict[Owner, set[Entry]] = {}
    seen, linked = Counter[Owner](), Counter[Owner]()  # links to entries: those looked at, and all
    for held in islice(reader.entries.values(), SAMPLED_KEYS):
        some = held.deps[:SAMPLED_KEYS]
        for entry in some:
            below.setdefault(entry.owner, set()).add(entry)
            seen[entry.owner] += 1
            linked[entry.owner] += len(held.deps) // len(some)
        own += held.size + held.body_size
        keys += 1
        looked_at += 1 + len(some)
        if looked_at > MOST_SAMPLED:
            break
    if not keys:
        return 0
    share = len(reader.entries) / keys
    total = own * share
    for owner, entries in below.items():
        likely = linked[owner] * share * len(entries) / seen[owner]
        count = max(len(entries), min(likely, len(owner.entries) + len(owner.ahead)))
        total += count * sum(entry.size for entry in entries) / len(entries)
    return int(total)


def _key_is_value(plan: QueryPlan) -> bool:
    """Whether there is one parameter, a whole number, which is the key as it is."""
    if len(plan.parameters) != 1 or plan.reader.root_key != (0,) or isinstance(plan.reader.root, AnswerArrangement):
        return False
    return all(type_.is_integer and type_.name != "year" for type_ in (plan.parameters[0].type, plan.key[0].type))
