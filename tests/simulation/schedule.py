"""Draws schedules: what a simulation starts from, and each next step, from one seed.

An even schedule misses what is rare. So there are phases: the stream stands still while the source goes on and misses
come, then it resumes; the source rests; the stream keeps up while upqueries are slow. Hot keys, rows that move between
keys, and rows that are deleted and come back follow from how few values there are.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate

from dataflow.fills.inserting import FILL_PATIENCE
from dataflow.held.remains import FEW
from sqltypes.expression import Row
from tests.simulation.bulk import BulkDraws
from tests.simulation.checks import LARGE_LIMIT
from tests.simulation.large_reads import LargeDraws
from tests.simulation.queries import QUERIES, REACHING, SUBQUERIES, TELLING, WORDS, Parameters, alike, query
from tests.simulation.script import Action, Setup
from tests.simulation.simulation import Simulation
from tests.simulation.source import Change
from tests.simulation.sql_side import TABLES

# How many primary keys each table draws from; in some schedules more, so that not all rows of a top-k are held.
WIDTHS, MANY = {"a": 9, "b": 5, "n": 5}, {"a": 26, "b": 8, "n": 6}
LIMITS = (3_000, 6_000, 12_000, LARGE_LIMIT, 1 << 30)  # the small ones: eviction is constant
SMALL_RING, LARGE_RING = (6, 3000), (1000, 1 << 22)
# How often a transaction begins, one goes on, the stream brings one, an upquery goes on, a client reads, a key goes.
EVEN = (2, 4, 4, 6, 5, 1)
STREAM_BEHIND = (2, 6, 1, 8, 5, 1)
STREAM_STOPPED = (2, 5, 0, 9, 6, 1)
STOPPED_AND_SHORT = (2, 5, 0, 9, 7, 3)
STREAM_AHEAD = (1, 2, 6, 6, 5, 1)  # as far as the source goes: it is received before it is visible
SOURCE_BUSY = (4, 9, 8, 3, 3, 1)
SOURCE_RESTS = (0, 2, 6, 9, 6, 2)
UPQUERIES_SLOW = (3, 6, 6, 2, 5, 1)
EVICTION = (1, 2, 2, 8, 8, 4)
PHASES = (
    EVEN,
    STREAM_BEHIND,
    STREAM_STOPPED,
    STOPPED_AND_SHORT,
    STREAM_AHEAD,
    SOURCE_BUSY,
    SOURCE_RESTS,
    UPQUERIES_SLOW,
    EVICTION,
)
RARE = 0.012
SLICING = 0.3  # of the schedules
EMPTYING, EMPTIED = 0.15, 0.01  # of the schedules; of their steps
MEANWHILE = 0.02  # of their steps: a cache comes while a large transaction is under way
ALIKE = alike()


class Schedule:
    """The draws of one seed."""

    emptying = EMPTYING  # the part of schedules with such

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._rng = rng = random.Random(seed)
        self._apart = random.Random(~seed)  # of its own: what was let go changes nothing else
        self._emptying = random.Random(5 * seed + 2)  # likewise: caches that somebody empties
        self._slicing = random.Random(3 * seed + 1)  # likewise: what a large transaction does to others
        self._in_place = random.Random(11 * seed + 2506)  # likewise: which of its changes have no drafts
        self._reading = random.Random(5 * seed + 3)  # likewise: which rows the stream does not read
        self._unread = self._reading.random() < 0.2  # any at all
        self._slice_soon = self._slicing.choice((0.6, 0.2))
        self._keys = rng.choice([(0, 1, 2), (0, 0, 0, 1, 2), (0, 1)])
        self._bulk = BulkDraws(seed)
        self._large = LargeDraws(seed)
        self._hot = rng.random() < 0.5  # reads and changes keep to few
        self._failovers = rng.random() < 0.4
        self._widths = WIDTHS if rng.random() < 0.7 else MANY
        self._emptied = self._emptying.random() < self.emptying
        self._apart_soon = self._apart.choice((0.3, 0.02))
        self._commits = 0
        sizes = self._sizes() if self._slicing.random() < SLICING else ()
        self._soon: list[Action] = []  # what comes next, the last first
        self._left = 0  # steps of the phase
        self._phase = EVEN
        self._weights: list[float] = []
        self.setup = Setup(
            rows={
                name: {number: self._row(name, number) for number in range(self._widths[name] - 2)} for name in TABLES
            },
            ordered=rng.random() < 0.8,
            limit=rng.choice(LIMITS),
            ring=SMALL_RING if rng.random() < 0.2 else LARGE_RING,
            caches=self._caches()[: 1 if sizes and self._slicing.random() < 0.4 else None],
            few=self._apart.choice((0, FEW)),
            sizes=sizes,
            steps=self._large.steps,
            short=self._large.short,
            bags=self._large.bags,
        )

    def _sizes(self) -> tuple[int, ...]:
        """Each transaction is large, a row is a step."""
        rng = self._slicing
        sizes = 0, 1, rng.choice((0, 2, 6, 1000)), rng.choice((0, 2, 1000)), rng.choice((0, 1, 1000))
        return *sizes, rng.choice((1_500, 1 << 30)), self._in_place.choice((0, 0, 0, 3, 2_000))

    def _caches(self) -> tuple[str, ...]:
        """Any; often some that share much with each other."""
        rng = self._rng
        if rng.random() < 0.2:
            return tuple(rng.sample(sorted(QUERIES), 1))  # what is opened later wants columns that nobody did
        some = rng.sample(rng.choice(ALIKE), 3) if rng.random() < 0.6 else []
        if self._seed % 10 == 9:
            return tuple(rng.sample(sorted(rng.choice((SUBQUERIES, TELLING))), 3))
        reaching = REACHING if self._seed % 20 == 18 else ()
        return tuple(dict.fromkeys((*some, *reaching, *rng.sample(sorted(QUERIES), rng.randint(1, 4)))))

    def run(self, simulation: Simulation, steps: int) -> None:
        """So many steps; after those that concern the engine some reads that are hits."""
        rng = self._rng
        for _ in range(steps):
            action = self.action(simulation)
            simulation.perform(action)
            for other in self._bulk.drawn(list(simulation.desk.caches)):
                simulation.perform(other)
            for other in self._large.drawn(simulation):
                simulation.perform(other)
            if simulation.engine.memory.remains and self._apart.random() < self._apart_soon:
                simulation.perform(("take_apart", self._apart.randint(1, 8)))
            if self._emptied and simulation.engine.graph.readers and self._emptying.random() < EMPTIED:
                simulation.perform(("empty", self._emptying.randrange(100)))
            if simulation.setup.sizes and self._slicing.random() < MEANWHILE:
                for other in self._opened_meanwhile(simulation):
                    simulation.perform(other)
            if simulation.changing is not None and self._slicing.random() < self._slice_soon:
                simulation.perform(("slice", self._slicing.randint(1, 3)))
                for name, parameters in list(simulation.asked)[-2:]:
                    simulation.perform(("look", name, parameters))
            if action[0] in ("deliver", "upquery", "evict_key", "evict_entry") and simulation.asked:
                asked = list(simulation.asked)
                for _ in range(2):
                    simulation.perform(("look", *rng.choice(asked)))

    def _opened_meanwhile(self, simulation: Simulation) -> Iterator[Action]:
        """A cache that wants what the transaction under way, not visible yet, may have been received without."""
        rng, source = self._slicing, simulation.source
        others = sorted(QUERIES.keys() - simulation.desk.caches.keys())
        if not others or source.exclusive or len(source.live) > 5:
            return
        self._commits += 1
        rows = ((name, rng.randrange(3)) for name in TABLES)
        yield "begin", self._commits, "rows", tuple((name, number, self._row(name, number)) for name, number in rows)
        yield "advance", self._commits, 2
        yield "deliver", simulation.left
        name = rng.choice(others)
        yield "open", name
        for _ in range(3):
            yield "read", name, query(name).parameters(rng)
            yield ("flush",)
            yield "upquery", -1, 5

    def action(self, simulation: Simulation) -> Action:
        """The next step."""
        rng = self._rng
        if self._soon:
            return self._soon.pop()
        if not simulation.desk.caches:  # all have lost their trust
            return "open", rng.choice(sorted(QUERIES))
        if self._left == 0:
            # After a standstill the stream has much to bring.
            self._phase = SOURCE_BUSY if self._phase is STREAM_STOPPED and rng.random() < 0.5 else rng.choice(PHASES)
            self._weights = list(accumulate(self._phase))
            self._left = rng.randint(15, 120)
        self._left -= 1
        if rng.random() < RARE:
            return self._rare(simulation)
        begin, advance, deliver, upquery, client, _ = self._weights
        drawn = rng.random() * self._weights[-1]
        if drawn < begin:
            return self._begin(simulation)
        if drawn < advance:
            live = simulation.source.live
            return self._advance(simulation) if live else self._begin(simulation)
        if drawn < deliver:
            return "deliver", 1 if self._fine else rng.choice((1, 1, 2, 5))
        if drawn < upquery:
            return self._upquery(simulation)
        if drawn < client:
            return self._client(simulation)
        return (rng.choice(("evict_key", "evict_entry")), rng.randrange(100))

    @property
    def _fine(self) -> bool:
        """Should this go on for one moment only?"""
        return self._rng.random() < 0.6

    # -- the source --------------------------------------------------------------------------------------------------

    def _begin(self, simulation: Simulation) -> Action:
        rng = self._rng
        live = simulation.source.live
        if self._phase is SOURCE_RESTS or len(live) >= 5 or simulation.source.exclusive:
            return self._advance(simulation) if live else ("deliver", 1)
        self._commits += 1
        drawn = rng.random()
        if not live and drawn < 0.08:
            name = rng.choice(list(TABLES))
            rows = tuple(self._row(name, number) for number in range(rng.choice((0, 0, 3))))
            return "ddl", self._commits, name, rows, rng.random() < 0.8
        if drawn < 0.13:
            return "begin", self._commits, "rows", ()  # of a table that nobody reads
        kind = "ghost" if drawn < 0.18 else "load" if drawn < 0.185 else "early" if drawn < 0.27 else self._rows()
        return "begin", self._commits, kind, self._changes(simulation)

    def _rows(self) -> str:
        """Of what kind a transaction of rows is."""
        return "large" if self._unread and self._reading.random() < 0.05 else "rows"

    def _changes(self, simulation: Simulation) -> tuple[Change, ...]:
        rng = self._rng
        changes: list[Change] = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            name = rng.choice(("a", "a", "a", "b", "b", "n"))
            number = rng.randrange(self._widths[name])
            if self._hot and rng.random() < 0.5:
                number = 0
            gone = number in simulation.source.latest[name] and rng.random() < 0.3
            changes.append((name, number, None if gone else self._row(name, number)))
        return tuple(changes)

    def _advance(self, simulation: Simulation) -> Action:
        rng = self._rng
        return "advance", rng.choice(list(simulation.source.live)), 1 if self._fine else rng.randint(2, 4)

    def _row(self, name: str, number: int) -> Row:
        rng = self._rng
        value = rng.randint(0, 5) if rng.random() < 0.9 else None
        link = rng.choice((0, 1, 2, None)) if rng.random() < 0.3 else rng.choice((0, 1, 2))
        if name == "n":
            return (number, rng.choice(WORDS) if rng.random() < 0.9 else None, rng.choice(self._keys))
        if name == "a":
            return (number, rng.choice(self._keys), link, int(rng.random() < 0.7), value)
        return (number, link, value)

    # -- the proxy and its clients -----------------------------------------------------------------------------------

    def _upquery(self, simulation: Simulation) -> Action:
        """Often the oldest one goes on, so that some come to an end; else any, so that answers come in any order."""
        rng = self._rng
        if simulation.engine.reads.pending and rng.random() < 0.7:
            return ("flush",)
        if rng.random() < 0.008:
            return "fail_upquery", rng.randrange(100)
        drawn = rng.random()
        if drawn < 0.2:
            return "upquery", -1, 5  # the newest overtakes all
        at = 0 if drawn < 0.4 else rng.randrange(max(1, len(simulation.flights)))
        return "upquery", at, 1 if self._fine else rng.randint(2, 5)

    def _client(self, simulation: Simulation) -> Action:
        rng = self._rng
        drawn = rng.random()
        if simulation.waiting and drawn < 0.03:
            return "cancel", rng.randrange(100)
        if drawn < 0.035:
            return "unsubscribe", rng.randrange(100)
        asked = simulation.asked
        if asked and rng.random() < (0.6 if self._hot else 0.3):
            name, parameters = rng.choice(list(asked))
        else:
            name = rng.choice(sorted(simulation.desk.caches))
            parameters = self._parameters(name)
        if drawn > 0.96 and len(simulation.subscribers) < 3:
            return "subscribe", name, parameters
        return "demand" if drawn < 0.12 else "read", name, parameters

    def _parameters(self, name: str) -> Parameters:
        return query(name).parameters(self._rng)

    def _rare(self, simulation: Simulation) -> Action:
        rng = self._rng
        kind = rng.randrange(9)
        if kind == 0:
            return "replay", rng.randint(1, 4)
        if kind == 1:
            return "drop", rng.choice(sorted(simulation.desk.caches))
        if kind in (2, 3):
            name = rng.choice(sorted(QUERIES))
            if rng.random() < 0.3:
                return "open", name
            # What the stream brought before it was visible is in the ring, without the columns that only this wants.
            read = ("read", name, self._parameters(name))
            self._soon += (("upquery", -1, 5), ("flush",), read, ("open", name), ("deliver", 9))
            if not simulation.source.exclusive:
                self._commits += 1
                self._soon.append(("advance", self._commits, 2))
                return "begin", self._commits, "rows", self._changes(simulation)
            return self._soon.pop()
        if kind == 4:
            return rng.choice((("purge",), ("unseen",), ("stray_ddl", rng.choice(list(TABLES)))))
        if kind == 5 and self._failovers:
            return "fail_over", rng.choice((0, 0, 1, 2, 3)), rng.random() < 0.3
        if kind == 6 and self._failovers and not simulation.source.exclusive and rng.random() < 0.4:
            return self._come_back(simulation)
        if kind == 6:
            return ("reconnect",)
        return "tick", rng.choice((0.1, 1.0, FILL_PATIENCE))

    def _come_back(self, simulation: Simulation) -> Action:
        """A server comes back without what the position has already, and goes on, before anybody notices."""
        first, second = self._commits + 1, self._commits + 2
        self._commits = second
        name = self._rng.choice(sorted(simulation.desk.caches))
        parameters = self._parameters(name)
        self._soon += (
            *(("look", *asked) for asked in (*list(simulation.asked)[-2:], (name, parameters))),
            ("upquery", -1, 5),
            ("flush",),
            ("advance", second, 4),
            ("begin", second, "rows", self._changes(simulation)),
            ("fail_over", 1, True),
            ("deliver", 9),
            ("advance", first, 2),
            ("begin", first, "rows", self._changes(simulation)),
        )
        return "read", name, parameters
