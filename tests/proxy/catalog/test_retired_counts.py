"""Counts of caches that are no more."""

from __future__ import annotations

import pytest

from dataflow.losses import FLUSH, Losses
from proxy.cache.named_cache import NamedCache
from proxy.catalog import retired_counts
from proxy.catalog.retired_counts import Gone
from proxy.port.reasons import PassedReads, Reason


def dropped(known: Gone, name: str, hits: int, misses: int, passed: tuple[Reason, ...] = ()) -> None:
    before = known.of(name)
    cache = NamedCache(
        name, "SELECT 1", "shop", before=before[:2], passed=PassedReads(before.passed), losses=Losses(before.losses)
    )
    cache.hits, cache.misses = hits, misses
    for reason in passed:
        cache.passed.add(reason.why("so"))
        cache.losses.add(FLUSH)
    known.add(cache)


def test_a_name_has_what_all_caches_of_that_name_had() -> None:
    known = Gone()
    assert known.of("a")[:3] == (0, 0, {})
    dropped(known, "a", 3, 1, (Reason.TRANSACTION, Reason.OTHER))
    dropped(known, "b", 10, 10)
    dropped(known, "a", 4, 1, (Reason.TRANSACTION,))
    assert known.of("a")[:3] == (7, 2, {Reason.TRANSACTION: 2, Reason.OTHER: 1})
    assert (kept := known.of("a").losses) is not None and kept.counts == {FLUSH: 3}
    assert known.of("b") == (10, 10, {}, None)
    assert (known.hits, known.misses) == (17, 12)


def test_names_are_bounded_and_sums_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retired_counts, "MOST_NAMES", 2)
    known = Gone()
    for name in "abac":
        dropped(known, name, 1, 0)
    assert [known.of(name).hits for name in "abc"] == [2, 0, 1] and known.hits == 4
