"""Subscriptions: the rows of one key, then their changes.

A subscriber is told the difference between two states of the reader, each at a position: the state that it was told
last, and the one after the transaction that made the answer stale. So nothing is told twice and nothing is left out. A
key that becomes a hole is filled again, and the difference spans the gap.

The difference of a large answer is made in steps (`go_on`). It is told if the answer has not changed meanwhile, and
begins anew otherwise; a key that changes all the time is told in one step.

Invariants:
1. `rows` of a subscription is what its subscriber has, after all the `Changes` so far.
2. A subscription that is not waiting for a fill has its number under `_watching` of a held key whose `watch` is set,
   or is in `stale`.
   One whose read ends without rows ends, too: nothing would ask for them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain

from dataflow.entries import Held
from dataflow.fills.read import Read
from dataflow.held.arrangement import UNBOUNDED
from dataflow.messages import Changes, Effect, GivenUp
from dataflow.readers.derivation import Params
from dataflow.readers.in_steps import HeldRows, Steps, at_once, parts
from dataflow.readers.reader import LARGE_BYTES, ReaderNode
from sqltypes.errors import EvaluationError
from sqltypes.expression import Key, Row

Hold = Callable[[ReaderNode, Key, Params], Held | None]
MANY = 500  # rows, or entries below an answer
TRIES = 3  # to tell of a large answer in steps
BROUGHT = 20  # fills of parts of a large answer, one after the other, none of which makes it whole
NEVER_WHOLE = "what its rows are made of is never held all at once: --memory-limit is too low, or it changes too fast"
CLOSED = "the cache was dropped or is being rebuilt"
ENDED = {  # what a subscriber is told by why a read of its rows was given up; else that in a word
    GivenUp.CACHE_DROPPED: CLOSED,
    GivenUp.DIFFERS: "what was read for it was not MySQL's own answer",
}
Place = tuple[int, Key]  # a reader's tag and a key of it


@dataclass(slots=True)
class Subscription:
    reader: ReaderNode
    key: Key
    params: Params
    rows: list[Row] | None = None  # None: the snapshot has not been sent
    brought: int = 0  # fills in a row that have left parts missing: it was told nothing since


class Subscriptions:
    """All subscriptions, by number."""

    def __init__(self) -> None:
        self.by_number: dict[int, Subscription] = {}
        self._watching: dict[Place, set[int]] = {}
        self.stale: set[int] = set()
        self.many, self.large_bytes = MANY, LARGE_BYTES  # of entries below an answer: more are told in steps
        self.large: dict[int, int] = {}  # those of large answers that are to be told, and how often that was tried
        self._tired: set[int] = set()  # that are told in one step next time
        self._telling: tuple[int, Steps[list[Effect]]] | None = None  # the one of `_large` that is under way

    def start(self, number: int, reader: ReaderNode, key: Key, params: Params) -> None:
        self.by_number[number] = Subscription(reader, key, params)

    def what(self, number: int) -> tuple[ReaderNode, Key, Params]:
        subscription = self.by_number[number]
        return subscription.reader, subscription.key, subscription.params

    def stop(self, number: int) -> None:
        """Ends one; not an error if it has ended. Its key may be evicted again when nobody else watches it."""
        subscription = self.by_number.pop(number, None)
        self.stale.discard(number)
        self._tired.discard(number)
        self.large.pop(number, None)
        if subscription is None:
            return
        place = (subscription.reader.tag, subscription.key)
        watching = self._watching.get(place)
        if watching is not None:
            watching.discard(number)
            if not watching:
                del self._watching[place]
                held = subscription.reader.entries.get(subscription.key)
                if held is not None:
                    held.notify(None)

    def end_closed(self, reason: str) -> list[Changes]:
        """Ends all of readers that are closed, each with the reason."""
        numbers = [number for number, subscription in self.by_number.items() if not subscription.reader.installed]
        return [effect for number in numbers for effect in self.end(number, reason)]

    def end_all(self, reason: str) -> list[Changes]:
        """Ends all, each with the reason."""
        return [effect for number in list(self.by_number) for effect in self.end(number, reason)]

    def end(self, number: int, reason: str) -> list[Changes]:
        """A subscription is told no more: nobody asks for its rows. Nothing happens if there is none."""
        if number not in self.by_number:
            return []
        self.stop(number)
        return [Changes(number, lost=reason)]

    def take_stale(self) -> list[int]:
        stale, self.stale = self.stale, set()
        return sorted(stale)

    def refill(self, numbers: Iterable[int], hold: Hold, read: Callable[[Read], list[Effect]]) -> list[Effect]:
        """What the subscribers must be told; the keys that are holes are read first. Requires: none of them is being
        read."""
        effects: list[Effect] = []
        for number in numbers:
            hole = False
            try:
                told, hole = self.derive(number, hold)
                effects += told
            except EvaluationError as error:
                effects += self.end(number, error.message)
            if hole:
                reader, key, params = self.what(number)
                effects += read(Read(number, reader, [(key, params)], doubted=True))
        return effects

    def derive(self, number: int, hold: Hold) -> tuple[list[Effect], bool]:
        """After a change: what the subscriber must be told, and whether its key is a hole that must be filled first."""
        subscription = self.by_number.get(number)
        if subscription is None or self.in_steps(number):
            return [], False
        self.large.pop(number, None)
        held = hold(subscription.reader, subscription.key, subscription.params)
        if held is None:
            return [], True
        if self.in_steps(number):
            return [], False
        rows = linked_rows(subscription.reader, held, subscription.params)
        return ([], True) if rows is None else (self.filled(number, held, rows), False)

    def filled(self, number: int, held: Held | None, rows: list[Row]) -> list[Effect]:
        """The key's rows at the position: told as the snapshot, or as the difference to what was told before."""
        subscription = self.by_number.get(number)
        if subscription is None:
            return []
        if held is None:
            self.stale.add(number)
            return []
        self._tired.discard(number)
        self._watch(number, subscription, held)
        before, subscription.rows, subscription.brought = subscription.rows, rows, 0
        return _changes(number, rows, difference(before, rows) if before is not None else None)

    def _watch(self, number: int, subscription: Subscription, held: Held) -> None:
        place = (subscription.reader.tag, subscription.key)
        self._watching.setdefault(place, set()).add(number)
        held.notify(partial(self._mark, place))

    # -- large answers -----------------------------------------------------------------------------------------------

    def in_steps(self, number: int) -> bool:
        """Whether the subscriber is to be told by `go_on`: its key is held, and its answer is large. Requires: it is
        not being read."""
        subscription = self.by_number[number]
        held = subscription.reader.entries.get(subscription.key)
        if held is None or number in self._tired:
            return False
        deps = held.deps
        long = subscription.key in subscription.reader.long or len(deps) > self.many
        if not long and sum([entry.size for entry in deps]) <= self.large_bytes:
            return False
        self._watch(number, subscription, held)
        self.large.setdefault(number, 0)
        return True

    def go_on(self, most: int, read: Callable[[Read], list[Effect]]) -> list[Effect]:
        """Makes so many steps. Returns what subscribers must be told; keys that are holes are read."""
        for _ in range(most):
            if self._telling is None:
                if not self.large:
                    break
                number = next(iter(self.large))
                self._telling = number, self._tell(number, read)
            number, steps = self._telling
            try:
                next(steps)
            except StopIteration as ended:
                self._telling = None
                effects: list[Effect] = ended.value
                return effects
            except BaseException:
                self._telling = None
                self.large.pop(number, None)
                raise
        return []

    def _tell(self, number: int, read: Callable[[Read], list[Effect]]) -> Steps[list[Effect]]:
        """What is to be told of one of `_large`, which it leaves, or is tried again."""
        subscription = self.by_number[number]
        reader, key, params, before = subscription.reader, subscription.key, subscription.params, subscription.rows
        held = reader.entries.get(key)
        found = HeldRows(reader, held, params) if held is not None else None
        changed: tuple[list[Row], list[Row]] | None = None
        try:
            if found is not None:
                yield from found.steps()
            if found is not None and found.rows is not None and before is not None:
                changed = yield from differences(before, found.rows)
        except EvaluationError as error:
            return list(self.end(number, error.message))
        if self.by_number.get(number) is not subscription or number not in self.large:
            return []  # it has ended, or is being read
        if held is None or found is None:
            del self.large[number]
            self.stale.add(number)  # the key has gone
            return []
        if found.holes:
            del self.large[number]
            subscription.brought += 1
            if subscription.brought > BROUGHT:
                return list(self.end(number, NEVER_WHOLE))
            return read(Read(number, reader, [(key, params)], doubted=True, holes={key: found.holes}))
        rows = found.rows
        is_held = reader.entries.get(key) is held  # what was let go as a whole has its `version` still
        if rows is None or not is_held or held.version != found.version or subscription.rows is not before:
            self._try_again(number)
            return []
        del self.large[number]
        subscription.rows, subscription.brought = rows, 0
        return _changes(number, rows, changed)

    def _try_again(self, number: int) -> None:
        """The answer has changed meanwhile. The others come first."""
        tries = self.large.pop(number) + 1
        if tries < TRIES:
            self.large[number] = tries
        else:
            self._tired.add(number)
            self.stale.add(number)

    def _mark(self, place: Place) -> None:
        self.stale.update(self._watching.get(place, ()))

    def __len__(self) -> int:
        return len(self.by_number)

    def check_invariants(self, reads: Container[int]) -> None:
        """`reads`: the waiters of all reads. Raises AssertionError where one does not hold."""
        for number, subscription in self.by_number.items():
            if number in reads or number in self.stale:
                continue
            held = subscription.reader.entries.get(subscription.key)
            watched = number in self._watching.get((subscription.reader.tag, subscription.key), ())
            assert held is not None and held.watch is not None and watched, f"nobody tells subscription {number}"


def linked_rows(reader: ReaderNode, held: Held, params: Params) -> list[Row] | None:
    """The key's rows, in one step; None if there is a hole. A key that is long to derive, and stale, is linked to all
    that these are made of: else its `watch` would not be told of every change."""
    if held.version is None and held.key in reader.long:
        rows = reader.refresh(held, params, UNBOUNDED)
        held.stale()
        return rows
    return reader.answer([(held.key, params)])


def _changes(number: int, rows: list[Row], changed: tuple[list[Row], list[Row]] | None) -> list[Effect]:
    """`changed` None: nothing was told before."""
    if changed is None:
        return [Changes(number, added=list(rows), snapshot=True)]
    removed, added = changed
    return [Changes(number, removed, added)] if removed or added else []


def difference(before: list[Row], after: list[Row]) -> tuple[list[Row], list[Row]]:
    """(rows that went, rows that came), as bags."""
    return at_once(differences(before, after))


def differences(before: list[Row], after: list[Row]) -> Steps[tuple[list[Row], list[Row]]]:
    """`difference`, in steps."""
    if len(after) > MANY:
        found = yield from _of_distinct(before, after)
        if found is not None:
            return found
    counts: Counter[tuple[Row, str]] = Counter()
    for some in parts(after):
        counts.update(map(_told, some))
        yield
    for some in parts(before):
        counts.subtract(map(_told, some))
        yield
    removed: list[Row] = []
    added: list[Row] = []
    for few in parts(list(counts.items())):
        removed += [row for (row, _), count in few for _ in range(-count)]
        added += [row for (row, _), count in few for _ in range(count)]
        yield
    return removed, added


def _of_distinct(before: list[Row], after: list[Row]) -> Steps[tuple[list[Row], list[Row]] | None]:
    """The same, with no call for each row; None where a row occurs twice, or has a FLOAT."""
    sets: list[set[Row]] = []
    for rows in (before, after):
        distinct: set[Row] = set()
        for some in parts(rows):
            if float in set(map(type, chain.from_iterable(some))):
                return None
            distinct.update(some)
            yield
        if len(distinct) < len(rows):
            return None
        sets.append(distinct)
    had, has = sets
    removed: list[Row] = []
    for some in parts(before):
        removed += [row for row in some if row not in has]
        yield
    added: list[Row] = []
    for some in parts(after):
        added += [row for row in some if row not in had]
        yield
    return removed, added


def _told(row: Row) -> tuple[Row, str]:
    """The row as a client tells it from others: 0.0 and -0.0 are equal, and not the same."""
    return row, repr(row) if 0.0 in row else ""
