"""Whose turn is it to lock? Of the exact fills of one table one runs at a time; the others wait, first come first."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

WaiterT = TypeVar("WaiterT", bound=Hashable)


class Turns(Generic[WaiterT]):
    """Invariants:
    1. No two jobs hold one table.
    2. A job that waits needs a table that another has, or that a job ahead of it waits for: nobody is overtaken there.
    """

    def __init__(self) -> None:
        self._running: dict[WaiterT, frozenset[str]] = {}
        self._waiting: deque[tuple[WaiterT, frozenset[str]]] = deque()

    def take(self, waiter: WaiterT, tables: Sequence[str]) -> bool:
        """May it run now? Else it waits, and `leave` of another says when."""
        wanted = frozenset(tables)
        if wanted & self._busy(self._waiting):
            self._waiting.append((waiter, wanted))
            return False
        self._running[waiter] = wanted
        return True

    def leave(self, waiter: WaiterT) -> list[WaiterT]:
        """It has ended, or does not want to wait any longer. Those whose turn it is now; they are taken to run."""
        self._running.pop(waiter, None)
        waiting, self._waiting = self._waiting, deque()
        due = []
        for other, wanted in waiting:
            if other == waiter:
                continue
            if wanted & self._busy(self._waiting):
                self._waiting.append((other, wanted))
            else:
                self._running[other] = wanted
                due.append(other)
        return due

    def _busy(self, ahead: Iterable[tuple[WaiterT, frozenset[str]]]) -> frozenset[str]:
        return frozenset().union(*self._running.values(), *(wanted for _, wanted in ahead))

    def __iter__(self) -> Iterator[WaiterT]:
        """Those who wait."""
        return (waiter for waiter, _ in self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)
