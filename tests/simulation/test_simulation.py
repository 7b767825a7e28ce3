"""The simulation with a small fixed budget; `make sim STEPS=... SEED=...` runs any other."""

from __future__ import annotations

import pytest

from tests.simulation.queries import QUERIES, query
from tests.simulation.run import STEPS_PER_SCHEDULE, run, shrunk

SEEDS = range(1, 161)


@pytest.mark.parametrize("first", SEEDS[::20])
def test_no_read_is_wrong_under_any_schedule(first: int) -> None:
    counts, different = run(range(first, first + 20), STEPS_PER_SCHEDULE)
    assert different == 20
    assert counts["delivered"] > 50
    assert counts["hits"] > 200


def test_queries_cover_every_kind_of_arrangement() -> None:
    kinds = {type(part).__name__ for name in QUERIES for part in query(name).plan.arrangements}
    assert kinds == {"RowsArrangement", "AggregateArrangement", "TopKArrangement", "AnswerArrangement"}


def test_failing_schedule_is_shrunk_to_the_steps_that_matter() -> None:
    left_out = shrunk(1, 100, lambda tried: not {17, 63} & tried)
    assert set(range(100)) - left_out == {17, 63}
