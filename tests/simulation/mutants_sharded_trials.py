"""The rules of what is compared before several shards, switched off one at a time: a right cache loses its trust then,
or no comparison comes to anything."""

from __future__ import annotations

from dataflow.messages import UpqueryRequest
from dataflow.readers.in_steps import at_once
from external_upquery.vitess import snapshot
from gtid_tracker.bracket import NOTHING, Bracket
from gtid_tracker.gtid import GtidSet
from proxy.checking.comparison import Comparer, Comparison
from tests.simulation.flights import Flight
from tests.simulation.mutant import Mutant, all_of, attribute, edit
from tests.simulation.sharded import Sharded, ShardedFlight

bracket_of, others_of, flight_of = ShardedFlight.bracket, Sharded.others, Sharded._flight
look_again = Comparer._look_again


def without_doubt_of_one(self: ShardedFlight) -> Bracket:
    if self.deliver is not None:
        last = self.shards[-1].name
        self.owneds[last], self.executeds[last] = NOTHING, self.lowers[last]
    return bracket_of(self)


def without_others(self: Sharded, flight: ShardedFlight) -> GtidSet | None:
    return others_of(self, flight) if flight.deliver is None else None


def at_the_next_shard(self: Sharded, request: UpqueryRequest) -> Flight:
    if request.shards is not None and not request.statements:
        names = [shard.name for shard in self.known]
        request.shards = tuple(names[(names.index(name) + 1) % len(names)] for name in request.shards)
    return flight_of(self, request)


def over_a_gap(self: Comparer, comparison: Comparison) -> None:
    """What was asked for before it is compared with what is held after it."""
    if comparison.position.issubset(self._engine.state.ring.position.freeze()):
        look_again(self, comparison)
    elif at_once(comparison.held_in_steps()) is not None:
        self._judge(comparison)
    else:
        comparison.lacks = comparison.position.last()


SHARDED_TRIALS = (
    Mutant(
        "compared",
        "what is asked alone is within its bracket",
        edit(
            snapshot,
            "plan",
            ("rows, of_checks = add(packets, statements), add(packets, checks)", "rows = add(packets, statements)"),
            ("UPPER)\n", "UPPER)\n    of_checks = add(packets, checks)\n"),
        ),
    ),
    Mutant(
        "compared",
        "what one shard may have shown a comparison is in doubt",
        attribute(ShardedFlight, "bracket", without_doubt_of_one),
    ),
    Mutant(
        "compared",
        "what the position has of other shards counts as seen by a comparison",
        attribute(Sharded, "others", without_others),
    ),
    Mutant(
        "compared",
        "a comparison asks the shards of all its keys",
        edit(Comparer, "start", ("comparison.keys)", "comparison.keys[:1])")),
    ),
    Mutant(
        "compared",
        "a comparison asks the shards that have its keys",
        attribute(Sharded, "_flight", at_the_next_shard),
    ),
    Mutant(
        "compared",
        "nothing is compared over a reshard",
        all_of(
            attribute(Comparer, "_look_again", over_a_gap),
            edit(
                Comparer,
                "_on_told",
                (
                    " or not comparison.position.issubset(bracket.lower)",
                    " or comparison.position.issubset(self._engine.state.ring.position.freeze()) "
                    "and not comparison.position.issubset(bracket.lower)",
                ),
            ),
            edit(
                Comparer,
                "on_stream",
                ("isinstance(event, Ddl | Gap | Restarted)", "isinstance(event, Ddl)"),
                ("elif event.gtid == comparison.lacks:", "else:"),
            ),
        ),
    ),
)
