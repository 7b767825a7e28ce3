"""The shortest ways from keys to stored answers.

They are functions, not methods: what they need is looked up once, when a cache is opened, and not at each hit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dataflow.entries import Held
from dataflow.readers.derivation import TooLong
from dataflow.readers.reader import ReaderNode
from proxy.cache.key_binder import MOST_KEYS
from proxy.cache.ledger import SAMPLE
from proxy.loop.slices import Join
from proxy.port.api import ListLookup, Lookup, ParameterValue
from proxy.read.host import ReadHost
from proxy.read.together import Several
from sqltypes.errors import UpwellError
from sqltypes.expression import Key

if TYPE_CHECKING:
    from proxy.access.log import AccessLog
    from proxy.cache.named_cache import NamedCache


def gap(log: AccessLog | None) -> int:
    """So many hits of a cache until the next one goes the long way."""
    return SAMPLE if log is None else log.gap()


def nothing_stored(key: Key) -> bytes | None:
    return None


def nothing_listed(values: Sequence[ParameterValue]) -> bytes | None:
    return None


def lookup(host: ReadHost, cache: NamedCache, reader: ReaderNode, format_: int) -> Lookup:
    """The stored answer of a key, or the kept one of several, good while the cache's plan is what it is now."""
    generation, entry = cache.generation, reader.entries.get

    def several(key: Several) -> bytes | None:
        hits = cache.hits
        if cache.generation != generation or host.closed or hits >= cache.look_at or cache.trust is not None:
            return None
        body = key.find(reader, format_)
        if body is not None:
            cache.hits = hits + 1
        return body

    def stored(key: Key) -> bytes | None:
        held = entry(key)
        if held is None:
            return several(key) if key.__class__ is Several else None
        if (bodies := held.bodies) is None or cache.generation != generation or host.closed:
            return None
        try:
            body = bodies[format_]
        except IndexError:  # the format has come later
            return None
        hits = cache.hits
        if body is None or hits >= cache.look_at:
            return None
        held.visited = True
        cache.hits = hits + 1
        return body

    return stored


def list_lookup(
    host: ReadHost,
    cache: NamedCache,
    reader: ReaderNode,
    format_: int,
    keys_of: Callable[[Sequence[ParameterValue]], Sequence[Key] | None],
    join: Join,
) -> ListLookup:
    """As `lookup`, of several keys that are asked for together. What is done for each key is done by C, as far as that
    goes: the rows are taken from one dictionary, whose keys nobody else marks as visited. So that is done here, but
    only while memory is short. `keys_of`: the distinct keys of a read; None where `OpenCache.look` must look. None,
    too, where the rows are long to join."""
    generation, entry, row_of = cache.generation, reader.entries.get, reader.listed[format_].get

    def stored(given: Sequence[ParameterValue]) -> bytes | None:
        hits = cache.hits
        if cache.generation != generation or host.closed:
            return None
        try:
            keys = keys_of(given)
        except UpwellError:  # `look` tells
            return None
        if not keys or (hits >= cache.look_at and len(keys) <= MOST_KEYS):
            return None
        rows: list[bytes] = list(map(row_of, keys))  # type: ignore[arg-type]  # None is looked for next
        if not all(rows):
            complete = _complete(rows, entry, keys, format_)
            host.engine.limit.keep()  # what is listed takes memory
            if not complete:
                return None
        elif host.memory_is_short:
            for held in map(entry, keys):
                held.visited = True  # type: ignore[union-attr]  # what is listed is held
        try:
            body = join(rows) if len(rows) > 1 else rows[0]
        except TooLong:
            return None
        cache.hits = hits + 1
        if hits >= cache.look_at:  # of so many keys that they do not go the long way
            cache.look_at = hits + gap(host.access_log)
            if host.access_log is not None:
                host.access_log.hit_of_list(cache, given)
        return body

    return stored


def _complete(rows: list[bytes], entry: Callable[[Key], Held | None], keys: Sequence[Key], format_: int) -> bool:
    """Whether the rows that are not listed yet are at hand: then they are listed, and put in their places."""
    for at, row in enumerate(rows):
        if not row:
            held = entry(keys[at])
            if held is None or held.body(format_) is None:
                return False
            held.visited = True
            rows[at] = held.list(format_)
    return True
