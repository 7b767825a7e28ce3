"""Reads of held answers as the proxy makes them (`Misses.look`): what is long to derive or to join is so in steps,
between which others have their turn."""

from __future__ import annotations

import random
from asyncio import sleep
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from dataflow.readers.in_steps import Holes
from proxy.loop.slices import Slices
from proxy.port.api import Answer
from proxy.read.misses import Misses
from proxy.read.open_cache import OpenCache
from sqltypes.errors import EvaluationError, UpwellError
from sqltypes.expression import Row
from tests.simulation.desk import Desk, unpacked
from tests.simulation.queries import Parameters
from tests.simulation.script import Action
from tests.simulation.sql_side import Rows

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

LARGE = 0.3  # of the schedules have large answers alone (`Setup.steps`)
BEGUN = 0.2  # after so many of their steps such a read begins, at most
PEEKED, GONE_ON = 0.1, 0.3  # likewise, somebody looks at its cache, or it goes on
MOST = 4  # under way


@dataclass(eq=False)
class LargeRead:
    """One under way. `answer` is what it gives at its end; None: nothing, or it is under way still."""

    name: str
    parameters: Parameters
    steps: Coroutine[None, None, object]
    answer: Answer | None = None

    def go_on(self, steps: int) -> bool:
        """Makes so many. Whether it has come to an end."""
        with each_slice_is_short():
            try:
                for _ in range(steps):
                    self.steps.send(None)
            except StopIteration as ended:
                self.answer = ended.value if isinstance(ended.value, Answer) else None
                return True
            except EvaluationError:
                return True
        return False


class LargeReads:
    """Those of one simulation. `tables`: what they have at the position."""

    def __init__(self, desk: Desk, tables: Callable[[], Rows]) -> None:
        self.under_way: list[LargeRead] = []
        self._desk = desk
        self._tables = tables
        self._tables_at: list[Rows] = []  # by the position that an answer may be told with
        desk.position.told = self._position

    def _position(self) -> str:
        self._tables_at.append({table: dict(rows) for table, rows in self._tables().items()} if self.under_way else {})
        return str(len(self._tables_at) - 1)

    def tables_of(self, answer: Answer) -> Rows:
        return self._tables_at[int(answer.position)]

    def begin(self, name: str, parameters: Parameters) -> LargeRead | None:
        """Makes the first step, as it is made where the read comes. Returns it if that was all."""
        if not self.under_way:
            self._tables_at.clear()
        steps = Misses(self._desk.caches[name], self._desk.host, 0).look(parameters)
        self.under_way.append(LargeRead(name, parameters, steps))
        return self.go_on(-1, 1)

    def go_on(self, at: int, steps: int) -> LargeRead | None:
        """Makes so many steps of one. Returns it at its end."""
        if not self.under_way:
            return None
        one = self.under_way[at % len(self.under_way)]
        if not one.go_on(steps):
            return None
        self.under_way.remove(one)
        return one

    def drop(self) -> None:
        """Their callers go away."""
        while self.under_way:
            self.under_way.pop().steps.close()


def hit_large(desk: Desk, opened: OpenCache, parameters: Parameters) -> tuple[list[Row] | None, Holes]:
    """The rows of a read with nothing between its steps, or what is missing below its keys. Raises EvaluationError."""
    standing = opened.moments.standing(parameters)
    if standing is not None and (stored := opened.stored(standing)) is not None:
        return unpacked(stored), {}
    misses = Misses(opened, desk.host, 0)
    steps = misses.look(parameters)
    with each_slice_is_short():
        while True:
            try:
                steps.send(None)
            except StopIteration as ended:
                answer = ended.value
                return (unpacked(answer.body) if isinstance(answer, Answer) else None), misses.holes


async def _turn(slices: Slices) -> None:
    await sleep(0)


@contextmanager
def each_slice_is_short() -> Iterator[None]:
    """Others have their turn wherever they may, and no loop is needed for that."""
    turn = Slices.turn
    Slices.turn = cast(Any, _turn)  # type: ignore[method-assign]
    try:
        yield
    finally:
        Slices.turn = turn  # type: ignore[method-assign]


class LargeDraws:
    """The answers of one seed's schedule that are derived in steps."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(7 * seed + 3)  # of its own: schedules without are what they were
        self._begun = self._rng.random() * BEGUN
        self.steps = self._rng.random() < LARGE
        self.short = self._rng.choice((0, 0, 1, 3)) if self.steps else 0
        self.bags = random.Random(11 * seed + 5).choice((0, 1, 2, 2) if self.steps else (0, 0, 0, 1))

    def drawn(self, simulation: Simulation) -> Iterator[Action]:
        """What comes after a step: reads of what is held begin, and go on, while others look at the same caches."""
        rng, under_way = self._rng, simulation.large_reads.under_way
        if not self.steps:
            return
        if len(under_way) < MOST and rng.random() < self._begun:
            held = [one for one in simulation.asked if is_held(simulation.desk, *one)]
            if held:
                yield "derive", *rng.choice(held)
        if under_way and rng.random() < PEEKED:
            named = [one for one in simulation.asked if one[0] == rng.choice(under_way).name]
            if named:
                yield "peek", *rng.choice(named)
        if under_way and rng.random() < GONE_ON:
            yield "derive_on", rng.randrange(MOST), rng.randint(1, 3)


def is_held(desk: Desk, name: str, parameters: Parameters) -> bool:
    """Do all keys of the read have something to be derived from?"""
    if name not in desk.caches:
        return False
    reader, binder = desk.caches[name].named.reader, desk.caches[name].named.binder
    assert reader is not None and binder is not None
    with suppress(UpwellError):
        keys = binder.bind(parameters).keys
        return bool(keys) and all(reader.program.root_key(params) in reader.held_levels[0] for _, params in keys)
    return False
