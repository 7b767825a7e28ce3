"""Held answers that are derived in steps, while others have their turn: `dataflow.large_answers.HeldRows`."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress

from dataflow.entries import Held
from dataflow.large_answers import HeldRows, Holes, RowsAt, Steps, at_once
from proxy.caches import OpenCache
from proxy.misses import MOST_LARGE
from proxy.named_cache import NamedCache
from sqltypes.errors import EvaluationError
from sqltypes.expression import Row
from tests.simulation.desk import packed, unpacked
from tests.simulation.queries import Parameters
from tests.simulation.script import Action

SHARE = 0.3  # of the schedules that derive in steps
BEGUN, GONE_ON = 0.04, 0.3  # of their steps begin with one, or go on with one
MOST = 4  # under way
LARGE = 0.3  # of the schedules have large answers alone (`Setup.steps`)


class LargeReads:
    """Those of one simulation."""

    def __init__(self) -> None:
        self.under_way: list[tuple[str, Parameters, Held, HeldRows, Steps[None]]] = []

    def begin(self, name: str, cache: NamedCache, parameters: Parameters) -> None:
        """Of a single key that is held."""
        assert cache.reader is not None and cache.binder is not None
        keys = cache.binder.bind(parameters).keys
        held = cache.reader.entries.get(keys[0][0]) if len(keys) == 1 else None
        if held is not None:
            found = HeldRows(held, keys[0][1])
            self.under_way.append((name, parameters, held, found, found.steps()))

    def go_on(self, at: int, steps: int) -> tuple[str, Parameters, list[Row]] | None:
        """Makes so many steps of one. What it has found at its end, where that is still the answer."""
        if not self.under_way:
            return None
        one = self.under_way[at % len(self.under_way)]
        name, parameters, held, found, under_way = one
        try:
            for _ in range(steps):
                next(under_way)
        except (StopIteration, EvaluationError):
            self.under_way.remove(one)
            is_held = held.reader.entries.get(held.key) is held
            if is_held and found.rows is not None and found.bodies is held.bodies:
                return name, parameters, found.rows
        return None


def hit_large(opened: OpenCache, parameters: Parameters) -> tuple[list[Row] | None, Holes]:
    """The rows of a read, also where its answers are large: as `proxy.misses` does it, with nothing in between. Or what
    is missing below its keys."""
    for _ in range(MOST_LARGE):
        opened.large = None
        body = opened.hit(parameters)
        if body is not None:
            return unpacked(body), {}
        reader, binder = opened.named.reader, opened.named.binder
        if opened.large is None or reader is None or binder is None:
            break
        held, params, _ = opened.large
        if held is None:
            together = RowsAt(reader, binder.bind(parameters).keys)
            with suppress(EvaluationError):
                at_once(together.steps())
            return together.rows, together.holes
        found = HeldRows(held, params)
        with suppress(EvaluationError):
            at_once(found.steps())
        if found.rows is None or found.bodies is None:
            return None, {held.key: found.holes} if found.holes else {}
        if found.bodies[0] is None:
            reader.store(held, 0, packed(found.rows))
            opened._router.keep_limit()
    return None, {}


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
