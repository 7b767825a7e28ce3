"""The passed reads: one entry for each query shape and database. It has how often, how slow, for whom, and whether the
shape can be cached.

Noting a read costs about a microsecond and touches one entry. The caller keeps that entry with the text: `entry` of a
prepared statement, `texts` if literals differ from text to text. Only `judged` finds out whether a shape can be cached:
it plans the query, and remembers the result until the schema changes. At most `most` shapes are kept. Beyond that, the
shapes that cost MySQL least go first, older ones sooner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from heapq import nsmallest
from itertools import islice
from math import exp2
from statistics import median
from time import time
from typing import Protocol

from planner.session.needs import BY_CODES, BYTES, COLLATION, OF_MODE, STRINGS
from planner.text.hints import SETTABLE
from planner.text.lift import lifted_of
from planner.text.scan import scan
from proxy.loop.recent import Recent
from proxy.loop.slices import in_slices
from proxy.port.reasons import NO_REASON, Reason, Why
from sqltypes.errors import DeadlinePassed, Overloaded, ParseError, SourceDown

AT_ONCE = 0.2  # seconds: what is found out so soon holds nobody up
MOST_SHAPES = 1000
LONGEST_SHAPE = 8192  # characters: with `MOST_SHAPES` of them the list stays below 10 MB
TEXTS_REMEMBERED = 1000
LATEST = 32  # times of which the median is
RECENT_KEYS = 8192  # of all shapes together
MOST_ACCOUNTS = 16  # of one shape; who comes after them does not see it among his own
FORGETTING = 600.0  # seconds in which what a shape has cost counts half
EACH = 16  # texts of one kind that are told apart one by one; then one in so many stands for all of them
LONGEST_TEXT = 1 << 16  # characters: a longer one has no shape
MOST_TOKENS = 800  # of a shape, a list of literals counted as one: it is found out in less than 5 ms
TOO_LONG = f"(a text of more than {LONGEST_SHAPE} characters, or more than {MOST_TOKENS} words)"
UNKNOWN: Mapping[str, str] = {}
"""In the place of the variables of a session."""
NO_NEEDS: frozenset[str] = frozenset()
BY_HINT = frozenset({COLLATION, BY_CODES, STRINGS, BYTES, *(OF_MODE + name for name in SETTABLE)})
"""Where one of these variables is another one, a text that sets it is looked for (`planner/text/hints.py`)."""
NO_SOURCE = (SourceDown, Overloaded, DeadlinePassed)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a shape can be cached. `reason`: of the refusal, or the mode that the cache would have. `schema`: the
    number of schema changes that it knows of. `normalised`: the query as the planner spells it. `needs`: the session
    variables on which its answers depend. `small`: as `planner.fill.whole.is_small`. `tables`: that it reads, by
    their qualified names."""

    cacheable: bool
    reason: str
    schema: int = 0
    normalised: str = ""
    needs: frozenset[str] = frozenset()
    small: bool = False
    tables: frozenset[str] = frozenset()


class Judge(Protocol):
    """Plans shapes. `proxy/catalog/catalog.py` is one."""

    async def judge(self, sql: str, database: str) -> Judgement:
        """Raises what NO_SOURCE has where it cannot be told now."""
        ...

    def is_current(self, judgement: Judgement) -> bool: ...

    def cached_as(self, judgement: Judgement, database: str) -> str:
        """The name of the cache that the shape has now, or ""."""
        ...


class ProxiedQuery:
    """One shape. Times in microseconds; `seen` in seconds since 1970.

    `recent`, `lately`: reads of the last minute, and of the last ten, as automatic caching weighs them.
    `needs`: the session variables on which its answers depend and which no hint sets; known once it was judged, at
    `judged_at` reads.
    `values`: the variables of the last session that could have had a hit. None: the same as where caches are filled.
    UNKNOWN: MySQL was not asked.
    """

    __slots__ = (
        "_latest", "_noted", "_owner", "able", "accounts", "count", "database", "judged_at", "judgement", "kept",
        "keyed", "lately", "marked", "needs", "recent", "repeated", "seen", "shape", "total_us", "unable", "values",
    )  # fmt: skip

    def __init__(self, owner: ProxiedQueries, shape: str, database: str) -> None:
        self._owner = owner
        self.shape = shape
        self.database = database
        self.count = 0
        self.able = 0  # of them, those of sessions that could have been given a hit
        self.unable = ""  # why the last one of the others could not
        self.total_us = 0.0
        self.seen = 0.0
        self.accounts: set[str] = set()
        self.judgement: Judgement | None = None
        self.kept = True  # in the list; a forgotten one comes back when it is noted again
        self.needs: frozenset[str] = frozenset()
        self.judged_at = 0
        self.values: Mapping[str, str] | None = None
        self.recent = self.lately = 0.0
        self.marked = 0  # `able` when they were last brought forward
        self.keyed = self.repeated = (
            0.0  # reads whose key is known, and those of them whose key came before; weighed so
        )
        self._latest = [0.0] * LATEST
        self._noted = 0

    def note(
        self,
        us: float,
        account: str,
        times: int = 1,
        unable: Why = NO_REASON,
        key: int = 0,
        values: Mapping[str, str] | None = None,
    ) -> Reason:
        """A read of this shape was passed through for the account, and MySQL took so long; it stands for so many.
        `unable`: why its session could not have been given a hit. `key`: of all its values; 0: not known. `values`: of
        the session's variables. Returns the reason that was counted."""
        if not self.kept:
            current = self._owner.again(self)
            if current is not self:
                return current.note(us, account, times, unable, key, values)
        owner = self._owner
        judgement = self.judgement
        refused = judgement is not None and not judgement.cacheable and owner.is_refused(self)
        reason = Reason.SHAPE if refused else unable.reason if unable else Reason.NOT_CACHED
        for tell in owner.noted:
            tell(self, us, times, reason, unable)
        owner.by_reason[reason] += 1  # those that it stands for were counted when they came
        self._latest[self._noted % LATEST] = us
        self._noted += 1
        self.count += times
        if unable:
            self.unable = unable
        else:
            self.able += times
            self.values = values
            if key:
                self.keyed += times
                if owner.recent.again(key):
                    self.repeated += times
        self.total_us += us * times
        self.seen = self._owner.clock()
        if account not in self.accounts and len(self.accounts) < MOST_ACCOUNTS:
            self.accounts.add(account)
        return reason

    @property
    def p50_us(self) -> float:
        """The median of the latest times; 0 while there are none."""
        return median(self._latest[: self._noted]) if self._noted else 0.0

    @property
    def is_whole(self) -> bool:
        """Whether no literal is left in it, by which texts could differ that are alike otherwise."""
        try:
            return not any(token.kind in ("number", "string", "hex", "bit") for token in scan(self.shape))
        except ParseError:
            return False

    def worth(self, now: float) -> float:
        """What it has cost MySQL, the older the less."""
        return self.total_us * exp2(min(0.0, self.seen - now) / FORGETTING)


class ProxiedTexts:
    """Texts of one database that differ in literals, which the caller does not look at. They may have several shapes:
    LIMIT 10 and LIMIT 20. Finding the shape takes as long as a small statement at MySQL. So it is found for the first
    texts, then for a sample."""

    __slots__ = ("_database", "_entry", "_last", "_noted", "_owner", "_reason", "_sql")

    def __init__(self, owner: ProxiedQueries, sql: str, database: str) -> None:
        self._owner = owner
        self._sql: str | None = sql  # None: its shape has been found out
        self._database = database
        self._entry: ProxiedQuery | None = None
        self._last: ProxiedQuery | None = None  # of the text that was noted last, where they are of several shapes
        self._noted = 0
        self._reason = Reason.NOT_CACHED  # of the last one that was looked at

    @property
    def needs(self) -> frozenset[str]:
        """As of a `ProxiedQuery`; of none where its texts are of several shapes."""
        return self._entry.needs if self._entry is not None else frozenset()

    @property
    def depends(self) -> bool:
        """Whether the answers depend on variables of the session, as far as is known."""
        entry = self._entry or self._last
        return entry is not None and entry.needs != NO_NEEDS

    def note(
        self,
        us: float,
        account: str,
        text: bytes,
        unable: Why = NO_REASON,
        key: int = 0,
        values: Mapping[str, str] | None = None,
    ) -> None:
        """As `ProxiedQuery.note`, of this text."""
        if self._sql is not None:
            entry, self._sql = self._owner.entry(self._sql, self._database), None
            self._entry = entry if entry.is_whole else None
        if self._entry is not None:
            self._entry.note(us, account, 1, unable, key, values)
            return
        self._noted += 1
        times = 1 if self._noted <= EACH else EACH
        if self._noted % times == 0:
            entry = self._last = self._owner.entry(text.decode(errors="replace"), self._database)
            self._reason = entry.note(us, account, times, unable, key, values)
        else:
            self._owner.by_reason[self._reason] += 1


@dataclass(frozen=True, slots=True)
class ProxiedInfo:
    """A line of the list. `id`: as `id_of` has it. `cacheable` None: not found out yet."""

    id: str
    query: str
    database: str
    count: int
    p50_us: float
    total_ms: float
    cacheable: bool | None
    reason: str
    seen: float


class ProxiedQueries:
    """All shapes.

    Invariants:
    1. `_shapes` has at most `most` entries, each `kept`, under its shape and database.
    2. `_texts` leads from texts to entries, and has at most TEXTS_REMEMBERED.
    """

    def __init__(self, judge: Judge, clock: Callable[[], float] = time, most: int = MOST_SHAPES) -> None:
        self.clock = clock
        self.forgotten = 0
        self.by_reason: dict[Reason, int] = dict.fromkeys(Reason, 0)  # reads that MySQL has answered
        # Are told of each read that is noted: what MySQL took, for how many it stands, what is counted, and why its
        # session could not have been given a hit.
        self.noted: list[Callable[[ProxiedQuery, float, int, Reason, Why], None]] = []
        # Says of a shape that could be cached why automatic caching has not done it.
        self.why_not: Callable[[ProxiedQuery], str] = lambda entry: ""
        self.recent = Recent(RECENT_KEYS)
        self._judge = judge
        self._judges_next = 0.0  # when one reader more may find out something by the way
        self._looks: asyncio.Task[Judgement] | None = None  # what is found out by the way
        self._most = most
        self._shapes: dict[tuple[str, str], ProxiedQuery] = {}
        self._texts: dict[tuple[str, str], ProxiedQuery] = {}

    def __len__(self) -> int:
        return len(self._shapes)

    def __iter__(self) -> Iterator[ProxiedQuery]:
        return iter(self._shapes.values())

    def passed(self, why: Why) -> None:
        """MySQL has answered a read that is noted at no shape: a cache is for it, or it asks to skip them."""
        self.by_reason[why.reason] += 1

    def entry(self, sql: str, database: str) -> ProxiedQuery:
        """The entry of a client's text. Tokenises texts that it has not seen lately: keep what it returns.

        The entry stays good: one that was forgotten comes back when it is noted again.
        """
        text = (sql, database)
        found = self._texts.get(text)
        if found is not None:
            return found
        shape = shape_of(sql)
        found = self._shapes.get((shape, database))
        if found is None:
            found = self._kept(ProxiedQuery(self, shape, database))
        if len(sql) <= LONGEST_SHAPE:
            if len(self._texts) >= TEXTS_REMEMBERED:
                self._texts.clear()
            self._texts[text] = found
        return found

    def texts(self, sql: str, database: str) -> ProxiedTexts:
        """What to note texts at that differ from this one in literals only."""
        return ProxiedTexts(self, sql, database)

    async def by_id(self, id: str) -> ProxiedQuery | None:
        """The shape that is listed under this id."""
        found = [entry async for entry in in_slices(list(self._shapes.values())) if entry.count and id_of(entry) == id]
        return found[0] if found else None

    def again(self, entry: ProxiedQuery) -> ProxiedQuery:
        """A forgotten entry is noted again: itself, kept again, or the one that has taken its place since."""
        return self._shapes.get((entry.shape, entry.database)) or self._kept(entry)

    def _kept(self, entry: ProxiedQuery) -> ProxiedQuery:
        if len(self._shapes) >= self._most:
            self._forget()
        entry.kept = True
        self._shapes[entry.shape, entry.database] = entry
        return entry

    def _forget(self) -> None:
        """A tenth of the shapes, the least useful: sorting them for every new one would cost too much."""
        now = self.clock()
        for entry in nsmallest(max(1, self._most // 10), self._shapes.values(), key=lambda entry: entry.worth(now)):
            entry.kept = False
            del self._shapes[entry.shape, entry.database]
            self.forgotten += 1
        self._texts = {text: entry for text, entry in self._texts.items() if entry.kept}

    async def judged(self, entry: ProxiedQuery) -> Judgement:
        """Whether it can be cached, as of the schema now. Raises what NO_SOURCE has."""
        judgement = entry.judgement
        if judgement is None or not self._judge.is_current(judgement):
            judgement = entry.judgement = await self._judge.judge(entry.shape, entry.database)
            entry.needs, entry.judged_at = judgement.needs - BY_HINT, entry.count
        return judgement

    async def judged_by_the_way(self, entry: ProxiedQuery) -> Judgement | None:
        """As `judged`, if the result comes at once; else None, and a later call may have it. It plans one shape at a
        time, in a tenth of the time, because caches that are planned again after DDL wait for the same helper process.

        Nobody waits longer: the asking session may have tables open at MySQL, for which a DDL statement waits, and
        planning would wait for that statement.
        """
        judgement = entry.judgement
        if judgement is not None and self._judge.is_current(judgement):
            return judgement
        if self._looks is not None or self.clock() < self._judges_next:
            return None
        looks = self._looks = asyncio.create_task(self.judged(entry))
        looks.add_done_callback(partial(self._looked, self.clock()))
        await asyncio.wait((looks,), timeout=AT_ONCE)
        return looks.result() if looks.done() else None

    def _looked(self, begun: float, looks: asyncio.Task[Judgement]) -> None:
        self._looks = None
        now = self.clock()
        self._judges_next = now + 9 * (now - begun) if now - begun > AT_ONCE else now
        if not looks.cancelled():
            looks.exception()  # whoever waited has it; nobody else asks for it

    def close(self) -> None:
        if self._looks is not None:
            self._looks.cancel()

    def is_refused(self, entry: ProxiedQuery) -> bool:
        """Whether it is known that it cannot be cached, as of the schema now."""
        judgement = entry.judgement
        return judgement is not None and not judgement.cacheable and self._judge.is_current(judgement)

    def cached_as(self, entry: ProxiedQuery) -> str:
        """The name of the cache that it has now, "" where there is none or it has not been judged."""
        return self._judge.cached_as(entry.judgement, entry.database) if entry.judgement is not None else ""

    async def listed(self, wanted: Callable[[ProxiedQuery], bool], limit: int | None = None) -> list[ProxiedInfo]:
        """Lines of the wanted shapes, at most `limit`, those that cost MySQL most first. Finds out for each whether it
        can be cached, one after the other, in the helper process, so that nobody else waits for it."""
        passed = [entry for entry in self._shapes.values() if entry.count]  # the others have been hits ever since
        entries = [entry async for entry in in_slices(passed) if wanted(entry)]
        entries.sort(key=lambda entry: -entry.total_us)
        lines: list[ProxiedInfo] = []
        failed = ""  # MySQL does not answer: it is asked no more
        async for entry in in_slices(islice(entries, limit)):
            if not failed:
                try:
                    await self.judged(entry)
                except NO_SOURCE as error:
                    failed = error.message or error.reason
            lines.append(self._line(entry, failed))
        return lines

    def _line(self, entry: ProxiedQuery, failed: str) -> ProxiedInfo:
        """`failed`: why it cannot be found out now whether shapes can be cached, "" if it can."""
        judgement = entry.judgement
        reason = f"not found out yet: {failed}"
        if judgement is not None:
            name = self.cached_as(entry)
            reason = f"cached as {name!r}" if name else judgement.reason
            if judgement.cacheable and not name and (why := self.why_not(entry)):
                reason += f"; {why}"
            if judgement.cacheable and entry.count > entry.able:
                reason += f"; {entry.count - entry.able} reads could not have been hits: {entry.unable}"
        return ProxiedInfo(
            id_of(entry),
            entry.shape,
            entry.database,
            entry.count,
            entry.p50_us,
            entry.total_us / 1000,
            judgement.cacheable if judgement is not None else None,
            reason,
            entry.seen,
        )

    def check_invariants(self) -> None:
        assert len(self._shapes) <= self._most and len(self._texts) <= TEXTS_REMEMBERED
        assert all(entry.kept and key == (entry.shape, entry.database) for key, entry in self._shapes.items())


def id_of(entry: ProxiedQuery) -> str:
    """What a shape of a database is called: the same at any time, and after a restart, too."""
    named = f"{entry.database}\0{entry.shape}".encode(errors="surrogatepass")
    return "q_" + blake2b(named, digest_size=5).hexdigest()


def shape_of(sql: str) -> str:
    """What texts that differ in literals share; of no SQL text, itself."""
    if len(sql) > LONGEST_TEXT:
        return TOO_LONG
    try:
        shape = lifted_of(sql, MOST_TOKENS)
    except ParseError:
        shape = sql.strip()
    return shape if shape is not None and len(shape) <= LONGEST_SHAPE else TOO_LONG
