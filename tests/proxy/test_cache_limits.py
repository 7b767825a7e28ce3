"""How many caches there may be, in all and of one account."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.cache.named_cache import NamedCache
from proxy.catalog.limits import CacheLimits
from proxy.port.made_by import BY_GRPC, MadeBy
from sqltypes.errors import Overloaded

ANN, BOB = replace(BY_GRPC, account="ann@h"), replace(BY_GRPC, account="bob@h")
LIMITS = CacheLimits(total=4, per_account=2, exempt=lambda account: account == "bob@h")


def made(*accounts: MadeBy) -> list[NamedCache]:
    return [NamedCache(f"c{at}", "SELECT 1", "d", made_by=by) for at, by in enumerate(accounts)]


def refused(*caches: NamedCache) -> list[NamedCache]:
    """Their table is dropped."""
    for cache in caches:
        cache.state, cache.why = "refused", "no such table"
    return list(caches)


@pytest.mark.parametrize(
    ("by", "caches"),
    [
        (ANN, made()),
        (ANN, made(ANN, BOB, BOB)),
        (ANN, made(ANN, BY_GRPC)),
        (BOB, made(BOB, BOB, BOB)),
        (BY_GRPC, made(BY_GRPC, BY_GRPC, BY_GRPC)),
        (ANN, refused(*made(ANN, ANN)) + made(ANN)),
    ],
)
def test_one_more_is_accepted(by: MadeBy, caches: list[NamedCache]) -> None:
    LIMITS.check(by, caches)


@pytest.mark.parametrize(
    ("by", "caches", "says"),
    [
        (ANN, made(ANN, ANN), "--max-caches-per-account"),
        (ANN, made(ANN, BOB, ANN), "'ann@h' has made 2"),
        (ANN, refused(*made(ANN)) + made(ANN, ANN), "'ann@h' has made 3"),
        (ANN, made(BOB, BOB, BOB, BOB), "--max-caches accepts"),
        (BOB, made(ANN, ANN, BOB, BOB), "--max-caches accepts"),
        (BY_GRPC, made(ANN, ANN, BOB, BOB), "there are 4 caches"),
    ],
)
def test_one_too_many_is_refused(by: MadeBy, caches: list[NamedCache], says: str) -> None:
    with pytest.raises(Overloaded, match=says):
        LIMITS.check(by, caches)


def test_caches_of_dropped_tables_do_not_gather_without_end() -> None:
    limits = CacheLimits(total=100, per_account=2)
    limits.check(ANN, refused(*made(ANN, ANN, ANN)))
    with pytest.raises(Overloaded, match="'ann@h' has made 4"):
        limits.check(ANN, refused(*made(ANN, ANN, ANN, ANN)))
