"""Held answers that are derived in steps, while others have their turn: `HeldRows` and `RowsAt` of
`dataflow/large_answers.py`."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from dataflow.entries import Held
from dataflow.large_answers import HeldRows, Holes, RowsAt, Steps, at_once
from dataflow.reader import ReaderNode
from proxy.caches import OpenCache
from proxy.misses import MOST_LARGE, LargeAnswer
from sqltypes.errors import EvaluationError
from sqltypes.expression import Row
from tests.simulation.desk import packed, unpacked
from tests.simulation.queries import Parameters
from tests.simulation.script import Action
from tests.simulation.sql_side import Rows

SHARE = 0.3  # of the schedules that derive in steps
BEGUN, GONE_ON = 0.04, 0.3  # of their steps begin with one, or go on with one
MOST = 4  # under way
LARGE = 0.3  # of the schedules have large answers alone (`Setup.steps`)


@dataclass(eq=False)
class LargeRead:
    """One under way. `held` None: its rows are not stored by key, and are those of the position that it began at, whose
    tables are kept."""

    name: str
    parameters: Parameters
    held: Held | None
    found: HeldRows | RowsAt
    steps: Steps[None]
    tables: Rows

    @property
    def rows(self) -> list[Row] | None:
        """What it has found at its end, if it may be told."""
        held, found = self.held, self.found
        if held is None or isinstance(found, RowsAt):
            return found.rows
        is_held = held.reader.entries.get(held.key) is held
        return found.rows if is_held and found.bodies is held.bodies else None


class LargeReads:
    """Those of one simulation."""

    def __init__(self) -> None:
        self.under_way: list[LargeRead] = []

    def begin(self, name: str, opened: OpenCache, parameters: Parameters, tables: Rows) -> None:
        """Makes the first step, as it is made where the read comes. Of a single key that is held, or of what is not
        stored by key."""
        reader, binder = opened.named.reader, opened.named.binder
        assert reader is not None and binder is not None
        binding = binder.bind(parameters)
        keys = binding.keys
        found: HeldRows | RowsAt
        held = None
        if keys and opened.is_whole(binding):
            found = RowsAt(reader, keys)
        elif len(keys) == 1 and (held := reader.entries.get(keys[0][0])) is not None:
            found = HeldRows(held, keys[0][1])
        else:
            return
        self.under_way.append(LargeRead(name, parameters, held, found, found.steps(), tables))
        self.go_on(-1, 1)

    def go_on(self, at: int, steps: int) -> LargeRead | None:
        """Makes so many steps of one. Returns it at its end."""
        if not self.under_way:
            return None
        one = self.under_way[at % len(self.under_way)]
        try:
            for _ in range(steps):
                next(one.steps)
        except (StopIteration, EvaluationError):
            self.under_way.remove(one)
            return one
        return None


def hit_large(opened: OpenCache, parameters: Parameters) -> tuple[list[Row] | None, Holes]:
    """The rows of a read, also where its answers are large: as `proxy.misses` does it, with nothing in between. Or what
    is missing below its keys."""
    for _ in range(MOST_LARGE):
        opened.take_large()
        body = opened.hit(parameters)
        if body is not None:
            return unpacked(body), {}
        reader, binder, large = opened.named.reader, opened.named.binder, opened.take_large()
        if large is None or reader is None or binder is None:
            break
        if large.parts:
            return unpacked(b"".join(large.parts)), {}
        if not large.keys:
            together = RowsAt(reader, binder.bind(parameters).keys)
            with suppress(EvaluationError):
                at_once(together.steps())
            return together.rows, together.holes
        holes = _stored(opened, reader, large)
        if holes is not None:
            return None, holes
    return None, {}


def _stored(opened: OpenCache, reader: ReaderNode, large: LargeAnswer) -> Holes | None:
    """Derives the answers of keys; None: they are stored, or the read itself is to look at them once more."""
    held = large.held
    if held is None and opened.named.trust is not None:
        return None
    for key, params in large.keys:
        if large.held is None:
            body, found_large = opened.look_at(reader, key, params)
            if body is not None:
                continue
            if found_large is None:
                return {}
            held = found_large.held
        assert held is not None
        found = HeldRows(held, params)
        with suppress(EvaluationError):
            at_once(found.steps())
        if found.rows is None or found.bodies is None:
            return {held.key: found.holes} if found.holes else {}
        if found.bodies[0] is None:
            reader.store(held, 0, packed(found.rows))
            opened._router.keep_limit()
    return None


class LargeDraws:
    """The answers of one seed's schedule that are derived in steps."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(7 * seed + 3)  # of its own: schedules without are what they were
        self._has_any = self._rng.random() < SHARE
        self.steps = self._rng.random() < LARGE

    def drawn(self, asked: Sequence[tuple[str, Parameters]], under_way: int) -> Iterator[Action]:
        """What comes after a step. `asked`: reads of before."""
        rng = self._rng
        if not self._has_any or not asked:
            return
        if under_way < MOST and rng.random() < BEGUN:
            yield "derive", *rng.choice(asked)
        if under_way and rng.random() < GONE_ON:
            yield "derive_on", rng.randrange(MOST), rng.randint(1, 3)
