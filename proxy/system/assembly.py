"""Puts together what follows the stream beside the engine, and the parts that compare answers with MySQL's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from time import monotonic

from dataflow.engine import Engine
from dataflow.messages import StreamEvent
from proxy.auto.fill_budget import FillBudget
from proxy.catalog.catalog import Catalog
from proxy.checking.auditor import Auditor
from proxy.checking.comparison import Comparer
from proxy.checking.earning import Earning
from proxy.checking.sampler import Sampler
from proxy.port.position import Position
from proxy.pump.pump import Pump
from proxy.pump.visibility import VisibleTimes
from proxy.pump.wire_formats import WireFormats
from proxy.read.freshness import Freshener
from proxy.read.literals import substituted
from proxy.source.source import Source


@dataclass(frozen=True, slots=True)
class Followers:
    """What is told of each event that the pump has processed. They need no pump, so they are made before it."""

    position: Position
    visible: VisibleTimes
    freshness: Freshener
    earning: Earning
    comparer: Comparer

    @property
    def always(self) -> tuple[Callable[[StreamEvent], None], ...]:
        """Who is told of every event, in this order."""
        return self.position.on_stream, self.visible.on_stream

    @property
    def waiting(self) -> tuple[tuple[Collection[object], Callable[[StreamEvent], None]], ...]:
        """Who is told only while somebody waits there."""
        suspicions = self.comparer.suspicions
        return (
            (self.freshness.filed, self.freshness.on_stream),
            (self.earning.stirred, self.earning.on_stream),
            (suspicions.running, suspicions.on_stream),
            (self.comparer.running, self.comparer.on_stream),
        )


def followers_of(
    engine: Engine, source: Source, formats: WireFormats, earning: Earning, budget: FillBudget
) -> Followers:
    """`budget`: pays for comparisons of large answers of automatic caches."""
    stream, executor = source.stream, source.upqueries
    comparer = Comparer(
        engine,
        executor.submit,
        lambda: stream.history,
        monotonic,
        lambda format_: formats.joins[format_],
        source.other_session,
        budget.charge,
    )
    freshness = Freshener(engine, stream.age, executor.executed)
    return Followers(Position(engine), VisibleTimes(stream), freshness, earning, comparer)


def auditor_of(engine: Engine, followers: Followers, catalog: Catalog) -> Auditor:
    """Compares the first answers of new caches."""
    return Auditor(
        engine,
        followers.comparer,
        followers.earning,
        catalog.distrust,
        substituted=substituted,
        clock=monotonic,
    )


def sampler_of(
    engine: Engine, source: Source, pump: Pump, share: float, auditor: Auditor, comparer: Comparer
) -> Sampler:
    """Compares that share of the hits with MySQL's answers."""
    stream, executor = source.stream, source.upqueries
    return Sampler(
        engine,
        comparer,
        substituted,
        auditor.on_different,
        share=share,
        source_up=lambda: stream.connected and not executor.queued,
        publish=lambda: pump.handle(engine.flush()),
        soon=asyncio.get_running_loop().call_soon,
    )
