"""How many connections the jobs of each shard may have."""

from __future__ import annotations

import random

import pytest

from external_upquery.shares import ANY, FEWEST, SEVERAL, Shares


def filled(shares: Shares, kind: str) -> int:
    """It takes all that it may; how many."""
    took = 0
    while shares.taken < shares.most and shares.may_have(kind):
        shares.took(kind)
        took += 1
    return took


@pytest.mark.parametrize("most, table", [(3, (2, 1, 0)), (4, (2, 1, 1)), (8, (4, 2, 2)), (16, (8, 4, 4))])
def test_what_one_shard_leaves_another_one_shares(most: int, table: tuple[int, ...]) -> None:
    shares = Shares(most)
    assert (filled(shares, "-80"), filled(shares, "80-"), most - shares.taken) == table


@pytest.mark.parametrize("most", range(FEWEST, 20))
@pytest.mark.parametrize("order", [("-80", SEVERAL), (SEVERAL, "-80")])
def test_a_shard_that_hangs_leaves_some_to_another_one(most: int, order: tuple[str, str]) -> None:
    shares = Shares(most)
    for kind in order:
        filled(shares, kind)
    assert filled(shares, "80-") > 0


@pytest.mark.parametrize("most", range(1, 20))
def test_where_nothing_hangs_everybody_gets_some(most: int) -> None:
    for kind in (ANY, SEVERAL, "-80"):
        assert filled(Shares(most), kind) >= (most if kind == ANY or most < FEWEST else most // 2)


@pytest.mark.parametrize("seed", range(50))
def test_no_shard_is_given_more_than_it_leaves(seed: int) -> None:
    """Against the rule, counted anew from the list of who has what."""
    rng = random.Random(seed)
    shares = Shares(rng.randint(1, 12))
    had: list[str] = []
    for _ in range(500):
        kind = rng.choice((ANY, SEVERAL, "-40", "40-80", "80-"))
        free = shares.most - len(had)
        if rng.random() < 0.6:
            own = len([one for one in had if one == kind])
            leaves = kind == ANY or shares.most < 3 or own + (kind == SEVERAL) < free
            assert shares.may_have(kind) == leaves
            if free and leaves:
                shares.took(kind)
                had.append(kind)
        elif had:
            shares.gave(had.pop(rng.randrange(len(had))))
        shares.check_invariants()
