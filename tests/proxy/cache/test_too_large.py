"""Which reads are not tried to be filled."""

from __future__ import annotations

from proxy.cache.too_large import MOST, SECONDS, TooLarge
from proxy.port.reasons import Reason

LARGE = Reason.OTHER.why("large")


def test_a_read_is_remembered_for_a_while() -> None:
    now = 0.0
    found = TooLarge(lambda: now)
    assert found.why([1]) == ""
    found.note([1, ("a", "b")], LARGE)
    assert found.why([1, ("a", "b")]) == "large" and found.why([1, ("a", "c")]) == ""
    now = SECONDS - 1
    found.note([2], Reason.OTHER.why("larger"))
    now = SECONDS
    assert found.why([1, ("a", "b")]) == "" and found.why([2]) == "larger"
    found.check_invariants()


def test_the_oldest_is_forgotten_for_a_new_one() -> None:
    now = 0.0
    found = TooLarge(lambda: now)
    for number in [*range(MOST), 0, MOST]:
        now += 0.001
        found.note([number], LARGE)
        found.check_invariants()
    assert found.why([0]) == found.why([MOST]) == "large" and found.why([1]) == ""
