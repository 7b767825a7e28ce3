"""Waiters for the position, each filed under one GTID that it still lacks.

A waiter is looked at again only when that GTID arrives. So a transaction costs one dictionary lookup, however many
fills wait (while the stream lags there may be thousands).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet

WaiterT = TypeVar("WaiterT")


class PositionWaits(Generic[WaiterT]):
    """Waiters with the set that each still needs.

    Invariants: 1. A waiter is filed once, under a GTID of its set that the position does not contain.
    """

    def __init__(self) -> None:
        self._filed: dict[Gtid, list[tuple[GtidSet, WaiterT]]] = {}
        self._contained: GtidSet | None = None  # asked for last and contained; the position only grows until `clear`

    def add(self, needed: GtidSet, position: MutableGtidSet, waiter: WaiterT) -> bool:
        """Files the waiter. False if there is nothing to wait for: the position contains `needed` already."""
        if needed is self._contained:
            return False
        if position.covers(needed):
            self._contained = needed
            return False
        missing = needed.difference(position.freeze())
        self._filed.setdefault(_last(missing), []).append((missing, waiter))
        return True

    def arrived(self, gtid: Gtid, position: MutableGtidSet) -> list[WaiterT]:
        """Those whose need is met now that `gtid` is inside the position."""
        filed = self._filed.pop(gtid, None)
        if filed is None:
            return []
        return [waiter for missing, waiter in filed if not self.add(missing, position, waiter)]

    def clear_absent(self, absent: GtidSet, position: MutableGtidSet, waiter: WaiterT) -> bool:
        """Takes GTIDs that were rolled back out of the waiter's need. True if that ends its wait."""
        for gtid, filed in list(self._filed.items()):
            for entry in filed:
                if entry[1] is waiter:
                    filed.remove(entry)
                    if not filed:
                        del self._filed[gtid]
                    return not self.add(entry[0].difference(absent), position, waiter)
        return False

    def remove(self, waiter: WaiterT) -> None:
        """Takes the waiter out; not an error if it does not wait."""
        for gtid, filed in list(self._filed.items()):
            kept = [entry for entry in filed if entry[1] is not waiter]
            if len(kept) != len(filed):
                if kept:
                    self._filed[gtid] = kept
                else:
                    del self._filed[gtid]
                return

    def __iter__(self) -> Iterator[WaiterT]:
        for filed in list(self._filed.values()):
            for _, waiter in filed:
                yield waiter

    def __bool__(self) -> bool:
        return bool(self._filed)

    def __len__(self) -> int:
        return sum(map(len, self._filed.values()))

    def clear(self) -> None:
        """Forgets all who wait; another position may follow."""
        self._filed.clear()
        self._contained = None


def _last(missing: GtidSet) -> Gtid:
    """The GTID that is likely to arrive last: the highest number of any source."""
    return missing.last()
