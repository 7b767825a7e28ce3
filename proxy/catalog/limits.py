"""Definitions of caches: how many there may be, and where they are written. A thread waits for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from proxy.port.made_by import MadeBy
from sqltypes.errors import Overloaded

if TYPE_CHECKING:
    from proxy.cache.named_cache import NamedCache

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """How many caches there may be: `total`, and of one account of MySQL that is not `exempt`. Those of the file of
    settings and of an earlier run are counted, and not refused."""

    total: int = 5_000
    per_account: int = 100
    exempt: Callable[[str], bool] = lambda account: False

    def check(self, made_by: MadeBy, caches: Collection[NamedCache]) -> None:
        """Raises Overloaded where one more would be too many."""
        if len(caches) >= self.total:
            raise Overloaded(f"there are {len(caches)} caches, as many as --max-caches accepts: drop one first")
        self.check_account(made_by, caches)

    def check_account(self, made_by: MadeBy, caches: Collection[NamedCache]) -> None:
        """Raises Overloaded where one more would be too many for the account."""
        account = made_by.account
        if account and not self.exempt(account):
            own = [cache for cache in caches if cache.made_by.account == account]
            # Those whose table is dropped take no place: as many again may wait for it to come back.
            standing = sum(cache.state != "refused" for cache in own)
            if standing >= self.per_account or len(own) >= 2 * self.per_account:
                raise Overloaded(
                    f"{account!r} has made {len(own)} caches, as many as --max-caches-per-account accepts:"
                    " drop one first"
                )


class Definitions(Protocol):
    """Where definitions survive a restart. A call waits for the disk, so a thread makes it; one at a time. Both raise
    ConfigError, and have then changed nothing."""

    def put(self, name: str, sql: str, database: str, made_by: MadeBy, /) -> None: ...

    def remove(self, name: str, /) -> None: ...


class Forgotten:
    """Definitions that nobody keeps."""

    def put(self, name: str, sql: str, database: str, made_by: MadeBy, /) -> None:
        pass

    def remove(self, name: str, /) -> None:
        pass


async def to_the_end(work: Coroutine[Any, Any, Result]) -> Result:
    """The work's result. It is not cut off in the middle: who is cancelled goes when it has ended."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # nobody waits for it any more
        raise
