"""Waiters for the position, each filed under one GTID that it still lacks.

A waiter is looked at again only when that GTID arrives, or when it turns out that one of its GTIDs was rolled back. So
a transaction, a reading of what MySQL owns and has executed, and the removal of a waiter cost a few dictionary lookups
each, however many fills wait (while the stream lags there may be thousands).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet

WaiterT = TypeVar("WaiterT")
NOTHING = GtidSet.empty()


class PositionWaits(Generic[WaiterT]):
    """Waiters with the set that each still needs.

    Invariants:
    1. A waiter is filed once, under a GTID of its set that the position does not contain; `places` says which.
    2. `unsettled` has the GTIDs that waiters saw on their way, until they are known to be executed or have arrived,
       each with these waiters: as many as MySQL commits at once, not as many as wait.
    """

    def __init__(self) -> None:
        self._filed: dict[Gtid, dict[WaiterT, GtidSet]] = {}
        # Under what it is filed, and what it saw on its way.
        self.places: dict[WaiterT, tuple[Gtid, tuple[Gtid, ...]]] = {}
        self.unsettled: dict[Gtid, dict[WaiterT, None]] = {}
        self._contained: GtidSet | None = None  # asked for last and contained; the position only grows until `clear`

    def add(self, needed: GtidSet, position: MutableGtidSet, waiter: WaiterT, owned: GtidSet = NOTHING) -> bool:
        """Files the waiter. False if there is nothing to wait for: the position contains `needed` already.

        `owned`: of what it needs, that which may be rolled back still. Requires: the waiter is not filed.
        """
        if needed is self._contained:
            return False
        if position.covers(needed):
            self._contained = needed
            return False
        missing = needed.difference(position.freeze())
        unsettled = tuple(owned.intersection(missing)) if owned else ()
        self._file(missing, waiter, unsettled)
        for gtid in unsettled:
            self.unsettled.setdefault(gtid, {})[waiter] = None
        return True

    def _file(self, missing: GtidSet, waiter: WaiterT, unsettled: tuple[Gtid, ...]) -> None:
        gtid = missing.last()  # the highest number of any source: it is likely to arrive last
        self._filed.setdefault(gtid, {})[waiter] = missing
        self.places[waiter] = gtid, unsettled

    def arrived(self, gtid: Gtid, position: MutableGtidSet) -> list[WaiterT]:
        """Those whose need is met now that `gtid` is inside the position."""
        self.unsettled.pop(gtid, None)
        met = []
        for waiter, missing in self._filed.pop(gtid, {}).items():
            if position.covers(missing):
                met.append(waiter)
                self._forget(waiter)
            else:
                self._file(missing.difference(position.freeze()), waiter, self.places[waiter][1])
        return met

    def rolled_back(self, owned: GtidSet, executed: GtidSet) -> dict[WaiterT, GtidSet]:
        """The waiters for GTIDs that this reading finds neither owned nor executed, and those GTIDs. Executed GTIDs are
        not looked for any more.

        Such a GTID was rolled back, if the reading is later than the waiter's own and the server has lost nothing.
        """
        absent: dict[WaiterT, list[Gtid]] = {}
        for gtid, waiters in list(self.unsettled.items()):
            if gtid in executed:
                del self.unsettled[gtid]
            elif gtid not in owned:
                for waiter in waiters:
                    absent.setdefault(waiter, []).append(gtid)
        return {waiter: GtidSet.of(gtids) for waiter, gtids in absent.items()}

    def clear_absent(self, absent: GtidSet, position: MutableGtidSet, waiter: WaiterT) -> bool:
        """Takes GTIDs that were rolled back out of the waiter's need. True if that ends its wait."""
        place = self.places.get(waiter)
        if place is None:
            return False
        missing = self._filed[place[0]][waiter]
        self.remove(waiter)
        return not self.add(missing.difference(absent), position, waiter, GtidSet.of(place[1]).difference(absent))

    def remove(self, waiter: WaiterT) -> None:
        """Takes the waiter out; not an error if it does not wait."""
        place = self.places.get(waiter)
        if place is None:
            return
        filed = self._filed[place[0]]
        del filed[waiter]
        if not filed:
            del self._filed[place[0]]
        self._forget(waiter)

    def _forget(self, waiter: WaiterT) -> None:
        for gtid in self.places.pop(waiter)[1]:
            waiters = self.unsettled.get(gtid)
            if waiters is not None:
                waiters.pop(waiter, None)
                if not waiters:
                    del self.unsettled[gtid]

    def __iter__(self) -> Iterator[WaiterT]:
        """All, in the order in which they came."""
        return iter(list(self.places))

    def __bool__(self) -> bool:
        return bool(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def clear(self) -> None:
        """Forgets all waiters; another position may follow."""
        self._filed.clear()
        self.places.clear()
        self.unsettled.clear()
        self._contained = None
