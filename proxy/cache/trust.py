"""A cache earns its trust: its first answers are compared with MySQL's own before anybody gets them.

* A fill: the client's own text runs in the upquery's snapshot, after its statements (`proxy/checking/fill_check.py`).
* What was filled and could not be checked so, and a held answer that a change has made stale: it is derived again, and
  compared with MySQL's answer to the client's own text at the same position, before it is given
  (`proxy/checking/comparison.py`).

`proxy/checking/auditor.py` does it, `proxy/cache/ledger.py` says of which answers. Trust is of one plan: it is earned
anew after each DDL statement and each change of plan, and where MySQL was started anew. What other plans have shown, or
the same plan before Upwell was started, makes fewer checks do (`proxy/cache/evidence.py`).

A difference is a fault of Upwell: it is logged with all that reproduces it, the read is MySQL's to answer, and the
cache goes to evict mode with MySQL's own answers (`Catalog.distrust`), where what changes have not emptied is compared
in the same way; from there any change of its tables empties it, and then it is closed.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from enum import Enum

from dataflow.entries import Held, bytes_of
from dataflow.readers.derivation import Params
from dataflow.readers.reader import ReaderNode
from planner.tree.plan import Mode
from proxy.cache.evidence import FEW, NOTHING, Claim
from proxy.cache.key_binder import Bound
from proxy.cache.ledger import RARER_KNOWN, Ledger
from sqltypes.expression import Key

SLOW_SECONDS = 0.2  # an answer of evict mode that MySQL takes longer for is given first, and compared behind
IN_VAIN = "the last checks of its answers could not be made; until one can, some are given unchecked"
LATEST = 256  # answers of a cache that changes leave to be compared
MOST_LISTS, MOST_LISTED, LONGEST_LIST = 64, 100, 16_384
"""Of a cache, that are known to have been compared; keys of each, and their bytes."""


class Compared(Enum):
    """When an answer is compared with MySQL's own."""

    NOT = "not"
    BEHIND = "behind"  # it is given first, for MySQL takes long
    FIRST = "first"  # nobody is given it before


class Trust:
    """What one plan of a cache has earned. `claims`: what its ledgers prove once they are earned, of fills and of
    changes; `shown`: those that are. `unproved`: held answers that are being compared, not to be given yet.
    `recent`: those whose bytes were stored last. `lists`: whose answers, of all keys together, were found equal, each
    with the versions that its keys had (`Held.version`). `counters`: of all caches."""

    def __init__(
        self,
        wanted: int,
        mode: Mode,
        counters: Counter[str],
        claims: tuple[Claim, Claim] = (NOTHING, NOTHING),
        known: Callable[[Claim], bool] = lambda claim: False,
        stirred: Callable[[], object] = lambda: None,
    ) -> None:
        """`known`: whether a claim is proven already: then checks over few keys do. `stirred`: told when there is
        something to note at the next change, where there was not."""
        self.counters = counters
        self._stirred = stirred
        self.evict = mode is Mode.EVICT
        self.claims = claims
        self.known = any(map(known, claims))
        self.fills, self.changes = (
            Ledger(min(wanted, FEW), RARER_KNOWN) if known(claim) else Ledger(wanted) for claim in claims
        )
        self.shown: set[Claim] = set()
        self.unproved: dict[Held, object] = {}  # each with who is to compare it: nobody else lets it go
        self.recent: deque[Held] = deque(maxlen=LATEST)
        self.lists: dict[tuple[tuple[Key, Params], ...], list[int]] = {}
        self.warned = False  # that checks are in vain
        self.suspicions = 0  # differences that are not explained yet: nothing that is not stored is given meanwhile
        self.explained = asyncio.Event()
        self.changed = 0  # how many changes of the query's tables were noted

    @property
    def over(self) -> bool:
        return self.changes.over and (self.evict or self.fills.over)

    def proven(self) -> list[Claim]:
        """The claims that are proven since the last time."""
        ledgers = (self.fills, self.changes)
        new = [claim for claim, ledger in zip(self.claims, ledgers, strict=True) if ledger.earned and claim.print_]
        found = [claim for claim in new if claim not in self.shown]
        self.shown.update(found)
        return found

    @property
    def told(self) -> str:
        """What SHOW CACHES says of it, "" if there is nothing to say."""
        return IN_VAIN if self.changes.tired or (self.fills.tired and not self.evict) else ""

    def ledger(self, unseen: bool) -> Ledger:
        """That a held answer counts for. `unseen`: nobody was given it since it was filled, and its fill was not
        checked, or has changed: as long as fills are due it is checked in the place of its fill."""
        return self.fills if unseen and not self.evict and self.fills.due else self.changes

    def suspect(self) -> None:
        self.suspicions += 1
        self.explained.clear()

    def explain(self) -> None:
        """Requires: `suspect` was called for it."""
        self.suspicions -= 1
        if not self.suspicions:
            self.explained.set()

    def let_through(self, ledger: Ledger) -> None:
        """An answer is given unchecked. Requires: it was not due."""
        ledger.let_through()
        if ledger.tired:
            self.counters["trust_given_unchecked"] += 1

    def of_held(self, held: Held, seconds: float, *, given: bool = True) -> Compared:
        """When this answer is to be compared. `seconds`: that MySQL takes for the query. `given`: unless it is held
        back, a client gets it."""
        if given:
            self._stir()
            self.recent.append(held)
        if held in self.unproved:
            return Compared.FIRST
        if held.version is not None:
            return Compared.NOT
        return self.of_derived(seconds, given=given, unseen=held.unseen)

    def of_several(self, reader: ReaderNode, keys: Bound, seconds: float, *, given: bool = True) -> Compared:
        """Likewise of the answer of several keys together. What is known of each key says nothing of it."""
        found = [reader.entries.get(key) for key, _ in keys]
        if not self.unproved.keys().isdisjoint(found):
            return Compared.FIRST
        versions = [None if held is None else held.version for held in found]
        if versions == self.lists.get(tuple(keys)) and not self.suspicions:
            return Compared.NOT
        return self.of_derived(seconds, given=given, unseen=any(held is None or held.unseen for held in found))

    def watch(self) -> int:
        """A list is about to be compared. Returns a number that the next change of a table makes another one."""
        self._stir()
        return self.changed

    def agreed(self, keys: Bound, began: int, versions: list[int]) -> None:
        """The answer of several keys together was found equal when they had these versions. `began`: as `watch` gave it
        before. Behind a change it is not known for how long: one that was sought in the wrong place is not seen at the
        keys."""
        if began != self.changed or len(keys) > MOST_LISTED:
            return
        place = tuple(keys)
        if place not in self.lists:
            if bytes_of(place) > LONGEST_LIST:
                return
            if len(self.lists) >= MOST_LISTS:
                del self.lists[next(iter(self.lists))]
        self.lists[place] = versions

    def _stir(self) -> None:
        """There is about to be something to note at the next change."""
        if not self.recent and not self.lists:
            self._stirred()

    def of_derived(self, seconds: float = 0.0, *, given: bool = True, unseen: bool = False) -> Compared:
        """Likewise of any answer that is derived. `unseen`: as `ledger` has it."""
        if self.suspicions:
            return Compared.FIRST
        ledger = self.ledger(unseen)
        if not ledger.due:
            if given:
                self.let_through(ledger)
            return Compared.NOT
        return Compared.BEHIND if given and self.evict and seconds > SLOW_SECONDS else Compared.FIRST

    def proved(self, reader: ReaderNode, keys: Bound) -> bool:
        """Is all that is held for the keys as it was compared?"""
        found = [reader.entries.get(key) for key, _ in keys]
        return not self.suspicions and all(
            held is not None and held.version is not None and held not in self.unproved for held in found
        )

    def leave(self, fresh: dict[Held, bool]) -> None:
        """Nobody compares what was linked for that: it is as it was before."""
        for held in fresh:
            if self.unproved.get(held) is fresh:
                del self.unproved[held]
                held.stale()

    def own(self, held: Held, fresh: dict[Held, bool]) -> None:
        """The key is about to be linked, to be compared: nobody is given it before. Another may do that already."""
        if held not in self.unproved:
            fresh[held] = held.unseen
            self.unproved[held] = fresh

    def judged(self, who: object, marks: Iterable[tuple[Held, int]], *, good: bool) -> None:
        """Keys that had these versions were compared by `who`, and may be given again. Where they were not found right,
        those that have not changed since are as if they had."""
        for held, version in marks:
            if self.unproved.get(held) is who:
                del self.unproved[held]
                if not good and held.version == version:
                    held.stale()

    def on_change(self) -> bool:
        """A table of the query has changed; is there anything to note at the next change, too? Whatever answers that
        has left alone, the next read of each looks whether it should have: a change that was sought in the wrong place
        is not seen at the answer."""
        self.changed += 1
        self.lists.clear()
        if self.changes.due:
            while self.recent:
                held = self.recent.popleft()
                if held.alive and held not in self.unproved:
                    held.stale()
        return bool(self.recent)


def unproved(reader: ReaderNode, keys: Iterable[Key]) -> dict[Held, bool]:
    """What is held for these keys is as if it had changed: nobody is given it before it is compared. Those that were
    linked are so still, and are returned: whether they are `unseen`."""
    fresh: dict[Held, bool] = {}
    for key in keys:
        held = reader.entries.get(key)
        if held is not None and held.version is not None:
            held.stale()
            fresh[held] = held.unseen
            held.renew()
    return fresh
