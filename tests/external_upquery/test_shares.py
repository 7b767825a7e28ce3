"""How many connections jobs may have by what they ask for."""

from __future__ import annotations

import itertools
import random

import pytest

from external_upquery.shares import ANY, FEWEST, Kind, Shares

T, U, V = ("shop.t",), ("shop.u",), ("shop.v",)
JOIN, OTHER_JOIN = ("shop.t", "shop.u"), ("shop.t", "shop.v")


def filled(shares: Shares, kind: Kind) -> int:
    """It takes all that it may; how many."""
    took = 0
    while shares.taken < shares.most and shares.may_have(kind):
        shares.took(kind)
        took += 1
    return took


@pytest.mark.parametrize("most, table", [(3, (2, 1, 0)), (4, (2, 1, 1)), (8, (4, 2, 2)), (16, (8, 4, 4))])
def test_what_one_table_leaves_another_one_shares(most: int, table: tuple[int, ...]) -> None:
    shares = Shares(most)
    assert (filled(shares, T), filled(shares, U), most - shares.taken) == table


@pytest.mark.parametrize("most", range(FEWEST, 20))
@pytest.mark.parametrize("order", list(itertools.permutations((T, JOIN, OTHER_JOIN))))
def test_a_table_that_is_locked_leaves_some_to_others_whatever_is_joined_with_it(
    most: int, order: tuple[Kind, ...]
) -> None:
    shares = Shares(most)
    for kind in order:
        filled(shares, kind)
    assert filled(shares, U) > 0, "a table that is joined with it, alone"
    assert most < 7 or filled(shares, ("shop.w",)) > 0


@pytest.mark.parametrize("order", list(itertools.permutations((T, V, JOIN, OTHER_JOIN))))
def test_two_tables_that_are_locked_leave_some_too(order: tuple[Kind, ...]) -> None:
    shares = Shares(8)
    for kind in order:
        filled(shares, kind)
    assert filled(shares, U) > 0


@pytest.mark.parametrize("most", range(1, 20))
def test_where_nothing_is_locked_everybody_gets_some(most: int) -> None:
    for kind in (ANY, JOIN, T):
        assert filled(Shares(most), kind) >= (most if kind == ANY or most < FEWEST else most // 2)


@pytest.mark.parametrize("seed", range(50))
def test_none_is_given_more_than_it_leaves(seed: int) -> None:
    """Against the rule, counted anew from the list of who has what."""
    rng = random.Random(seed)
    shares = Shares(rng.randint(1, 12))
    had: list[Kind] = []
    for _ in range(500):
        kind = rng.choice((ANY, T, U, V, JOIN, OTHER_JOIN))
        free = shares.most - len(had)
        if rng.random() < 0.6:
            if len(kind) < 2:
                leaves = kind == ANY or had.count(kind) < free
            else:
                leaves = all(len([one for one in had if asked in one]) + 1 < free for asked in kind)
            leaves |= shares.most < FEWEST
            assert shares.may_have(kind) == leaves
            if free and leaves:
                shares.took(kind)
                had.append(kind)
        elif had:
            shares.gave(had.pop(rng.randrange(len(had))))
        shares.check_invariants()
