"""What a read that asks for freshness is told: only what contains all that it asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dataflow.fills.read import Read
from dataflow.messages import Effect, Failed, GivenUp, Ready
from gtid_tracker.gtid import GtidSet
from tests.support.engine_rig import NOTHING, ROWS, Rig, gtids


@dataclass
class Asked:
    """A demand: these GTIDs, of an upquery sent at `oldest` or later. `current`: the position is known to be recent."""

    rig: Rig
    needed: GtidSet
    oldest: float = 0.0
    current: bool = True

    def met(self) -> bool:
        return self.current and self.rig.engine.state.ring.position.covers(self.needed)

    def met_by(self, lower: GtidSet, sent_at: float) -> bool:
        return sent_at >= self.oldest and self.needed.issubset(lower)


def demanding(rig: Rig, demand: Asked, *params: int) -> list[Effect]:
    node = rig.readers[0]
    rig.waiter += 1
    return rig.engine.reads.read(Read(rig.waiter, node, [(node.key_of(params), params)], demand=demand))


def told(effects: Sequence[Effect]) -> Effect | None:
    """What the read is told, if it is."""
    return next((effect for effect in effects if isinstance(effect, (Ready, Failed))), None)


def test_answer_whose_lower_bound_has_what_is_asked_for_serves_ahead_of_the_position() -> None:
    rig = Rig(ROWS)
    demanding(rig, Asked(rig, gtids(2)), 7)
    (request,) = rig.asked()
    assert told(rig.answer(request, [], lower=gtids(1, 2))) == Ready(1, [], gtids(1, 2))


def test_answer_whose_lower_bound_lacks_it_does_not_serve() -> None:
    rig = Rig(ROWS)
    demanding(rig, Asked(rig, gtids(2)), 7)
    (request,) = rig.asked()
    assert told(rig.answer(request, [], lower=gtids(1))) == Failed(1, None, GivenUp.BEHIND)


def test_what_may_be_in_the_answer_does_not_count() -> None:
    rig = Rig(ROWS)
    demanding(rig, Asked(rig, gtids(2)), 7)
    (request,) = rig.asked()
    assert told(rig.answer(request, [], lower=gtids(1), executed=gtids(1, 2))) == Failed(1, None, GivenUp.BEHIND)


def test_read_that_joins_an_older_upquery_is_not_told_its_answer() -> None:
    rig = Rig(ROWS)
    rig.read(7)
    (request,) = rig.asked()
    demanding(rig, Asked(rig, gtids(2)), 7)
    assert rig.asked() == []
    effects = rig.answer(request, [], lower=gtids(1))
    assert Ready(1, [], gtids(1)) in effects
    assert Failed(2, None, GivenUp.BEHIND) in effects


def test_read_that_joins_an_older_upquery_gets_the_entry_when_the_position_has_it() -> None:
    rig = Rig(ROWS)
    rig.read(7)
    (request,) = rig.asked()
    demanding(rig, Asked(rig, gtids(2)), 7)
    rig.change(2, (None, (1, 7, 10)))
    assert Ready(2, [(1, 10)], gtids(1, 2)) in rig.answer(request, [], lower=gtids(1))


def test_upquery_reads_its_lower_bound_anew_where_the_known_one_lacks_it() -> None:
    rig = Rig(ROWS)
    rig.read(7)
    (request,) = rig.asked()
    rig.answer(request, [], lower=gtids(1))
    rig.read(8)
    (known,) = rig.asked()
    assert known.lower is not None, "the source is at rest: the last reading serves"
    demanding(rig, Asked(rig, gtids(2)), 9)
    (asked,) = rig.asked()
    assert asked.lower is None


def test_answer_says_what_else_may_be_in_it() -> None:
    rig = Rig(ROWS)
    rig.read(7)
    (request,) = rig.asked()
    assert told(rig.answer(request, [], lower=gtids(1), executed=gtids(1, 2), owned=gtids(3))) == Ready(
        1, [], gtids(1), gtids(1, 2, 3)
    )


def test_upquery_sent_too_long_ago_does_not_serve() -> None:
    rig = Rig(ROWS)
    rig.clock = 5.0
    rig.read(7)
    (request,) = rig.asked()
    rig.clock = 6.0
    demanding(rig, Asked(rig, NOTHING, oldest=5.5, current=False), 7)
    effects = rig.answer(request, [], lower=gtids(1))
    assert Ready(1, [], gtids(1)) in effects
    assert Failed(2, None, GivenUp.BEHIND) in effects


def test_position_that_is_no_longer_recent_enough_when_the_entry_is_inserted_does_not_serve() -> None:
    rig = Rig(ROWS)
    demand = Asked(rig, gtids(1), oldest=1.0)
    demanding(rig, demand, 7)
    (request,) = rig.asked()
    assert told(rig.answer(request, [], lower=gtids(1), executed=gtids(1, 2))) is None
    demand.current = False
    assert told(rig.change(2)) == Failed(1, None, GivenUp.BEHIND)
    assert rig.held(7) == []
