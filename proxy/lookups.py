"""The shortest ways from keys to stored answers: functions, not methods, for what they need is looked up once, when a
cache is opened, and not at each hit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dataflow.reader import ReaderNode
from proxy.api import Join, ListLookup, Lookup
from proxy.keys import MOST_KEYS
from sqltypes.errors import UpwellError
from sqltypes.expression import Key, Value

if TYPE_CHECKING:
    from proxy.caches import NamedCache
    from proxy.router import Router

SAMPLE = 64  # one hit in so many goes the long way, where it is timed and may be compared


def nothing_stored(key: Key) -> bytes | None:
    return None


def nothing_listed(values: tuple[Value, ...]) -> bytes | None:
    return None


def lookup(router: Router, cache: NamedCache, reader: ReaderNode, format_: int) -> Lookup:
    """The stored answer of a key, good while the cache's plan is what it is now."""
    generation, entry = cache.generation, reader.entries.get

    def stored(key: Key) -> bytes | None:
        held = entry(key)
        if held is None or (bodies := held.bodies) is None or cache.generation != generation or router.closed:
            return None
        body = bodies[format_]
        hits = cache.hits
        if body is None or not hits % SAMPLE:
            return None
        held.visited = True
        cache.hits = hits + 1
        return body

    return stored


def list_lookup(
    router: Router,
    cache: NamedCache,
    reader: ReaderNode,
    format_: int,
    list_keys: Callable[[tuple[Value, ...]], list[Key] | None],
    join: Join,
) -> ListLookup:
    """As `lookup`, of the values of an IN-list. What is done for each key is done by C, as far as that goes."""
    generation, entry = cache.generation, reader.entries.get

    def stored(values: tuple[Value, ...]) -> bytes | None:
        sampled = not cache.hits % SAMPLE and len(values) <= MOST_KEYS
        if cache.generation != generation or router.closed or sampled:
            return None
        try:
            keys = list_keys(values)
        except UpwellError:  # `hit` tells
            return None
        if not keys:
            return None
        found = list(map(entry, keys))
        if not all(found):
            return None
        try:
            bodies = [held.bodies[format_] for held in found]  # type: ignore[union-attr, index]  # as is tried
        except TypeError:  # changed since
            return None
        if not all(bodies):
            return None
        for held in found:
            held.visited = True  # type: ignore[union-attr]  # as has been seen
        cache.hits += 1
        return join(bodies) if len(bodies) > 1 else bodies[0]  # type: ignore[arg-type]

    return stored
