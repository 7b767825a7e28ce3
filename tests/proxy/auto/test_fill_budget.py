"""What automatic caches may take of a loop that is short of time."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.auto.fill_budget import (
    BUSY,
    FILL_US,
    MOST_COMMON_US,
    MOST_CREDIT_US,
    MOST_KEYS,
    OF_IDLE,
    OF_SAVED,
    PART,
    SAVED_US,
    SELDOM,
    FillBudget,
)

KEY = (7,)


def poor() -> FillBudget:
    """Nothing is left over."""
    budget = FillBudget()
    budget.open("a")
    budget.spend("a", MOST_COMMON_US)
    return budget


def test_where_the_loop_is_idle_every_key_is_filled() -> None:
    budget = FillBudget()
    budget.open("a")
    for key in range(1000):
        assert budget.leaves("a", (key,)) == ""
        budget.spend("a", FILL_US)
        budget.tick(FILL_US * 3 / 1e6, 0.7, {})
    assert budget.left == 0


def test_where_it_is_not_a_key_is_filled_at_its_second_read_and_if_something_is_left() -> None:
    budget = poor()
    budget.tick(1.0, 0.0, {})
    assert budget.leaves("a", KEY) == SELDOM
    assert budget.leaves("a", KEY) == ""
    budget.spend("a", PART * 1e6 + 1)
    assert budget.leaves("a", KEY) == BUSY
    assert budget.left == 2


def test_a_list_is_filled_once_half_of_its_values_have_come() -> None:
    budget = poor()
    budget.tick(1.0, 0.0, {})
    assert budget.leaves("a", (1, (10, 11, 12, 13))) == SELDOM
    assert budget.leaves("a", (1, (13, 20, 21, 22))) == SELDOM, "one of four"
    assert budget.leaves("a", (2, (10, 11, 12, 13))) == SELDOM, "another value beside the list"
    assert budget.leaves("a", (1, (20, 12, 30, 31))) == ""
    assert budget.leaves("a", (1, tuple(range(100, 100 + 2 * MOST_KEYS)))) == SELDOM
    budget.check_invariants()


def test_what_hits_save_pays_for_fills_of_their_cache_alone() -> None:
    budget = poor()
    budget.open("b")
    for name in ("a", "b"):
        assert budget.leaves(name, KEY) == SELDOM
    budget.tick(0.0, 0.0, {"a": 100})
    assert (budget.leaves("a", KEY), budget.leaves("b", KEY)) == ("", BUSY)
    budget.spend("a", 100 * SAVED_US * OF_SAVED)
    assert budget.leaves("a", KEY) == BUSY


def test_a_hit_of_a_slow_query_pays_for_more() -> None:
    budget = poor()
    budget.open("a", 5000.0)
    budget.leaves("a", KEY)
    budget.tick(0.0, 0.0, {"a": 1})
    budget.spend("a", 5000.0 * OF_SAVED - 1)
    assert budget.leaves("a", KEY) == ""


def test_a_cache_that_is_gone_pays_for_nothing() -> None:
    budget = poor()
    budget.leaves("a", KEY)
    budget.close("a")
    budget.close("a")
    budget.tick(0.0, 0.0, {"a": 100})
    assert budget.leaves("a", KEY) == BUSY


def test_a_key_that_was_asked_for_long_ago_counts_as_new() -> None:
    budget = poor()
    numbers = count()
    assert budget.leaves("a", KEY) == SELDOM
    for _ in range(MOST_KEYS - 1):
        budget.leaves("a", (next(numbers),))
    assert budget.leaves("a", KEY) == BUSY, "it is remembered"
    for _ in range(3 * MOST_KEYS):
        budget.leaves("a", (next(numbers),))
    assert budget.leaves("a", KEY) == SELDOM
    budget.check_invariants()


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("read"), st.sampled_from("ab"), st.integers(0, 5)),
            st.tuples(st.just("tick"), st.floats(0, 1), st.integers(0, 2000)),
        ),
        max_size=200,
    )
)
def test_no_more_is_spent_than_was_idle_was_saved_and_the_small_part(events: list[tuple[str, object, int]]) -> None:
    """But for what is under way when the last of it is spent: one read each."""
    budget, spent, earned, largest = FillBudget(), 0.0, MOST_COMMON_US, 4000.0
    budget.open("a")
    budget.open("b")
    for kind, what, number in events:
        if kind == "read":
            if budget.leaves(str(what), (number,)) == "":
                budget.spend(str(what), largest)
                spent += largest
        else:
            idle = float(what)  # type: ignore[arg-type]
            budget.tick(0.25, idle, {"a": number})
            earned += (PART + OF_IDLE * idle) * 0.25e6 + number * SAVED_US * OF_SAVED
    assert spent <= earned + 3 * largest
    budget.check_invariants()


def test_what_is_saved_is_not_saved_up_for_long() -> None:
    budget = poor()
    budget.tick(3600.0, 1.0, {"a": 10_000_000})
    budget.spend("a", MOST_CREDIT_US)
    budget.spend("a", MOST_COMMON_US)
    budget.leaves("a", KEY)
    assert budget.leaves("a", KEY) == BUSY
    assert pytest.approx(0.03) == PART
