"""How a schedule ends: all comes to rest, and is compared with the final data."""

from __future__ import annotations

from contextlib import suppress

from dataflow.fills.inserting import FILL_PATIENCE
from sqltypes.errors import EvaluationError
from tests.simulation.checks import LARGE_LIMIT, Wrong
from tests.simulation.queries import Parameters
from tests.simulation.simulation import Simulation

MOST_ASKED = 3  # reads of a key at rest until it must be held


def rest(simulation: Simulation) -> None:
    """Lets everything come to an end, then compares all that is held, and all that subscribers have, with the final
    data; then every cache must take up keys again."""
    _come_to_rest(simulation)
    simulation.checks.at_rest()
    for name in list(simulation.desk.caches):
        _check_alive(simulation, name)
    simulation.do_tick(0.0)  # these reads have added bytes of answers: a tick at the latest keeps the limit
    simulation.engine.check_invariants()
    simulation.counts.update(simulation.engine.memory.counters)


def _come_to_rest(simulation: Simulation) -> None:
    """Without new transactions, until nothing is under way."""
    source, engine = simulation.source, simulation.engine
    simulation.large_reads.drop()
    for _ in range(10_000):
        lost = simulation.lost
        resting = not (source.live or lost or simulation.left) and simulation.changing is None
        pending = engine.reads.pending or engine.inserting.waiting or engine.unfinished
        if resting and not (simulation.flights or simulation.waiting or pending):
            return
        for number in list(source.live):
            source.advance(number)
        if lost and not simulation.left:
            simulation.do_reconnect()
        simulation.do_slice(3)
        simulation.do_deliver(1)
        simulation.do_flush()
        for at in range(len(simulation.flights)):
            simulation.do_upquery(at, 1)
        if resting and not simulation.flights:
            simulation.do_tick(FILL_PATIENCE)  # a fill may wait for a transaction that was rolled back
        simulation.checks.resets()
    raise Wrong("the system does not come to rest")


def _check_alive(simulation: Simulation, name: str) -> None:
    """No fill is lost for ever: what is asked again is a hit, if there is memory, and it can be computed. (An exact
    fill leaves lookups out, which the next one brings.) Nor is it compared in vain for ever."""
    for parameters in [parameters for asked, parameters in simulation.asked if asked == name][-3:]:
        with suppress(EvaluationError):  # the read is MySQL's to answer
            _ask_again(simulation, name, parameters)
            if simulation.setup.limit >= LARGE_LIMIT:
                simulation.compare_at_rest(name, parameters)


def _ask_again(simulation: Simulation, name: str, parameters: Parameters) -> None:
    told = simulation.engine.memory.counters
    left = told["given_up_cannot_compute"]
    for _ in range(MOST_ASKED):
        if simulation.read(name, parameters):
            return
        _come_to_rest(simulation)
    if simulation.setup.limit >= LARGE_LIMIT and told["given_up_cannot_compute"] == left:
        raise Wrong(f"{name} {parameters}: asked again, and still not held")
