"""Counts of caches that are no more."""

from __future__ import annotations

import pytest

from proxy import gone
from proxy.gone import Gone
from proxy.named_cache import NamedCache


def dropped(known: Gone, name: str, hits: int, misses: int) -> None:
    cache = NamedCache(name, "SELECT 1", "shop", before=known.of(name))
    cache.hits, cache.misses = hits, misses
    known.add(cache)


def test_a_name_has_what_all_caches_of_that_name_had() -> None:
    known = Gone()
    assert known.of("a") == (0, 0)
    dropped(known, "a", 3, 1)
    dropped(known, "b", 10, 10)
    dropped(known, "a", 4, 1)
    assert (known.of("a"), known.of("b")) == ((7, 2), (10, 10))
    assert (known.hits, known.misses) == (17, 12)


def test_names_are_bounded_and_sums_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gone, "MOST_NAMES", 2)
    known = Gone()
    for name in "abac":
        dropped(known, name, 1, 0)
    assert (known.of("a"), known.of("b"), known.of("c"), known.hits) == ((2, 0), (0, 0), (1, 0), 4)
