"""Tells whoever watches of the reads that were no hits (`proxy/port/watching.py`).

    a miss     Misses                                     -> missed
    passed     by a cache: Misses, Session._passed        -> passed, passed_by_name
               where no cache is for it: ProxiedQuery.note  -> proxied

Nothing is told while nobody watches: then the places above see nobody to tell, and call nothing. While somebody does,
a read that is no hit costs four or five calls; it is brought into words when a watcher takes it. A hit costs nothing,
ever.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from time import time
from typing import NamedTuple, Protocol

from proxy.auto.passed_reads import ProxiedQuery
from proxy.cache.named_cache import NamedCache
from proxy.port.api import ParameterValue
from proxy.port.reasons import Reason, Why
from proxy.port.watching import ReadView
from upwell.key_text import written

KEPT = 1_000  # reads, until they are taken
TAKEN = 200  # at once
REMEMBERED = 10_000  # keys that were missed
MOST_VALUES, LONGEST = 20, 200  # of a key that is told
MISS, PASSED = "miss", "passed"

Values = Sequence[ParameterValue]
Proxied = Callable[[ProxiedQuery, float, int, Reason, Why], None]
Passed = Callable[[str, Values | None, Why, float], None]


class Told(Protocol):
    """Who has misses, and reads over gRPC that MySQL answered, to tell."""

    watch: Watch | None


class _Read(NamedTuple):
    """`of`: the cache, or the shape that has none. `ago`: seconds since its key was missed before; 0: not known."""

    at: float
    outcome: str
    of: NamedCache | ProxiedQuery
    values: Values | None
    reason: str
    why: str
    us: float
    times: int
    ago: float = 0.0


class Watch:
    """One for the proxy. `sessions`: who is told of reads over MySQL's protocol, which the listener's sessions read;
    None where there is no such listener.

    Invariants:
    1. It is told of reads exactly while `_watchers` is not 0.
    2. `_reads` has the last of `number` reads.
    """

    def __init__(self, caches: Mapping[str, NamedCache], told: Told, proxied: list[Proxied]) -> None:
        self.number = 0
        self.sessions: list[Passed] | None = None
        self._caches, self._told, self._proxied = caches, told, proxied
        self._watchers = 0
        self._reads: deque[_Read] = deque(maxlen=KEPT)
        self._missed: OrderedDict[int, float] = OrderedDict()  # when keys were missed, by their hash

    @contextmanager
    def watched(self, cache: str = "", outcome: str = "") -> Iterator[Watcher]:
        if not self._watchers:
            self._begin()
        self._watchers += 1
        try:
            yield Watcher(self, cache, outcome)
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._end()

    def _begin(self) -> None:
        self._told.watch = self
        self._proxied.append(self.proxied)
        if self.sessions is not None:
            self.sessions.append(self.passed_by_name)

    def _end(self) -> None:
        self._told.watch = None
        self._proxied.remove(self.proxied)
        if self.sessions is not None:
            self.sessions.remove(self.passed_by_name)
        self._reads.clear()
        self._missed.clear()

    # -- what is told --------------------------------------------------------------------------------------------------

    def missed(self, cache: NamedCache, values: Values, us: float, *, hole: bool) -> None:
        """`hole`: a part of the answer was not held; else it was compared before it was given."""
        now = time()
        seen = hash((cache.name, tuple(values)))
        before = self._missed.pop(seen, 0.0)
        self._missed[seen] = now
        if len(self._missed) > REMEMBERED:
            self._missed.popitem(last=False)
        why = "not held" if hole else "compared first"
        ago = now - before if before and before < now - us / 1e6 else 0.0  # else both waited for one upquery
        self._add(_Read(now, MISS, cache, values, why, why, us, 1, ago))

    def passed(self, cache: NamedCache, values: Values | None, why: Why, us: float) -> None:
        self._add(_Read(time(), PASSED, cache, values, why.reason.value, why, us, 1))

    def passed_by_name(self, name: str, values: Values | None, why: Why, us: float) -> None:
        """As `passed`; the cache may be gone meanwhile."""
        if (cache := self._caches.get(name)) is not None:
            self.passed(cache, values, why, us)

    def proxied(self, query: ProxiedQuery, us: float, times: int, reason: Reason, unable: Why) -> None:
        """A read that no cache is for. `unable`: why its session could not have been given a hit."""
        judgement = query.judgement
        why = judgement.reason if reason is Reason.SHAPE and judgement is not None else unable
        self._add(_Read(time(), PASSED, query, None, reason.value, why or "no cache is for it", us, times))

    def _add(self, read: _Read) -> None:
        values = read.values
        if values is not None and _is_long(values):
            read = read._replace(values=None)
        self._reads.append(read)
        self.number += 1

    def since(self, number: int) -> tuple[int, Iterator[_Read]]:
        """(how many reads there were after that number, and are not kept; those that are)."""
        new = self.number - number
        kept = min(new, len(self._reads))
        return new - kept, islice(self._reads, len(self._reads) - kept, None)


class Watcher:
    """`cache`, `outcome`: of the reads that are wanted; "": of all."""

    def __init__(self, watch: Watch, cache: str, outcome: str) -> None:
        self._watch = watch
        self._cache, self._outcome = cache, outcome
        self._seen = watch.number

    def take(self) -> tuple[int, Sequence[ReadView]]:
        lost, new = self._watch.since(self._seen)
        self._seen = self._watch.number
        wanted = [read for read in new if self._wants(read)]
        return lost + max(0, len(wanted) - TAKEN), [_view(read) for read in wanted[-TAKEN:]]

    def _wants(self, read: _Read) -> bool:
        return self._outcome in ("", read.outcome) and self._cache in ("", _cache_of(read))


def _cache_of(read: _Read) -> str:
    return read.of.name if isinstance(read.of, NamedCache) else ""


def _view(read: _Read) -> ReadView:
    query = read.of.sql if isinstance(read.of, NamedCache) else read.of.shape
    why = f"{read.why}, and was missed {read.ago:.1f} s before, too" if read.ago else read.why
    key = "" if read.values is None else written(read.values)
    return ReadView(read.at, read.outcome, _cache_of(read), read.reason, read.us, read.times, query, key, why)


def _is_long(values: Values) -> bool:
    """Whether a key is too long to be told."""
    size = 0
    for value in values:
        if isinstance(value, tuple):
            size += len(value)
            if size > MOST_VALUES or _is_long(value):
                return True
        elif isinstance(value, str | bytes) and len(value) > LONGEST:
            return True
    return len(values) > MOST_VALUES
