"""A cache by name: what the catalog keeps of it, whoever reads it in whatever format."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from statistics import median

from dataflow.losses import Losses
from dataflow.readers.reader import ReaderNode, held_bytes
from planner.tree.plan import QueryPlan
from planner.tree.sql_text import relation_name
from proxy.cache.answer_columns import Encoding
from proxy.cache.key_binder import KeyBinder
from proxy.cache.planned import Planned
from proxy.cache.too_large import TooLarge
from proxy.cache.trust import Trust
from proxy.port.api import CacheInfo, ParameterInfo, Served
from proxy.port.made_by import BY_GRPC, MadeBy, Origin
from proxy.port.reasons import PassedReads, Reason, Why
from sqltypes.schema import ResultColumn


def names_of(relations: Iterable[tuple[str, str]]) -> frozenset[str]:
    """As DDL statements name these relations, in lower case: each one, and all of its schema."""
    return frozenset(f"{schema}.{name}".lower() for schema, table in relations for name in (table, "*"))


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
    planned: Planned | None = None  # the plan, and what it was made from
    reader: ReaderNode | None = None
    binder: KeyBinder | None = None
    encoding: Encoding | None = None
    state: str = "rebuilding"
    why: str = ""
    made_by: MadeBy = BY_GRPC
    needs: frozenset[str] = frozenset()  # session variables on which answers depend
    needs_doubted: bool = False  # a session with variables of its own was told what MySQL does not tell it
    hits: int = 0
    look_at: int = 0  # the number of hits from which on the next one goes the long way
    misses: int = 0
    before: tuple[int, int] = (0, 0)  # hits and misses of caches that had the name before
    passed: PassedReads = field(default_factory=PassedReads)
    losses: Losses = field(default_factory=Losses)  # of its readers' keys
    left: int = 0  # reads that no hit was at once, left to MySQL while the loop was short
    by_clock: bool = False  # it was asked by texts that say NOW() or the like
    work_us: float = 0.0  # of the loop, for such reads that were not; counted of automatic caches
    too_large: TooLarge = field(default_factory=TooLarge)
    filling: asyncio.Task[object] | None = None  # the fill of all its rows, for which no session waits
    generation: int = 0  # rises when the plan changes: opened caches look again
    dropped: bool = False
    trust: Trust | None = None  # None: every answer is believed
    hit_ns: deque[int] = field(default_factory=lambda: deque(maxlen=256))
    miss_ns: deque[int] = field(default_factory=lambda: deque(maxlen=256))
    only_checked: bool = True  # of `miss_ns`: no miss went unchecked yet

    @property
    def not_ready(self) -> Why:
        """Why it has no reader. Requires: it has none."""
        reason = Reason.SHAPE if self.state == "refused" else Reason.PLANNED_ANEW
        return reason.why(self.why or self.state)

    def time_miss(self, ns: int, *, checked: bool) -> None:
        """A miss took so long. Those that were compared with MySQL's own answer took twice as long: they count while
        there are no others."""
        if self.only_checked and not checked:
            self.only_checked = False
            self.miss_ns.clear()
        if checked is self.only_checked:
            self.miss_ns.append(ns)

    def quantiles_us(self) -> tuple[float, float, float, float]:
        """The median and the 99th of a hundred of the last hits that were timed, and of the last misses; 0 without
        any."""
        return *_quantiles_us(self.hit_ns), *_quantiles_us(self.miss_ns)

    @property
    def tables(self) -> Sequence[str]:
        """That it reads, quoted, for whom asks MySQL; also of a cache that is dropped or made anew."""
        if self.reader is not None:
            return self.reader.tables
        return tuple(starmap(relation_name, sorted(self.relations)))

    @property
    def text(self) -> str:
        """`sql` with one placeholder for each parameter, also for those that the clock gives."""
        return self.sql if self.plan is None else self.plan.asked

    @property
    def columns(self) -> tuple[ResultColumn, ...]:
        """As MySQL announces them: in its answers where they are known, else as it prepares the query."""
        return self.encoding.columns if self.encoding is not None else ()

    @property
    def is_automatic(self) -> bool:
        return self.made_by.origin is Origin.AUTOMATIC

    def count(self, served: Served) -> None:
        """An answer of `Misses` was given to a client, as a hit or a miss."""
        if served is Served.MISS:
            self.misses += 1
        else:
            self.hits += 1

    def recount(self, served: Served | None) -> None:
        """What was counted as a hit in this step of the loop was a miss, or (None) was not given to a client."""
        self.hits -= 1
        if served is not None:
            self.count(served)

    @property
    def parameters(self) -> tuple[ParameterInfo, ...]:
        """Of its plan; none without one."""
        parameters = self.plan.parameters if self.plan is not None else ()
        return tuple(ParameterInfo(item.column, item.type, item.list, item.sent) for item in parameters)

    def info(self) -> CacheInfo:
        plan, reader = self.plan, self.reader
        reason, why = self.passed.top
        return CacheInfo(
            name=self.name,
            sql=self.sql,
            database=self.database,
            mode=plan.mode.value if plan is not None else "",
            state=self.state,
            why=self.why or (self.trust.told if self.trust is not None else ""),
            parameters=self.parameters,
            columns=self.columns,
            keys=len(reader.entries) if reader is not None else 0,
            bytes=held_bytes(reader) if reader is not None else 0,
            hits=self.hits,
            misses=self.misses,
            hit_p50_us=median(self.hit_ns) / 1000 if self.hit_ns else 0.0,
            miss_p50_us=median(self.miss_ns) / 1000 if self.miss_ns else 0.0,
            made_by=self.made_by,
            relations=self.relations,
            before=self.before,
            passed=self.passed.total,
            passed_reason=reason,
            passed_why=why,
            passed_ever={one.value: count for one, count in self.passed.ever.items()},
            losses=self.losses,
            left=self.left,
            work_us=self.work_us,
        )


def _quantiles_us(times: Iterable[int]) -> tuple[float, float]:
    found = sorted(times)
    return (found[len(found) // 2] / 1000, found[len(found) * 99 // 100] / 1000) if found else (0.0, 0.0)
