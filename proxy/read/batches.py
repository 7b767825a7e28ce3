"""Hits of many keys in one call."""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Sequence

from bulk.access_rows import HIT
from dataflow.readers.reader import ReaderNode
from proxy.cache.key_binder import MOST_KEYS, in_parts, keys_in
from proxy.port.api import ANSWERED_BY_MYSQL, ParameterValue
from proxy.port.faults import guarded
from proxy.read.host import ReadHost
from proxy.read.lookups import gap
from proxy.read.opened import Opened
from sqltypes.errors import BadParameters, Fault, UnknownCache, UpwellError
from sqltypes.expression import Key

KEYS_AT_ONCE, MOST_DERIVED = 250, 1_500
"""How many keys of a batch are looked up in one turn of the loop, and from about how many rows answers are derived in
it: 3 ms."""


class Batches:
    """Of one open cache."""

    def __init__(self, opened: Opened, host: ReadHost, format_: int) -> None:
        self._opened = opened
        self._host = host
        self._format = format_

    def _hits(
        self, keys: Sequence[Sequence[ParameterValue]], first: int, total: int, *, alone: bool = True
    ) -> list[bytes | None]:
        """Of a slice of a batch: so many keys are before it, and so many are in all. `alone`: it is the only one, and
        has lists of several keys, too. Their answers are not stored."""
        try:
            return self._hit_many(keys, first, total, alone=alone)
        except Fault:
            return [None] * len(keys)

    async def hit(self, keys: Sequence[Sequence[ParameterValue]]) -> list[bytes | None]:
        """As `OpenCache.hit` for each key, at one position; None also where MySQL must compare the parameters itself.
        Raises BadParameters, naming the key by its number; UnknownCache."""
        total, opened = len(keys), self._opened
        opened.renew()
        if total <= KEYS_AT_ONCE and (not opened.plan.lists or sum(map(keys_in, keys)) <= MOST_KEYS):
            return self._hits(keys, 0, total)
        found: list[Key | None] = []
        plan = opened.plan
        for some in in_parts(keys, KEYS_AT_ONCE):
            first = len(found)
            bodies = self._hits(some, first, total, alone=False)
            if not first:
                plan = opened.plan
            found += [self._key_of(one) if body is not None else None for one, body in zip(some, bodies, strict=True)]
            await sleep(0)
        if opened.named.dropped:
            raise UnknownCache(f"cache {opened.named.name!r} does not exist")
        reader = plan.reader
        if reader is None or opened.generation != plan.generation or self._host.closed:  # planned anew meanwhile
            return [None] * total
        entry, format_ = reader.entries.get, self._format
        entries = [None if key is None else entry(key) for key in found]
        return [None if held is None else held.body(format_) for held in entries]

    def _key_of(self, parameters: Sequence[ParameterValue]) -> Key | None:
        """The one key of what has just been a hit; None where there are several, or its answer is not stored."""
        plan = self._opened.plan
        if len(parameters) == 1 and not plan.single:
            (value,) = parameters
            if plan.plain_int and value.__class__ is int:
                return value
            if plan.binder is not None and plan.binder.are_keys(value) and len(value) == 1:  # type: ignore[arg-type]  # a list
                return value[0]  # type: ignore[index,no-any-return]
        try:
            return self._opened.bound(parameters)
        except (Fault, UpwellError):
            return None

    @guarded
    def _hit_many(
        self, keys: Sequence[Sequence[ParameterValue]], first: int, total: int, *, alone: bool
    ) -> list[bytes | None]:
        opened, reader = self._opened, self._opened.ready()
        if reader is None:
            return [None] * len(keys)
        plan = opened.plan
        bodies: list[bytes | None] = []
        append = bodies.append
        plain = plan.plain_int and not plan.single
        entry, root, format_ = reader.entries.get, reader.held_levels[0], self._format
        quick, until = 0, reader.memory.derived + MOST_DERIVED
        several = not alone and plan.binder is not None and not plan.binder.one_key
        for parameters in keys:
            if plain and len(parameters) == 1 and (value := parameters[0]).__class__ is int:
                held = entry(value)
                if held is not None and held.bodies is not None and (body := held.bodies[format_]) is not None:
                    held.visited = True
                    quick += 1
                    append(body)
                    continue
                if held is None and value not in root:
                    append(None)
                    continue
            if (several and keys_in(parameters) > 1) or plan.too_many(parameters) or reader.memory.derived > until:
                append(None)  # it is read by itself
                continue
            try:
                found = opened.look_further(parameters, reader)
                append(found if isinstance(found, bytes) else None)
            except ANSWERED_BY_MYSQL:  # before BadParameters: ComparedElsewhere is one of them
                append(None)
            except BadParameters as error:
                raise BadParameters(f"key {first + len(bodies) + 1} of {total}: {error}") from error
        cache = opened.named
        cache.hits += quick
        if quick and cache.hits > cache.look_at:
            self._look_at_batch(reader, keys, bodies, quick)
        return bodies

    def _look_at_batch(
        self, reader: ReaderNode, keys: Sequence[Sequence[ParameterValue]], bodies: Sequence[bytes | None], quick: int
    ) -> None:
        """Of the hits of a batch so many went by quickly, some of which were to go the long way: those may be logged,
        and the last of all may be compared."""
        opened, log = self._opened, self._host.access_log
        cache, plan = opened.named, opened.plan
        first = cache.hits - quick
        at = max(cache.look_at, first)
        while at < cache.hits:
            if log is not None and log.takes_hit():
                number = at - first
                if quick < len(keys):
                    hits = [place for place, body in enumerate(bodies) if body is not None]
                    number = hits[number * len(hits) // quick]
                log.taken(cache, plan.bind(keys[number]), HIT, 0.0)
            at += gap(log)
        cache.look_at = at
        if (body := bodies[-1]) is not None:
            self._host.sampler.offer(opened.given(reader, plan.bind(keys[-1]), keys[-1], body))

    def fault(self, error: Exception, *given: object) -> Fault:
        return self._opened.fault(error, *given)
