"""What a path's load is to the measurement, and how its rounds are made sure to be what they are called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from benchmarks.compare.figures import Pair
from benchmarks.compare.side import Counts, Side

FEW = 0.02  # of a round's misses

Run = Callable[[], None]


class NotWhatItIsCalled(Exception):
    """A round's reads were not all hits, all misses or all passed on, so nothing was measured."""


class Running(Protocol):
    """A path that is being measured on both sides."""

    @property
    def note(self) -> str:
        """What was not as one would expect, "" for nothing."""

    def pairs(self, count: int) -> list[Pair]:
        """So many rounds on both sides. Raises NotWhatItIsCalled."""

    def close(self) -> None:
        """Ends its sessions."""


class Load(ABC):
    """The load of one path on one side, warm. A round of the same number asks both sides the same, for some hundredths
    of a second: what else the machine does changes little meanwhile.

    `operations`: of a round. `note`: what was not as one would expect, "" for nothing.
    """

    operations: int
    note = ""

    @abstractmethod
    def round(self, number: int) -> Run:
        """Makes everything ready; what it gives back asks, and returns when all is answered. Only that is measured."""

    @abstractmethod
    def check(self, counted: Counts, rounds: int) -> None:
        """Raises NotWhatItIsCalled. `counted`: during so many rounds."""

    @abstractmethod
    def close(self) -> None:
        """Ends its sessions."""


def all_hits(counted: Counts, reads: int) -> None:
    if counted.hits < reads:
        raise NotWhatItIsCalled(f"{reads} hits were wanted: {counted}")


def all_misses(counted: Counts, reads: int) -> None:
    """Of some that are asked at once, a few may join others or be passed on."""
    if counted.misses < reads * (1 - FEW):
        raise NotWhatItIsCalled(f"{reads} misses were wanted: {counted}")


def all_passed(counted: Counts, reads: int) -> None:
    if counted.hits or counted.misses or counted.selects < reads:
        raise NotWhatItIsCalled(f"{reads} reads were to be passed on: {counted}")


class Beside:
    """The same load on both sides."""

    def __init__(self, base: Side, tree: Side, begin: Callable[[Side], Load]) -> None:
        self._loads = {side: begin(side) for side in (base, tree)}
        self._base, self._tree = base, tree

    @property
    def note(self) -> str:
        return "; ".join(load.note for load in self._loads.values() if load.note)

    def pairs(self, count: int) -> list[Pair]:
        """Who is first changes from round to round: the second finds MySQL warmer. Raises NotWhatItIsCalled."""
        sides = self._base, self._tree
        before = {side: side.counts() for side in sides}
        found = []
        for number in range(count):
            used = {side: measured(side, self._loads[side], number) for side in sides[:: 1 if number % 2 else -1]}
            found.append(Pair(used[self._base], used[self._tree]))
        for side in sides:
            try:
                self._loads[side].check(side.counts() - before[side], count)
            except NotWhatItIsCalled as error:
                raise NotWhatItIsCalled(f"{side.tree.name}: {error}") from None
        return found

    def close(self) -> None:
        for load in self._loads.values():
            load.close()


def measured(side: Side, load: Load, number: int) -> float:
    """Processor seconds of the side's proxy for one operation of that round."""
    run = load.round(number)
    before = side.seconds()
    run()
    return (side.seconds() - before) / load.operations
