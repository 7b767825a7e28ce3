"""The pump where spans are made: notes what a miss took, and how many rows it brought."""

from __future__ import annotations

from time import perf_counter_ns

from dataflow.fills.demand import Demand
from dataflow.messages import Check, Ready
from dataflow.readers.in_steps import Holes
from dataflow.readers.reader import ReaderNode
from proxy.cache.key_binder import Bound
from proxy.port.tracing import NOTED
from proxy.pump.pump import Pump


class TracedPump(Pump):
    async def miss(
        self,
        reader: ReaderNode,
        keys: Bound,
        demand: Demand | None = None,
        check: Check | None = None,
        *,
        doubted: bool = False,
        holes: Holes | None = None,
    ) -> Ready:
        started = perf_counter_ns()
        ready = await super().miss(reader, keys, demand, check, doubted=doubted, holes=holes)
        noted = NOTED.get()
        if noted is not None:
            noted.rows, noted.mysql_ms = len(ready.rows), (perf_counter_ns() - started) / 1e6
        return ready
