"""Counts of dropped caches, so that no counter falls when a cache is dropped or made again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from dataflow.losses import Losses
from proxy.port.reasons import Reason

if TYPE_CHECKING:
    from proxy.cache.named_cache import NamedCache

MOST_NAMES = 10_000  # twice as many as there may be caches, unless --max-caches says otherwise


class OfName(NamedTuple):
    """The counts of all caches of one name, as of the last drop."""

    hits: int
    misses: int
    passed: Mapping[Reason, int]
    losses: Losses | None = None


class Gone:
    """`hits`, `misses`: of all dropped caches. For the names dropped last the counts of each are known.

    Invariants: 1. `_of_names` has at most MOST_NAMES.
    """

    def __init__(self) -> None:
        self.hits = self.misses = 0
        self._of_names: OrderedDict[str, OfName] = OrderedDict()

    def add(self, cache: NamedCache) -> None:
        """The cache is dropped."""
        self.hits += cache.hits
        self.misses += cache.misses
        before_hits, before_misses = cache.before
        self._of_names.pop(cache.name, None)
        hits, misses = before_hits + cache.hits, before_misses + cache.misses
        self._of_names[cache.name] = OfName(hits, misses, cache.passed.ever, cache.losses.retired)
        if len(self._of_names) > MOST_NAMES:
            self._of_names.popitem(last=False)

    def of(self, name: str) -> OfName:
        """Of the caches that had the name before."""
        return self._of_names.get(name, OfName(0, 0, {}))
