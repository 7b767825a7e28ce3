"""A cache opened for one wire format, which is the hot path.

A hit is: parameters -> key (a lookup's cost), key -> held answer, its bytes. Nothing else happens on it.
"""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from time import perf_counter_ns

from bulk.access_rows import HIT
from dataflow.operators.answer import AnswerNode
from dataflow.readers.derivation import TooLong
from dataflow.readers.reader import ReaderNode
from planner.tree.plan import AnswerArrangement
from proxy.cache.answer_columns import NOT_READY
from proxy.cache.key_binder import MOST_KEYS, MOST_LISTED, Binding, KeyBinder, in_parts, instant_of, keys_in
from proxy.cache.named_cache import NamedCache
from proxy.checking.given_hit import GivenHit
from proxy.port.api import ANSWERED_BY_MYSQL, Answer, CacheInfo, Demand, ListLookup, Lookup, ParameterValue, Served
from proxy.port.faults import guarded
from proxy.port.reasons import NO_REASON, Reason, Why
from proxy.pump.pump import CATCHING_UP
from proxy.read.held_answers import HeldAnswers
from proxy.read.host import Host
from proxy.read.look import Due, InSteps, Look, Missing, Seen, body_of, let_go
from proxy.read.lookups import gap, list_lookup, lookup, nothing_listed, nothing_stored
from proxy.read.misses import Misses
from proxy.read.told_hits import ToldHits
from sqltypes.errors import BadParameters, Fault, SourceDown, UnknownCache, UpwellError
from sqltypes.expression import Key
from sqltypes.schema import ResultColumn

KEYS_AT_ONCE, MOST_DERIVED = 250, 1_500
"""How many keys of a batch are looked up in one turn of the loop, and from about how many rows answers are derived in
it: 3 ms."""


class OpenCache:
    """A cache for one wire format. Implements `proxy.port.api.Cache`."""

    def __init__(self, host: Host, cache: NamedCache, format_: int) -> None:
        self._host = host
        self._cache = cache
        self._joins = True
        self._format = format_
        self.told = ToldHits(self, host.sampler)
        self.clocks = host.wire(format_).clocks
        self._instants: tuple[int, ...] = ()  # the parameters that are compared with instants
        self._generation = -1
        self._plain_int = False
        self._lists = True  # some parameter is a list
        self._tells: tuple[int, ...] = ()
        self._single = False
        self.reader: ReaderNode | None = None
        self._binder: KeyBinder | None = None
        self.held = HeldAnswers(host, cache, format_, self._together)
        self.stored: Lookup = nothing_stored
        self.stored_list: ListLookup = nothing_listed

    @property
    def named(self) -> NamedCache:
        return self._cache

    @property
    def info(self) -> CacheInfo:
        return self._cache.info()

    @property
    def columns(self) -> tuple[ResultColumn, ...]:
        return self._cache.columns

    @property
    def name(self) -> str:
        return self._cache.name

    @property
    def relations(self) -> frozenset[tuple[str, str]]:
        return self._cache.relations

    @property
    def plain_int(self) -> bool:
        if self._generation != self._cache.generation:
            self._renew()
        return self._plain_int and not self._single

    @property
    def lists(self) -> bool:
        if self._generation != self._cache.generation:
            self._renew()
        return self.stored_list is not nothing_listed

    @property
    def tells(self) -> tuple[int, ...]:
        if self._generation != self._cache.generation:
            self._renew()
        return self._tells

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
        if reader is None or self.too_many(parameters):
            return None
        keys = self.bind(parameters).keys
        return reader.found(keys[0][1]) if len(keys) == 1 else None

    @property
    def needs(self) -> frozenset[str]:
        return self._cache.needs

    def note_by_clock(self) -> None:
        self._cache.by_clock = True
        reader = self._cache.reader
        root = reader.nodes[0] if reader is not None else None
        if isinstance(root, AnswerNode):
            root.ask_reaches()

    def between(
        self, first: Sequence[ParameterValue], last: Sequence[ParameterValue]
    ) -> Sequence[ParameterValue] | None:
        try:
            return self._between(first, last)
        except (UpwellError, TooLong):
            return None

    def tells_between(self, first: Sequence[ParameterValue], last: Sequence[ParameterValue]) -> bool:
        differing = [at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other]
        return self.reader is not None and len(first) == len(last) and self.reader.tells_between(differing)

    @guarded
    def _between(
        self, first: Sequence[ParameterValue], last: Sequence[ParameterValue]
    ) -> Sequence[ParameterValue] | None:
        reader = self.ready()
        if reader is None or len(first) != len(last) or self._lists:
            return None
        (one, other) = (self.bind(values).keys for values in (first, last))
        if len(one) != 1 or len(other) != 1:
            return None
        low, high = one[0][1], other[0][1]
        found = reader.between(low, high)
        if found is None:
            return None
        return [value if at == same else at for value, at, same in zip(first, found, low, strict=True)]

    def standing(self, parameters: Sequence[ParameterValue]) -> Key | None:
        try:
            return self._standing(parameters)
        except UpwellError:
            return None

    @guarded
    def _standing(self, parameters: Sequence[ParameterValue]) -> Key | None:
        reader = self.ready()
        if reader is None or not reader.stands or self._lists:
            return None
        keys = self.bind(parameters).keys
        standing = reader.standing(keys[0][1]) if len(keys) == 1 else None
        return None if standing is None else reader.key_of(standing)

    def in_utc(self, parameters: Sequence[ParameterValue]) -> Sequence[ParameterValue]:
        if self._generation != self._cache.generation:
            self._renew()
        clocks, plan = self.clocks, self._cache.plan
        if clocks is None or plan is None or not self._instants or len(parameters) != len(plan.parameters):
            return parameters
        found = list(parameters)
        for at in self._instants:
            value, type_ = parameters[at], plan.parameters[at].type
            if isinstance(value, tuple):
                found[at] = tuple(instant_of(one, type_, clocks) for one in value)
            else:
                found[at] = instant_of(value, type_, clocks)
        return tuple(found)

    @property
    def generation(self) -> int:
        return self._cache.generation

    @guarded
    def encode_as(self, columns: tuple[ResultColumn, ...], forms: object) -> Why:
        reader = self.ready()
        encoding = self._cache.encoding
        return NOT_READY if reader is None or encoding is None else encoding.learn(self._format, columns, forms)

    def _renew(self) -> None:
        """The cache has another plan, or none, than when last looked."""
        cache = self._cache
        if cache.dropped:
            raise UnknownCache(f"cache {cache.name!r} does not exist")
        self._generation = cache.generation
        self.reader, self._binder = cache.reader, cache.binder
        plan = cache.plan
        self._plain_int = cache.binder is not None and cache.binder.plain_int
        self._lists = plan is None or any(parameter.list for parameter in plan.parameters)
        self._tells = () if plan is None else tuple(each.index for each in plan.parameters if each.tells)
        reader = plan.reader if plan is not None else None
        evict = reader is not None and isinstance(reader.root, AnswerArrangement)
        limited = cache.reader is not None and cache.reader.program.limit_from_params
        # The answer of several keys is that of each, one after the other, unless something applies to all together.
        together = reader is not None and (reader.order or reader.limit is not None or reader.distinct is not None)
        whole = bool(together) and not evict
        self._single = limited
        self._joins = not whole
        self.stored, self.stored_list = nothing_stored, nothing_listed
        if cache.encoding is not None:
            cache.encoding.provide(self._format)
        self._instants = (
            () if plan is None else tuple(each.index for each in plan.parameters if each.type.name == "timestamp")
        )
        if self.reader is not None and self._binder is not None:
            self.stored = lookup(self._host, cache, self.reader, self._format)
            keys_of = self._binder.quick_keys
            if keys_of is not None and self._joins and not limited:
                self.stored_list = list_lookup(self._host, cache, self.reader, self._format, keys_of, self.held.join)

    def ready(self) -> ReaderNode | None:
        """The reader to ask; None while there is none. Raises UnknownCache, SourceDown."""
        if self._generation != self._cache.generation:
            self._renew()
        if self.reader is not None and (why := self._host.closed):
            if why is CATCHING_UP:
                return None
            raise SourceDown(why)
        return self.reader

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
        if self._plain_int and len(parameters) == 1 and not self._single:
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
        elif self._lists:
            body = self.stored_list(parameters)
            if body is not None:
                return body
        return self._look_further(parameters, reader)

    def fault(self, error: Exception, *given: object) -> Fault:
        """What `guarded` does with a fault: the key, if it can be told, is dropped."""
        cache, reader = self._cache, self.reader
        with suppress(Exception):
            if reader is not None and given and not self.too_many(given[0]):  # type: ignore[arg-type]
                for key, _ in self.bind(given[0]).keys:  # type: ignore[arg-type]  # a read's parameters come first
                    if (held := reader.entries.get(key)) is not None:
                        reader.drop(held)
        return self._host.faults.note("cache", cache.name, error, query=cache.sql, parameters=repr(given)[:500])

    def _look_long(self, reader: ReaderNode, parameters: Sequence[ParameterValue], why: Why) -> Look:
        """Of a list of more keys than are looked at one by one. Very many whole numbers are a hit if only some of their
        answers are to be derived or encoded first; else the read is passed for `why`."""
        values, binder = parameters[0], self._binder
        if self.stored_list is nothing_listed or not isinstance(values, tuple) or len(values) > MOST_LISTED:
            return why
        if binder is None or binder.quick_keys is None or not binder.are_keys(values):
            return why
        entry, format_ = reader.entries.get, self._format
        pending = tuple(value for value in values if (held := entry(value)) is None or held.body(format_) is None)
        if pending:
            found = self.held.are_stored(reader, binder.bind((pending[:MOST_KEYS],)))
            if isinstance(found, InSteps):
                return found
            if not isinstance(found, bytes) or len(pending) > MOST_KEYS:
                return why
        if (body := self.stored_list(parameters)) is not None:
            return body
        parts = [held.body(format_) for key in binder.quick_keys(parameters) or () if (held := entry(key)) is not None]
        rows = [part for part in parts if part is not None]
        return InSteps(parts=rows) if len(rows) == len(set(values)) else why

    def too_many(self, parameters: Sequence[ParameterValue]) -> Why:
        """Why there are more keys than can be looked at; "" if there are not."""
        return self._binder.too_many(parameters) if self._binder is not None else NO_REASON

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
        if reader is None or self.too_many(parameters):
            return Missing.HOLE
        return self.held.look(reader, self.bind_held(reader, parameters), given=given)

    def proved(self, parameters: Sequence[ParameterValue]) -> bool:
        """Is the answer held, and nothing of it to be compared before it is given?"""
        if self.peek(parameters) is not None:
            return True
        reader, trust = self.reader, self._cache.trust
        if reader is None or trust is None or self.too_many(parameters):
            return False
        return trust.proved(reader, self.bind(parameters).keys)

    @guarded
    def peek_since(self, parameters: Sequence[ParameterValue], sequence: int) -> bytes | None:
        found: Seen = Missing.HOLE
        with suppress(UpwellError):
            found = self._peeked(parameters, given=True)
        reader, body = self.reader, body_of(found)
        if body is None or reader is None:
            return None
        binding = self.bind_held(reader, parameters)
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

    def count(self, served: Served) -> None:
        self._cache.count(served)

    def recount(self, served: Served | None) -> None:
        self._cache.recount(served)

    @guarded
    def bound(self, parameters: Sequence[ParameterValue]) -> Key | None:
        """The one key that the parameters give, if its answer is stored."""
        if self.ready() is None or self._single or self.too_many(parameters):
            return None
        keys = self.bind(parameters).keys
        return keys[0][0] if len(keys) == 1 else None

    def hit_many(self, keys: Sequence[Sequence[ParameterValue]]) -> list[bytes | None]:
        """`hit` for each key, at one position; None also where MySQL must compare the parameters itself."""
        return self._hits(keys, 0, len(keys))

    def _hits(
        self, keys: Sequence[Sequence[ParameterValue]], first: int, total: int, *, alone: bool = True
    ) -> list[bytes | None]:
        """Of a slice of a batch: so many keys are before it, and so many are in all. `alone`: it is the only one, and
        has lists of several keys, too. Their answers are not stored."""
        try:
            return self._hit_many(keys, first, total, alone=alone)
        except Fault:
            return [None] * len(keys)

    async def hit_batch(self, keys: Sequence[Sequence[ParameterValue]]) -> list[bytes | None]:
        total = len(keys)
        if total <= KEYS_AT_ONCE and (not self._lists or sum(map(keys_in, keys)) <= MOST_KEYS):
            return self.hit_many(keys)
        found: list[Key | None] = []
        generation, reader = -1, None
        for some in in_parts(keys, KEYS_AT_ONCE):
            first = len(found)
            bodies = self._hits(some, first, total, alone=False)
            if not first:
                generation, reader = self._generation, self.reader
            found += [self._key_of(one) if body is not None else None for one, body in zip(some, bodies, strict=True)]
            await sleep(0)
        if self._cache.dropped:
            raise UnknownCache(f"cache {self._cache.name!r} does not exist")
        if reader is None or self._cache.generation != generation or self._host.closed:  # planned anew meanwhile
            return [None] * total
        entry, format_ = reader.entries.get, self._format
        entries = [None if key is None else entry(key) for key in found]
        return [None if held is None else held.body(format_) for held in entries]

    def _key_of(self, parameters: Sequence[ParameterValue]) -> Key | None:
        """The one key of what has just been a hit; None where there are several, or its answer is not stored."""
        if len(parameters) == 1 and not self._single:
            (value,) = parameters
            if self._plain_int and value.__class__ is int:
                return value
            if self._binder is not None and self._binder.are_keys(value) and len(value) == 1:  # type: ignore[arg-type]  # a list
                return value[0]  # type: ignore[index,no-any-return]
        try:
            return self.bound(parameters)
        except (Fault, UpwellError):
            return None

    @guarded
    def _hit_many(
        self, keys: Sequence[Sequence[ParameterValue]], first: int, total: int, *, alone: bool
    ) -> list[bytes | None]:
        reader = self.ready()
        if reader is None:
            return [None] * len(keys)
        bodies: list[bytes | None] = []
        append = bodies.append
        plain = self._plain_int and not self._single
        entry, root, format_ = reader.entries.get, reader.held_levels[0], self._format
        quick, until = 0, reader.memory.derived + MOST_DERIVED
        several = not alone and self._binder is not None and not self._binder.one_key
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
            if (several and keys_in(parameters) > 1) or self.too_many(parameters) or reader.memory.derived > until:
                append(None)  # it is read by itself
                continue
            try:
                found = self._look_further(parameters, reader)
                append(found if isinstance(found, bytes) else None)
            except ANSWERED_BY_MYSQL:  # before BadParameters: ComparedElsewhere is one of them
                append(None)
            except BadParameters as error:
                raise BadParameters(f"key {first + len(bodies) + 1} of {total}: {error}") from error
        cache = self._cache
        cache.hits += quick
        if quick and cache.hits > cache.look_at:
            self._look_at_batch(reader, keys, bodies, quick)
        return bodies

    def _look_at_batch(
        self, reader: ReaderNode, keys: Sequence[Sequence[ParameterValue]], bodies: Sequence[bytes | None], quick: int
    ) -> None:
        """Of the hits of a batch so many went by quickly, some of which were to go the long way: those may be logged,
        and the last of all may be compared."""
        cache, log = self._cache, self._host.access_log
        first = cache.hits - quick
        at = max(cache.look_at, first)
        while at < cache.hits:
            if log is not None and log.takes_hit():
                number = at - first
                if quick < len(keys):
                    hits = [place for place, body in enumerate(bodies) if body is not None]
                    number = hits[number * len(hits) // quick]
                log.taken(cache, self.bind(keys[number]), HIT, 0.0)
            at += gap(log)
        cache.look_at = at
        if (body := bodies[-1]) is not None:
            self._offer(reader, self.bind(keys[-1]), keys[-1], body)

    @guarded
    def _look_further(self, parameters: Sequence[ParameterValue], reader: ReaderNode) -> Look:
        """Of any parameters; answers that must be derived or encoded first."""
        cache = self._cache
        if why := self.too_many(parameters):
            return self._look_long(reader, parameters, why)
        started = perf_counter_ns() if cache.hits >= cache.look_at else 0
        binding = self.bind_held(reader, parameters)
        found = self.held.look(reader, binding, given=True)
        if isinstance(found, InSteps | Missing):
            return found
        body = found.body if isinstance(found, Due) else found
        cache.hits += 1
        if started:
            took = perf_counter_ns() - started
            cache.look_at = cache.hits - 1 + gap(self._host.access_log)
            cache.hit_ns.append(took)
            self._host.times[Served.HIT.value].note(took / 1e9)
            self._offer(reader, binding, parameters, body)
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

    def _offer(self, reader: ReaderNode, binding: Binding, parameters: Sequence[ParameterValue], body: bytes) -> None:
        """A hit that may be compared with MySQL's answer."""
        self._host.sampler.offer(self.given(reader, binding, parameters, body))

    def given(
        self, reader: ReaderNode, binding: Binding, parameters: Sequence[ParameterValue], body: bytes
    ) -> GivenHit:
        return GivenHit(self._cache, reader, binding, parameters, self._format, body, self.is_whole(binding))

    def is_whole(self, binding: Binding) -> bool:
        return self._together(len(binding.keys))

    def _together(self, keys: int) -> bool:
        """Is the answer of so many keys derived from all of them together, and not stored?"""
        return self._single or (keys > 1 and not self._joins)

    def bind(self, parameters: Sequence[ParameterValue]) -> Binding:
        if self._plain_int and len(parameters) == 1 and parameters[0].__class__ is int:
            (value,) = params = tuple(parameters)
            return Binding([(value, params)], params)
        assert self._binder is not None
        return self._binder.bind(parameters)

    def bind_held(self, reader: ReaderNode, parameters: Sequence[ParameterValue]) -> Binding:
        """As `bind`, for a hit: of another key where the answer that is held for that is this key's, too. Good for this
        step alone."""
        binding = self.bind(parameters)
        standing = reader.standing(binding.keys[0][1]) if len(binding.keys) == 1 else None
        return binding if standing is None else Binding([(reader.key_of(standing), standing)], standing)

    def only_look(self, reader: ReaderNode, binding: Binding) -> Seen:
        """What is held for these keys; nobody is given it."""
        return self.held.look(reader, binding, given=False)

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
