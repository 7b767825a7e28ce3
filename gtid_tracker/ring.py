"""The ring: the transactions received recently, so that an answer can be brought forward from its snapshot to the
position.

A transaction may be received, and dropped at a hole, before it is visible to the upquery that fills the hole
(measured: 1 to 60 % of the time, for up to milliseconds). Its effect must then come from memory, and this is the
memory.

Invariants:
1. `dropped` (D) is everything ever received, the start position included, minus what the ring holds. Transactions
   leave oldest first.
2. An answer may be brought forward only if D is inside its lower bound: `admits`. This one test replaces every rule
   about how long a transaction must be kept: the ring may drop its oldest whenever it likes, the price is a retry.
3. A GTID is in the ring at most once: a replayed transaction is inside the position, and whoever fills the ring
   ignores it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, Generic, TypeVar

from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet

RecordT = TypeVar("RecordT")


class Ring(Generic[RecordT]):
    """The received transactions, oldest first; `None` for one that changed nothing of interest."""

    def __init__(self, start: GtidSet, max_transactions: int = 50_000, max_weight: int = 64 << 20) -> None:
        self.position = MutableGtidSet(
            start
        )  # P: all that was received; between two transactions also all that is processed
        self.max_transactions = max_transactions
        self.max_weight = max_weight
        # (number, GTID, record, bytes that it occupies), oldest first, and by GTID those with a record.
        self._order: deque[tuple[int, Gtid, RecordT | None, int]] = deque()
        self._records: dict[Gtid, tuple[int, Gtid, RecordT, int]] = {}
        self._dropped = MutableGtidSet(start)
        self._dropped_frozen: GtidSet | None = start
        self._weight = 0
        self._admitted: GtidSet | None = None  # a lower bound that `dropped` is inside of
        self.pushed = 0  # transactions received through this ring

    def push(self, gtid: Gtid, record: RecordT | None, weight: int = 0) -> None:
        """`weight`: about how many bytes the record occupies. Requires: `gtid` is not inside the position."""
        self.position.add(gtid)
        self.pushed += 1
        if record is None:
            self._order.append((self.pushed, gtid, None, 0))
        else:
            held = self._records[gtid] = self.pushed, gtid, record, weight
            self._order.append(held)
            self._weight += weight
        if len(self._order) > self.max_transactions or self._weight > self.max_weight:
            self._drop_oldest()
            if self._weight > self.max_weight:  # it comes down to a lowered limit, too
                self._drop_oldest()

    def forget(self) -> Iterator[None]:
        """Drops everything held, for example because the records lack a column that is wanted from now on.

        The returned iterator frees it, a transaction at a time.
        """
        left = _taken_apart(self._order, self._records)
        self._order, self._records, self._weight = deque(), {}, 0
        self._dropped_frozen = self.position.freeze()
        self._dropped = MutableGtidSet(self._dropped_frozen)
        self._admitted = None
        return left

    def _drop_oldest(self) -> None:
        _, gtid, record, weight = self._order.popleft()
        self._dropped.add(gtid)
        self._dropped_frozen = self._admitted = None
        if record is not None:
            del self._records[gtid]
            self._weight -= weight

    def position_at(self, pushed: int) -> GtidSet | None:
        """The position when so many had been received; None where that is forgotten."""
        since = self.pushed - pushed
        if not 0 <= since <= len(self._order):
            return None
        later = GtidSet.of(gtid for _, gtid, _, _ in islice(reversed(self._order), since))
        return self.position.freeze().difference(later)

    @property
    def dropped(self) -> GtidSet:
        """D of invariant 1."""
        if self._dropped_frozen is None:
            self._dropped_frozen = self._dropped.freeze()
        return self._dropped_frozen

    def admits(self, lower: GtidSet) -> bool:
        """Invariant 2: may an answer with this lower bound be brought forward at all?"""
        if not self.dropped.issubset(lower):
            return False
        self._admitted = lower
        return True

    def get(self, gtid: Gtid) -> RecordT | None:
        """The record of a received transaction; None if it carries nothing of interest (or is not held)."""
        found = self._records.get(gtid)
        return found[2] if found is not None else None

    def after(self, lower: GtidSet) -> list[RecordT] | None:
        """The records that are not in `lower`, in the order received; None where some of them may have been dropped
        (`admits`)."""
        # The same object comes with every answer while the source is quiet.
        if lower is not self._admitted and not self.admits(lower):
            return None
        if not self._records:
            return []
        missing = self.position.freeze().difference(lower)
        if not missing:
            return []
        found = [held for gtid in missing if (held := self._records.get(gtid)) is not None]
        found.sort(key=lambda held: held[0])
        return [record for _, _, record, _ in found]

    def __len__(self) -> int:
        return len(self._order)

    def check_invariants(self) -> None:
        """Raises AssertionError where the invariants above do not hold."""
        held = [gtid for _, gtid, _, _ in self._order]
        assert len(held) == len(set(held)), "a transaction is twice in the ring"
        assert all(gtid not in self.dropped for gtid in held), "a transaction is held and dropped"
        assert self.dropped.count() + len(held) == self.position.freeze().count(), "a transaction is lost"
        assert self._weight == sum(weight for _, _, _, weight in self._order)


def _taken_apart(order: deque[Any], records: dict[Gtid, Any]) -> Iterator[None]:
    while order:
        records.pop(order.popleft()[1], None)
        yield
