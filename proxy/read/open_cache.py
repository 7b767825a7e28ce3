"""A cache opened for one wire format, which is the hot path.

A hit is: parameters -> key (a lookup's cost), key -> held answer, its bytes. Nothing else happens on it.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import suppress
from operator import attrgetter
from time import perf_counter_ns
from typing import Any

from bulk.access_rows import HIT
from dataflow.losses import FAULT, emptied
from dataflow.readers.derivation import TooLong
from dataflow.readers.reader import ReaderNode
from planner.tree.plan import AnswerArrangement
from proxy.cache.answer_columns import NOT_READY
from proxy.cache.key_binder import MOST_KEYS, MOST_LISTED, Binding
from proxy.cache.named_cache import NamedCache
from proxy.checking.given_hit import GivenHit
from proxy.port.api import Answer, CacheInfo, Demand, ListLookup, Lookup, ParameterInfo, ParameterValue, Served
from proxy.port.faults import guarded
from proxy.port.reasons import Reason, Why
from proxy.pump.pump import CATCHING_UP
from proxy.read.batches import Batches
from proxy.read.host import ReadHost
from proxy.read.look import Due, InSteps, Look, Missing, Seen, body_of, let_go
from proxy.read.lookups import gap, nothing_listed
from proxy.read.misses import Misses
from proxy.read.moments import Moments
from proxy.read.planned import Planned
from proxy.read.together import Several
from proxy.read.told_hits import ToldHits
from sqltypes.errors import Fault, SourceDown, UnknownCache, UpwellError
from sqltypes.expression import Key
from sqltypes.schema import ResultColumn


def _of_named(attribute: str) -> Any:
    """The cache's own attribute, without a call in Python: each miss asks for some."""
    return property(attrgetter(f"named.{attribute}"))


class OpenCache:
    """A cache for one wire format. Implements `proxy.port.api.Cache`."""

    def __init__(self, host: ReadHost, cache: NamedCache, format_: int) -> None:
        self._host = host
        self._cache = self.named = cache
        self._format = format_
        self.count, self.recount = cache.count, cache.recount
        self.told = ToldHits(self, host.sampler)
        self.moments = Moments(self, host.pump.formats.wires[format_].clocks)
        self._batches = Batches(self, host, format_)
        self.plan = self._planned()
        self.stored: Lookup = self.plan.stored
        self.stored_list: ListLookup = self.plan.stored_list

    @property
    def info(self) -> CacheInfo:
        return self._cache.info()

    columns: tuple[ResultColumn, ...] = _of_named("columns")
    generation: int = _of_named("generation")
    name: str = _of_named("name")
    needs: frozenset[str] = _of_named("needs")
    parameters: tuple[ParameterInfo, ...] = _of_named("parameters")
    relations: frozenset[tuple[str, str]] = _of_named("relations")

    @property
    def plain_int(self) -> bool:
        if self.plan.generation != self._cache.generation:
            self.renew()
        return self.plan.plain_int and not self.plan.single

    @property
    def lists(self) -> bool:
        if self.plan.generation != self._cache.generation:
            self.renew()
        return self.stored_list is not nothing_listed

    @property
    def tells(self) -> tuple[int, ...]:
        if self.plan.generation != self._cache.generation:
            self.renew()
        return self.plan.tells

    @property
    def counts(self) -> bool:
        plan = self._cache.plan
        root = plan.reader.root if plan is not None else None
        return isinstance(root, AnswerArrangement) and root.counts

    def found(self, parameters: Sequence[ParameterValue]) -> int | None:
        try:
            return self._found(parameters)
        except UpwellError:
            return None

    @guarded
    def _found(self, parameters: Sequence[ParameterValue]) -> int | None:
        reader = self.ready()
        if reader is None or self.plan.too_many(parameters):
            return None
        keys = self.plan.bind(parameters).keys
        return reader.found(keys[0][1]) if len(keys) == 1 else None

    @guarded
    def encode_as(self, columns: tuple[ResultColumn, ...], forms: object) -> Why:
        reader = self.ready()
        encoding = self._cache.encoding
        return NOT_READY if reader is None or encoding is None else encoding.learn(self._format, columns, forms)

    def renew(self) -> None:
        """Takes up the cache's plan, if that is another one than when last looked. Raises UnknownCache."""
        if self.plan.generation == self._cache.generation:
            return
        if self._cache.dropped:
            raise UnknownCache(f"cache {self._cache.name!r} does not exist")
        self.plan.held.several.clear()
        self.plan = self._planned()
        self.stored, self.stored_list = self.plan.stored, self.plan.stored_list

    def _planned(self) -> Planned:
        if self._cache.encoding is not None:
            self._cache.encoding.provide(self._format)
        return Planned(self._host, self._cache, self._format)

    def ready(self) -> ReaderNode | None:
        """The reader to ask; None while there is none. Raises UnknownCache, SourceDown."""
        if self.plan.generation != self._cache.generation:
            self.renew()
        reader = self.plan.reader
        if reader is not None and (why := self._host.closed):
            if why is CATCHING_UP:
                return None
            raise SourceDown(why)
        return reader

    def hit(self, parameters: Sequence[ParameterValue]) -> bytes | None:
        """The encoded rows if all keys are held and current, else None."""
        found = self.look(parameters)
        return found if isinstance(found, bytes) else None

    def look(self, parameters: Sequence[ParameterValue]) -> Look:
        """What the read finds. Raises UnknownCache, SourceDown, BadParameters, and what is computed from the rows may
        raise."""
        reader = self.ready()
        if reader is None:
            closed = self._host.closed
            return Reason.LATE.why(closed) if closed else self._cache.not_ready
        plan = self.plan
        if plan.plain_int and len(parameters) == 1 and not plan.single:
            value = parameters[0]
            if value.__class__ is int:
                held = reader.entries.get(value)
                if held is None and value not in reader.held_levels[0]:
                    return Missing.HOLE  # the root's key is the same integer: nothing could be derived
                bodies = held.bodies if held is not None else None
                if held is not None and bodies is not None and self._cache.hits < self._cache.look_at:
                    try:
                        body = bodies[self._format]
                    except IndexError:  # the format has come later
                        body = None
                    if body is not None:
                        held.visited = True
                        self._cache.hits += 1
                        return body
        elif plan.lists:
            body = self.stored_list(parameters)
            if body is not None:
                return body
        return self.look_further(parameters, reader)

    def fault(self, error: Exception, *given: object) -> Fault:
        """What `guarded` does with a fault: the key, if it can be told, is dropped."""
        cache, reader = self._cache, self.plan.reader
        with suppress(Exception):
            if reader is not None and given and not self.plan.too_many(given[0]):  # type: ignore[arg-type]
                for key, _ in self.plan.bind(given[0]).keys:  # type: ignore[arg-type]  # a read's parameters come first
                    if (held := reader.entries.get(key)) is not None:
                        with emptied(reader.memory, FAULT):
                            reader.drop(held)
        return self._host.pump.faults.note("cache", cache.name, error, query=cache.sql, parameters=repr(given)[:500])

    def _look_long(self, reader: ReaderNode, parameters: Sequence[ParameterValue], why: Why) -> Look:
        """Of a list of more keys than are looked at one by one. Very many whole numbers are a hit if only some of their
        answers are to be derived or encoded first; else the read is passed for `why`."""
        values, binder = parameters[0], self.plan.binder
        if self.stored_list is nothing_listed or not isinstance(values, tuple) or len(values) > MOST_LISTED:
            return why
        if binder is None or binder.quick_keys is None or not binder.are_keys(values):
            return why
        entry, format_ = reader.entries.get, self._format
        pending = tuple(value for value in values if (held := entry(value)) is None or held.body(format_) is None)
        if pending:
            found = self.plan.held.are_stored(reader, binder.bind((pending[:MOST_KEYS],)))
            if isinstance(found, InSteps):
                return found
            if isinstance(found, Due):
                let_go(found.held)
            if not isinstance(found, bytes) or len(pending) > MOST_KEYS:
                return why
        if (body := self.stored_list(parameters)) is not None:
            return body
        parts = [held.body(format_) for key in binder.quick_keys(parameters) or () if (held := entry(key)) is not None]
        rows = [part for part in parts if part is not None]
        return InSteps(parts=rows) if len(rows) == len(set(values)) else why

    def peek(self, parameters: Sequence[ParameterValue]) -> bytes | None:
        """As `hit`, without being one."""
        try:
            return body_of(self._peeked(parameters))
        except UpwellError:
            return None

    @guarded
    def _peeked(self, parameters: Sequence[ParameterValue], *, given: bool = False) -> Seen:
        """What is held. `given`: as `HeldAnswers.look` has it."""
        reader = self.ready()
        if reader is None or self.plan.too_many(parameters):
            return Missing.HOLE
        return self.plan.held.look(reader, self.plan.bind_held(reader, parameters), given=given)

    def proved(self, parameters: Sequence[ParameterValue]) -> bool:
        """Is the answer held, and nothing of it to be compared before it is given?"""
        if self.peek(parameters) is not None:
            return True
        reader, trust = self.plan.reader, self._cache.trust
        if reader is None or trust is None or self.plan.too_many(parameters):
            return False
        return trust.proved(reader, self.plan.bind(parameters).keys)

    @guarded
    def peek_since(self, parameters: Sequence[ParameterValue], sequence: int) -> bytes | None:
        found: Seen = Missing.HOLE
        with suppress(UpwellError):
            found = self._peeked(parameters, given=True)
        reader, body = self.plan.reader, body_of(found)
        if body is None or reader is None:
            return None
        binding = self.plan.bind_held(reader, parameters)
        until = reader.memory.derived + reader.most_derived
        for key, params in binding.keys:
            since = None
            with suppress(TooLong):
                since = reader.since(key, params) if reader.memory.derived <= until else None
            if since is None or since > sequence:
                if isinstance(found, Due):
                    let_go(found.held)
                return None
        if isinstance(found, Due):
            self.compare_behind(reader, binding, parameters, body)
        return body

    def count_hit(self, parameters: Sequence[ParameterValue]) -> None:
        self._cache.hits += 1
        if self._host.access_log is not None:
            self._host.access_log.hit_of(self._cache, parameters)

    @guarded
    def bound(self, parameters: Sequence[ParameterValue]) -> Key | Several | None:
        """The one key that the parameters give, if its answer is stored; of several what is kept."""
        if self.ready() is None or self.plan.single or (self.plan.lists and self.plan.too_many(parameters)):
            return None
        keys = self.plan.bind(parameters).keys
        return keys[0][0] if len(keys) == 1 else self.plan.held.several.of(keys)

    def hit_batch(self, keys: Sequence[Sequence[ParameterValue]]) -> Coroutine[None, None, list[bytes | None]]:
        """`hit` for each key, in slices; all at one position."""
        return self._batches.hit(keys)

    @guarded
    def look_further(self, parameters: Sequence[ParameterValue], reader: ReaderNode) -> Look:
        """Of any parameters; answers that must be derived or encoded first."""
        cache = self._cache
        if why := self.plan.too_many(parameters):
            return self._look_long(reader, parameters, why)
        started = perf_counter_ns() if cache.hits >= cache.look_at else 0
        binding = self.plan.bind_held(reader, parameters)
        found = self.plan.held.look(reader, binding, given=True)
        if isinstance(found, InSteps | Missing):
            return found
        body = found.body if isinstance(found, Due) else found
        cache.hits += 1
        if started:
            took = perf_counter_ns() - started
            cache.look_at = cache.hits - 1 + gap(self._host.access_log)
            cache.hit_ns.append(took)
            self._host.times[Served.HIT.value].note(took / 1e9)
            self._host.sampler.offer(self.given(reader, binding, parameters, body))
            if (log := self._host.access_log) is not None and log.takes_hit():
                log.taken(cache, binding, HIT, took / 1000)
        if isinstance(found, Due):
            self.compare_behind(reader, binding, parameters, body)
        return body

    def compare_behind(
        self, reader: ReaderNode, binding: Binding, parameters: Sequence[ParameterValue], body: bytes
    ) -> None:
        """An answer that was due is being given."""
        self._host.auditor.behind(self.given(reader, binding, parameters, body))

    def given(
        self, reader: ReaderNode, binding: Binding, parameters: Sequence[ParameterValue], body: bytes
    ) -> GivenHit:
        return GivenHit(self._cache, reader, binding, parameters, self._format, body, self.plan.is_whole(binding))

    # -- other reads -------------------------------------------------------------------------------------------------

    def read(
        self, parameters: Sequence[ParameterValue], demand: Demand | None = None, text: str = ""
    ) -> Coroutine[None, None, Answer]:
        """As `hit`, else by an upquery, else passed through with the reason. Raises TooStale."""
        return Misses(self, self._host, self._format).read(parameters, demand, text)

    def fill(
        self, parameters: Sequence[ParameterValue], demand: Demand | None = None, text: str = "", *, wait: bool = True
    ) -> Coroutine[None, None, Answer | Why]:
        """As `hit`, else by an upquery; the reason where MySQL itself is to answer. Raises TooStale."""
        return Misses(self, self._host, self._format).fill(parameters, demand, text, wait=wait)
