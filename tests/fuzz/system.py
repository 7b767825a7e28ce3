"""What stands behind a session on the bench: a system of two caches, of which each key is a hit, a miss, MySQL's to
answer, or cannot be filled, by its number alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from zlib import crc32

from gtid_tracker.gtid import GtidSet
from planner.matcher import QueryMatcher
from proxy.auto.passed_reads import Judge, ProxiedQueries
from proxy.mysql.session.shared import MysqlOptions, Shared
from proxy.mysql.wire.packets import lenenc
from proxy.port.accounts import Accounts
from proxy.port.api import Answer, CacheInfo, ParameterInfo, ParameterValue, Served, SystemStatus
from proxy.port.changes import Changes
from proxy.port.made_by import MadeBy
from proxy.port.reasons import NO_REASON, Reason, Why
from proxy.port.session import SessionSystem
from sqltypes.errors import BadParameters, Overloaded, SourceDown, SourceError, UnknownCache
from sqltypes.schema import BIGINT, ResultColumn, SqlType
from tests.fuzz.payloads import numbered
from tests.support.fake_position import FakePosition
from tests.support.mysql_packets import column, eof, ok
from tests.support.query_texts import fake_plan

QUERY = "SELECT id, name FROM item WHERE id = ?"
OTHER_QUERY = "SELECT COUNT(*) FROM item WHERE n = ? AND name = ?"
NAME = SqlType("varchar", length=20, collation="utf8mb4_0900_ai_ci")
COLUMNS = (ResultColumn("id", BIGINT, False, "item"), ResultColumn("name", NAME, True, "item"))
DEFINITIONS = (column("id", 8, flags=1), column("name", 0xFD, charset=255, size=80))
SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
INFO = CacheInfo("c0", QUERY, "d", "maintain", "ready", "", (ParameterInfo("id", BIGINT, False),), COLUMNS)
LARGE_KEY = 9  # whose answer is larger than what a socket takes at once
CHANGING_KEY = 5  # whose answer is another whenever the stream has moved


class NothingCompared:
    """In the place of `proxy/read/told_hits.py`."""

    def judges(self, body: bytes, settings: object) -> bool:
        return False

    def judge(self, parameters: object, body: bytes, settings: object, told: object) -> None:
        raise AssertionError("nobody asks")


class NoMoments:
    """In the place of `proxy/read/moments.py`: nothing is asked by the clock."""

    clocks = None

    def standing(self, parameters: Sequence[ParameterValue]) -> None:
        return None


@dataclass(eq=False)
class BenchCache:
    """`plain_int`: as of a cache of one integer parameter."""

    name: str
    binary: bool
    eof: bool
    moves: Callable[[], int] = lambda: 0
    needs: frozenset[str] = frozenset()
    columns: tuple[ResultColumn, ...] = COLUMNS
    plain_int: bool = True
    lists: bool = False
    relations: frozenset[tuple[str, str]] = frozenset({("d", "item")})
    counts: bool = False
    tells: tuple[int, ...] = ()
    moments: NoMoments = field(default_factory=NoMoments)

    @property
    def info(self) -> CacheInfo:
        return INFO

    def encode_as(self, columns: tuple[ResultColumn, ...], forms: object) -> Why:
        return NO_REASON

    def body(self, key: object) -> bytes:
        """The rows and their end. In each row is the key; of key 0 there is none. `moves`: of the stream, so far."""
        version = self.moves() if key == CHANGING_KEY else ""
        name = f"key {key};{version}".encode() + b"x" * (300_000 if key == LARGE_KEY else 10)
        seven = b"\0\0" + (7).to_bytes(8, "little") if self.binary else lenenc(b"7")
        payloads = [*([] if key == 0 else [seven + lenenc(name)]), eof() if self.eof else ok(0xFE)]
        return numbered(payloads, 2 + len(self.columns) + (1 if self.eof else 0))

    def hit(self, parameters: Sequence[ParameterValue]) -> bytes | None:
        key = parameters[0]
        if isinstance(key, bytes):
            raise BadParameters("bytes: a number is accepted")
        return self.stored(key)

    async def read(self, parameters: Sequence[ParameterValue], demand: object = None) -> Answer:
        raise AssertionError("nobody asks")

    def found(self, parameters: Sequence[ParameterValue]) -> int | None:
        raise AssertionError("nobody asks")

    def peek(self, parameters: Sequence[ParameterValue]) -> bytes | None:
        return self.stored(parameters[0])

    def peek_since(self, parameters: Sequence[ParameterValue], sequence: int) -> bytes | None:
        return self.stored(parameters[0]) if parameters[0] != CHANGING_KEY else None

    @property
    def told(self) -> NothingCompared:
        return NothingCompared()

    def count_hit(self, parameters: Sequence[ParameterValue]) -> None:
        pass

    def count(self, served: Served) -> None:
        pass

    def recount(self, served: Served | None) -> None:
        pass

    @property
    def generation(self) -> int:
        return 0

    def bound(self, parameters: Sequence[ParameterValue]) -> Any:
        return parameters[0]

    @property
    def stored(self) -> Callable[[object], bytes | None]:
        return self._stored

    def _stored(self, key: object) -> bytes | None:
        return self.body(key) if kind_of(key) == "held" else None

    async def fill(
        self, parameters: Sequence[ParameterValue], demand: object = None, text: str = "", *, wait: bool = True
    ) -> Answer | Why:
        await asyncio.sleep(0.01)
        key = parameters[0]
        kind = kind_of(key)
        if kind == "passed":
            return Reason.OTHER.why("MySQL is to answer")
        if kind == "down":
            raise SourceDown("the source cannot be reached")
        if kind == "refused":
            raise SourceError(1142, "42000", "SELECT command denied")
        if kind == "overloaded":
            raise Overloaded("too many upqueries")
        ahead = kind == "ahead"
        position = f"{SERVER}:1-6" if ahead else POSITION
        return Answer(Served.HIT if ahead else Served.MISS, COLUMNS, self.body(key), position, self.name)


POSITION = f"{SERVER}:1-5"
KINDS = ("miss", "held", "miss", "held", "ahead", "held", "passed", "held", "down", "held", "overloaded", "refused")


def kind_of(key: object) -> str:
    return KINDS[(key if isinstance(key, int) else crc32(repr(key).encode())) % len(KINDS)]


@dataclass(frozen=True, slots=True)
class BenchDemand:
    is_met: bool

    def met(self) -> bool:
        return self.is_met


class Unforgiven:
    """On the bench a fault is a finding."""

    def note(self, edge: str, what: str, error: Exception, **facts: object) -> Any:
        raise error


@dataclass
class BenchSystem:
    """Two caches, for QUERY and OTHER_QUERY. `up`: whether MySQL is said to answer."""

    matcher: QueryMatcher
    changes: Changes
    up: bool = True
    asked: int = 0
    position: FakePosition = field(default_factory=lambda: FakePosition(POSITION, 0))
    _opened: dict[tuple[str, str], BenchCache] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.accounts = Accounts(self.changes.note)

    def match(self, sql: str, database: str, parameters: Sequence[ParameterValue]) -> Any:
        return self.matcher.match(sql, database, parameters)

    @property
    def caches(self) -> BenchSystem:
        return self

    @property
    def freshness(self) -> BenchSystem:
        return self

    def open(self, name: str, format: str) -> BenchCache:
        key = name, format
        if key not in self._opened:
            binary, eof = "binary" in format, format.endswith("-eof")
            self._opened[key] = BenchCache(name, binary, eof, lambda: self.position.number, plain_int=name == "c0")
        return self._opened[key]

    @property
    def version(self) -> int:
        return self.matcher.changes

    @property
    def faults(self) -> Any:
        return Unforgiven()

    def change_caches(self) -> None:
        self.matcher.changed()

    def change_rights(self) -> None:
        self.accounts.changed()

    def say_up(self, up: bool) -> None:
        self.up = up

    def move(self) -> None:
        """The stream brings something."""
        self.position.number += 1

    def count(self, name: str) -> None:
        pass

    def note_passed(self, cache: str, why: str) -> None:
        pass

    async def reached(self, own: GtidSet, seconds: float) -> bool:
        await asyncio.sleep(seconds)
        return False

    async def answers(self) -> bool:
        await asyncio.sleep(0)
        return self.up

    def source_up(self) -> bool:
        return self.up

    def written_unlogged(self, account: str, *, cause: str, schema: bool) -> None:
        pass

    @property
    def rebuilding(self) -> bool:
        return self.position.number % 7 == 0

    def demand_after(self, own: GtidSet, shown: GtidSet | None = None, wait: float = 0.0) -> BenchDemand:
        """The stream brings every other thing in time."""
        self.asked += 1
        return BenchDemand(not (own or shown) or self.asked % 2 == 0)

    def status(self) -> SystemStatus:
        return SystemStatus("1", "mysql", True, "9.7.0", SERVER, POSITION, 0.0, 0, 0, 1, 2, 3, 0)

    async def listed(self) -> list[CacheInfo]:
        return [INFO]

    def find(self, name: str) -> CacheInfo | None:
        return INFO if name == INFO.name else None

    def not_ready(self) -> str:
        return ""

    async def explain(self, name: str, sql: str, database: str) -> tuple[str, str]:
        return "a plan", ""

    async def drop(self, name: str, only_of: str = "") -> None:
        raise UnknownCache(f"no cache {name!r}")

    async def create(self, name: str, sql: str, database: str, made_by: MadeBy) -> CacheInfo:
        await asyncio.sleep(0.01)
        return CacheInfo(name, sql, database, "maintain", "ready", "", (), COLUMNS)


class UnreachableProxied(ProxiedQueries):
    """Nobody can be asked what could be cached."""

    async def listed(self, *_: object) -> list[Any]:
        raise SourceDown("the source cannot be reached")


def bench_shared(loop: asyncio.AbstractEventLoop, options: MysqlOptions) -> Shared:
    """What sessions share, with a system of two caches."""
    changes = Changes()
    matcher = QueryMatcher(on_change=changes.note)
    for number, sql in enumerate((QUERY, OTHER_QUERY)):
        matcher.add(fake_plan(sql, "d"), f"c{number}")
    system = BenchSystem(matcher, changes)
    proxied = UnreachableProxied(cast(Judge, None), loop.time)
    return Shared(cast(SessionSystem, system), options, matcher, proxied, loop.time)


Counts = Counter[str]
