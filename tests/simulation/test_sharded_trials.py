"""Caches earn their trust before several shards. That nothing right loses it is in every schedule of `make sim`."""

from __future__ import annotations

import pytest

from tests.simulation.sharded_trials import ShardedTrials
from tests.simulation.test_shards import HEALTHY, ONE_KEY, SLOW, becomes_held, one_stands_still


@pytest.mark.parametrize("name", ONE_KEY)
def test_a_held_answer_of_one_shard_is_compared_while_the_stream_of_another_stands_still(name: str) -> None:
    with one_stands_still(name, kind=ShardedTrials) as simulation:
        assert becomes_held(simulation, name, ONE_KEY[name])
        simulation.perform(("deliver", 99, HEALTHY))  # what stands ahead of the position is not compared
        simulation.perform(("compare", name, ONE_KEY[name]))
        simulation.perform(("aside", 0, 20))
        assert simulation.feeds[SLOW].left
        assert simulation.counts["equal when compared"] == 1
