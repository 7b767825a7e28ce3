"""When caches are planned again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.catalog.replanning import FIRST_PAUSE, LONGEST_PAUSE, PlannedAgain


def test_pauses_double_until_the_name_is_done_with() -> None:
    now = 0.0
    again = PlannedAgain(lambda: now)
    pauses = [again.later("a") for _ in range(12)]
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE] and pauses[-1] == LONGEST_PAUSE
    again.done("a")
    assert again.later("a") == FIRST_PAUSE
    assert not again.ripen()
    now = FIRST_PAUSE
    assert again.ripen() and again.take() == "a" and not again


def test_what_is_due_waits_no_more() -> None:
    again = PlannedAgain(lambda: 0.0)
    again.later("a")
    again.at_once("a")
    assert "a" in again and again.take() == "a" and not again.ripen()


@given(st.lists(st.tuples(st.sampled_from(("at_once", "later", "done", "take", "ripen")), st.sampled_from("abc"))))
def test_each_name_is_due_or_waits_or_neither(steps: list[tuple[str, str]]) -> None:
    now = 0.0
    again = PlannedAgain(lambda: now)
    for step, name in steps:
        now += 3.0
        if step == "ripen":
            again.ripen()
        elif step == "take":
            if again:
                again.take()
        else:
            getattr(again, step)(name)
        again.check_invariants()
