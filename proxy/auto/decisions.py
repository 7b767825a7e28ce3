"""Automatic caching: a query that MySQL is asked again and again gets a cache, and loses it if the cache does not pay.

`tick` decides from counts alone: how often a shape was passed lately, and MySQL's time for it
(`proxy/auto/passed_reads.py`); hits, misses and bytes of the automatic caches. Caches that people have made are never
touched. Automatic ones come back after a restart (`proxy/catalog/automatic_file.py`), and are judged as new ones.

Counts of the last minute, or of the last ten, are weighed by age: the weight falls to 1/e in that time, so no edge of a
window decides. Nothing flaps: a cache is judged after `trial` seconds at the earliest, and a query that does not pay is
barred for a time that doubles with each failure. A cache that nobody reads costs next to nothing. It stays until its
place or its memory is needed, and may be made again at once.

If the event loop is short of time (`proxy/loop/loop_load.py`), its time counts beside MySQL's. A cache's misses and
long derivations are measured, and its hits must save more. Until they do, fills have a small budget
(`proxy/auto/fill_budget.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp

import structlog

from planner.text.hints import without_mode
from proxy.auto.barred import Barred
from proxy.auto.cost_comparison import TwoWays
from proxy.auto.fill_budget import SAVED_US, FillBudget
from proxy.auto.made_cache import LEAST_HITS, MINUTE, OF_WRITES, Caches, Made
from proxy.auto.passed_reads import NO_SOURCE, Judgement, ProxiedQueries, ProxiedQuery
from proxy.auto.policy import as_read, differing, useless
from proxy.auto.write_rates import WriteRates
from proxy.loop.loop_load import LoopLoad
from proxy.port.made_by import MadeBy, Origin
from proxy.settings.automatic import TWICE, Policy
from sqltypes.errors import UnknownCache, UpwellError

log = structlog.get_logger("upwell.automatic")

LATELY = 600.0  # seconds: reads of this time make a cache
NOW = 1.0  # seconds: what is changed so often that it burdens a short loop shows in them
AT_MOST_BURDENED = 2  # looks: then a cache whose tables are changed too often is dropped
HARDLY = 1.0  # reads in the last minute: with fewer a cache is hardly read
PASSED_BY = 20.0  # reads of its shape in the last minute that MySQL has answered all the same
WORTH_MORE = 2.0  # times what a cache saves of MySQL's time: for a shape that takes so much it loses its place
ROOM_SHARE = 0.8  # of its memory: above it nothing is made, and what is dropped for memory is dropped down to it
AT_ONCE = 8  # shapes that one look plans, at most
AT_ONCE_SHORT = 2  # where the loop is short
SHORT_FOR = 1.0  # seconds from one look at the loop to the next, at most
RISING = 1.5  # seconds after which it is known whether the loop is short for many statements that have begun to come
RISES_APART = 10.0  # from one such beginning to the next: where they come and go, nothing waits for that
LEAST_BUSY, LEAST_RATE = 0.5, 500.0  # of the loop, statements a second: so that it tells something what one takes
MOSTLY, PATIENCE = 0.5, 4.0  # where so much of the reads are hits, a cache is judged so many times later
REPEATED = 0.95
MOST_HELD = 20_000  # keys of a small table that are filled together; how many it has is an estimate
LATENESS = 3.0  # of a read's time so many times the loop's lateness may have been spent waiting for the loop


@dataclass(slots=True)
class _Looks:
    """Times of the last looks, and the one under way. `counted`: of the last at the caches."""

    last: float
    counted: float
    paid: float
    statements: int = 0  # until `paid`
    short: float = float("-inf")  # when the loop was short of time, last
    many: bool = False  # statements came with the last look at the loop
    rising: float = float("-inf")  # when so many began to come
    task: asyncio.Task[None] | None = None


@dataclass
class AutoCache:
    """Makes and drops caches.

    Invariants:
    1. `made` has the automatic caches that exist, by name, as of the last look.
    2. At most `policy.most` exist, and none is made while they hold more than ROOM_SHARE of `policy.memory`.
    """

    policy: Policy
    proxied: ProxiedQueries
    caches: Caches
    clock: Callable[[], float]
    usable: Callable[[], bool] = lambda: True  # False: reads are not answered now, which says nothing of caches
    budget: FillBudget | None = None
    load: LoopLoad | None = None
    statements: Callable[[], int] = lambda: 0  # that were answered until now
    late: Callable[[], float] = lambda: 0.0  # seconds that the loop is late, lately
    writes: WriteRates = field(default_factory=lambda: WriteRates({}))
    counters: dict[str, int] = field(
        default_factory=lambda: {"automatic_caches_made": 0, "automatic_caches_dropped": 0}
    )

    def __post_init__(self) -> None:
        self.made: dict[str, Made] = {}  # the caches that there are, by name
        self._ways = TwoWays()
        self._barred = Barred(self.policy)
        self._looks = _Looks(self.clock(), self.clock(), self.clock())

    # -- when --------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """To be called now and then: pays the budget, and begins a look when one is due and none is under way."""
        self._pay()
        task = self._looks.task
        if task is not None and task.done():
            self._looks.task = None
            task.result()
        if self._looks.task is None and self.clock() - self._looks.last >= self.policy.every:
            self._looks.task = asyncio.get_running_loop().create_task(self.look())

    def _pay(self) -> None:
        now, looks = self.clock(), self._looks
        seconds, looks.paid = now - looks.paid, now
        if self.load is not None:
            self.load.tick()
            statements, looks.statements = self.statements() - looks.statements, self.statements()
            many = statements > LEAST_RATE * seconds  # else it is others who leave the loop no core
            if self.load.short and many:
                looks.short = now
            if many and not looks.many and now - looks.rising >= RISES_APART:
                looks.rising = now
            looks.many = many
            if self.load.busy > LEAST_BUSY and many:
                self._ways.note(now, seconds, self.load.used, statements, caching=bool(self.made))
        if self.budget is None:
            return
        hits: dict[str, int] = {}
        for cache in self.caches.automatic():
            made = self.made.get(cache.name)
            if made is not None:
                hits[cache.name], made.paid_hits = max(0, cache.hits - made.paid_hits), cache.hits
        self.budget.tick(seconds, self.load.idle if self.load is not None else 1.0, hits)

    def take_back(self, name: str, entry: ProxiedQuery, direct_us: float, worth: float, tables: frozenset[str]) -> None:
        """A cache of an earlier run has been taken over. `direct_us`, `worth`, `tables`: as `Made` had them."""
        now = self.clock()
        self.made[name] = Made(entry, now, direct_us, worth=worth, read_at=now, woke=now, tables=tables)
        if self.budget is not None:
            self.budget.open(name, worth)

    @property
    def was_short(self) -> bool:
        """Whether the loop was short of time in the last minute, whose reads count."""
        return self.clock() - self._looks.short < MINUTE

    @property
    def short(self) -> bool:
        """Whether the loop is short of time for many statements."""
        return self.clock() - self._looks.short < SHORT_FOR

    @property
    def looking(self) -> bool:
        """Whether a look that was begun by `tick` is under way."""
        return self._looks.task is not None and not self._looks.task.done()

    async def close(self) -> None:
        """Ends the look under way."""
        if self._looks.task is not None:
            self._looks.task.cancel()
            await asyncio.gather(self._looks.task, return_exceptions=True)

    async def look(self) -> None:
        """Counts, drops caches that do not pay, and makes caches that would."""
        now, looks = self.clock(), self._looks
        passed = now - looks.last
        decay, decay_counts = exp(-passed / MINUTE), exp((looks.counted - now) / MINUTE)
        looks.last = now
        if not self.usable():
            return  # that nothing is asked now is nobody's choice
        for entry in self.proxied:
            come = entry.able - entry.marked
            entry.recent = entry.recent * decay + come
            entry.lately = entry.lately * exp(-passed / LATELY) + come
            entry.marked = entry.able
            entry.keyed, entry.repeated = entry.keyed * decay, entry.repeated * decay
        await self.writes.look(decay, exp(-passed / NOW))
        await self._drop_burdens(exp(-passed / NOW))
        if now - looks.counted >= self.policy.count_every:
            looks.counted = now
            await self._count(now, decay_counts)
            for name, why in self._losing(now):
                await self._drop(name, why)
        if self.short and (why := self._ways.worse(now)):
            await self._step_back(why)
        await self._make(now)

    async def _drop_burdens(self, decay: float) -> None:
        """Drops, while the loop is short of time, caches that cost it more to keep current than their hits save. A load
        that now also writes shows that within two looks. The queries are not barred: under such a load their caches are
        not made again. `decay`: of the counts of a second."""
        for cache in self.caches.automatic():
            made = self.made.get(cache.name)
            if made is None:
                continue
            writes = self.writes.of_now(made.tables)
            made.look(cache.hits, writes, decay)
            if self.short and made.burdened >= AT_MOST_BURDENED and not made.saves_much:
                why = (
                    f"its tables are changed too often: {writes:.0f} statements a second, for {made.hits_now:.0f} hits"
                )
                await self._drop(cache.name, why, bar=False)

    async def _step_back(self, why: str) -> None:
        """Drops what does not save so much of MySQL's time that it is kept all the same."""
        for name, made in list(self.made.items()):
            if not made.saves_much:
                await self._drop(name, why)
        self._ways.changed(self.clock())

    # -- what there is -----------------------------------------------------------------------------------------------

    async def _count(self, now: float, decay: float) -> None:
        """Takes the counts of the caches. One that is gone was dropped by somebody, or made his own."""
        there: dict[str, Made] = {}
        for cache in self.caches.automatic():
            info = cache.info()
            made = self.made.get(info.name)
            if made is not None:
                made.count(info, decay, now)
                there[info.name] = made
            await asyncio.sleep(0)  # sizes are sums over some hundred keys: others come between them
        for name in self.made.keys() - there.keys():
            self._barred.add(self.made[name], "somebody has dropped its cache", now, self.policy.longest_bar)
            self._close_account(name)
        self.made = there

    def _losing(self, now: float) -> list[tuple[str, str]]:
        """Names of the caches to be dropped, with the reason."""
        losing = {name: why for name, made in self.made.items() if (why := self._why_drop(made, now))}
        kept = {name: made for name, made in self.made.items() if name not in losing}
        held = sum(made.bytes for made in kept.values())
        if held > self.policy.memory:
            for name, made in sorted(kept.items(), key=lambda item: item[1].saved_us / max(1, item[1].bytes)):
                if held <= self.policy.memory * ROOM_SHARE:
                    break
                losing[name] = f"automatic caches hold too much; this one saves least for its {made.bytes} bytes"
                held -= made.bytes
        return list(losing.items())

    def _why_drop(self, made: Made, now: float) -> str:
        """Why the cache is not kept, "" if it is."""
        if made.refused:
            return f"it can be cached no longer: {made.refused}"
        age = now - made.woke
        short_trial = self.policy.short_trial * (1 if made.hits < made.reads * MOSTLY else PATIENCE)
        if self.short and made.saved_lately_us < 0 and age >= short_trial:
            return (
                f"it costs more of Upwell's scarce time than it saves: in the last minute {made.hits:.0f} hits,"
                f" {made.work_us / 1000:.0f} ms for misses and long derivations, {made.left:.0f} reads left to MySQL"
            )
        if age < self.policy.trial:
            return ""
        passed = made.passed + (made.entry.recent if made.entry.kept else 0.0)
        if passed >= PASSED_BY and made.reads < passed * LEAST_HITS:
            why = f", for: {made.passed_why}" if made.passed_why else ""
            return f"its reads pass it by: {passed:.0f} in the last minute{why}"
        if not made.is_paying and (made.seen_reads >= self.policy.some_reads or age >= self.policy.seldom):
            judged = made.judged
            return (
                f"it does not pay: {judged.hits:.0f} of the last {judged.hits + judged.misses:.0f} reads were hits, a"
                f" miss takes {made.miss_us:.0f} us, MySQL alone {made.direct_us:.0f} us"
            )
        return ""

    async def _drop(self, name: str, why: str, *, bar: bool = True) -> None:
        made = self.made.pop(name)
        self._close_account(name)
        self._ways.changed(self.clock())
        if bar:
            self._barred.add(made, why, self.clock())
        try:
            await self.caches.drop_automatic(name)
        except UnknownCache:
            return  # somebody was quicker
        self.counters["automatic_caches_dropped"] += 1
        log.info("automatic_cache_dropped", cache=name, query=made.entry.shape, why=why)

    def _close_account(self, name: str) -> None:
        if self.budget is not None:
            self.budget.close(name)

    # -- what there might be -----------------------------------------------------------------------------------------

    async def _make(self, now: float) -> None:
        """Makes caches for the shapes that keep MySQL busiest, a few at a time: each is planned with MySQL's help. None
        while the loop is short, and those that there are have cost more than they save."""
        if now - self._looks.rising < RISING and not self.was_short:
            return  # a flood has begun: whether it leaves the loop time is not known yet
        if self.was_short:
            if not (self.made or self._ways.is_known(now)):
                return
            if sum(made.saved_lately_us for made in self.made.values()) < 0:
                return
        planned, most = 0, AT_ONCE_SHORT if self.was_short else AT_ONCE
        for entry in self._wanting(now):
            if planned == most:
                return
            if not self._is_worth_planning(entry):
                continue
            if not await self._room(now, entry.recent * entry.p50_us):
                return
            planned += 1
            try:
                await self._make_one(entry, now)
            except NO_SOURCE:
                return
            except UpwellError as error:
                log.warning("automatic_cache_failed", query=entry.shape, why=error.message)
                self._barred.add(Made(entry, now, 0.0), error.message, self.clock())

    def _is_worth_planning(self, entry: ProxiedQuery) -> bool:
        """Whether nothing that is known of the shape keeps it from a cache."""
        known = entry.judgement
        if self.proxied.is_refused(entry) or useless(entry, entry.needs):
            return False
        return not self.was_short or known is None or self._pays_though_short(entry, known)

    async def _make_one(self, entry: ProxiedQuery, now: float) -> None:
        """Makes a cache for the shape if it can be cached and pays. Raises what NO_SOURCE has, and UpwellError."""
        best = await self._best(entry)
        judgement = await self.proxied.judged(best)
        if not judgement.cacheable or self.proxied.cached_as(best) or useless(entry, judgement.needs):
            return
        if not self.was_short or self._pays_though_short(entry, judgement):
            hold = judgement.small and not self._comes_again(entry)
            await self._create(entry, best, now, judgement.tables, hold=hold)

    def _comes_again(self, entry: ProxiedQuery) -> bool:
        """Whether nearly each read asks for a key that was asked for lately: then few keys are to be filled, while time
        is short. If keys are not known, they may be."""
        return entry.keyed < entry.recent / 2 or entry.repeated >= entry.keyed * REPEATED

    def _pays_though_short(self, entry: ProxiedQuery, judgement: Judgement) -> bool:
        """Whether a cache is worth its cost to a loop that is short of time: its keys are few, or are filled together
        (a small table), and its tables do not change too often."""
        return (self._comes_again(entry) or judgement.small) and not self._is_written(entry, judgement)

    def _is_written(self, entry: ProxiedQuery, judgement: Judgement) -> bool:
        """Whether its tables are changed so often that the changes take more of the loop than hits save."""
        return self.writes.of(judgement.tables) > OF_WRITES * entry.recent

    async def _best(self, entry: ProxiedQuery) -> ProxiedQuery:
        """The shape that serves most sessions. A hint for a sql_mode or collation on which the answers do not depend is
        left out. If the sessions cannot use the shape because of theirs, a hint that sets these is added. Raises the
        errors of NO_SOURCE."""
        found = without_mode(entry.shape)
        if found is None:
            judgement = await self.proxied.judged(entry)
            return self.proxied.entry(as_read(entry), entry.database) if useless(entry, judgement.needs) else entry
        shape, modes, collation = found
        plain = self.proxied.entry(shape, entry.database)
        judgement = await self.proxied.judged(plain)
        return plain if judgement.cacheable and judgement.needs.isdisjoint(differing(modes, collation)) else entry

    # -- what it has decided -----------------------------------------------------------------------------------------

    def why_not(self, entry: ProxiedQuery) -> str:
        """Why a shape that could be cached has no cache."""
        now, policy = self.clock(), self.policy
        bar = self._barred.at((entry.shape, entry.database), now)
        if bar is not None:
            return f"not again for {bar.until - now:.0f} s: {bar.why}"
        reads = round(entry.lately + entry.able - entry.marked)
        needed = policy.needed(entry.p50_us, idle=self._has_time)
        if reads < needed:
            return f"not worth it: {reads} reads in the last ten minutes, {needed} are needed"
        known = entry.judgement
        if why := useless(entry, entry.needs):
            return f"not for the sessions that read it: {why}"
        if self.was_short and known is not None and not self._pays_though_short(entry, known):
            if self._is_written(entry, known):
                return "not now: Upwell is short of time, and the tables are changed too often for that"
            return f"not now: Upwell is short of time, and {1 - entry.repeated / entry.keyed:.0%} of the reads ask anew"
        if not self._has_room():
            return "not now: automatic caches have their number, or their memory"
        return "not yet: it is looked at each second"

    def decided(self, name: str) -> str:
        """What is to become of a cache, "" if it is no automatic one."""
        made, now = self.made.get(name), self.clock()
        if made is None:
            return ""
        figures = f"{made.hits:.0f} of {made.reads:.0f} reads in the last minute were hits"
        if now - made.woke < self.policy.trial:
            return f"on trial for {self.policy.trial - (now - made.woke):.0f} s more: {figures}"
        if made.reads < HARDLY:
            return "kept until its place is needed: it is hardly read"
        return f"kept: {figures}, they save {made.saved_us / 1000:.0f} ms of MySQL's time"

    def _wanting(self, now: float) -> list[ProxiedQuery]:
        """Shapes that are asked often and long enough, the busiest first."""
        policy = self.policy
        made = {(made.entry.shape, made.entry.database) for made in self.made.values()}
        found = []
        idle = self._has_time
        for entry in self.proxied:
            if round(entry.lately) < min(policy.few_reads, TWICE):
                continue
            if round(entry.lately) < policy.needed(entry.p50_us, idle=idle):
                continue
            shape = entry.shape, entry.database
            if shape not in made and self._barred.at(shape, now) is None:
                found.append(entry)
        return sorted(found, key=lambda entry: -entry.lately * entry.p50_us)

    @property
    def _has_time(self) -> bool:
        return self.load is None or self.load.busy < LEAST_BUSY

    async def _room(self, now: float, busy_us: float) -> bool:
        """Whether there is room for one more, for a shape that takes so much of MySQL's time in a minute. Where there
        is not, caches make it that save much less, those first that save least."""
        while not self._has_room():
            less = [
                (made.saved_us, name)
                for name, made in self.made.items()
                if now - made.at >= MINUTE and made.saved_us * WORTH_MORE < busy_us
            ]
            if not less:
                return False
            await self._drop(min(less)[1], "it saves little, and its place is needed", bar=False)
        return True

    def _has_room(self) -> bool:
        held = sum(made.bytes for made in self.made.values())
        return len(self.made) < self.policy.most and held <= self.policy.memory * ROOM_SHARE

    async def _create(
        self, entry: ProxiedQuery, best: ProxiedQuery, now: float, tables: frozenset[str], *, hold: bool
    ) -> None:
        """Makes a cache of the shape `best` for the reads of `entry`. `hold`: all its keys are filled now, as its reads
        would ask for one after the other."""
        why = f"asked {entry.lately:.0f} times in ten minutes, MySQL took {entry.p50_us / 1000:.2f} ms each time"
        info = await self.caches.create("", best.shape, entry.database, MadeBy(Origin.AUTOMATIC, reason=why))
        if info.existed:
            return  # somebody was quicker
        of = entry if without_mode(best.shape) is None else best  # other sessions may need another one of `entry`
        worth = SAVED_US + max(0.0, entry.p50_us - LATENESS * self.late() * 1e6)
        self.made[info.name] = Made(of, now, entry.p50_us, worth=worth, read_at=now, woke=now, tables=tables)
        if self.budget is not None:
            self.budget.open(info.name, worth)
        if hold:
            self.caches.hold_all(info.name, MOST_HELD)
        self._ways.changed(now)
        entry.recent = entry.lately = 0.0  # those were the reads for which it was made
        self.counters["automatic_caches_made"] += 1
        log.info("automatic_cache_made", cache=info.name, query=best.shape, why=why)
