"""What a cache counts of its reads."""

from __future__ import annotations

import pytest

from proxy.cache.named_cache import NamedCache


@pytest.mark.parametrize(
    ("misses", "median_us"),
    [
        ([], 0.0),
        ([(9000, True), (8000, True)], 8.5),
        ([(9000, True), (8000, True), (1000, False)], 1.0),
        ([(9000, True), (1000, False), (9000, True), (2000, False)], 1.5),
    ],
)
def test_misses_that_were_compared_are_timed_while_there_are_no_others(
    misses: list[tuple[int, bool]], median_us: float
) -> None:
    cache = NamedCache("a", "SELECT 1", "shop")
    for ns, checked in misses:
        cache.time_miss(ns, checked=checked)
    assert cache.info().miss_p50_us == median_us
