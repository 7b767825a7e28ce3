"""A system behind the listeners that holds its caches in dictionaries: for tests of what stands before it, without
MySQL.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dataflow.losses import MEMORY, Cause, Losses
from gtid_tracker.gtid import GtidSet
from proxy.access.watch import Watch
from proxy.auto.passed_reads import Judgement, ProxiedQueries
from proxy.grpc.rows import FORMAT, encoder_for
from proxy.loop.slices import Encoder
from proxy.port.api import (
    ANSWERED_BY_MYSQL,
    Answer,
    CacheInfo,
    Demand,
    EncoderFor,
    Freshness,
    ParameterInfo,
    ParameterValue,
    Served,
    SubscriptionEvent,
    SystemStatus,
    WireFormat,
)
from proxy.port.fill_progress import AuditProgress, FillBy, FillProgress
from proxy.port.made_by import BY_GRPC, MadeBy
from proxy.port.position import Position
from proxy.settings.config import load_config
from proxy.settings.in_effect import LiveSettings
from sqltypes.errors import (
    BadParameters,
    CacheExists,
    ComparedElsewhere,
    NotARead,
    ParseError,
    TooStale,
    UnknownCache,
    UnknownName,
    UnsupportedQuery,
    UpwellError,
)
from sqltypes.expression import Row
from sqltypes.schema import BIGINT, ResultColumn, SqlType
from tests.support.fake_overviews import FakeOverviews, view
from tests.support.fake_position import FakePosition

VARCHAR = SqlType("varchar", length=100, collation="utf8mb4_0900_ai_ci")
STORY = (ResultColumn("id", BIGINT, False, "stories"), ResultColumn("title", VARCHAR, True, "stories"))
RANDOM = UnsupportedQuery("nondeterministic", "a function whose value differs between calls", "RAND()")
SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
VOTES = "lobsters.votes"
LOSSES = Losses()
LOSSES.counts = {(Cause.CHANGE, VOTES): 1204, MEMORY: 3, (Cause.LARGE, VOTES): 2}
LOSSES.compared = {VOTES: (100, 31)}


class FakeCache:
    """One cache over `source`: key -> rows; `held`: the bytes of the keys that would be hits."""

    def __init__(self, name: str, sql: str, database: str, encode: Encoder, columns: tuple[ResultColumn, ...]) -> None:
        self.name = name
        self.columns = columns
        self.encode = encode
        self.dropped = False
        self.source: dict[tuple[ParameterValue, ...], list[Row]] = {}
        self.held: dict[tuple[ParameterValue, ...], bytes] = {}
        self.failing: UpwellError | Exception | None = None  # what a miss raises
        self.gate = asyncio.Event()  # a miss waits for it
        self.gate.set()
        self.misses = 0
        self.made_by = BY_GRPC
        self.why = ""
        self.relations: frozenset[tuple[str, str]] = frozenset()
        self.arrived = asyncio.Event()  # a miss waits
        self.abandoned = asyncio.Event()  # a waiting miss was cancelled
        self._sql = sql
        self._database = database

    @property
    def parameters(self) -> tuple[ParameterInfo, ...]:
        return (ParameterInfo("id", BIGINT, False),)

    @property
    def info(self) -> CacheInfo:
        return CacheInfo(
            self.name, self._sql, self._database, "maintain", "ready", self.why, self.parameters, self.columns,
            keys=len(self.held), bytes=sum(map(len, self.held.values())), hits=7, misses=self.misses, hit_p50_us=3.5,
            made_by=self.made_by, relations=self.relations, passed=5, passed_reason="parameters",
            passed_why="a list of 'bob'", passed_ever={"parameters": 5}, losses=LOSSES,
        )  # fmt: skip

    def hit(self, parameters: Sequence[ParameterValue]) -> bytes | None:
        body = self.held.get(parameters)  # type: ignore[call-overload]  # the service gives tuples
        return body if body is not None else self._hit_slow(parameters)

    def _hit_slow(self, parameters: Sequence[ParameterValue]) -> bytes | None:
        if self.dropped:
            raise UnknownCache(f"no cache {self.name!r}")
        if len(parameters) != 1:
            raise BadParameters(f"{len(parameters)} parameters: 1 is accepted")
        if isinstance(parameters[0], float):
            raise ComparedElsewhere("a double is compared by MySQL")
        if isinstance(parameters[0], str):
            raise BadParameters(f"parameter 1 is {parameters[0]!r}: an integer is accepted")
        return None

    def hit_many(self, keys: Sequence[Sequence[ParameterValue]]) -> list[bytes | None]:
        bodies: list[bytes | None] = []
        for number, parameters in enumerate(keys, 1):
            try:
                bodies.append(self.hit(parameters))
            except ANSWERED_BY_MYSQL:
                bodies.append(None)
            except BadParameters as error:
                raise BadParameters(f"key {number} of {len(keys)}: {error}") from error
        return bodies

    async def hit_batch(self, keys: Sequence[Sequence[ParameterValue]]) -> list[bytes | None]:
        return self.hit_many(keys)

    async def read(self, parameters: Sequence[ParameterValue], demand: Demand | None = None) -> Answer:
        self.misses += 1
        if demand is not None and not demand.met():
            raise TooStale("the position lacks what the read asks for")
        self.arrived.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.abandoned.set()
            raise
        if self.failing is not None:
            raise self.failing
        key = tuple(parameters)
        if isinstance(key[0], float):
            body = self.encode(self.source.get(key, []))
            return Answer(Served.PASSED, self.columns, body, "", self.name, "compared_elsewhere")
        self.held[key] = self.encode(self.source.get(key, []))
        return Answer(Served.MISS, self.columns, self.held[key], SERVER + ":1-5", self.name)


class TextPosition(FakePosition):
    """What the system's `position_text` says."""

    def __init__(self, system: FakeSystem) -> None:
        self._system = system

    def text(self) -> str:
        return self._system.position_text


@dataclass
class FakeDemand:
    """Met while the system's position has what is asked for."""

    system: FakeSystem
    asked: Freshness

    def met(self) -> bool:
        return self.asked.min_gtid.issubset(GtidSet.parse(self.system.position_text))


class FakeJudge:
    """Plans shapes: those of `refused` are not cacheable, for the reason there. `small`: those of a small table.
    `tables`: that each reads; `needs`: variables that each depends on. `asked`: what it was asked for."""

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}
        self.small: set[str] = set()
        self.tables: frozenset[str] = frozenset()
        self.needs: frozenset[str] = frozenset()
        self.asked: list[str] = []
        self.failing: UpwellError | None = None
        self.schema = 0
        self.caches: dict[str, str] = {}  # shape -> the name of its cache

    async def judge(self, sql: str, database: str) -> Judgement:
        self.asked.append(sql)
        if self.failing is not None:
            raise self.failing
        reason = self.refused.get(sql)
        small = sql in self.small
        return Judgement(reason is None, reason or "maintain", self.schema, sql, self.needs, small, self.tables)

    def is_current(self, judgement: Judgement) -> bool:
        return judgement.schema == self.schema

    def cached_as(self, judgement: Judgement, database: str) -> str:
        return self.caches.get(judgement.normalised, "")


class FakeCaches(dict[str, FakeCache]):
    """By name."""

    def add(
        self,
        name: str,
        rows: dict[int, list[Row]],
        columns: tuple[ResultColumn, ...] = STORY,
        sql: str = "SELECT ...",
        database: str = "lobsters",
    ) -> FakeCache:
        """A cache over these rows by their integer key, all of them misses."""
        cache = FakeCache(name, sql, database, encoder_for(columns), columns)
        cache.source = {(key,): value for key, value in rows.items()}
        self[name] = cache
        return cache

    def open(self, name: str, format: str) -> FakeCache:
        if name not in self:
            raise UnknownCache(f"no cache {name!r}: there are {sorted(self)!r}")
        return self[name]

    async def create(self, name: str, sql: str, database: str, made_by: MadeBy = BY_GRPC) -> CacheInfo:
        if "SELECT" not in sql.upper():
            raise ParseError(f"{sql!r} does not parse: a SELECT is accepted")
        if "RAND()" in sql.upper():
            raise RANDOM
        for cache in self.values():
            if cache.info.sql == sql and name in ("", cache.info.name):
                return replace(cache.info, existed=True)
        if name in self:
            raise CacheExists(f"the name {name!r} is taken by another query")
        cache = self.add(name or "q1", {}, sql=sql, database=database)
        cache.made_by = made_by
        return cache.info

    async def drop(self, name: str, only_of: str = "") -> None:
        cache = self.open(name, "")
        cache.dropped = True
        cache.held.clear()
        del self[name]

    async def flush(self, name: str) -> int:
        held = len(self.open(name, "").held)
        self[name].held.clear()
        return held

    async def listed(self) -> list[CacheInfo]:
        return [cache.info for cache in self.values()]

    def find(self, name: str) -> CacheInfo | None:
        cache = self.get(name)
        return cache.info if cache is not None else None

    async def explain(self, name: str, sql: str, database: str) -> tuple[str, str]:
        if name:
            self.open(name, "")
        if "RAND()" in sql.upper():
            raise RANDOM
        return f"plan of {name or sql}", "digraph {}"


def live_settings() -> LiveSettings:
    """Of a proxy with defaults, in which `max-staleness` alone can change."""
    made = LiveSettings(load_config({"upstream": "mysql://app:secret@db/shop"}, {}, Path("/srv/app")))
    made.apply = {"max-staleness": lambda config: None}
    return made


@dataclass
class FakeSystem:
    """Caches made by `create_cache` are over an empty source with the columns of STORY."""

    caches: FakeCaches = field(default_factory=FakeCaches)
    position_text: str = SERVER + ":1-5"
    why_not_ready: str = ""
    asked: Freshness | None = None  # by the last call that asked for freshness, or the last query
    events: list[SubscriptionEvent] = field(default_factory=list)
    waiting: bool = False  # a subscription does not end behind its events
    endless: bool = False  # the last event of a subscription comes again and again
    subscription_closed: asyncio.Event = field(default_factory=asyncio.Event)
    query_gate: asyncio.Event = field(default_factory=asyncio.Event)
    query_failing: Exception | None = None
    judge: FakeJudge = field(default_factory=FakeJudge)
    filled: list[tuple[str, object, FillBy]] = field(default_factory=list)  # what `fill` was asked for
    fill_told: list[FillProgress | UpwellError] = field(default_factory=list)
    audited: list[tuple[str, FillBy, bool]] = field(default_factory=list)  # what `audit` was asked for
    audit_told: list[AuditProgress | UpwellError] = field(default_factory=list)
    fill_ended: asyncio.Event = field(default_factory=asyncio.Event)  # by its end, or because nobody listens
    proxied: ProxiedQueries = field(init=False)
    overviews: FakeOverviews = field(init=False)
    settings: LiveSettings = field(default_factory=live_settings)
    encoders: dict[str, EncoderFor] = field(default_factory=lambda: {FORMAT: encoder_for})

    def __post_init__(self) -> None:
        self.overviews = FakeOverviews(lambda: {name: view(cache.info) for name, cache in self.caches.items()})
        self.proxied = ProxiedQueries(self.judge, clock=lambda: 1_700_000_000.0)
        self.watch: Watch | None = None
        self.watching = Watch({}, self, self.proxied.noted)

    async def fill(
        self, name: str, keys: Sequence[Sequence[ParameterValue]] | None = None, by: FillBy = FillBy.SIZE
    ) -> AsyncGenerator[FillProgress, None]:
        self.filled.append((name, None if keys is None else list(keys), by))
        try:
            for told in self.fill_told:
                if isinstance(told, UpwellError):
                    raise told
                yield told
                await asyncio.sleep(0)
            while self.endless:
                yield FillProgress(name)
                await asyncio.sleep(0)
        finally:
            self.fill_ended.set()

    async def fill_first(self, name: str, keys: Sequence[Sequence[ParameterValue]]) -> bool:
        return False

    async def held_before(self, name: str, most: int) -> list[tuple[ParameterValue, ...]]:
        return [(number,) for number in range(most)]

    async def audit(
        self, name: str = "", by: FillBy = FillBy.SIZE, *, repair: bool = False
    ) -> AsyncGenerator[AuditProgress, None]:
        self.audited.append((name, by, repair))
        for told in self.audit_told:
            if isinstance(told, UpwellError):
                raise told
            yield told
            await asyncio.sleep(0)

    def register(self, name: str, wire: WireFormat) -> None:
        self.encoders[name] = encoder_for

    @property
    def fills(self) -> FakeSystem:
        return self

    @property
    def formats(self) -> FakeSystem:
        return self

    @property
    def freshness(self) -> FakeSystem:
        return self

    def demand(self, freshness: Freshness) -> FakeDemand:
        self.asked = freshness
        return FakeDemand(self, freshness)

    async def query(
        self,
        sql: str,
        database: str,
        parameters: Sequence[ParameterValue],
        format: str,
        freshness: Freshness | None = None,
    ) -> Answer:
        self.asked = freshness
        if not sql.upper().startswith("SELECT"):
            raise NotARead(f"{sql!r} is not a read: a single SELECT is accepted")
        if "SLEEP" in sql.upper():
            await self.query_gate.wait()
        if self.query_failing is not None:
            raise self.query_failing
        columns = (ResultColumn("n", BIGINT, False),)
        body = self.encoders[format](columns)([(len(parameters),)])
        return Answer(Served.PASSED, columns, body, why="no cache of this query")

    async def passed_query(self, id: str) -> tuple[str, str]:
        entry = await self.proxied.by_id(id)
        if entry is None:
            raise UnknownName(f"no query has the id {id!r}")
        return entry.shape, entry.database

    async def subscribe(
        self, name: str, parameters: Sequence[ParameterValue]
    ) -> AsyncGenerator[SubscriptionEvent, None]:
        self.caches.open(name, "")
        try:
            for event in self.events:
                yield event
            while self.endless:
                yield self.events[-1]
            if self.waiting:
                await asyncio.Event().wait()
        finally:
            self.subscription_closed.set()

    def status(self) -> SystemStatus:
        return SystemStatus(
            version="0.1.0", source="mysql://app@127.0.0.1:3306", source_up=True, server_version="8.4.3",
            server_uuid=SERVER, position=self.position_text, lag_seconds=0.25, memory_bytes=1000, memory_limit=2000,
            hits=7, misses=2, passed=1, upqueries_in_flight=0, counters={"transactions": 12},
            address="mysql://127.0.0.1:3306",
        )  # fmt: skip

    @property
    def position(self) -> Position:
        return TextPosition(self)

    def not_ready(self) -> str:
        return self.why_not_ready
