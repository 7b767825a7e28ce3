"""What was counted of caches that are no more: so that no counter falls when one is dropped, or made again."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.named_cache import NamedCache

MOST_NAMES = 10_000  # twice as many as there may be caches, unless --max-caches says otherwise


class Gone:
    """`hits`, `misses`: of all of them. Of the names that were dropped last it is known how many each had.

    Invariants: 1. `_of_names` has at most MOST_NAMES.
    """

    def __init__(self) -> None:
        self.hits = self.misses = 0
        self._of_names: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def add(self, cache: NamedCache) -> None:
        """The cache is dropped."""
        self.hits += cache.hits
        self.misses += cache.misses
        before_hits, before_misses = cache.before
        self._of_names.pop(cache.name, None)
        self._of_names[cache.name] = before_hits + cache.hits, before_misses + cache.misses
        if len(self._of_names) > MOST_NAMES:
            self._of_names.popitem(last=False)

    def of(self, name: str) -> tuple[int, int]:
        """Hits and misses of the caches that had the name before."""
        return self._of_names.get(name, (0, 0))
