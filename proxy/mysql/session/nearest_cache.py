"""Why no cache matches a query: what EXPLAIN LAST STATEMENT tells. Reads themselves ask nothing of this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from difflib import SequenceMatcher
from functools import lru_cache

from planner.text.scan import scan
from proxy.auto.passed_reads import TOO_LONG, ProxiedQueries, shape_of
from proxy.loop.slices import in_slices
from proxy.port.api import CacheInfo, System
from sqltypes.errors import ParseError, UpwellError

NEAR = 0.6
"""Which share of its words a cache's query must have in common with another one to be named as near it."""
MOST_WORDS = 400  # of queries that are compared
MOST_DIFFERENCES = 3  # that are named
LONGEST = 60  # letters of one
LOCKING = "a locking read: MySQL must lock the rows that it answers with"

ShownTo = Callable[[CacheInfo], bool]


async def why_no_cache(
    sql: str,
    database: str,
    system: System,
    proxied: ProxiedQueries,
    may_know: Callable[[CacheInfo], Awaitable[bool]],
    is_shown: ShownTo,
) -> str:
    """What keeps a read from having a cache; "" where that is not known. `may_know`: which caches the session may be
    told of; `is_shown`: of which it may see the reason, too."""
    entry = proxied.entry(sql, database)
    try:
        judgement = await proxied.judged_by_the_way(entry)
    except UpwellError:  # MySQL cannot be asked now
        return ""
    if judgement is None:
        return ""
    if not judgement.cacheable:
        return f"it cannot be cached: {judgement.reason}"
    found = [await _nearest(entry.shape, database, system, may_know, is_shown), proxied.why_not(entry)]
    return "; ".join(filter(None, found)) or "it could be cached: CREATE CACHE makes one"


async def _nearest(
    shape: str, database: str, system: System, may_know: Callable[[CacheInfo], Awaitable[bool]], is_shown: ShownTo
) -> str:
    """Which cache is for the same query, or for one that is much like it, and what differs."""
    ours = words_of(shape)
    best, near = None, NEAR
    async for info in in_slices(await system.caches.listed()):
        alike = likeness(ours, words_of(info.sql))
        if alike > near and await may_know(info):
            best, near = info, alike
    if best is None:
        return ""
    differs = differences(words_of(best.sql), ours)
    if differs:
        return f"the nearest cache is {best.name!r}, and this query has {differs}"
    if best.state != "ready":
        why = f" ({best.why})" if best.why and is_shown(best) else ""
        return f"its cache {best.name!r} is {best.state}{why}"
    if best.database != database:
        return f"the same text has the cache {best.name!r} in the database {best.database!r}"
    return f"the cache {best.name!r} has other constants"


@lru_cache(1000)
def words_of(sql: str) -> tuple[str, ...]:
    """The words of a query with `?` for its literals; () of one that is too long."""
    shape = shape_of(sql)
    try:
        tokens = scan(shape) if shape != TOO_LONG else []
    except ParseError:
        return ()
    return tuple(token.text.replace("`", "") for token in tokens) if len(tokens) <= MOST_WORDS else ()


def likeness(one: tuple[str, ...], two: tuple[str, ...]) -> float:
    """Which share of their words two queries have in common, in whatever order: from 0 to 1."""
    if not one or not two:
        return 0.0
    return 2 * (Counter(map(str.upper, one)) & Counter(map(str.upper, two))).total() / (len(one) + len(two))


def differences(theirs: tuple[str, ...], ours: tuple[str, ...]) -> str:
    """What one query has more, less or otherwise than another, in words; "" where they are the same."""
    one, two = [word.upper() for word in theirs], [word.upper() for word in ours]
    said = []
    for kind, start, end, first, last in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        less, more = _quoted(theirs[start:end]), _quoted(ours[first:last])
        if kind == "insert":
            said.append(f"{more} more")
        elif kind == "delete":
            said.append(f"no {less}")
        elif kind == "replace":
            said.append(f"{more} for {less}")
    return ", ".join(said[:MOST_DIFFERENCES]) + (" and more" if len(said) > MOST_DIFFERENCES else "")


def _quoted(words: tuple[str, ...]) -> str:
    text = " ".join(words)
    return f"`{text if len(text) <= LONGEST else text[:LONGEST] + ' ...'}`"
