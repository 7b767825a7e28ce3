"""The rules of several shards (docs/consistency.md, "Several shards") switched off, one at a time: where a bracket is
made of what the shards say, where the stream goes on with other shards, and in the engine."""

from __future__ import annotations

from collections.abc import Sequence

from dataflow.fills.inserting import Inserting
from dataflow.fills.source_history import SourceHistory
from dataflow.messages import Progress, UpqueryRequest
from gtid_tracker.bracket import NOTHING, Bracket
from gtid_tracker.gtid import GtidSet
from tests.simulation.mutant import Mutant, always, attribute, edit, nothing
from tests.simulation.sharded import Sharded, ShardedFlight
from tests.simulation.shards import Shard, union

bracket_of, others_of = ShardedFlight.bracket, Sharded.others
in_order, begins_at = Sharded.in_order, Sharded.begins_at


def without_doubt_of_one(self: ShardedFlight) -> Bracket:
    if len(self.shards) > 1:
        last = self.shards[-1].name
        self.owneds[last], self.executeds[last] = NOTHING, self.lowers[last]
    return bracket_of(self)


def with_the_lower_bound_of_another(self: ShardedFlight) -> Bracket:
    """That of the first for the last."""
    lowers = [self.lowers[shard.name] for shard in self.shards]
    own = bracket_of(self)
    return Bracket(self.server, union(lowers[:-1] or lowers), own.owned, own.executed, self.others)


def as_if_one_had_answered(self: Sharded, flight: ShardedFlight) -> GtidSet | None:
    if flight.request.shards is None and len(flight.shards) > 1:
        flight.shards = flight.shards[:1]
        flight.request.shards = (flight.shards[0].name,)
    return others_of(self, flight)


def last_is_asked_too_soon(self: Sharded, request: UpqueryRequest, shards: Sequence[Shard]) -> list[str]:
    """What it owns and has executed, before the statement is run there."""
    last = shards[-1].name
    early = [f"owned of {last}", f"executed of {last}"]
    moments = [moment for moment in in_order(self, request, shards) if moment not in early]
    at = moments.index(f"snapshot of {last}")
    return [*moments[:at], *early, *moments[at:]]


def last_is_asked_too_late(self: Sharded, request: UpqueryRequest, shards: Sequence[Shard]) -> list[str]:
    """What it had executed, behind the statement."""
    late = f"lower of {shards[-1].name}"
    moments = [moment for moment in in_order(self, request, shards) if moment != late]
    at = moments.index(late.replace("lower", "snapshot")) + 1
    return [*moments[:at], late, *moments[at:]]


def as_progress(self: Sharded) -> None:
    """The position comes to have what the new shards began with, and nothing becomes a hole."""
    for gtid in self.begins_at().difference(self.position):
        self._on_stream(Progress(gtid))


SHARDS = (
    Mutant(
        "shards",
        "what each shard may have shown is in doubt",
        attribute(ShardedFlight, "bracket", without_doubt_of_one),
    ),
    Mutant(
        "shards",
        "each shard has a lower bound of its own",
        attribute(ShardedFlight, "bracket", with_the_lower_bound_of_another),
    ),
    Mutant("shards", "a scatter has the bracket of all", attribute(Sharded, "others", as_if_one_had_answered)),
    Mutant(
        "shards",
        "each shard is asked what it owns behind the statement",
        attribute(Sharded, "in_order", last_is_asked_too_soon),
    ),
    Mutant(
        "shards",
        "each shard is asked what it has executed before the statement",
        attribute(Sharded, "in_order", last_is_asked_too_late),
    ),
    Mutant(
        "shards",
        "what other shards have counts as seen",
        edit(Bracket, "__init__", ("lower if others is None else lower.union(others)", "lower")),
    ),
    Mutant(
        "shards",
        "others are those that were not asked",
        edit(Sharded, "others", (" if feed.shard.name not in asked", "")),
    ),
    Mutant(
        "shards",
        "what other shards have was not read there",
        edit(SourceHistory, "contradiction", ("bracket.own", "bracket.lower")),
    ),
    Mutant(
        "shards",
        "a reading of some shards is no loss of what others told",
        edit(SourceHistory, "contradiction", ("floor = bracket.asked(floor)", "pass")),
    ),
    Mutant(
        "shards",
        "a reading of some shards tells of no rollback on others",
        edit(Inserting, "clear_rolled_back", ("bracket.asked(missing)", "missing")),
        script="rolled_back_on_another_shard",
    ),
    Mutant("shards", "no lookup is asked, which no stream tells of", attribute(Sharded, "hinted", False)),
    # a shard's server is exchanged, and has lost its last transactions
    Mutant(
        "shards",
        "what a server had shown goes with it",
        attribute(Sharded, "another_server", nothing),
        script="ahead_of_a_server_that_is_exchanged",
    ),
    Mutant(
        "shards",
        "what a shard's server has lost was not rolled back",
        edit(Sharded, "_moments", ('self.exchanged.get(one.name, float("-inf"))', 'float("-inf")')),
        script="lost_by_a_shard_taken_for_rolled_back",
    ),
    # other shards take over
    Mutant("shards", "a shard that is no more is not asked", attribute(Sharded, "refuses", False)),
    Mutant(
        "shards",
        "nothing counts as seen of shards that are not followed yet",
        edit(Sharded, "others", ("return GtidSet.empty()", "pass")),
        script="answer_of_a_shard_that_is_not_followed",
    ),
    Mutant(
        "shards",
        "all old shards are read to their end",
        attribute(Sharded, "all_have_come", always),
        script="told_by_an_old_shard_after_the_gap",
    ),
    Mutant(
        "shards",
        "the position has nothing of shards that are no more",
        attribute(Sharded, "begins_at", lambda self: begins_at(self).union(self.position)),
    ),
    Mutant("shards", "a reshard is a gap", attribute(Sharded, "tell_of_new", as_progress)),
)
