"""Which parameters count as growing."""

from __future__ import annotations

import random
from collections.abc import Iterable

from dataflow.operators.growth import IN_VAIN, LESS, NEEDED, UNUSED, Growth

TRIES = UNUSED // IN_VAIN


def asked_in(growth: Growth, values: Iterable[int], *, in_vain: bool = True) -> int:
    """Of so many fills one after the other."""
    count = 0
    for value in values:
        growth.note(value, in_vain=in_vain)
        count += growth.asked
    return count


def test_what_grows_is_asked_soon_though_some_come_late() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        growth = Growth()
        late = [10 * number - rng.choice((0, 0, 0, 15)) for number in range(40)]
        fills = [asked_in(growth, [value]) for value in late]
        assert sum(fills[:NEEDED]) == 0 and sum(fills) > 0, seed


def test_moments_grow() -> None:
    growth = Growth()
    for second in range(NEEDED + 1):
        assert not growth.asked
        growth.note(f"2026-11-26 12:00:0{second}.123456")
    assert growth.asked


def test_what_comes_again_and_again_is_not_asked() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        growth = Growth()
        asked = asked_in(growth, [rng.randrange(30) for _ in range(1000)])
        assert asked <= 2 * TRIES, seed
    assert not asked_in(Growth(), [5] * 100)


def test_one_value_far_ahead_is_forgotten() -> None:
    growth = Growth()
    growth.note(10**9)
    values = list(range(LESS + NEEDED))
    assert asked_in(growth, values[:-1]) == 0
    assert asked_in(growth, values[-1:]) == 1


def test_what_stands_for_no_other_key_is_asked_ever_more_seldom() -> None:
    growth = Growth()
    assert asked_in(growth, range(1000)) < 0.3 * 1000
    growth.used()
    assert growth.asked
    assert asked_in(growth, range(1000, 1000 + TRIES)) == TRIES - 1
    assert asked_in(growth, range(2000, 1999 + 2 * NEEDED)) == 1, "it has shown its worth before"


def test_many_keys_that_are_asked_for_once_tell_little() -> None:
    growth = Growth()
    assert asked_in(growth, range(600), in_vain=False) > 590
    assert asked_in(growth, range(600, 40_000), in_vain=False) < 20_000


def test_nothing_is_known_of_null() -> None:
    growth = Growth()
    for value in (None, 1, None, 2, None, 3, None, 4, None):
        growth.note(value)
        assert not growth.asked
