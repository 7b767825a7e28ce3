"""Intervals find what has a value, as trying each does."""

from __future__ import annotations

import random
from typing import Any

import pytest

import dataflow.held.intervals
from dataflow.entries import Entry
from dataflow.held.intervals import Intervals

MANY = 1 << 30


def entry() -> Entry:
    return Entry(None, (), [], 0)  # type: ignore[arg-type]  # nobody asks it


def ends(rng: random.Random) -> tuple[Any, Any]:
    low, high = (None if rng.random() < 0.1 else rng.randrange(20) for _ in range(2))
    return low, high


@pytest.mark.parametrize("seed", range(30))
def test_what_has_a_value_is_found_while_intervals_come_and_go(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends that are equal, open or the wrong way round are among them."""
    monkeypatch.setattr(dataflow.held.intervals, "BLOCK", 4)
    rng, intervals = random.Random(seed), Intervals()
    held: dict[Entry, tuple[Any, Any]] = {}
    for _ in range(300):
        if held and rng.random() < 0.45:
            gone = rng.choice(list(held))
            intervals.remove(*held[gone], gone)
            intervals.remove(*held.pop(gone), gone)  # what is not there is left alone
        else:
            new = entry()
            held[new] = ends(rng)
            intervals.add(*held[new], new)
        intervals.check_invariants()
        value = rng.randrange(-1, 21)
        expected = {
            each
            for each, (low, high) in held.items()
            if (low is None or low <= value) and (high is None or value <= high)
        }
        found = intervals.having(value, MANY)
        assert found is not None and len(found) == len(expected) and set(found) == expected
        assert set(intervals) == set(held) and len(intervals) == len(held)


def test_more_than_may_be_found_is_not_told() -> None:
    intervals = Intervals()
    for number in range(50):
        intervals.add(number, 100, entry())
    assert intervals.having(49, 49) is None
    assert len(intervals.having(49, 60) or ()) == 50


def test_what_is_passed_over_is_work_too() -> None:
    """One interval reaches far, so that its whole block is looked through."""
    intervals = Intervals()
    intervals.add(0, 1000, entry())
    for number in range(400):
        intervals.add(number, number, entry())
    assert intervals.having(900, 10) is None
    assert len(intervals.having(900, 40) or ()) == 1


def test_blocks_that_end_before_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataflow.held.intervals, "BLOCK", 8)
    intervals = Intervals()
    for number in range(10_000):
        intervals.add(number, number + 2, entry())
    assert len(intervals.having(9_999, 5) or ()) == 3, "1,000 blocks before are no work"


def test_it_is_taken_apart_in_steps() -> None:
    intervals = Intervals()
    for number in range(2_000):
        intervals.add(number if number % 2 else None, number if number % 3 else None, entry())
    steps = sum(1 for _ in intervals.take_apart())
    assert steps > 900 and not intervals and list(intervals) == []
