"""Schedules in which caches earn their trust: fills are checked in their snapshot, held answers are compared with
MySQL's at one position, while the stream brings events and keys go (`proxy/cache/trust.py`,
`proxy/checking/comparison.py`).

Now and then views are replaced (`ViewSchedule`): until the stream brings that, clients' own texts have other rows. A
difference is a false alarm, for nothing is wrong. With `planted` something is: then clients are given nothing but
what was compared, a difference takes the cache to evict mode, and what clients are given must still be right.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

from dataflow.fills.inserting import FILL_PATIENCE
from dataflow.messages import (
    Check,
    Ddl,
    Differs,
    Effect,
    Finding,
    OwnAnswer,
    Ready,
    StreamEvent,
    Transaction,
    UpqueryAnswer,
    UpqueryFailed,
    UpqueryRequest,
)
from planner.api import plan_evict, with_result_columns
from planner.tree.plan import Caution, Mode
from proxy.cache.trust import Compared, Trust
from proxy.checking.comparison import Comparer, Comparison, Outcome, marks_of
from proxy.checking.fill_check import FillCheck
from proxy.read.literals import substituted
from proxy.read.open_cache import OpenCache
from sqltypes.errors import UpwellError
from sqltypes.expression import Row
from sqltypes.schema import Relation, ResultColumn, SchemaSnapshot, SqlType
from tests.simulation.checks import Wrong
from tests.simulation.desk import packed, unpacked
from tests.simulation.flights import Asked, Deliver, Flight
from tests.simulation.queries import QUERIES, Parameters, Query, query
from tests.simulation.schedule import Schedule
from tests.simulation.script import Setup
from tests.simulation.simulation import LOST, Results, Simulation
from tests.simulation.source import VIEW, ModelSource
from tests.simulation.sql_side import DATABASE, TABLES, State

ALL_MOMENTS = 20  # of what is asked for a comparison, and more
EVER = 1 << 30  # checks that must agree: each answer is due
FIRST_VIEW = 1_000_000  # numbers of transactions that no schedule comes to


@cache
def cautious(name: str, caution: Caution) -> Query:
    """The query in evict mode, planned without what is not believed."""
    asked = query(name)
    relations: dict[tuple[str, str], Relation] = {(DATABASE, table.name): table for table in TABLES.values()}
    plan = plan_evict(QUERIES[name], DATABASE, SchemaSnapshot(relations, (9, 7, 0)), caution=caution)
    output = asked.plan.reader.output
    columns = tuple(ResultColumn(column.name, type_, True) for column, type_ in zip(output, asked.types, strict=True))
    return replace(asked, plan=with_result_columns(plan, columns))


class AtOnce(Comparison):
    """Judged in one step, for there is no loop."""

    @property
    def large(self) -> bool:
        return False


class Trials(Simulation):
    """`found`: the caches that have lost their trust, and how often. `asides`: what is asked for comparisons; each has
    the moments of any upquery. `own_in_snapshot`: a client's own text is run in the upquery's snapshot. `trusts`: which
    lists of a cache were compared."""

    planted = False
    own_in_snapshot = True

    def __init__(self, setup: Setup, alter: Callable[[Results], None] | None = None) -> None:
        super().__init__(setup, alter)
        self.asides: list[Flight] = []
        self.found: dict[str, int] = {}
        self.trusts: dict[OpenCache, Trust] = {}
        self.comparer = Comparer(self.engine, self._submit, lambda: self.followed, lambda: self.clock)
        self._types: dict[str, tuple[SqlType, ...]] = {}  # of the columns of each text

    # -- fills -------------------------------------------------------------------------------------------------------

    def do_check(self, name: str, parameters: Parameters) -> None:
        """A read whose answer is checked before it is given."""
        if name in self.desk.caches:
            self.read(name, parameters)
            if not self.planted:
                self._checked_read(name, parameters)

    def read(self, name: str, parameters: Parameters, demand: Asked | None = None, check: Check | None = None) -> bool:
        if not self.planted:
            return super().read(name, parameters, demand, check)
        if name in self.desk.caches:
            self.asked[name, parameters] = None
            self._checked_read(name, parameters)
        return False

    def do_open(self, name: str) -> None:
        if name not in self.found:
            super().do_open(name)
        elif name not in self.desk.caches:
            self._open_again(name)

    def _open_again(self, name: str) -> None:
        """As much of it as is believed still."""
        if self.found[name] <= Caution.TABLES:
            self.desk.open(cautious(name, Caution(self.found[name])))

    def do_look(self, name: str, parameters: Parameters) -> None:
        if self.planted:
            self.do_compare(name, parameters)
        else:
            super().do_look(name, parameters)

    def do_subscribe(self, name: str, parameters: Parameters) -> None:
        """What subscribers are told is not compared here."""
        if not self.planted:
            super().do_subscribe(name, parameters)

    def _checked_read(self, name: str, parameters: Parameters) -> None:
        opened = self.desk.caches[name]
        named = opened.named
        assert named.reader is not None and named.binder is not None
        binding = named.binder.bind(parameters)
        if not binding.keys or named.reader.answer(binding.keys) is not None:
            self.do_compare(name, parameters)
            return
        text = self._text(name, query(name).sql, parameters)
        trust = self._trust(opened)
        held = partial(trust.agreed, binding.keys, trust.watch()) if opened.plan.is_whole(binding) else None
        told = self._on_check, self._on_differs, 0, held
        check = FillCheck(text, named, named.reader, binding, parameters, packed, *told)
        super().read(name, parameters, None, None if self.found.get(name) else check)

    def _trust(self, opened: OpenCache) -> Trust:
        return self.trusts.setdefault(opened, Trust(EVER, Mode.MAINTAIN, Counter()))

    def _hit(self, name: str, parameters: Parameters, demand: Asked | None = None) -> bool:
        return not self.planted and super()._hit(name, parameters, demand)

    def _on_check(self, check: FillCheck, finding: Finding) -> None:
        self.counts[f"fill {finding.value}"] += 1

    def _text(self, name: str, sql: str, parameters: Parameters) -> str:
        text = substituted(sql, parameters)
        self._types[text] = query(name).types
        return text

    def _run(self, flight: Flight) -> bool:
        if not super()._run(flight):
            return False
        if flight.request.checks:
            flight.own = self._rows_of_texts(flight, self.shown(flight))
        return True

    def shown(self, flight: Flight) -> State:
        """What the snapshot that it has just taken shows to clients' own texts."""
        return self.source.visible

    def _rows_of_texts(self, flight: Flight, state: State) -> Results:
        return [state.query(check.sql, self._types[check.sql]) for check in flight.request.checks]

    def _own_answers(self, flight: Flight) -> tuple[OwnAnswer, ...]:
        in_snapshot = self.own_in_snapshot or flight.deliver is not None
        own = flight.own if in_snapshot else self._rows_of_texts(flight, self.source.visible)
        return tuple(OwnAnswer(self._by_views_of_now(rows)) for rows in own)

    def _by_views_of_now(self, rows: list[Row]) -> list[Row]:
        """What a client's own text has: MySQL takes its views as they are, whatever the snapshot is. (Once the stream
        has brought their change the caches are planned by them, so that these are the rows as they should be.)"""
        return rows[1:] if self.source.other_views(self.position) else rows

    def do_view(self, number: int) -> None:
        """Views are replaced."""
        assert isinstance(self.source, ModelSource), "trials are of one server"
        self.source.begin_view(number)

    # -- held answers ------------------------------------------------------------------------------------------------

    def do_compare(self, name: str, parameters: Parameters) -> None:
        """A held answer is to be compared."""
        if name not in self.desk.caches:
            return
        opened = self.desk.caches[name]
        named = opened.named
        assert named.reader is not None and named.binder is not None
        binding = named.binder.bind(parameters)
        for key, params in binding.keys:
            self.engine.sieve.hold(named.reader, key, params)
        together = opened.plan.is_whole(binding)
        trust = self._trust(opened)
        known = together and self.planted and trust.of_several(named.reader, binding.keys, 0.0) is Compared.NOT
        if known and (rows := named.reader.answer(binding.keys)) is not None:
            self.counts["known lists"] += 1
            self.checks.hit(name, parameters, rows)
            return
        marks = marks_of(named.reader, binding.keys)
        self.desk.host.engine.limit.keep()
        if marks is None:
            return
        unchanged = trust.watch()

        def ended(comparison: Comparison, outcome: Outcome) -> None:
            if together and outcome in (Outcome.EQUAL, Outcome.FREE):
                trust.agreed(binding.keys, unchanged, [version for _, version in marks])
            self._on_compared(comparison, outcome)

        self.comparer.start(
            AtOnce(
                named, named.reader, binding, together, 0, parameters,
                self._text(name, named.sql, parameters), self.position, marks, self.clock, ended,
            )
        )  # fmt: skip

    def _submit(self, request: UpqueryRequest, deliver: Deliver, deadline: float) -> None:
        flight = self._flight(request)
        flight.deliver = deliver
        self.asides.append(flight)

    def do_aside(self, at: int, moments: int) -> None:
        """The next moments of what is asked for a comparison."""
        if self.asides:
            flight = self.asides[at % len(self.asides)]
            for _ in range(moments):
                if flight in self.asides:
                    self._go_on(flight)

    def _answer(self, flight: Flight) -> None:
        if flight.deliver is None:
            super()._answer(flight)
            return
        self.asides.remove(flight)
        results: Results = [[] for _ in flight.request.statements]
        began = self.began.get(flight.incarnation, float("-inf"))
        answer = UpqueryAnswer(flight.request.id, flight.bracket(), tuple(results), 0.0, began)
        flight.deliver(replace(answer, checks=self._own_answers(flight)))
        self.desk.host.engine.limit.keep()  # what was compared was derived: a tick at the latest does so

    def do_fail_aside(self, at: int) -> None:
        if self.asides:
            self._fail(self.asides[at % len(self.asides)])

    def _fail(self, flight: Flight, error: UpwellError = LOST) -> None:
        if flight.deliver is None:
            super()._fail(flight, error)
            return
        self.asides.remove(flight)
        flight.deliver(UpqueryFailed(flight.request.id, error))

    def under_way(self) -> list[Flight]:
        return [*filter(self._runs, self.asides), *super().under_way()]

    def _on_compared(self, comparison: Comparison, outcome: Outcome) -> None:
        self.counts[f"{outcome.value} when compared"] += 1
        name = comparison.cache.name
        if outcome is Outcome.DIFFERENT:
            if comparison.reader.installed:
                self._alarm(name, f"held {comparison.held}, MySQL has {comparison.rows}")
        elif outcome is not Outcome.UNKNOWN and comparison.body is not None and not self.planted:
            # With a fault it is what MySQL's snapshot saw, and what came since may have passed the key by.
            self.checks.hit(name, tuple(comparison.parameters), unpacked(comparison.body))

    def compare_at_rest(self, name: str, parameters: Parameters) -> None:
        """Then it must be known what comes of it."""
        in_vain = self.counts["unknown when compared"]
        self.do_compare(name, parameters)
        self.come_to_an_end()
        if self.counts["unknown when compared"] > in_vain:
            raise Wrong(f"{name} {parameters}: compared in vain, although all is at rest")

    # -- what they hear of -------------------------------------------------------------------------------------------

    def _on_stream(self, event: StreamEvent) -> None:
        super()._on_stream(event)
        self.comparer.suspicions.on_stream(event)
        self.comparer.on_stream(event)
        if isinstance(event, Transaction):
            for change in event.changes:
                for opened in self.desk.caches.values():
                    plan, trust = opened.named.plan, self.trusts.get(opened)
                    if plan is not None and trust is not None and change.table in [t.qualified for t in plan.tables]:
                        trust.on_change()
        if isinstance(event, Ddl) and event.tables == frozenset({f"{DATABASE}.{VIEW}"}):
            self.counts["views"] += 1
            for name in list(self.desk.caches):
                self.handle(self.desk.drop(name))
                self.desk.open(query(name))

    def do_tick(self, seconds: float) -> None:
        super().do_tick(seconds)
        self.comparer.tick()

    def handle(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Differs):
                effect.check.on_differs(effect)
        super().handle([effect for effect in effects if not isinstance(effect, Differs) and not self._settled(effect)])

    def _on_differs(self, effect: Differs) -> None:
        check = effect.check
        assert isinstance(check, FillCheck)
        ended = partial(self._on_explained, check)
        self.comparer.suspicions.explain(effect.bracket.history, check.cache.names, effect.sent_at, ended)

    def _settled(self, effect: Effect) -> bool:
        """An answer that is no snapshot's is compared before it is given."""
        if not self.planted or not isinstance(effect, Ready) or not effect.settled:
            return False
        waiting = self.waiting.pop(effect.waiter)
        self.counts["settled"] += 1
        self.do_compare(waiting.name, waiting.parameters)
        return True

    def _on_explained(self, check: FillCheck, fault: bool) -> None:
        self.counts["faults" if fault else "explained"] += 1
        if fault and check.reader.installed:
            self._alarm(check.cache.name, f"filled {check.rows}, MySQL has {check.own}")

    def _alarm(self, name: str, what: str) -> None:
        if not self.planted:
            raise Wrong(f"a false alarm: {name} {what}")
        self.counts["alarms"] += 1
        self.found[name] = self.found.get(name, 0) + 1
        self.handle(self.desk.drop(name))
        self._open_again(name)

    def do_derive(self, name: str, parameters: Parameters) -> None:
        """Not with a planted fault: what is derived in steps is given by the hit behind it, which looks whether it may
        be."""
        if not self.planted:
            super().do_derive(name, parameters)

    def come_to_an_end(self) -> None:
        """All that is asked for comparisons is answered, and what differs is explained."""
        for _ in range(1000):
            if not self.asides and not self.comparer.suspicions.running:
                return
            self.do_aside(0, ALL_MOMENTS)
            if not self.asides:
                for number in list(self.source.live):
                    self.source.advance(number)
                self.do_deliver(1)
                self.do_tick(0.1)
        raise Wrong("comparisons have no end")


class TrialSchedule(Schedule):
    """A schedule with comparisons, which a seed of their own draws."""

    emptying = 0.0  # what is emptied is compared no more

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._trials = random.Random(~seed)

    def run(self, simulation: Simulation, steps: int) -> None:
        """So many steps, with comparisons among them."""
        assert isinstance(simulation, Trials)
        for _ in range(steps):
            super().run(simulation, 1)
            for action in self._drawn(simulation, list(simulation.asked)):
                simulation.perform(action)
        simulation.come_to_an_end()

    def _drawn(self, simulation: Trials, asked: Sequence[tuple[str, Parameters]]) -> list[tuple[object, ...]]:
        rng = self._trials
        drawn: list[tuple[object, ...]] = []
        if asked and rng.random() < 0.15:
            drawn.append((rng.choice(("compare", "compare", "check")), *rng.choice(asked)))
        if simulation.asides and rng.random() < 0.4:
            at = 0 if rng.random() < 0.5 else rng.randrange(len(simulation.asides))
            drawn.append(("aside", at, rng.choice((1, 1, 2, 5))))
        if simulation.asides and rng.random() < 0.4:
            drawn.append(("aside", -1, ALL_MOMENTS))  # before anything touches what is compared
        if simulation.asides and rng.random() < 0.01:
            drawn.append(("fail_aside", rng.randrange(100)))
        if rng.random() < 0.002:
            drawn.append(("tick", rng.choice((1.0, FILL_PATIENCE))))
        return drawn


class ViewSchedule(TrialSchedule):
    """A schedule in which views are replaced as well, which another seed draws."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._views = random.Random(seed ^ 0x5EED)
        self._replaced = 0

    def _drawn(self, simulation: Trials, asked: Sequence[tuple[str, Parameters]]) -> list[tuple[object, ...]]:
        drawn = super()._drawn(simulation, asked)
        if self._views.random() < 0.03 and len(simulation.source.live) < 8:
            self._replaced += 1
            number = FIRST_VIEW + self._replaced
            drawn.append(("view", number))
            if asked and self._views.random() < 0.3:  # it is seen before the stream brings it
                check = ("check", *self._views.choice(asked))
                drawn += [("advance", number, 4), check, ("flush",), ("upquery", -1, 5)]
        if asked and self._views.random() < 0.05 and len(simulation.subscribers) < 6:
            both = self._views.choice(asked)  # one fill for a check and a subscriber
            drawn += [("subscribe", *both), ("check", *both)]
        return drawn
