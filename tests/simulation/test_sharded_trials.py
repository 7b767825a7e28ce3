"""Caches earn their trust before several shards: a planted fault is found before a client gets what it computes, and an
answer of one shard is compared whatever becomes of the others. That nothing right loses its trust is in every schedule
of `make sim`."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.rest import rest
from tests.simulation.sharded_trials import ShardedTrials, ShardedTrialSchedule
from tests.simulation.test_shards import HEALTHY, ONE_KEY, SLOW, becomes_held, one_stands_still
from tests.simulation.test_trials import FAULTS, is_found


@pytest.mark.parametrize("name", ONE_KEY)
def test_a_held_answer_of_one_shard_is_compared_while_the_stream_of_another_stands_still(name: str) -> None:
    with one_stands_still(name, kind=ShardedTrials) as simulation:
        assert becomes_held(simulation, name, ONE_KEY[name])
        simulation.perform(("deliver", 99, HEALTHY))  # what stands ahead of the position is not compared
        simulation.perform(("compare", name, ONE_KEY[name]))
        simulation.perform(("aside", 0, 20))
        assert simulation.feeds[SLOW].left
        assert simulation.counts["equal when compared"] == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_is_found_before_a_client_is_given_what_it_computes(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_found(fault, ShardedTrialSchedule, ShardedTrials, monkeypatch)


def test_trials_compare_before_shards() -> None:
    """Fills and held answers, of all shards and of some, with an outcome, while other shards take over."""
    counts: Counter[str] = Counter()
    for seed in range(1, 13):
        schedule = ShardedTrialSchedule(seed)
        simulation = ShardedTrials(schedule.setup)
        try:
            schedule.run(simulation, 400)
            rest(simulation)
        finally:
            simulation.close()
        counts += simulation.counts
    for what in ("fill agrees", "equal when compared", "unknown when compared", "compared with some shards"):
        assert counts[what] > 10, what
    for what in ("failovers", "resharded", "shards that are no more", "answers of some shards"):
        assert counts[what], what
    assert not counts["alarms"]
