"""The caches that exist. Makes a running reader from a SELECT, again after every DDL statement, and after a restart.

MySQL checks a plan before it serves. MySQL prepares the client's own text, and the plan must give the same columns
(names, types, digits, signs). If it does not, the query is cached in evict mode, whose answers come from the client's
own text.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

import structlog

from dataflow.engine import Engine
from dataflow.messages import Ddl
from dataflow.readers.reader import ReaderNode
from planner.api import with_result_columns
from planner.fill.whole import is_small
from planner.matcher import QueryMatcher
from planner.session.needs import SESSION_NEEDS
from planner.text.clock_literals import with_parameters
from planner.text.fingerprint import Fingerprint
from planner.text.scan import tokens_at_most
from planner.tree.plan import Caution, QueryPlan
from planner.tree.sql_text import table_name
from proxy.auto.passed_reads import NO_SOURCE, Judgement
from proxy.cache.answer_columns import Encoding, carried
from proxy.cache.key_binder import KeyBinder
from proxy.cache.named_cache import NamedCache, names_of
from proxy.catalog.distrusted import CLOSED, Doubt, Doubts, next_level
from proxy.catalog.limits import CacheLimits, Definitions, Forgotten, to_the_end
from proxy.catalog.removal import Leaving
from proxy.catalog.replanning import PlannedAgain, SchemaChanges
from proxy.catalog.retired_counts import Gone
from proxy.checking.auditor import Auditor
from proxy.planning.announced import described
from proxy.planning.collations import load_collations
from proxy.planning.process import TOO_COSTLY, PlanningProcess, check_views, disagreement, likely_relations
from proxy.planning.worker import Thought, refusing
from proxy.port.api import BY_GRPC, MadeBy, Origin
from proxy.port.reasons import PassedReads
from proxy.pump.pump import Pump
from proxy.source.kept_schema import KeptSchema, Schema
from proxy.source.source import Upqueries
from sqltypes.errors import (
    CacheExists,
    NeedRelations,
    ParseError,
    SourceDown,
    UnknownCache,
    UnknownName,
    UnsupportedQuery,
    UpwellError,
)
from sqltypes.schema import ResultColumn, SchemaSnapshot, Table

log = structlog.get_logger("upwell.caches")

MOST_PLANNED = 2000  # tokens: a plan is as long as its text, and installing it is a step of the loop
LONGEST_PLANNED = 1 << 17
FOR_GOOD = (UnsupportedQuery, UnknownName, ParseError)  # until the schema changes
DEFINED_ANEW = 100  # plans of one query that DDL statements make old, one behind the other
PLANNING_ROUNDS = 8  # views inside views: each round may name more relations


class StreamWants(Protocol):
    """The change stream, reduced to the members that the catalog needs."""

    def want(self, table: Table, columns: frozenset[str]) -> None: ...

    def unwant(self, table: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan that agrees with MySQL. With it: the columns that MySQL announces, the relations that it was made from,
    the session variables on which its answers depend, the text's fingerprint and its outline."""

    plan: QueryPlan
    columns: tuple[ResultColumn, ...]
    relations: frozenset[tuple[str, str]]
    needs: frozenset[str]
    fingerprint: Fingerprint
    outline: str


class Catalog:
    """All caches by name."""

    def __init__(
        self,
        engine: Engine,
        pump: Pump,
        executor: Upqueries,
        schema: Schema,
        stream: StreamWants,
        matcher: QueryMatcher,
        doubts: Doubts,
        limits: CacheLimits | None = None,
        *,
        kept: KeptSchema | None = None,
    ) -> None:
        """`kept`: what the schema was a moment ago, where the stream tells of each change of it."""
        self.caches: dict[str, NamedCache] = {}
        self._engine = engine
        self._pump = pump
        self._executor = executor
        self._schema = schema
        self._kept = kept
        self._stream = stream
        self._matcher = matcher
        self._wanted: dict[str, tuple[Table, frozenset[str]]] = {}
        self._changing = asyncio.Lock()
        self.gone = Gone()
        self._unlogged: set[tuple[str, str]] = set()  # accounts of whose unlogged writes it was told, with the cause
        self._schema_changes = 0  # DDL events and losses of trust: a plan made across one is made again
        self._changes = SchemaChanges()
        self._again = PlannedAgain()
        self._adopted: set[str] = set()  # taken over at the start, and not planned yet
        self.clockless = ""  # why no text with a function of the clock can be a hit; "" if one can
        self.unnamed = ""  # the database of names without one, where the session has selected none
        self._rebuilding: asyncio.Task[None] | None = None
        self._leaving = Leaving(engine, pump, self._taken_out, self._want)
        self.limits = limits or CacheLimits()
        self.doubts = doubts
        self.definitions: Definitions = Forgotten()
        self.auditor: Auditor | None = None
        self.planning = PlanningProcess()

    # -- planning ----------------------------------------------------------------------------------------------------

    async def plan(self, sql: str, database: str, schema: Schema | None = None) -> Planned:
        """Plans a SELECT against the source as it is now, or as this schema knows it. Raises ParseError, UnknownName,
        UnsupportedQuery, SourceError, SourceDown.

        If a DDL event comes while the plan is made, the reflected schema may or may not contain it, and there is no
        cache yet for the event to reach. So the plan is made again. A later event finds the cache. A change that is
        found before its event is told to the caches as if the event had come.
        """
        for _ in range(DEFINED_ANEW):
            before = self._schema_changes
            planned = await self._plan_once(sql, database, schema or self._schema)
            await self._leaving.gone()  # nothing is installed beside caches of tables as they were
            if before == self._schema_changes:
                outdated = self._outdated(planned.plan)
                if not outdated:
                    return planned
                self.schema_changed(outdated)
        raise SourceDown("the source defines the tables of this query anew all the time")

    def _outdated(self, plan: QueryPlan) -> frozenset[str]:
        """The tables that have caches by another definition than the plan's: a DDL statement was executed, and its
        event has not come. Nothing is installed beside those caches, because the stream delivers rows by one
        definition."""
        known = {table: self._engine.graph.table(table.qualified) for table in plan.tables}
        return frozenset(
            table.qualified for table, its in known.items() if its is not None and not its.is_defined_as(table)
        )

    async def _plan_once(self, sql: str, database: str, schema: Schema) -> Planned:
        names: set[tuple[str, str]] = set()
        try:
            return await self._plan_with(names, sql, database, schema)
        except UpwellError as error:
            error.relations = frozenset(names)
            raise

    async def _plan_with(self, names: set[tuple[str, str]], sql: str, database: str, schema: Schema) -> Planned:
        """`names`: of relations, to which those are added that the query rests on."""
        if len(sql) > LONGEST_PLANNED or not tokens_at_most(sql, MOST_PLANNED):
            longest = f"{MOST_PLANNED} words or {LONGEST_PLANNED} letters"
            raise UnsupportedQuery("too_long", f"a query of more than {longest} cannot be cached")
        guessed = likely_relations(sql, database)
        for _ in range(PLANNING_ROUNDS):
            snapshot = await schema.snapshot(names | guessed)
            names |= snapshot.named(guessed)
            guessed = set()
            check_views(sql, snapshot)
            try:
                thought = await self.planning.plan(sql, database, snapshot)
                break
            except NeedRelations as need:
                if need.names <= names:
                    missing = ", ".join(sorted(f"{schema}.{name}" for schema, name in need.names))
                    raise UnknownName(f"no such table or view at the source: {missing}") from None
                names |= need.names
        else:
            raise UnsupportedQuery("views_too_deep", f"views are nested more than {PLANNING_ROUNDS} deep")
        columns = await described(self._executor, sql, database, tuple(map(table_name, thought.plan.tables)))
        if thought.plan.mode.value == "maintain":
            difference = disagreement(thought.plan, columns)
            if difference:
                note = f"evict mode: the columns are not reproduced ({difference})"
                thought = await self.planning.plan_evict(sql, database, snapshot)
                thought = replace(thought, plan=replace(thought.plan, notes=(*thought.plan.notes, note)))
        thought = await self._doubted(thought, sql, snapshot)
        plan = with_result_columns(thought.plan, columns)
        await load_collations(plan)
        return Planned(plan, columns, frozenset(names), thought.needs, thought.fingerprint, thought.outline)

    async def _doubted(self, thought: Thought, sql: str, snapshot: SchemaSnapshot) -> Thought:
        """The plan, or a more careful one where the query's cache has lost its trust. Raises UnsupportedQuery."""
        plan = thought.plan
        doubt = self.doubts.about(plan.sql, plan.database)
        if doubt is None:
            return thought
        if doubt.level >= CLOSED:
            raise UnsupportedQuery("distrusted", doubt.told)
        found = await self.planning.plan_evict(sql, plan.database, snapshot, doubt.told, Caution(doubt.level))
        return replace(found, needs=SESSION_NEEDS) if doubt.every_need else found

    async def judge(self, sql: str, database: str) -> Judgement:
        """Whether the query could be cached, and how or why not. Raises SourceDown, Overloaded, DeadlinePassed."""
        schema = self._schema_changes
        if self.clockless and with_parameters(sql) != sql:
            return Judgement(False, self.clockless, schema)
        try:
            planned = await self.plan(sql, database or self.unnamed, self._kept)
        except NO_SOURCE:
            raise
        except UnsupportedQuery as error:
            return Judgement(False, f"{error.message} ({error.code})", schema)
        except UpwellError as error:
            return Judgement(False, error.told, schema)
        plan = planned.plan
        notes = [note for note in plan.notes if note.startswith(("not maintained", "evict mode"))]
        reason = "; ".join([plan.mode.value, *notes])
        return Judgement(
            True,
            reason,
            schema,
            plan.sql,
            planned.needs,
            is_small(plan),
            frozenset(table.qualified for table in plan.tables),
        )

    def is_current(self, judgement: Judgement) -> bool:
        """Whether no DDL statement has come since."""
        return judgement.schema == self._schema_changes

    def cached_as(self, judgement: Judgement, database: str) -> str:
        """The name of the query's cache, "" where there is none."""
        cache = self._cached(judgement.normalised, database) if judgement.cacheable else None
        return cache.name if cache is not None else ""

    # -- creating and dropping ---------------------------------------------------------------------------------------

    async def create(self, name: str, sql: str, database: str, made_by: MadeBy = BY_GRPC) -> tuple[NamedCache, bool]:
        """(the cache, whether the query was cached before). The same query again gives the existing cache; with another
        name it gives one of that name, and the two share what they hold. An automatic cache becomes the caller's; under
        another name it starts empty. A definition that must survive a restart is on disk before its cache exists: if it
        cannot be written, nothing changes. Raises as `plan`, and CacheExists, Overloaded, ConfigError."""
        async with self._changing:
            await self._planned_again(self.caches.get(name))
            planned = await self.plan(sql, database, self._kept if made_by.origin is Origin.AUTOMATIC else None)
            schema = self._schema_changes
            cache = self._cached(planned.plan.sql, database, name)
            if cache is not None:
                if cache.reader is None:  # refused when it was planned last, or not planned yet
                    self._install(cache, planned)
                is_kept = made_by.origin is Origin.AUTOMATIC or cache.made_by.origin is not Origin.AUTOMATIC
                if name in ("", cache.name):
                    if not is_kept:
                        self.limits.check_account(made_by, self.caches.values())
                        await to_the_end(self._keep_as(cache, made_by, sql))
                    return cache, True
            name = name or self._made_up("auto" if made_by.origin is Origin.AUTOMATIC else "q")
            if name in self.caches:
                raise CacheExists(f"cache {name!r} exists with another query")
            self.limits.check(made_by, self.caches.values())
            before = self.gone.of(name)
            passed = PassedReads(before.passed)
            new = NamedCache(name, sql, database, made_by=made_by, before=before[:2], passed=passed)
            await to_the_end(self._make(new, planned, schema))
            return new, cache is not None

    async def _keep_as(self, cache: NamedCache, made_by: MadeBy, sql: str) -> None:
        """An automatic cache becomes somebody's own."""
        await asyncio.to_thread(self.definitions.put, cache.name, sql, cache.database, made_by)
        cache.made_by = made_by

    async def _make(self, new: NamedCache, planned: Planned, schema: int) -> None:
        """Writes the definition, then installs the cache. `schema`: of which count of changes the plan is."""
        kept = new.made_by.origin is not Origin.AUTOMATIC
        if kept:
            await asyncio.to_thread(self.definitions.put, new.name, new.sql, new.database, new.made_by)
        try:
            if schema != self._schema_changes:  # while the disk took its time
                planned = await self.plan(new.sql, new.database)
            cache = self._cached(planned.plan.sql, new.database)
            if cache is not None and cache.made_by.origin is Origin.AUTOMATIC:
                self._remove(cache)  # its asker's name for it counts
            self.caches[new.name] = new
            self._install(new, planned)
        except Exception:
            self.caches.pop(new.name, None)
            self._uninstall(new)
            if kept:
                await asyncio.to_thread(self.definitions.remove, new.name)
            raise

    async def _planned_again(self, cache: NamedCache | None) -> None:
        """One that could not be planned before may be planned now: then it is known whether its query is another."""
        if cache is not None and cache.reader is None:
            try:
                planned = await self.plan(cache.sql, cache.database)
            except UpwellError as error:
                cache.why = error.message
            else:
                self._install(cache, planned)

    def adopt(self, name: str, sql: str, database: str, made_by: MadeBy) -> None:
        """Takes over a definition from the file or an earlier run; it is planned as soon as the source answers."""
        if name not in self.caches:
            self.caches[name] = NamedCache(name, sql, database, made_by=made_by, why="not planned yet")
            self._again.at_once(name)
            self._adopted.add(name)
            self._schedule()

    @property
    def unplanned(self) -> int:
        """How many caches that were taken over at the start are neither planned nor refused yet."""
        return len(self._adopted)

    def automatic(self) -> list[NamedCache]:
        """The caches that automatic caching has made."""
        return [cache for cache in self.caches.values() if cache.made_by.origin is Origin.AUTOMATIC]

    def _cached(self, normalised: str, database: str, name: str = "") -> NamedCache | None:
        """The cache of this query, in the one spelling: that of the name, if there are several."""
        found = None
        for cache in self.caches.values():
            if cache.plan is not None and cache.plan.sql == normalised and cache.database == database:
                if name in ("", cache.name):
                    return cache
                found = found or cache
        return found

    def _made_up(self, prefix: str) -> str:
        return next(name for number in count(1) if (name := f"{prefix}{number}") not in self.caches)

    async def drop(self, name: str, *, only_automatic: bool = False, only_of: str = "") -> NamedCache:
        """Raises UnknownCache, with `only_automatic` also where automatic caching has not made it, with `only_of` where
        another account has; ConfigError."""
        async with self._changing:
            return await to_the_end(self._drop(name, only_automatic, only_of))

    async def _drop(self, name: str, only_automatic: bool, only_of: str) -> NamedCache:
        found = self.caches.get(name)
        if only_of and (found is None or found.made_by.account != only_of):
            raise UnknownCache(f"{name!r} is no cache of {only_of!r}")
        if not only_automatic:  # first: where the folder cannot be written to, nothing has changed
            await asyncio.to_thread(self.definitions.remove, name)
        cache = self.caches.get(name)
        if cache is None or (only_automatic and cache.made_by.origin is not Origin.AUTOMATIC):
            raise UnknownCache(f"cache {name!r} does not exist" if cache is None else f"{name!r} is not automatic")
        self._remove(cache)
        if not only_automatic:  # who makes the definition anew has it checked anew
            self.doubts.remove(cache.name, cache.plan.sql if cache.plan is not None else "", cache.database)
        return cache

    def distrust(self, cache: NamedCache, reason: str) -> None:
        """An answer of the cache was not MySQL's own: it passes through until it is planned more carefully. Caches
        that share its arrangements are checked anew."""
        plan, reader = cache.plan, cache.reader
        assert plan is not None and reader is not None and self.auditor is not None
        self._outdate()  # a plan that is being made may be of this query, and trust it
        before = self.doubts.about(plan.sql, cache.database)
        every_need = cache.needs_doubted or (before is not None and before.every_need)
        doubt = Doubt(
            cache.name, plan.sql, cache.database, next_level(plan.mode, before), reason, every_need=every_need
        )
        self.doubts.put(doubt)
        for other in self.caches.values():
            shares = other.reader is not None and not set(other.reader.nodes).isdisjoint(reader.nodes)
            if other is not cache and shares and other.reader is not None:
                other.reader.clear()
                self.auditor.begin(other, anew=True)
        self._uninstall(cache)
        cache.state, cache.why = "rebuilding", doubt.told
        self._again.at_once(cache.name)
        self._want()
        self._schedule()

    def _remove(self, cache: NamedCache) -> None:
        del self.caches[cache.name]
        self.gone.add(cache)
        cache.dropped = True
        self._uninstall(cache)
        self._want()

    def get(self, name: str) -> NamedCache:
        cache = self.caches.get(name)
        if cache is None:
            known = ", ".join(sorted(self.caches)[:8]) or "none"
            raise UnknownCache(f"cache {name!r} does not exist, there are: {known}")
        return cache

    def _install(self, cache: NamedCache, planned: Planned) -> None:
        """Raises UnsupportedQuery where no reader can be built. Whatever goes wrong, all is as it was."""
        with refusing():
            reader = self._engine.install(planned.plan)
        try:
            self._equip(cache, planned, reader)
        except BaseException:
            cache.reader = reader
            self._uninstall(cache)
            raise

    def _equip(self, cache: NamedCache, planned: Planned, reader: ReaderNode) -> None:
        output = planned.plan.reader.output
        held = carried(column.type for column in output) if planned.plan.mode.value == "maintain" else None
        cache.encoding = Encoding(reader, planned.columns, held, self._pump.formats)
        reader.joins = self._pump.joins
        cache.plan, cache.reader = planned.plan, reader
        cache.binder = KeyBinder(planned.plan, reader)
        cache.relations, cache.needs = planned.relations, planned.needs
        cache.names = names_of(cache.relations)
        doubt = self.doubts.about(planned.plan.sql, cache.database)
        cache.state, cache.why = "ready", doubt.told if doubt is not None else ""
        if self.auditor is not None:
            self.auditor.begin(cache)
        cache.generation += 1
        self._matcher.add(planned.plan, cache.name, planned.fingerprint, planned.outline)
        self._want()

    def _uninstall(self, cache: NamedCache) -> None:
        if cache.reader is not None:
            self._matcher.remove(cache.name)
            if self.auditor is not None:
                self.auditor.end(cache)
            self._pump.handle(self._engine.remove(cache.reader))
        cache.reader = cache.binder = None
        cache.generation += 1

    def _want(self) -> None:
        """Tells the stream which columns the graph reads now. While caches are taken out, they read some that may be no
        more: it is called again when that is done."""
        if self._leaving:
            return
        wanted = self._engine.graph.wanted()
        for name, (table, columns) in wanted.items():
            if self._wanted.get(name) != (table, columns):
                self._stream.want(table, columns)
        for name in self._wanted.keys() - wanted.keys():
            self._stream.unwant(name)
        self._wanted = wanted

    # -- after DDL ---------------------------------------------------------------------------------------------------

    def schema_changed(self, tables: frozenset[str] | None) -> None:
        """A DDL statement was processed on these tables (`schema.*`: a whole schema; None: any table). Their caches
        pass reads until they are planned again. They are closed now, in one short step, and taken out a few at a time.
        """
        self._outdate()
        changed = None if tables is None else frozenset(name.lower() for name in tables)
        self._changes.add(changed)
        for cache in self.caches.values():
            if changed is None or not cache.names or not cache.names.isdisjoint(changed):
                self._leaving.add(cache)
                cache.state, cache.why = "rebuilding", "the schema of its tables has changed"
                self._again.at_once(cache.name)
        if self._leaving.close():
            self._matcher.changed()
            for name in list(self._wanted):
                schema, _, _ = name.lower().partition(".")
                if changed is None or not changed.isdisjoint((name.lower(), f"{schema}.*")):
                    self._stream.unwant(name)
                    del self._wanted[name]
        if self._again:
            self._schedule()

    def _outdate(self) -> None:
        """A plan that is being made is made again, of what the source's schema is now."""
        self._schema_changes += 1
        if self._kept is not None:
            self._kept.forget()

    def _taken_out(self, cache: NamedCache) -> None:
        self._matcher.remove(cache.name)
        if self.auditor is not None:
            self.auditor.end(cache)

    def check_anew(self) -> None:
        """Called after a restart of the server, which may have been written to without a binlog. Held answers stay, and
        the next answers of each cache are compared."""
        self._outdate()
        if self.auditor is not None:
            for cache in self.caches.values():
                if cache.reader is not None:
                    self.auditor.begin(cache, anew=True)

    def written_unlogged(self, account: str, *, cause: str, schema: bool) -> None:
        """What no change stream will tell was written: everything becomes a hole."""
        if (account, cause) not in self._unlogged:
            self._unlogged.add((account, cause))
            log.warning("unlogged_writes", account=account, cause=cause, then="everything held is forgotten")
        self._pump.on_stream(Ddl(None, f"a session wrote what is in no binlog: {cause}", None, schema))
        if schema:
            self.schema_changed(None)

    def _schedule(self) -> None:
        if self._rebuilding is None or self._rebuilding.done():
            self._rebuilding = asyncio.get_running_loop().create_task(self._rebuild())

    async def _rebuild(self) -> None:
        """Plans again all caches that are due, until none is or the source does not answer (then `retry`
        starts again)."""
        while self._again:
            async with self._changing:
                name = self._again.take()
                cache = self.caches.get(name)
                if cache is None or cache.reader is not None:
                    self._again.done(name)
                    self._adopted.discard(name)
                    continue
                if not await self._plan_again(cache):
                    return
            await asyncio.sleep(0)  # to install one and to begin with the next are two steps

    async def _plan_again(self, cache: NamedCache) -> bool:
        """Installs the cache, or says why there is none. False: the source does not answer."""
        name, before = cache.name, self._changes.count
        try:
            planned = await self.plan(cache.sql, cache.database, self._kept)
            if name in self._again or cache.dropped:
                return True
            self._install(cache, planned)
            self._again.done(name)
        except SourceDown as error:
            cache.why = error.message
            self._again.at_once(name)
            return False
        except Exception as error:  # one that ended this task would keep all others from being planned
            names = names_of(error.relations) if isinstance(error, UpwellError) else frozenset[str]()
            if name in self._again:  # its tables have changed meanwhile: what was seen may be half of it
                return True
            if self._changes.concern(names, before):
                self._again.at_once(name)
                return True
            why = error.message if isinstance(error, UpwellError) else f"an internal error: {error!r}"
            cache.state, cache.why = "refused", why
            cache.names = names  # those of the plan before may not be what its text means now
            if isinstance(error, FOR_GOOD) and getattr(error, "code", "") != TOO_COSTLY:
                self._again.done(name)
                log.warning("cache_refused", cache=name, why=why)
            else:
                again = f"in {self._again.later(name):.0f} s"
                log.warning(
                    "cache_not_planned", cache=name, why=why, again=again, exc_info=not isinstance(error, UpwellError)
                )
        self._adopted.discard(name)
        return True

    @property
    def rebuilding(self) -> bool:
        """Whether there are caches that are to be planned again now, or are being planned."""
        return bool(self._again.due) or not (self._rebuilding is None or self._rebuilding.done())

    def retry(self) -> None:
        """To be called now and then: caches that could not be planned because of what may have passed are planned."""
        if self._again.ripen():
            self._schedule()

    async def settled(self) -> None:
        """Waits until no cache is being planned."""
        if self._rebuilding is not None:
            await asyncio.shield(self._rebuilding)

    async def close(self) -> None:
        if self._rebuilding is not None:
            self._rebuilding.cancel()
            await asyncio.gather(self._rebuilding, return_exceptions=True)
        await self._leaving.stop()
        await self.planning.close()
        await asyncio.to_thread(self.doubts.close)
