"""Subscriptions: the rows of one key, then their changes.

A subscriber is told the difference between two states of the reader, each at a position: the state that it was told
last, and the one after the transaction that made the answer stale. So nothing is told twice and nothing is left out. A
key that becomes a hole is filled again, and the difference spans the gap.

Invariants:
1. `rows` of a subscription is what its subscriber has, after all the `Changes` so far.
2. A subscription that is not waiting for a fill has its number under `_watching` of a held key whose `watch` is set.
   One whose read ends without rows ends, too: nothing would ask for them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain

from dataflow.entries import Held
from dataflow.fill import Read
from dataflow.messages import Changes, Effect
from dataflow.reader import Params, ReaderNode
from sqltypes.errors import EvaluationError
from sqltypes.expression import Key, Row

Hold = Callable[[ReaderNode, Key, Params], Held | None]
MANY = 500  # rows
ENDED = {  # what a subscriber is told by why a read of its rows was given up (`Failed.why`)
    "cache_dropped": "the cache was dropped or is being rebuilt",
    "differs": "what was read for it was not MySQL's own answer",
}
Place = tuple[int, Key]  # a reader's tag and a key of it


@dataclass(slots=True)
class Subscription:
    reader: ReaderNode
    key: Key
    params: Params
    rows: list[Row] | None = None  # None: the snapshot has not been sent


class Subscriptions:
    """All subscriptions, by number."""

    def __init__(self) -> None:
        self._by_number: dict[int, Subscription] = {}
        self._watching: dict[Place, set[int]] = {}
        self.stale: set[int] = set()

    def start(self, number: int, reader: ReaderNode, key: Key, params: Params) -> None:
        self._by_number[number] = Subscription(reader, key, params)

    def concerns(self, number: int) -> bool:
        return number in self._by_number

    def what(self, number: int) -> tuple[ReaderNode, Key, Params]:
        subscription = self._by_number[number]
        return subscription.reader, subscription.key, subscription.params

    def stop(self, number: int) -> None:
        """Ends one; not an error if it has ended. Its key may be evicted again when nobody else watches it."""
        subscription = self._by_number.pop(number, None)
        self.stale.discard(number)
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
        numbers = [number for number, subscription in self._by_number.items() if not subscription.reader.installed]
        return [effect for number in numbers for effect in self.end(number, reason)]

    def end_all(self, reason: str) -> list[Changes]:
        """Ends all, each with the reason."""
        return [effect for number in list(self._by_number) for effect in self.end(number, reason)]

    def end(self, number: int, reason: str) -> list[Changes]:
        """A subscription is told no more: nobody asks for its rows. Nothing happens if there is none."""
        if number not in self._by_number:
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
        subscription = self._by_number.get(number)
        if subscription is None:
            return [], False
        held = hold(subscription.reader, subscription.key, subscription.params)
        if held is None:
            return [], True
        rows = subscription.reader.answer([(subscription.key, subscription.params)])
        return ([], True) if rows is None else (self.filled(number, held, rows), False)

    def filled(self, number: int, held: Held | None, rows: list[Row]) -> list[Effect]:
        """The key's rows at the position: told as the snapshot, or as the difference to what was told before."""
        subscription = self._by_number.get(number)
        if subscription is None:
            return []
        if held is None:
            self.stale.add(number)
            return []
        place = (subscription.reader.tag, subscription.key)
        self._watching.setdefault(place, set()).add(number)
        held.notify(partial(self._mark, place))
        held.reader.watched = True
        before, subscription.rows = subscription.rows, rows
        if before is None:
            return [Changes(number, added=list(rows), snapshot=True)]
        removed, added = difference(before, rows)
        return [Changes(number, removed, added)] if removed or added else []

    def _mark(self, place: Place) -> None:
        self.stale.update(self._watching.get(place, ()))

    def __len__(self) -> int:
        return len(self._by_number)


def difference(before: list[Row], after: list[Row]) -> tuple[list[Row], list[Row]]:
    """(rows that went, rows that came), as bags."""
    if len(after) > MANY and float not in set(map(type, chain.from_iterable(chain(before, after)))):
        had, has = set(before), set(after)
        if len(had) == len(before) and len(has) == len(after):  # the same, with no call for each row
            return [row for row in before if row not in has], [row for row in after if row not in had]
    counts = Counter(map(_told, after))
    counts.subtract(Counter(map(_told, before)))
    removed = [row for (row, _), count in counts.items() for _ in range(-count)]
    added = [row for (row, _), count in counts.items() for _ in range(count)]
    return removed, added


def _told(row: Row) -> tuple[Row, str]:
    """The row as a client tells it from others: 0.0 and -0.0 are equal, and not the same."""
    return row, repr(row) if 0.0 in row else ""
