"""What conditions and ends tell of a change is right: against SQLite, many times."""

from __future__ import annotations

import pytest

from tests.simulation.telling import wrong


@pytest.mark.parametrize("first", range(0, 320, 40))
def test_what_a_change_leaves_held_is_right(first: int) -> None:
    for seed in range(first, first + 40):
        assert not wrong(seed), f"seed {seed}: {wrong(seed)}"
