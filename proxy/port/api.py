"""What the listeners (MySQL's protocol, gRPC, HTTP) ask of the system behind them. `proxy/system/system.py` answers.

A hit is one synchronous call, `Cache.hit`, without an await; everything else may wait.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from dataflow.losses import Losses
from dataflow.readers.in_steps import Steps
from gtid_tracker.gtid import GtidSet
from planner.tree.untyped import TYPED, Sent
from proxy.loop.slices import Encoder, Join
from proxy.port.fill_progress import AuditProgress, FillBy, FillProgress
from proxy.port.made_by import BY_GRPC, MadeBy
from proxy.port.overview import Overviews
from proxy.port.position import Position
from proxy.port.watching import Watching
from sqltypes.errors import ComparedElsewhere, EvaluationError, Fault
from sqltypes.expression import Key, Row, Value
from sqltypes.schema import ResultColumn, SqlType
from sqltypes.zone import Zone

# A parameter's value as the client gave it, canonical for the client's own type; a tuple for a list parameter.
ParameterValue = Value | tuple[Value, ...]

# Encodes rows of a cache's answer for one wire format; the answers of several keys become one by the format's join:
# join([enc(a), enc(b)]) == enc(a + b).
EncoderFor = Callable[[tuple[ResultColumn, ...]], Encoder]
Lookup = Callable[[Key], bytes | None]
ListLookup = Callable[[Sequence[ParameterValue]], bytes | None]


@dataclass(frozen=True, slots=True)
class WireFormat:
    """How answers are written for one kind of client. `join`: takes one encoding or more, all of the same columns.
    `join_short` is the same for a short step of the loop: it raises TooLong where it would take longer, and
    `join_in_steps` does that in several. `clocks`: by which instants are shown; None: UTC's."""

    encoder_for: EncoderFor
    join: Join = b"".join
    join_short: Join = b"".join
    join_in_steps: Callable[[Sequence[bytes]], Steps[bytes]] | None = None  # None: `join_short` never raises
    clocks: Zone | None = None


ANSWERED_BY_MYSQL = (ComparedElsewhere, EvaluationError, Fault)
"""What `Cache.hit` may raise where the parameters are sound: `Cache.read` then has MySQL's own answer."""


DEFAULT_WAIT = 1.0
"""Seconds that a read waits for the freshness that it asks for, if it does not say."""


class Otherwise(Enum):
    """What follows a wait for freshness that was for nothing."""

    PASS = "pass"
    FAIL = "fail"  # TooStale


@dataclass(frozen=True, slots=True)
class Freshness:
    """What a caller asks of an answer: to contain `min_gtid`, and all that was committed `max_staleness` seconds before
    the read came (None: any). `wait`: seconds that the position may take to get there, where the key is held.
    `not_before`: what may have been in earlier answers; the answer is not older than those."""

    min_gtid: GtidSet = GtidSet.empty()  # noqa: RUF009 - immutable
    max_staleness: float | None = None
    wait: float = DEFAULT_WAIT
    otherwise: Otherwise = Otherwise.PASS
    not_before: GtidSet = GtidSet.empty()  # noqa: RUF009 - immutable


class Demand(Protocol):
    """The freshness that one call asks for, from its arrival on."""

    def met(self) -> bool:
        """May a hit be served now?"""
        ...


class Served(Enum):
    HIT = "hit"
    MISS = "miss"
    PASSED = "passed"


@dataclass(slots=True)
class Answer:
    """One answer. `body`: its rows as the asked format's encoder wrote them. `why`: the reason where it was passed
    through."""

    served: Served
    columns: tuple[ResultColumn, ...]
    body: bytes
    position: str = ""  # the GTID set that it reflects; of one passed through, what was surely in it
    cache: str = ""
    why: str = ""
    horizon: str = ""  # where more than `position` may be in it: all that may be


@dataclass(slots=True)
class ParameterInfo:
    name: str
    type: SqlType
    list: bool
    sent: Sent = TYPED  # of one whose type no column tells


@dataclass(slots=True)
class CacheInfo:
    name: str
    sql: str
    database: str
    mode: str  # maintain, evict
    state: str  # ready, rebuilding, refused: with the reason in `why`
    why: str
    parameters: tuple[ParameterInfo, ...]
    columns: tuple[ResultColumn, ...]
    keys: int = 0
    bytes: int = 0
    hits: int = 0
    misses: int = 0
    hit_p50_us: float = 0.0
    miss_p50_us: float = 0.0
    made_by: MadeBy = BY_GRPC
    existed: bool = False  # told by `create_cache`: the query was cached already
    relations: frozenset[tuple[str, str]] = frozenset()  # (schema, name) of the tables and views that it reads
    before: tuple[int, int] = (0, 0)  # hits and misses of caches that had the name before
    passed: int = 0  # reads of it that MySQL answered itself
    passed_reason: str = ""  # the most frequent reason why, in a word; "" where none was passed
    passed_why: str = ""  # the whole reason of the last read that was passed for that; it may quote the query
    passed_ever: dict[str, int] = field(default_factory=dict)  # by reason, of all caches that had the name
    losses: Losses = field(default_factory=Losses)  # why its keys went away
    decided: str = ""  # of an automatic one: what is to become of it, and why
    left: int = 0  # of an automatic one: reads left to MySQL because Upwell's processor was short
    work_us: float = 0.0  # and what its misses and long derivations took of the event loop


class Cache(Protocol):
    """A cache by name, for the hot path."""

    @property
    def info(self) -> CacheInfo: ...

    @property
    def columns(self) -> tuple[ResultColumn, ...]: ...

    @property
    def parameters(self) -> tuple[ParameterInfo, ...]: ...

    def hit(self, parameters: Sequence[ParameterValue]) -> bytes | None:
        """The encoded rows (in the format that the cache was opened for) if all keys are held and current, else None.

        Raises BadParameters (wrong number, or a type that MySQL would compare otherwise).
        """
        ...

    async def hit_batch(self, keys: Sequence[Sequence[ParameterValue]]) -> list[bytes | None]:
        """`hit` for each key, in slices: all answers are of the position at its end, and nothing else runs between that
        and what follows. None also where MySQL must compare the parameters itself, and for a key that was changed or
        evicted meanwhile.

        Raises BadParameters, naming the key by its number.
        """
        ...

    async def read(self, parameters: Sequence[ParameterValue], demand: Demand | None = None) -> Answer:
        """As `hit`, else by an upquery. Cancelling the caller abandons the wait, never another caller's.

        `demand`: of `System.freshness`. Raises TooStale where it cannot be met.
        """
        ...


@dataclass(slots=True)
class SubscriptionEvent:
    """First the snapshot (`added` all rows), then one event a transaction. `end`: a reason; nothing follows."""

    removed: list[Row] = field(default_factory=list)
    added: list[Row] = field(default_factory=list)
    snapshot: bool = False
    position: str = ""
    end: str = ""


@dataclass(slots=True)
class SystemStatus:
    """Figures for `Status`, /metrics and the command line. Seconds and bytes; counters since start."""

    version: str
    source: str  # without the password, for administrators
    source_up: bool
    server_version: str
    server_uuid: str
    position: str
    lag_seconds: float
    memory_bytes: int
    memory_limit: int
    hits: int
    misses: int
    passed: int  # reads that MySQL answered itself, whoever asked; statements that are no reads do not count
    upqueries_in_flight: int
    counters: dict[str, int] = field(default_factory=dict)
    # From a commit in MySQL until hits show it: quantiles of the last transactions; since start, how many took at most
    # so many seconds, and the sum of all.
    visible_p50_seconds: float = 0.0
    visible_p99_seconds: float = 0.0
    visible_buckets: tuple[tuple[float, int], ...] = ()
    visible_sum_seconds: float = 0.0
    late_buckets: tuple[tuple[float, int], ...] = ()  # of the loop: how often by at most so many seconds
    late_sum_seconds: float = 0.0
    address: str = ""  # of the source, without the account: for everybody
    fills: tuple[FillProgress, ...] = ()  # under way
    by_reason: dict[str, int] = field(default_factory=dict)  # reads that MySQL has answered
    # How many reads took at most so many seconds, and the sum of all, by how they were served.
    read_times: dict[str, tuple[tuple[tuple[float, int], ...], float]] = field(default_factory=dict)

    @property
    def hit_rate(self) -> float:
        """The hits among all reads, from 0 to 1; 0 before the first read."""
        reads = self.hits + self.misses + self.passed
        return self.hits / reads if reads else 0.0


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """A setting of `upwell serve`. `value`: as text, without secrets. `origin`: option, variable, file, SET, default.
    `live`: yes, no, or SIGHUP: where what it names is read again then."""

    name: str
    value: str
    origin: str
    live: str
    help: str


class Settings(Protocol):
    """The settings of the running process."""

    def listed(self) -> list[SettingInfo]: ...

    def set(self, name: str, text: str | None) -> SettingInfo:
        """Puts a value into effect; None: the one that it has without SET. Raises BadSetting."""
        ...


class Caches(Protocol):
    """All caches, by name."""

    def open(self, name: str, format: str) -> Cache:
        """Raises UnknownCache. The object stays valid until the cache is dropped; then its calls raise UnknownCache."""
        ...

    async def create(self, name: str, sql: str, database: str, made_by: MadeBy = BY_GRPC) -> CacheInfo:
        """`name` "" : one is made up. The same query again gives the existing cache. Raises ParseError,
        UnsupportedQuery, CacheExists..."""
        ...

    async def drop(self, name: str, only_of: str = "") -> None:
        """`only_of`: the account that must have made it. Raises UnknownCache, ConfigError."""
        ...

    async def flush(self, name: str) -> int:
        """Empties a cache, which stays, and what it shares with others: afterwards nothing of what was held before is.
        How many keys it has held. Raises UnknownCache."""
        ...

    async def listed(self) -> list[CacheInfo]:
        """All of them. There may be thousands: others have their turn meanwhile."""
        ...

    def find(self, name: str) -> CacheInfo | None: ...

    async def explain(self, name: str, sql: str, database: str) -> tuple[str, str]:
        """(text, Graphviz dot) of a cache by name, or of a SELECT that would be cached."""
        ...


class Fills(Protocol):
    """Fills and comparisons of many keys."""

    def fill(
        self, name: str, keys: Sequence[Sequence[ParameterValue]] | None = None, by: FillBy = FillBy.SIZE
    ) -> AsyncGenerator[FillProgress, None]:
        """Fills these keys of a cache, or all that have rows; what is held already is left as it is. Closed by the
        listener when the caller goes: the rest is not filled. `keys` is not looked at after the end. Raises
        UnknownCache, BadParameters, CannotFill, SparkUnavailable, SourceError, ..."""
        ...

    async def fill_first(self, name: str, keys: Sequence[Sequence[ParameterValue]]) -> bool:
        """Before a call reads keys that are not held: where they are very many it fills them together. False: they are
        not, or they are being filled. What it could not fill is the reads' business."""
        ...

    async def held_before(self, name: str, most: int) -> list[tuple[ParameterValue, ...]]:
        """The keys of a cache that were held before the start, the hottest first. Raises UnknownCache, CannotFill."""
        ...

    def audit(
        self, name: str = "", by: FillBy = FillBy.SIZE, *, repair: bool = False
    ) -> AsyncGenerator[AuditProgress, None]:
        """Compares all that a cache holds, or all of them, with MySQL at one position. `repair`: what differs becomes a
        hole. Raises as `fill`."""
        ...


class Demands(Protocol):
    """The freshness that calls ask for."""

    def demand(self, freshness: Freshness) -> Demand:
        """A call that asks for this freshness has come."""
        ...


class Formats(Protocol):
    """The wire formats of answers."""

    def register(self, name: str, wire: WireFormat) -> None:
        """Adds one, unless there is one of that name."""
        ...


class System(Protocol):
    """The whole behind the listeners."""

    @property
    def caches(self) -> Caches: ...

    @property
    def fills(self) -> Fills: ...

    @property
    def freshness(self) -> Demands: ...

    @property
    def formats(self) -> Formats: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def position(self) -> Position: ...

    @property
    def overviews(self) -> Overviews: ...

    @property
    def watching(self) -> Watching: ...

    async def query(
        self,
        sql: str,
        database: str,
        parameters: Sequence[ParameterValue],
        format: str,
        freshness: Freshness | None = None,
    ) -> Answer:
        """Any single read: from a cache, else passed to MySQL in a READ ONLY transaction. Raises NotARead,
        SourceError, TooStale, ..."""
        ...

    async def passed_query(self, id: str) -> tuple[str, str]:
        """(text, database) of a query that MySQL has answered. Raises UnknownName where none has this id."""
        ...

    def subscribe(self, name: str, parameters: Sequence[ParameterValue]) -> AsyncGenerator[SubscriptionEvent, None]:
        """Closed by the listener when the subscriber goes."""
        ...

    def status(self) -> SystemStatus: ...

    def not_ready(self) -> str:
        """ "" when callers can be served, else the reason why not: for health checks and /readyz."""
        ...
