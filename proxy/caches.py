"""A cache: a named query with its plan and its reader; and a cache opened for one wire format, which is the hot path.

A hit is: parameters -> key (a lookup's cost), key -> held answer, its bytes. Nothing else happens on it.
"""

from __future__ import annotations

from asyncio import sleep
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING

from dataflow.entries import Held
from dataflow.large_answers import HeldRows
from dataflow.reader import Params, ReaderNode, held_bytes
from gtid_tracker.gtid import GtidSet
from planner.plan import AnswerArrangement, QueryPlan
from proxy.api import (
    ANSWERED_BY_MYSQL,
    BY_GRPC,
    Answer,
    CacheInfo,
    Demand,
    ListLookup,
    Lookup,
    MadeBy,
    ParameterInfo,
    ParameterValue,
    Served,
)
from proxy.encoding import NOT_READY, Encoding
from proxy.faults import guarded, guarded_async
from proxy.freshness import CallDemand
from proxy.keys import MOST_KEYS, MOST_LISTED, Binding, KeyBinder, in_parts, keys_in
from proxy.lookups import SAMPLE, list_lookup, lookup, nothing_listed, nothing_stored
from proxy.pump import NO_CONNECTION, NOT_COMPARED, SUSPECTED, Behind, PassThrough
from proxy.slices import encode_in_slices, run_in_slices
from proxy.trust import Trust
from sqltypes.errors import BadParameters, Fault, SourceDown, UnknownCache, UpwellError
from sqltypes.expression import Key, Row
from sqltypes.schema import ResultColumn

if TYPE_CHECKING:
    from proxy.router import Router

MOST_LARGE = 20
"""How many large answers of one list are derived, or one that changes all the time, before MySQL is asked."""
KEYS_AT_ONCE = 250
"""How many keys of a batch are looked up in one turn of the loop: about 3 ms where their answers are to be derived."""


@dataclass(eq=False)
class NamedCache:
    """A cache by name. `reader` None: not ready (being rebuilt after a DDL statement, or refused since); reads pass
    through."""

    name: str
    sql: str
    database: str
    relations: frozenset[tuple[str, str]] = frozenset()  # tables and views that the query names
    names: frozenset[str] = frozenset()  # `schema.name` of each in lower case, and `schema.*`
    plan: QueryPlan | None = None
    reader: ReaderNode | None = None
    binder: KeyBinder | None = None
    encoding: Encoding | None = None
    state: str = "rebuilding"
    why: str = ""
    made_by: MadeBy = BY_GRPC
    needs: frozenset[str] = frozenset()  # session variables on which answers depend
    hits: int = 0
    misses: int = 0
    passed: int = 0
    generation: int = 0  # rises when the plan changes: opened caches look again
    dropped: bool = False
    trust: Trust | None = None  # None: every answer is believed
    hit_ns: deque[int] = field(default_factory=lambda: deque(maxlen=256))
    miss_ns: deque[int] = field(default_factory=lambda: deque(maxlen=256))

    @property
    def columns(self) -> tuple[ResultColumn, ...]:
        """As MySQL announces them: in its answers where they are known, else as it prepares the query."""
        return self.encoding.columns if self.encoding is not None else ()

    def info(self) -> CacheInfo:
        plan, reader = self.plan, self.reader
        parameters = plan.parameters if plan is not None else ()
        return CacheInfo(
            name=self.name,
            sql=self.sql,
            database=self.database,
            mode=plan.mode.value if plan is not None else "",
            state=self.state,
            why=self.why or (self.trust.told if self.trust is not None else ""),
            parameters=tuple(ParameterInfo(item.column, item.type, item.list) for item in parameters),
            columns=self.columns,
            keys=len(reader.entries) if reader is not None else 0,
            bytes=held_bytes(reader) if reader is not None else 0,
            hits=self.hits,
            misses=self.misses,
            hit_p50_us=median(self.hit_ns) / 1000 if self.hit_ns else 0.0,
            miss_p50_us=median(self.miss_ns) / 1000 if self.miss_ns else 0.0,
            made_by=self.made_by,
            relations=self.relations,
        )


class OpenCache:
    """A cache for one wire format. Implements `proxy.api.Cache`."""

    def __init__(self, router: Router, cache: NamedCache, format_: int) -> None:
        self._router = router
        self._cache = cache
        self._joins = True
        # What has kept a read from being a hit, and whether it is to be compared behind that.
        self._large: tuple[Held, Params, bool] | None = None
        self._format = format_
        self._generation = -1
        self._plain_int = False
        self._lists = True  # some parameter is a list
        self._single = False
        self._reader: ReaderNode | None = None
        self._binder: KeyBinder | None = None
        self._join = router.join(format_)
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
    def needs(self) -> frozenset[str]:
        return self._cache.needs

    @property
    def generation(self) -> int:
        return self._cache.generation

    @guarded
    def encode_as(self, columns: tuple[ResultColumn, ...], forms: object) -> str:
        reader = self._ready()
        encoding = self._cache.encoding
        return NOT_READY if reader is None or encoding is None else encoding.learn(self._format, columns, forms)

    def _renew(self) -> None:
        """The cache has another plan, or none, than when last looked."""
        cache = self._cache
        if cache.dropped:
            raise UnknownCache(f"cache {cache.name!r} does not exist")
        self._generation = cache.generation
        self._reader, self._binder = cache.reader, cache.binder
        plan = cache.plan
        self._plain_int = cache.binder is not None and cache.binder.plain_int
        self._lists = plan is None or any(parameter.list for parameter in plan.parameters)
        reader = plan.reader if plan is not None else None
        evict = reader is not None and isinstance(reader.root, AnswerArrangement)
        limited = cache.reader is not None and cache.reader.program.limit_from_params
        # The answer of several keys is that of each, one after the other, unless something applies to all together.
        whole = reader is not None and (bool(reader.order) or reader.limit is not None or reader.distinct) and not evict
        self._single = limited
        self._joins = not whole
        self.stored, self.stored_list = nothing_stored, nothing_listed
        if self._reader is not None and self._binder is not None:
            self.stored = lookup(self._router, cache, self._reader, self._format)
            keys_of = self._binder.quick_keys
            if keys_of is not None and self._joins and not limited:
                self.stored_list = list_lookup(self._router, cache, self._reader, self._format, keys_of, self._join)

    def _ready(self) -> ReaderNode | None:
        """The reader to ask; None while there is none. Raises UnknownCache, SourceDown."""
        if self._generation != self._cache.generation:
            self._renew()
        if self._reader is not None and self._router.closed:
            raise SourceDown(self._router.closed)
        return self._reader

    def hit(self, parameters: Sequence[ParameterValue]) -> bytes | None:
        """The encoded rows if all keys are held and current, else None."""
        reader = self._ready()
        if reader is None:
            return None
        if self._plain_int and len(parameters) == 1 and not self._single:
            value = parameters[0]
            if value.__class__ is int:
                held = reader.entries.get(value)
                if held is None and value not in reader.held_levels[0]:
                    return None  # the root's key is the same integer: nothing could be derived
                bodies = held.bodies if held is not None else None
                if held is not None and bodies is not None and self._cache.hits % SAMPLE:
                    body = bodies[self._format]
                    if body is not None:
                        held.visited = True
                        self._cache.hits += 1
                        return body
        elif self._lists:
            body = self.stored_list(parameters)
            if body is not None:
                return body
        return self._hit_slow(parameters, reader)

    def fault(self, error: Exception, *given: object) -> Fault:
        """What `guarded` does with a fault: the key, if it can be told, is dropped."""
        cache, reader = self._cache, self._reader
        with suppress(Exception):
            if reader is not None and given and not self._too_many(given[0]):  # type: ignore[arg-type]
                for key, _ in self._bind(given[0]).keys:  # type: ignore[arg-type]  # a read's parameters come first
                    if (held := reader.entries.get(key)) is not None:
                        reader.drop(held)
        return self._router.faults.note("cache", cache.name, error, query=cache.sql, parameters=repr(given)[:500])

    def _hit_long(self, reader: ReaderNode, parameters: Sequence[ParameterValue]) -> bytes | None:
        """A list of very many whole numbers, of whose answers some are to be derived or encoded first."""
        values = parameters[0]
        if self.stored_list is nothing_listed or not isinstance(values, tuple) or len(values) > MOST_LISTED:
            return None
        if self._binder is None or not self._binder.are_keys(values):
            return None
        entry, format_ = reader.entries.get, self._format
        pending = tuple(
            value
            for value in values
            if (held := entry(value)) is None or held.bodies is None or held.bodies[format_] is None
        )
        if not pending or self._held_body(reader, self._binder.bind((pending[:MOST_KEYS],))) is None:
            return None
        return self.stored_list(parameters) if len(pending) <= MOST_KEYS else None

    def _too_many(self, parameters: Sequence[ParameterValue]) -> str:
        """Why there are more keys than can be looked at; "" if there are not."""
        return self._binder.too_many(parameters) if self._binder is not None else ""

    def peek(self, parameters: Sequence[ParameterValue]) -> bytes | None:
        """As `hit`, without being one."""
        try:
            return self._peeked(parameters)
        except UpwellError:
            return None

    @guarded
    def _peeked(self, parameters: Sequence[ParameterValue], *, given: bool = False) -> bytes | None:
        reader = self._ready()
        if reader is None or self._too_many(parameters):
            return None
        return self._held_body(reader, self._bind(parameters), given=given)

    def proved(self, parameters: Sequence[ParameterValue]) -> bool:
        """Is the answer held, and nothing of it to be compared before it is given?"""
        if self.peek(parameters) is not None:
            return True
        reader, trust = self._reader, self._cache.trust
        if reader is None or trust is None or self._too_many(parameters):
            return False
        return trust.proved(reader, self._bind(parameters).keys)

    @guarded
    def peek_since(self, parameters: Sequence[ParameterValue], sequence: int) -> bytes | None:
        body = None
        with suppress(UpwellError):
            body = self._peeked(parameters, given=True)
        reader, trust = self._reader, self._cache.trust
        if body is None or reader is None:
            return None
        binding = self._bind(parameters)
        for _, params in binding.keys:
            since = reader.since(params)
            if since is None or since > sequence:
                if trust is not None:
                    trust.look_again()
                return None
        if trust is not None and trust.behind:
            self._compare_behind(reader, binding, parameters, body)
        return body

    def count_hit(self) -> None:
        self._cache.hits += 1

    @guarded
    def bound(self, parameters: Sequence[ParameterValue]) -> Key | None:
        """The one key that the parameters give, if its answer is stored."""
        if self._ready() is None or self._single or self._too_many(parameters):
            return None
        keys = self._bind(parameters).keys
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
                generation, reader = self._generation, self._reader
            found += [self._key_of(one) if body is not None else None for one, body in zip(some, bodies, strict=True)]
            await sleep(0)
        if self._cache.dropped:
            raise UnknownCache(f"cache {self._cache.name!r} does not exist")
        if reader is None or self._cache.generation != generation or self._router.closed:  # planned anew meanwhile
            return [None] * total
        entry, format_ = reader.entries.get, self._format
        entries = [None if key is None else entry(key) for key in found]
        return [None if held is None or held.bodies is None else held.bodies[format_] for held in entries]

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
        reader = self._ready()
        if reader is None:
            return [None] * len(keys)
        bodies: list[bytes | None] = []
        append = bodies.append
        plain = self._plain_int and not self._single
        entry, root, format_ = reader.entries.get, reader.held_levels[0], self._format
        quick = 0
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
            if (several and keys_in(parameters) > 1) or self._too_many(parameters):
                append(None)
                continue
            try:
                append(self._hit_slow(parameters, reader))
            except ANSWERED_BY_MYSQL:  # before BadParameters: ComparedElsewhere is one of them
                append(None)
            except BadParameters as error:
                raise BadParameters(f"key {first + len(bodies) + 1} of {total}: {error}") from error
        cache = self._cache
        sampled = cache.hits % SAMPLE + quick >= SAMPLE
        cache.hits += quick
        if sampled and (body := bodies[-1]) is not None:
            self._offer(reader, self._bind(keys[-1]), keys[-1], body)
        return bodies

    @guarded
    def _hit_slow(self, parameters: Sequence[ParameterValue], reader: ReaderNode) -> bytes | None:
        """Any parameters; answers that must be derived or encoded first."""
        cache = self._cache
        if self._too_many(parameters):
            return self._hit_long(reader, parameters)
        started = perf_counter_ns() if cache.hits % SAMPLE == 0 else 0
        binding = self._bind(parameters)
        body = self._held_body(reader, binding)
        if body is not None:
            cache.hits += 1
            if started:
                cache.hit_ns.append(perf_counter_ns() - started)
                self._offer(reader, binding, parameters, body)
            if cache.trust is not None and cache.trust.behind:
                self._compare_behind(reader, binding, parameters, body)
        return body

    def _compare_behind(
        self, reader: ReaderNode, binding: Binding, parameters: Sequence[ParameterValue], body: bytes
    ) -> None:
        """An answer that was due is being given."""
        together = self._is_whole(binding)
        self._router.auditor.behind(self._cache, reader, binding, parameters, self._format, body, together=together)

    def _offer(self, reader: ReaderNode, binding: Binding, parameters: Sequence[ParameterValue], body: bytes) -> None:
        """A hit that may be compared with MySQL's answer."""
        together = self._is_whole(binding)
        self._router.sampler.offer(self._cache, reader, binding, parameters, self._format, body, together=together)

    def _is_whole(self, binding: Binding) -> bool:
        return self._together(len(binding.keys))

    def _together(self, keys: int) -> bool:
        """Is the answer of so many keys derived from all of them together, and not stored?"""
        return self._single or (keys > 1 and not self._joins)

    def _bind(self, parameters: Sequence[ParameterValue]) -> Binding:
        if self._plain_int and len(parameters) == 1 and parameters[0].__class__ is int:
            (value,) = params = tuple(parameters)
            return Binding([(value, params)], params)
        assert self._binder is not None
        return self._binder.bind(parameters)

    def _held_body(self, reader: ReaderNode, binding: Binding, *, given: bool = True) -> bytes | None:
        """The stored answer, which is about to be given, or is only looked at."""
        trust = self._cache.trust
        if trust is None:
            return self._looked(reader, binding, None, given=given)
        trust.behind.clear()
        body = self._looked(reader, binding, trust, given=given)
        if body is None:
            trust.look_again()
        return body

    def _looked(self, reader: ReaderNode, binding: Binding, trust: Trust | None, *, given: bool) -> bytes | None:
        keys = binding.keys
        seconds = self._router.seconds(reader) if trust is not None else 0.0
        if not keys:
            if trust is not None and trust.holds_back_derived(seconds, given=given):
                return None
            return reader.encoders[self._format](reader.finish([], binding.params))
        if self._together(len(keys)):
            rows = reader.answer(keys)
            if rows is None or (trust is not None and trust.holds_back_together(reader, keys, seconds, given=given)):
                return None
            for key, _ in keys:
                if (held := reader.entries.get(key)) is not None:
                    held.visited = True
            return reader.encoders[self._format](rows)
        parts = []
        for key, params in keys:
            # Another reader's fills may have left all that this key needs.
            held = reader.entries.get(key) or self._router.hold(reader, key, params)
            if held is not None and trust is not None and trust.holds_back(held, seconds, given=given):
                held = None  # it is compared first
            elif held is not None and reader.is_large(held, self._format):
                # It is derived in steps (`_derive_large`).
                self._large, held = (held, params, trust is not None and held in trust.behind), None
            body = reader.body(held, params, self._format) if held is not None else None
            if held is None or body is None:
                self._router.keep_limit()  # keys before this one may have been taken up
                return None
            held.visited = True
            parts.append(body)
        self._router.keep_limit()
        return parts[0] if len(parts) == 1 else self._join(parts)

    async def read(self, parameters: Sequence[ParameterValue], demand: Demand | None = None, text: str = "") -> Answer:
        """As `hit`, else by an upquery, else passed through with the reason. Raises TooStale."""
        assert demand is None or isinstance(demand, CallDemand), "demands are the router's"
        answer = await self.fill(parameters, demand, text)
        if isinstance(answer, Answer):
            return answer
        self._cache.passed += 1
        return await self._router.pass_cache(self._cache, parameters, self._format, answer, demand)

    async def fill(
        self, parameters: Sequence[ParameterValue], demand: Demand | None = None, text: str = "", *, wait: bool = True
    ) -> Answer | str:
        """As `hit`, else by an upquery; the reason where MySQL itself is to answer. Raises TooStale."""
        try:
            if demand is None:
                return await self._fill(parameters, text)
            assert isinstance(demand, CallDemand), "demands are the router's"
            return await self._fill_fresh(parameters, demand, text, wait=wait)
        except Fault as fault:
            return f"{fault.reason}: {fault.message}"

    @guarded_async
    async def _fill(self, parameters: Sequence[ParameterValue], text: str) -> Answer | str:
        cache = self._cache
        try:
            body = await self._hit_large(parameters)
            if body is not None:
                return Answer(Served.HIT, cache.columns, body, self._router.position(), cache.name)
            if self._reader is not None:
                if why := self._too_many(parameters):
                    return why
                binding = self._bind(parameters)
                ahead = self.answer_ahead(self._reader, binding)
                if ahead is not None:
                    return self._told_ahead(binding, *ahead)
                return await self._miss(self._reader, binding, parameters, text)
        except PassThrough as reason:
            return str(reason)
        except ANSWERED_BY_MYSQL as reason:
            return f"{reason.reason}: {reason.message}"
        return cache.why or cache.state

    async def _hit_large(self, parameters: Sequence[ParameterValue]) -> bytes | None:
        """As `hit`; large answers that are not stored are derived first, each in several steps of the loop."""
        due = False
        for _ in range(MOST_LARGE):
            self._large = None
            body = self.hit(parameters)
            if body is not None and due and self._reader is not None and self._cache.trust is not None:
                self._compare_behind(self._reader, self._bind(parameters), parameters, body)
            if body is not None or self._large is None:
                return body
            held, params, is_due = self._large
            due = due or is_due
            if not await self._derive_due(held, params, is_due):
                return None
        return None

    async def _derive_due(self, held: Held, params: Params, is_due: bool) -> bool:
        """As `_derive_large`. An answer that is to be compared behind is meanwhile given to nobody else."""
        trust = self._cache.trust
        if not is_due or trust is None or held in trust.unproved:
            return await self._derive_large(held, params)
        trust.unproved[held] = None
        try:
            return await self._derive_large(held, params)
        finally:
            trust.unproved.pop(held, None)

    async def _derive_large(self, held: Held, params: Params) -> bool:
        """Stores an answer, unless a change comes before that is done. False: a part of it is a hole."""
        reader = held.reader
        found = HeldRows(held, params)
        await run_in_slices(found.steps())
        rows, bodies = found.rows, found.bodies
        if rows is None or bodies is None or held.bodies is not bodies:
            return not found.hole
        reader.note_encoded(held, self._format)  # first: the encoder may become another one meanwhile
        await sleep(0)
        encoded = await encode_in_slices(reader.encoders[self._format], self._join, rows)
        if held.alive and held.bodies is bodies and bodies[self._format] is None:
            reader.store(held, self._format, encoded)
            self._router.keep_limit()
        return True

    def answer_ahead(
        self, reader: ReaderNode, binding: Binding, demand: CallDemand | None = None
    ) -> tuple[list[Row], GtidSet] | None:
        """The rows of a single key that is held ahead of the position, and what it reflects beyond that, if that meets
        the demand; its bytes are not stored, for the header of a hit names the position."""
        if len(binding.keys) != 1:
            return None
        trust = self._cache.trust
        ((key, params),) = binding.keys
        if trust is not None and (trust.suspicions or (trust.changed and not trust.changes.earned)):
            return None  # it could not be compared: it is at no position
        found = reader.answer_ahead(params)
        if found is None or (demand is not None and not demand.met_ahead(found[1])):
            return None
        held = self._router.hold(reader, key, params)
        if held is not None:
            held.visited = True
        self._router.keep_limit()
        self._cache.hits += 1
        self._router.count("hits_ahead")
        return found

    def _told_ahead(self, binding: Binding, rows: list[Row], lower: GtidSet) -> Answer:
        cache, router = self._cache, self._router
        assert self._reader is not None
        ((key, params),) = binding.keys
        held = router.hold(self._reader, key, params)
        cut = held.deps[0].cut if held is not None else None
        horizon = router.position_with(lower.union(cut.doubt)) if cut is not None and cut.doubt else ""
        body = self._reader.encoders[self._format](rows)
        return Answer(Served.HIT, cache.columns, body, router.position_with(lower), cache.name, horizon=horizon)

    @guarded_async
    async def _fill_fresh(
        self, parameters: Sequence[ParameterValue], demand: CallDemand, text: str, *, wait: bool
    ) -> Answer | str:
        """`fill`, with an answer that meets the demand. A hole is asked of MySQL at once: the upquery may have what the
        position lacks. What is held waits for the position."""
        cache = self._cache
        try:
            while (reader := self._ready()) is not None:
                if demand.met() and (body := await self._hit_large(parameters)) is not None:
                    return Answer(Served.HIT, cache.columns, body, self._router.position(), cache.name)
                if why := self._too_many(parameters):
                    return why
                binding = self._bind(parameters)
                ahead = self.answer_ahead(reader, binding, demand)
                if ahead is not None:
                    return self._told_ahead(binding, *ahead)
                with suppress(Behind):
                    if demand.met() or self._held_body(reader, binding, given=False) is None:
                        if not wait and self._router.pump.would_wait(reader, binding.keys):
                            return NO_CONNECTION
                        return await self._miss(reader, binding, parameters, text, demand)
                if not await demand.reached():
                    demand.refuse()
                    return f"too_stale: {demand.shortage()}"
        except PassThrough as reason:
            return str(reason)
        except ANSWERED_BY_MYSQL as reason:
            return f"{reason.reason}: {reason.message}"
        return cache.why or cache.state

    async def _miss(
        self,
        reader: ReaderNode,
        binding: Binding,
        parameters: Sequence[ParameterValue],
        text: str,
        demand: CallDemand | None = None,
    ) -> Answer:
        cache = self._cache
        check = None
        if cache.trust is not None:
            if cache.trust.suspicions:
                raise PassThrough(SUSPECTED)
            held = not binding.keys or ((demand is None or demand.met()) and reader.holds(binding.keys))
            if held or self._router.auditor.fill_is_due(cache, binding):
                text = text or self._router.substituted(cache.sql, parameters)
                if held:
                    return await self._compared(reader, binding, parameters, text)
                encode = reader.encoders[self._format]
                check = self._router.auditor.fill_check(cache, reader, binding, parameters, text, encode)
        compare = self._router.auditor.list_is_due(cache, binding)
        cache.misses += 1
        started = perf_counter_ns()
        ready = None
        try:
            ready = await self._router.pump.miss(reader, binding.keys, demand, check, doubted=compare)
        finally:
            if check is not None:
                check.close(given=ready is not None)
        cache.miss_ns.append(perf_counter_ns() - started)
        if compare or (ready.settled and cache.trust is not None and cache.trust.holds_back_derived(0.0)):
            text = text or self._router.substituted(cache.sql, parameters)
            return replace(await self._compared(reader, binding, parameters, text), served=Served.MISS)
        horizon = str(ready.horizon) if ready.horizon is not None else ""
        columns, encode = cache.columns, reader.encoders[self._format]  # together: MySQL may tell others meanwhile
        body = await encode_in_slices(encode, self._join, ready.rows)
        return Answer(Served.MISS, columns, body, str(ready.position), cache.name, horizon=horizon)

    async def _compared(
        self, reader: ReaderNode, binding: Binding, parameters: Sequence[ParameterValue], text: str
    ) -> Answer:
        """A hit that MySQL was asked for, too, before it is given. Raises PassThrough."""
        cache = self._cache
        comparison = await self._router.auditor.compared(
            cache, reader, binding, parameters, text, self._format, together=self._is_whole(binding)
        )
        if comparison is None or comparison.body is None:
            raise PassThrough(NOT_COMPARED)
        cache.hits += 1
        return Answer(Served.HIT, cache.columns, comparison.body, comparison.at, cache.name)
