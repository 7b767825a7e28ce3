"""How much a cache has been checked, and when the next check is due. Pure.

At first every answer is checked. Once enough checks have agreed, over different keys, fewer and fewer are, until as few
are left as the always-on sample takes anyway.
"""

from __future__ import annotations

from collections.abc import Hashable

SAMPLE = 64  # one hit in so many goes the long way, where it is timed and may be compared

FULL = 4  # what a key's first check earns; one of a key that was seen before, or of no rows, earns 1
RARER, RARER_KNOWN = 1.25, 2.0  # the factor from one pause between checks to the next; where others are proven, too
SELDOM = 10_000  # answers to one check: the always-on sample's share
TIRED = 8  # checks in vain, one after the other, after which some answers go unchecked
LONGEST_REST = 64  # answers


class Ledger:
    """The checks of one kind: of fills, or of answers after changes. `wanted`: checks of so many keys must agree.

    Invariants:
    1. `_keys` holds at most `wanted` keys.
    2. While trust is not earned, and checks are not in vain, each answer is due.
    """

    def __init__(self, wanted: int, rarer: float = RARER) -> None:
        """`rarer`: the factor from one pause between checks to the next."""
        self._rarer = rarer
        self.agreed = 0
        self.ended = 0  # checks that agreed, or were counted as in vain
        self._wanted = wanted
        self._credit = 0
        self._keys: set[Hashable] = set()
        self._seen = 0
        self._next = 0
        self._pause = 1.0
        self._vain = 0

    @property
    def earned(self) -> bool:
        return self._credit >= FULL * self._wanted

    @property
    def over(self) -> bool:
        """Is nothing left to do that the always-on sample does not do?"""
        return self._pause >= SELDOM

    @property
    def tired(self) -> bool:
        """Are answers given unchecked because the last checks were in vain?"""
        return self._vain >= TIRED

    @property
    def due(self) -> bool:
        """Is the next answer to be checked?"""
        return self._seen >= self._next and not self.over

    def let_through(self) -> None:
        """An answer was given unchecked. Requires: it was not due."""
        self._seen += 1

    def agree(self, key: Hashable, *, rows: bool) -> None:
        """A check agreed. `rows`: it has some; that both have none proves less."""
        self._seen += 1
        self.ended += 1
        self._vain = 0
        self.agreed += 1
        if not self.earned:
            new = rows and key not in self._keys
            self._credit += FULL if new else 1
            if new:
                self._keys.add(key)
            self._next = self._seen
            return
        self._keys.clear()
        self._pause *= self._rarer
        self._next = self._seen + int(self._pause)

    def in_vain(self, began: int) -> None:
        """A check could not tell. `began`: `ended` as it began. Of checks that run at once one counts: they are in vain
        one after the other only if each began after the one before had ended."""
        if began != self.ended:
            return
        self._seen += 1
        self.ended += 1
        self._vain += 1
        if self._vain >= TIRED:
            self._next = self._seen + min(2 ** (self._vain - TIRED), LONGEST_REST)

    def check_invariants(self) -> None:
        assert len(self._keys) <= self._wanted
        if not self.earned and self._vain < TIRED:
            assert self.due
