"""The caches that have their trust still to earn: of which each check counts, and what it shows of others
(`proxy/cache/evidence.py`)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import upwell
from dataflow.messages import Finding, StreamEvent, Transaction
from proxy.cache.evidence import Claim, Evidence, claims_of
from proxy.cache.trust import Trust

if TYPE_CHECKING:
    from proxy.cache.named_cache import NamedCache


class Earning:
    """`wanted`: checks that must agree; 0: none are made, and no cache loses its trust. `evidence`: what is shown
    already. `source_version`: MySQL's."""

    def __init__(self, wanted: int = 0, evidence: Evidence | None = None, source_version: str = "") -> None:
        self.wanted = wanted
        self.evidence = evidence if evidence is not None else Evidence()
        self.source_version = source_version
        self.counters: Counter[str] = Counter()
        self._leaning: WeakKeyDictionary[NamedCache, tuple[Claim, Claim]] = WeakKeyDictionary()  # by few checks
        # By table those that have something to note at its next change.
        self.stirred: dict[str, dict[NamedCache, None]] = {}

    def begin(self, cache: NamedCache, *, anew: bool = False) -> None:
        """The cache has a new plan. `anew`: its content is in doubt, so earlier checks no longer count. Requires: it
        has a reader."""
        self.end(cache)
        self._leaning.pop(cache, None)
        if self.wanted and cache.plan is not None:
            claims = claims_of(cache.plan, cache.needs, (upwell.__version__, self.source_version))
            knows = (lambda claim: False) if anew else self.evidence.knows
            tables = [table.qualified for table in cache.plan.tables]

            def stirred() -> None:
                for table in tables:
                    self.stirred.setdefault(table, {})[cache] = None

            cache.trust = Trust(self.wanted, cache.plan.mode, self.counters, claims, knows, stirred)
            if cache.trust.known:
                self._leaning[cache] = claims
            stirred()  # the first change is noted

    def end(self, cache: NamedCache) -> None:
        """The cache has no plan any more, or has earned its trust."""
        if cache.trust is None or cache.plan is None:
            return
        cache.trust = None
        for table in cache.plan.tables:
            self.stirred.get(table.qualified, {}).pop(cache, None)

    def note(self, cache: NamedCache, finding: Finding) -> None:
        """A check of the cache has come to an end."""
        match finding:
            case Finding.AGREES:
                self.counters["trust_agrees"] += 1
            case Finding.DIFFERS:
                self.counters["trust_differs"] += 1
            case Finding.UNKNOWN:
                self.counters["trust_unknown"] += 1
        if cache.trust is not None:
            for claim in cache.trust.proven():
                self.evidence.prove(claim)
            if cache.trust.over:
                self.end(cache)

    def on_stream(self, event: StreamEvent) -> None:
        """The engine has processed the event."""
        if isinstance(event, Transaction):
            for change in event.changes:
                caches = self.stirred.pop(change.table, {})
                still = {cache: None for cache in caches if cache.trust is not None and cache.trust.on_change()}
                if still:
                    self.stirred[change.table] = still

    def refute(self, cache: NamedCache) -> None:
        """The cache has lost its trust. What it had in common with others is not proven: those are checked in full that
        were not for that."""
        self.counters["caches_distrusted"] += 1
        if cache.plan is None:
            return
        claims = claims_of(cache.plan, cache.needs, (upwell.__version__, self.source_version))
        for claim in claims:
            self.evidence.refute(claim)
        for other, theirs in list(self._leaning.items()):
            shared = any(not one.parts.isdisjoint(its.parts) for one, its in zip(claims, theirs, strict=True))
            if other is not cache and shared and other.reader is not None:
                self.begin(other, anew=True)
