"""How the entries of an answer come to be held, and the asked keys above them: in one step, or, where there is much of
it, in several, between which the stream goes on.

What is placed is kept current like all that is held. The rest is brought forward by what has come since the step before
(`State.insertion`). An entry that is placed has no reader until the key above it is linked. So at the end, also where
the fill has ended meanwhile, those that no reader needs are let go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter, eq

from dataflow.entries import Entry, Held
from dataflow.fills.fill import Fill, Hold
from dataflow.readers.derivation import Params, TooLong
from dataflow.readers.in_steps import Linked, RowsAt, Steps, answered, parts, same_bag
from dataflow.readers.reader import ReaderNode
from gtid_tracker.tracker import Cut
from sqltypes.errors import EvaluationError
from sqltypes.expression import Key, Row

TRIES = 3  # to link a key that changes meanwhile, or to compare it
NONE: frozenset[Key] = frozenset()
SINCE = attrgetter("since")
AUDITED = 50  # keys that are compared in one step


class Insertion:
    """Of one fill. `most`: entries, or keys, of a step. `forward`: brings what is not placed yet to the position, or
    drops it; False where the fill has ended."""

    def __init__(self, fill: Fill, hold: Hold, most: int, forward: Callable[[], bool]) -> None:
        self._fill = fill
        self._hold = hold
        self._most = most
        self._forward = forward
        self._placed: list[Entry] = []
        self._own: dict[Entry, int] = {}  # what was placed, and the event of the stream at which it was
        self._done = 0  # since the last step

    def steps(self) -> Steps[None]:
        """Puts the overlay's entries where there are holes, and the asked reader keys above them. Nothing has compared
        what no read asked for.

        Requires: `Fill.bring_forward`, and the position contains L and Q.
        """
        self._fill.placing = True
        try:
            if (yield from self._place()):
                yield from self._hold_all()
        finally:
            self._let_go()

    def _is_own(self, deps: Sequence[Entry]) -> bool:
        """Are all of these as this fill has placed them?"""
        return all(map(eq, map(self._own.get, deps), map(SINCE, deps)))

    def _place(self) -> Steps[bool]:
        fill = self._fill
        for node, entries in zip(fill.reader.nodes, fill.overlay, strict=True):
            while entries:
                key, entry = entries.popitem()
                if key not in node.entries and entry.content is not None:
                    node.insert(entry)
                    self._placed.append(entry)
                    self._own[entry] = entry.since
                self._done += 1
                if self._done >= self._most:  # it is the others' turn
                    self._done = 0
                    yield
                    if not self._forward():
                        return False
        return True

    def _hold_all(self) -> Steps[None]:
        fill = self._fill
        doubtful = fill.checks.doubtful() if fill.checks.doubts else NONE
        long: list[tuple[Held, Params]] = []
        keys = len(fill.whole) + len(fill.partial)
        for key, params in (*fill.whole.items(), *fill.partial.items()):
            self._done += 1
            if self._done >= self._most:  # as above
                self._done = 0
                yield
                if not self._forward():
                    return
            fill.kept[key] = False
            held = None
            with suppress(EvaluationError):  # the key stays a hole; who reads it is told by MySQL
                held = self._hold(fill.reader, key, params)
            if held is None:
                continue
            is_long = held.version is None and key in fill.reader.long
            if is_long or keys > self._most:
                fill.pins.pin(held)
            if is_long:
                long.append((held, params))
                continue
            fill.kept[key] = True
            with suppress(EvaluationError):
                deps = held.deps
                fill.prove(held, self._is_own(deps), doubtful=key in doubtful)
                if keys > 1:
                    self._done += len(deps) + fill.reader.weight(params, fill.reader.held_levels) // 2
        for held, params in long:
            yield from self._link(held, params)
            if not self._forward():
                return
        late_ones = fill.checks.doubtful() - doubtful if fill.checks.doubts else ()
        for key in late_ones:  # of reads that came while it was inserted
            if (late := fill.reader.entries.get(key)) is not None and late.version is not None:
                late.doubt()

    def _link(self, held: Held, params: Params) -> Steps[None]:
        """A key that is long to derive. Where it changes all the time, it stays linked to a part, and stale."""
        fill = self._fill
        for _ in range(TRIES):
            found = Linked(fill.reader, held, params)
            with suppress(EvaluationError):
                yield from found.steps()
            fill.kept[held.key] = held.alive and not found.holes
            if fill.ended or not fill.kept[held.key]:
                return
            if found.version is not None:
                own = True
                for some in parts(held.deps):
                    own = own and self._is_own(some)
                    yield
                if held.version == found.version and held.bodies is None:
                    held.stale()
                    fill.prove(held, own, doubtful=held.key in fill.checks.doubtful())
                return

    def _let_go(self) -> None:
        if len(self._placed) > self._most:
            self._fill.reader.memory.remains.add_steps(map(let_go_unneeded, self._placed))
            return
        for entry in self._placed:
            if entry.dependents is None:
                let_go_unneeded(entry)


def let_go_unneeded(entry: Entry) -> None:
    """Lets it go if no reader needs it: nobody would ever evict it."""
    if entry.dependents is None and entry.content is not None and entry.cut is None:
        entry.owner.memory.count("dropped_below_a_hole")
        entry.owner.discard(entry)


def insert_ahead(fill: Fill, hold: Hold) -> None:
    """Holds an answer while the position lacks some of L or Q: the entries stand at their cut until `Fill.promote`.

    Requires: `Fill.bring_forward` with all that has been received, and `Fill.linear`.
    """
    assert fill.bracket is not None
    cut = Cut.of(fill.bracket)
    (node,), (entries,) = fill.reader.nodes, fill.overlay
    placed = []
    for key, entry in entries.items():
        if key not in node.entries and key not in node.ahead and entry.content is not None:
            node.insert_ahead(entry, cut)
            placed.append(entry)
    fill.ahead = True
    own, doubtful = set(placed), fill.checks.doubtful()
    for key, params in fill.whole.items():
        fill.kept[key] = False
        with suppress(EvaluationError):  # as above
            held = hold(fill.reader, key, params)
            fill.kept[key] = held is not None
            if held is not None:
                fill.prove(held, own.issuperset(held.deps), doubtful=key in doubtful)
    for entry in placed:
        if entry.dependents is None and entry.content is not None:
            entry.owner.memory.count("dropped_below_a_hole")
            entry.owner.discard(entry)
    fill.overlay = [{entry.key: entry for entry in placed}]


def audit(fill: Fill, forward: Callable[[], bool]) -> Steps[int]:
    """Compares what is held of the asked keys with the answer. A key that is not held is equal to anything; one of
    which part is not in the answer any more is not compared. Returns how many were compared.

    Requires: as `Insertion.steps`.
    """
    compared = 0
    for number, (key, params) in enumerate(fill.whole.items(), 1):
        if number % AUDITED == 0:
            yield
            if not forward():
                break
        held = fill.reader.entries.get(key)
        fill.kept[key] = held is None
        if held is None:
            continue
        goes_on = True
        with suppress(EvaluationError):  # MySQL says what comes of the key: there is nothing to compare
            try:
                compared += _audited(fill, held, params)
            except TooLong:
                compared += yield from _audited_in_steps(fill, held, params, forward)
                goes_on = forward()
        if not goes_on:
            break
    return compared


def _audited(fill: Fill, held: Held, params: Params) -> bool:
    """Whether the key was compared, in this step. Raises TooLong."""
    reader, one = fill.reader, [(held.key, params)]
    ours = reader.answer(one, short=True)
    theirs = fill.derive(one, reader.memory.most_rows) if ours is not None else None
    fill.kept[held.key] = ours is None or theirs is not None
    if ours is None or theirs is None:
        return False
    same = repr(ours) == repr(theirs) or Counter(map(repr, ours)) == Counter(map(repr, theirs))
    if not same and reader.program.limit is not None:  # which of the rows that tie are shown is open
        same = _same_joined(fill, params)
    if not same or not reader.encodings.are_of(held, ours):
        _differs(fill, held, params)
    return True


def _same_joined(fill: Fill, params: Params) -> bool:
    """Whether the rows below the key's answer are the same ones, as held and as filled. Raises TooLong."""
    reader, most = fill.reader, fill.reader.memory.most_rows
    ours, theirs = (reader.derive(params, levels, most) for levels in (reader.held_levels, fill.overlay))
    if ours.holes or theirs.holes:
        return False
    return Counter(map(repr, ours.rows)) == Counter(map(repr, theirs.rows))


def _audited_in_steps(fill: Fill, held: Held, params: Params, forward: Callable[[], bool]) -> Steps[bool]:
    """Likewise of a key that is long to derive. One that changes all the time is not compared."""
    reader, one = fill.reader, [(held.key, params)]
    for _ in range(TRIES):
        if not forward():
            break
        bodies, ours = held.bodies, RowsAt(reader, one)
        yield from ours.steps()  # both are at the position of this step: until `forward` the overlay stays there
        if ours.holes:
            fill.kept[held.key] = True
            return False
        if ours.rows is None:
            continue
        theirs = yield from answered(reader, one, fill.overlay)
        if theirs is None:
            break
        fill.kept[held.key] = True
        same = yield from same_bag(ours.rows, theirs, repr)
        if same and bodies is not None:
            same = yield from _stored(reader, bodies, ours.rows)
        if not same:
            _differs(fill, held, params)
        return True
    return False


def _differs(fill: Fill, held: Held, params: Params) -> None:
    assert fill.unasked is not None, "what reads wait for is not audited"
    fill.unasked.different.append((held.key, params))


def _stored(reader: ReaderNode, bodies: list[bytes | None], rows: list[Row]) -> Steps[bool]:
    """Whether these encodings are of the rows, in whatever order."""
    joins = reader.encodings.joins or [b"".join] * len(bodies)
    for encode, join, body in zip(reader.encodings.encoders, joins, bodies, strict=False):
        if body is None:
            continue
        encoded = []
        for some in parts(rows):
            encoded.append(encode(some))
            yield
        whole = join(encoded)
        yield
        if whole != body and not (yield from same_bag(whole, body)):
            return False
    return True
