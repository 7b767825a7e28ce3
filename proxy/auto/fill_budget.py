"""How much of the event loop's time automatic caches may take for reads that are no hits.

A passed read costs the loop some 60 us, a hit 20 us, a fill 400 us and more. On an idle loop a fill is nobody's loss:
the client waits for MySQL anyway. On a busy loop fills make everybody wait. Then a cache may take a part of what its
hits have saved. All caches together may take a few hundredths of the time besides, to come to their first hits. A key
is filled only if it was asked for twice lately, a list only if half of its values were. So automatic caching is about
as quick as passing everything, while it warms and where no hits come.

A read that is left to MySQL for that reason is no failure: the next one may be filled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proxy.cache.named_cache import NamedCache
from proxy.loop.recent import Recent
from proxy.port.api import ParameterValue
from proxy.port.reasons import NO_REASON, Reason, Why

SAVED_US = 30.0  # what a hit saves the loop, beside a read that is passed
FILL_US = 250.0  # what a fill costs the loop beside its reader's own steps: the upquery, its answer, what it installs
PART = 0.03  # of the loop's time, for all automatic caches together, without hits that pay for it
OF_IDLE = 0.5  # of the time in which the loop had nothing to do: the fills themselves make that less
OF_SAVED = 0.5  # of what hits save
MOST_COMMON_US = 100_000.0  # that may be left over
MOST_CREDIT_US = 200_000.0
MOST_KEYS = 4096  # that are remembered as asked for once: so many at least, twice as many at most
MOST_LISTED = 1000  # values of a list that are looked at

BUSY = Reason.BUSY.why("Upwell is short of processor time, and the cache's hits have not paid for another key yet")
SELDOM = Reason.BUSY.why("Upwell is short of processor time, and the key was not asked for lately")


@dataclass(slots=True)
class _Account:
    """Of one cache, in microseconds of the loop's time. `worth`: of one hit."""

    credit: float = 0.0
    worth: float = SAVED_US


class FillBudget:
    """`left`: reads that were left to MySQL."""

    def __init__(self) -> None:
        self.left = 0
        self._common = MOST_COMMON_US
        self._accounts: dict[str, _Account] = {}
        self._asked = Recent(MOST_KEYS)

    def open(self, cache: str, worth_us: float = SAVED_US) -> None:
        """A cache begins. `worth_us`: what a hit of it saves."""
        self._accounts[cache] = _Account(worth=worth_us)

    def close(self, cache: str) -> None:
        self._accounts.pop(cache, None)

    def leaves(self, cache: str, parameters: Sequence[ParameterValue]) -> Why:
        """Why this read, which is no hit, is left to MySQL; "" if it is to be filled."""
        if self._common > MOST_COMMON_US / 2:
            return NO_REASON
        if not self._was_asked(cache, parameters):
            self.left += 1
            return SELDOM
        account = self._accounts.get(cache)
        if self._common <= 0 and (account is None or account.credit <= 0):
            self.left += 1
            return BUSY
        return NO_REASON

    def _was_asked(self, cache: str, parameters: Sequence[ParameterValue]) -> bool:
        """Whether such a read came lately; from now on it did. Lists are hardly ever asked for twice, their values
        are: of the longest list half of the values must have come."""
        longest = max((value for value in parameters if isinstance(value, tuple)), key=len, default=None)
        if longest is None:
            return self._asked.again(hash((cache, *parameters)))
        rest = hash((cache, *(value for value in parameters if not isinstance(value, tuple))))
        values = longest[:MOST_LISTED]
        return 2 * sum(map(self._asked.again, [hash((rest, value)) for value in values])) >= len(values)

    def charge(self, cache: NamedCache, us: float) -> None:
        """A cache has taken so much of the loop's time, for reads that were no hits: an automatic one pays for it."""
        if cache.is_automatic:
            cache.work_us += us
            self.spend(cache.name, us)

    def spend(self, cache: str, us: float) -> None:
        """What became of a read that was not left to MySQL has taken so long."""
        account = self._accounts.get(cache)
        if account is not None and account.credit > 0:
            account.credit -= us
        else:
            self._common -= us

    def tick(self, seconds: float, idle: float, hits: Mapping[str, int]) -> None:
        """So long has passed since the last time. `idle`: the part of it in which the loop had nothing to do. `hits`:
        that caches had in it."""
        earned = (PART + OF_IDLE * idle) * seconds * 1e6
        self._common = min(self._common + earned, MOST_COMMON_US)
        for name, count in hits.items():
            account = self._accounts.get(name)
            if account is not None:
                account.credit = min(account.credit + count * account.worth * OF_SAVED, MOST_CREDIT_US)

    def check_invariants(self) -> None:
        self._asked.check_invariants()
