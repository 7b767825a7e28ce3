"""What reads of caches have from the system around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dataflow.engine import Engine
from proxy.access.log import AccessLog
from proxy.access.watch import Watch
from proxy.auto.fill_budget import FillBudget
from proxy.cache.named_cache import NamedCache
from proxy.checking.auditor import Auditor
from proxy.checking.sampler import Sampler
from proxy.loop.histogram import Histogram
from proxy.port.api import ParameterValue, Served
from proxy.port.position import Position
from proxy.pump.pump import Pump
from proxy.read.passing import Passing

SHORT = 0.8  # of the limit of memory


@dataclass(slots=True, eq=False)
class ReadHost:
    """One for all open caches."""

    engine: Engine
    pump: Pump
    position: Position
    passing: Passing
    sampler: Sampler
    auditor: Auditor
    want: Callable[[NamedCache, Sequence[ParameterValue]], None]  # has a key filled behind a read that MySQL answers
    budget: FillBudget = field(default_factory=FillBudget)  # of fills of automatic caches
    access_log: AccessLog | None = None  # it names the listeners' ports: it is there once they are
    watch: Watch | None = None  # while somebody watches reads
    closed: str = ""  # why hits are suspended; empty while they are served
    # What reads take, by `Served`. Of hits only some are timed.
    times: dict[str, Histogram] = field(
        default_factory=lambda: {Served.HIT.value: Histogram(), Served.MISS.value: Histogram()}
    )

    @property
    def memory_is_short(self) -> bool:
        """Whether keys may soon have to go: then it is noted which are asked for."""
        return self.engine.memory.used > SHORT * self.engine.limit.bytes
