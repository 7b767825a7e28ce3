"""What reads of caches need of the system around them (`proxy/system/system.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from dataflow.entries import Held
from dataflow.readers.derivation import Params
from dataflow.readers.reader import ReaderNode
from gtid_tracker.gtid import GtidSet
from proxy.access.log import AccessLog
from proxy.auto.fill_budget import FillBudget
from proxy.cache.named_cache import NamedCache
from proxy.checking.auditor import Auditor
from proxy.checking.sampler import Sampler
from proxy.loop.histogram import Histogram
from proxy.loop.slices import Join
from proxy.port.api import Answer, ParameterValue, WireFormat
from proxy.port.faults import Faults
from proxy.port.reasons import Why
from proxy.pump.pump import Pump
from proxy.read.freshness import CallDemand
from sqltypes.expression import Key


class Host(Protocol):
    """The system, as one read knows it."""

    pump: Pump
    faults: Faults
    auditor: Auditor
    sampler: Sampler
    access_log: AccessLog | None
    budget: FillBudget | None  # of fills, with automatic caching

    @property
    def closed(self) -> str:
        """Why hits are suspended; empty while they are served."""

    @property
    def times(self) -> Mapping[str, Histogram]:
        """By `Served` what reads take. Of hits only some are timed."""

    def wire(self, format_: int) -> WireFormat: ...

    def join(self, format_: int) -> Join: ...

    def position(self) -> str:
        """The position of all answers, as text."""

    def position_with(self, more: GtidSet) -> str:
        """The position and these transactions, as text."""

    def hold(self, reader: ReaderNode, key: Key, params: Params) -> Held | None:
        """The key's place at the reader, if all that it is made of is held."""

    def seconds(self, reader: ReaderNode) -> float:
        """What MySQL takes for the reader's upqueries, lately."""

    def substituted(self, sql: str, parameters: Sequence[ParameterValue]) -> str:
        """The text with literals in place of its parameters."""

    def keep_limit(self) -> None:
        """Evicts what is beyond the memory limit. Called after answers were stored."""

    @property
    def memory_is_short(self) -> bool:
        """Whether keys may soon have to go: then it is noted which are asked for."""

    def count(self, name: str) -> None: ...

    def spent(self, cache: NamedCache, us: float) -> None:
        """Notes time of the loop that a cache has taken, in microseconds."""

    async def pass_cache(
        self,
        cache: NamedCache,
        parameters: Sequence[ParameterValue],
        format_: int,
        why: Why,
        demand: CallDemand | None = None,
    ) -> Answer:
        """The cache's query with these parameters, answered by MySQL. Raises TooStale where MySQL itself lacks what is
        demanded."""

    def want(self, cache: NamedCache, parameters: Sequence[ParameterValue]) -> None:
        """Has a key filled behind a read that MySQL has answered."""
