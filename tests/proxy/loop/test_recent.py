"""Which numbers came lately."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.loop.recent import Recent


@given(st.lists(st.integers(0, 12)), st.integers(1, 6))
def test_the_last_different_ones_are_known_and_older_ones_are_forgotten(numbers: list[int], most: int) -> None:
    recent = Recent(most)
    came: list[int] = []
    for number in numbers:
        newest_first = list(dict.fromkeys(reversed(came)))
        found = recent.again(number)
        if number in newest_first[:most]:
            assert found
        if found:
            assert number in came
        came.append(number)
        recent.check_invariants()


def test_what_came_long_ago_is_new() -> None:
    recent = Recent(10)
    recent.again(-1)
    for number in range(100):
        recent.again(number)
    assert not recent.again(-1)
