"""The caches that exist. Makes a running reader from a SELECT, again after every DDL statement, and after a restart.

MySQL checks a plan before it serves. MySQL prepares the client's own text, and the plan must give the same columns
(names, types, digits, signs). If it does not, the query is cached in evict mode, whose answers come from the client's
own text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container
from itertools import count

import structlog

from dataflow.engine import Engine
from dataflow.losses import Losses
from dataflow.messages import Ddl
from planner.fill.whole import is_small
from planner.matcher import QueryMatcher
from planner.text.clock_literals import with_parameters
from proxy.auto.passed_reads import NO_SOURCE, Judgement
from proxy.cache.named_cache import NamedCache, names_of
from proxy.cache.planned import Planned
from proxy.catalog.distrusted import Doubt, Doubts, next_level
from proxy.catalog.installed import Installed, StreamWants
from proxy.catalog.limits import CacheLimits, Definitions, Forgotten, to_the_end
from proxy.catalog.replanning import PlannedAgain, SchemaChanges
from proxy.catalog.retired_counts import Gone
from proxy.catalog.text_planner import TextPlanner
from proxy.checking.earning import Earning
from proxy.planning.process import TOO_COSTLY
from proxy.port.made_by import BY_GRPC, MadeBy, Origin
from proxy.port.reasons import PassedReads
from proxy.pump.pump import Pump
from proxy.settings.quantities import parse_cache_name
from proxy.source.kept_schema import KeptSchema, Schema
from proxy.source.source import Upqueries
from sqltypes.errors import (
    CacheExists,
    ParseError,
    SourceDown,
    UnknownCache,
    UnknownName,
    UnsupportedQuery,
    UpwellError,
)

log = structlog.get_logger("upwell.caches")

FOR_GOOD = (UnsupportedQuery, UnknownName, ParseError)  # until the schema changes
DEFINED_ANEW = 100  # plans of one query that DDL statements make old, one behind the other


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
        earning: Earning | None = None,
        *,
        definitions: Definitions | None = None,
        kept: KeptSchema | None = None,
        clockless: str = "",
        unnamed: str = "",
    ) -> None:
        """`earning`: the caches whose answers are compared; without it none are. `definitions`: where those are kept
        that survive a restart. `kept`: what the schema was a moment ago, where the stream tells of each change of it.
        `clockless`: why no text with a function of the clock can be a hit; "" if one can. `unnamed`: the database of
        names without one, where the session has selected none."""
        self.caches: dict[str, NamedCache] = {}
        self.texts = TextPlanner(executor, schema, doubts, kept)
        self.installed = Installed(engine, pump, stream, matcher, doubts, earning or Earning())
        self.doubts = doubts
        self.limits = limits or CacheLimits()
        self.gone = Gone()
        self._pump = pump
        self._definitions = definitions or Forgotten()
        self._clockless, self._unnamed = clockless, unnamed
        self._changing = asyncio.Lock()
        self._unlogged: set[tuple[str, str]] = set()  # accounts of whose unlogged writes it was told, with the cause
        # DDL events, and losses of trust: a plan made across one is made again.
        self._changes = SchemaChanges()
        self._again = PlannedAgain()
        self._adopted: set[str] = set()  # taken over at the start, and not planned yet
        self._rebuilding: asyncio.Task[None] | None = None

    # -- planning ----------------------------------------------------------------------------------------------------

    async def plan(self, sql: str, database: str, *, kept: bool = False) -> Planned:
        """Plans a SELECT against the source as it is now, or with `kept` as it was a moment ago. Raises as
        `TextPlanner.plan`.

        If a DDL event comes while the plan is made, the reflected schema may or may not contain it, and there is no
        cache yet for the event to reach. So the plan is made again. A later event finds the cache. A change that is
        found before its event is told to the caches as if the event had come.
        """
        for _ in range(DEFINED_ANEW):
            before = self._changes.count
            planned = await self.texts.plan(sql, database, kept=kept)
            await self.installed.leaving.gone()  # nothing is installed beside caches of tables as they were
            if before == self._changes.count:
                outdated = self.installed.outdated(planned.plan)
                if not outdated:
                    return planned
                self.schema_changed(outdated)
        raise SourceDown("the source defines the tables of this query anew all the time")

    async def judge(self, sql: str, database: str) -> Judgement:
        """Whether the query could be cached, and how or why not. Raises SourceDown, Overloaded, DeadlinePassed."""
        schema = self._changes.count
        if self._clockless and with_parameters(sql) != sql:
            return Judgement(False, self._clockless, schema)
        try:
            planned = await self.plan(sql, database or self._unnamed, kept=True)
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
        return judgement.schema == self._changes.count

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
            planned = await self.plan(sql, database, kept=made_by.origin is Origin.AUTOMATIC)
            schema = self._changes.count
            cache = self._cached(planned.plan.sql, database, name)
            if cache is not None:
                if cache.reader is None:  # refused when it was planned last, or not planned yet
                    self.installed.install(cache, planned)
                is_kept = made_by.origin is Origin.AUTOMATIC or cache.made_by.origin is not Origin.AUTOMATIC
                if name in ("", cache.name):
                    if not is_kept:
                        self.limits.check_account(made_by, self.caches.values())
                        await to_the_end(self._keep_as(cache, made_by, sql))
                    return cache, True
            check_name(name)
            name = name or made_up("auto" if made_by.origin is Origin.AUTOMATIC else "q", self.caches)
            if name in self.caches:
                raise CacheExists(f"cache {name!r} exists with another query")
            self.limits.check(made_by, self.caches.values())
            before = self.gone.of(name)
            passed = PassedReads(before.passed)
            losses = Losses(before.losses)
            new = NamedCache(name, sql, database, made_by=made_by, before=before[:2], passed=passed, losses=losses)
            await to_the_end(self._make(new, planned, schema))
            return new, cache is not None

    async def _keep_as(self, cache: NamedCache, made_by: MadeBy, sql: str) -> None:
        """An automatic cache becomes somebody's own."""
        await asyncio.to_thread(self._definitions.put, cache.name, sql, cache.database, made_by)
        cache.made_by = made_by

    async def _make(self, new: NamedCache, planned: Planned, schema: int) -> None:
        """Writes the definition, then installs the cache. `schema`: of which count of changes the plan is."""
        kept = new.made_by.origin is not Origin.AUTOMATIC
        if kept:
            await asyncio.to_thread(self._definitions.put, new.name, new.sql, new.database, new.made_by)
        try:
            if schema != self._changes.count:  # while the disk took its time
                planned = await self.plan(new.sql, new.database)
            cache = self._cached(planned.plan.sql, new.database)
            if cache is not None and cache.made_by.origin is Origin.AUTOMATIC:
                self._remove(cache)  # its asker's name for it counts
            self.caches[new.name] = new
            self.installed.install(new, planned)
        except Exception:
            self.caches.pop(new.name, None)
            self.installed.uninstall(new)
            if kept:
                await asyncio.to_thread(self._definitions.remove, new.name)
            raise

    async def _planned_again(self, cache: NamedCache | None) -> None:
        """One that could not be planned before may be planned now: then it is known whether its query is another."""
        if cache is not None and cache.reader is None:
            try:
                planned = await self.plan(cache.sql, cache.database)
            except UpwellError as error:
                cache.why = error.message
            else:
                self.installed.install(cache, planned)

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

    async def drop(self, name: str, *, only_automatic: bool = False, only_of: str = "") -> NamedCache:
        """Raises UnknownCache, with `only_automatic` also where automatic caching has not made it, with `only_of` where
        another account has; ConfigError."""
        async with self._changing:
            return await to_the_end(self._drop(name, only_automatic, only_of))

    async def quiet(self) -> None:
        """Returns when no cache is being made or dropped that was begun before."""
        async with self._changing:
            pass

    async def _drop(self, name: str, only_automatic: bool, only_of: str) -> NamedCache:
        found = self.caches.get(name)
        if only_of and (found is None or found.made_by.account != only_of):
            raise UnknownCache(f"{name!r} is no cache of {only_of!r}")
        if not only_automatic:  # first: where the folder cannot be written to, nothing has changed
            await asyncio.to_thread(self._definitions.remove, name)
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
        assert plan is not None and reader is not None
        self._outdate()  # a plan that is being made may be of this query, and trust it
        self.installed.doubt()
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
                self.installed.earning.begin(other, anew=True)
        self.installed.uninstall(cache)
        cache.state, cache.why = "rebuilding", doubt.told
        self._again.at_once(cache.name)
        self.installed.want()
        self._schedule()

    def distrusted_by_another(self, doubt: Doubt) -> None:
        """As `distrust`, where another process that serves the same caches has found an answer to be wrong."""
        before = self.doubts.about(doubt.sql, doubt.database)
        if before is not None and before.level >= doubt.level:
            return
        for cache in self.caches.values():
            plan = cache.plan if cache.reader is not None else None
            if plan is not None and (plan.sql, cache.database) == (doubt.sql, doubt.database):
                self.distrust(cache, doubt.reason)
                return
        self.doubts.put(doubt)  # counts as soon as a plan is made

    def _remove(self, cache: NamedCache) -> None:
        del self.caches[cache.name]
        self.gone.add(cache)
        cache.dropped = True
        self.installed.uninstall(cache)
        self.installed.want()

    def get(self, name: str) -> NamedCache:
        cache = self.caches.get(name)
        if cache is None:
            known = ", ".join(sorted(self.caches)[:8]) or "none"
            raise UnknownCache(f"cache {name!r} does not exist, there are: {known}")
        return cache

    # -- after DDL ---------------------------------------------------------------------------------------------------

    def schema_changed(self, tables: frozenset[str] | None) -> None:
        """A DDL statement was processed on these tables (`schema.*`: a whole schema; None: any table). Their caches
        pass reads until they are planned again. They are closed now, in one short step, and taken out a few at a time.
        """
        changed = None if tables is None else frozenset(name.lower() for name in tables)
        self._outdate(changed)
        for cache in self.caches.values():
            if changed is None or not cache.names or not cache.names.isdisjoint(changed):
                self.installed.leaving.add(cache)
                cache.state, cache.why = "rebuilding", "the schema of its tables has changed"
                self._again.at_once(cache.name)
        self.installed.close(changed)
        if self._again:
            self._schedule()

    def _outdate(self, changed: frozenset[str] | None = frozenset()) -> None:
        """A plan that is being made is made again, of what the source's schema is now."""
        self._changes.add(changed)
        self.texts.forget()

    def check_anew(self) -> None:
        """Called after a restart of the server, which may have been written to without a binlog. Held answers stay, and
        the next answers of each cache are compared."""
        self._outdate()
        for cache in self.caches.values():
            if cache.reader is not None:
                self.installed.earning.begin(cache, anew=True)

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
            planned = await self.plan(cache.sql, cache.database, kept=True)
            if name in self._again or cache.dropped:
                return True
            self.installed.install(cache, planned)
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
        await self.installed.leaving.stop()
        await self.texts.close()
        await asyncio.to_thread(self.doubts.close)


def made_up(prefix: str, taken: Container[str]) -> str:
    """A name that no cache has."""
    return next(name for number in count(1) if (name := f"{prefix}{number}") not in taken)


def check_name(name: str) -> None:
    """ "": one is made up. Raises ParseError."""
    try:
        if name:
            parse_cache_name(name)
    except ValueError as error:
        raise ParseError(f"the cache's name is {name!r}: {error}") from None
