"""Large fills of the simulation: slices that no read has asked for, each an upquery with a bracket of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from dataflow.engine import Engine
from dataflow.messages import Filled, UpqueryRequest
from dataflow.readers.derivation import Params
from gtid_tracker.bracket import Bracket
from proxy.cache.named_cache import NamedCache
from sqltypes.expression import Key
from tests.simulation.flights import Flight
from tests.simulation.queries import Parameters, query
from tests.simulation.script import Action

SHARE = 0.25  # of the schedules that have large fills
BEGUN = 0.02  # of their steps begin one
AUDITED = 0.02  # of their steps begin to compare all that a cache holds
GIVEN_UP = 0.004  # of their steps give one up


class Bulk:
    """The large fills of one simulation: of which fill each slice under way is."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._slices: dict[int, int] = {}  # by upquery
        self._brackets: dict[int, Bracket] = {}  # by fill, of its first slice that came: for `first_bracket`
        self._fills = 0

    def begin(self, cache: NamedCache, asked: Sequence[Parameters], keys_of_a_slice: int) -> list[UpqueryRequest]:
        """The upqueries of a large fill of these keys."""
        assert cache.reader is not None and cache.binder is not None
        bound = [key for parameters in asked for key in cache.binder.bind(parameters).keys]
        keys: list[tuple[Key, Params]] = list(dict(bound).items())
        requests = []
        self._fills += 1
        for at in range(0, len(keys), keys_of_a_slice):
            request = self._engine.unasked.fill(cache.reader, dict(keys[at : at + keys_of_a_slice]))
            if request is not None:
                self._slices[request.id] = self._fills
                requests.append(request)
        return requests

    def audit(self, cache: NamedCache) -> list[UpqueryRequest]:
        """Upqueries to compare all that the cache holds with."""
        assert cache.reader is not None
        reader = cache.reader
        keys = {key: reader.params_of(held) for key, held in reader.entries.items()}
        request = self._engine.unasked.audit(reader, keys)
        if request is None:
            return []
        self._fills += 1
        self._slices[request.id] = self._fills
        return [request]

    def give_up(self, at: int) -> set[int]:
        """Gives one of the large fills up. Returns its upqueries."""
        fills = sorted(set(self._slices.values()))
        if not fills:
            return set()
        chosen = fills[at % len(fills)]
        gone = {number for number, fill in self._slices.items() if fill == chosen}
        self._engine.unasked.drop(gone)
        self._slices = {number: fill for number, fill in self._slices.items() if fill != chosen}
        return gone

    def bracket(self, flight: Flight) -> Bracket:
        """What an upquery's answer is inserted with."""
        return flight.bracket()

    def first_bracket(self, flight: Flight) -> Bracket:
        """Instead of `bracket`, wrongly: that of the large fill's first slice."""
        own = flight.bracket()
        fill = self._slices.get(flight.request.id)
        return own if fill is None else self._brackets.setdefault(fill, own)

    def ended(self, effect: Filled) -> None:
        """Raises AssertionError where the engine tells of what was not asked for."""
        assert self._slices.pop(effect.id, None) is not None, "a fill has ended twice, or was given up"
        assert len(effect.holes) <= effect.asked, "more holes than keys"
        assert not effect.different, f"an audit has found differences: {effect.different}"


class BulkDraws:
    """The large fills of one seed's schedule."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(5 * seed + 2)  # of its own: schedules without are what they were
        self._has_any = self._rng.random() < SHARE

    def drawn(self, open_caches: Sequence[str]) -> Iterator[Action]:
        """What comes after a step."""
        rng = self._rng
        if not self._has_any or not open_caches:
            return
        if rng.random() < BEGUN:
            name = rng.choice(sorted(open_caches))
            asked = tuple(query(name).parameters(rng) for _ in range(rng.randint(1, 8)))
            yield "bulk", name, asked, rng.randint(1, 3)
        if rng.random() < AUDITED:
            yield "audit", rng.choice(sorted(open_caches))
        if rng.random() < GIVEN_UP:
            yield "give_up_bulk", rng.randrange(100)
