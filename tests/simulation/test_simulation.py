"""The simulation with a small fixed budget; `make sim STEPS=... SEED=...` runs any other."""

from __future__ import annotations

import pytest

from tests.simulation.run import STEPS_PER_SCHEDULE, Simulation

SEEDS = range(1, 41)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_read_is_wrong_under_any_schedule(seed: int) -> None:
    counts = Simulation(seed).run(STEPS_PER_SCHEDULE)
    assert counts["delivered"] > 0
