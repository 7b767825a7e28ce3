"""Puts together the parts that compare answers with MySQL's."""

from __future__ import annotations

import asyncio
from time import monotonic

from dataflow.engine import Engine
from proxy.auto.fill_budget import FillBudget
from proxy.catalog.catalog import Catalog
from proxy.checking.auditor import Auditor
from proxy.checking.comparison import Comparer
from proxy.checking.sampler import Sampler
from proxy.pump.pump import Pump
from proxy.read.literals import substituted
from proxy.source.source import Source


def sampler_of(engine: Engine, source: Source, pump: Pump, share: float, budget: FillBudget | None) -> Sampler:
    """Compares that share of the hits with MySQL's answers. `budget`: pays for large ones."""
    stream, executor = source.stream, source.upqueries
    comparer = Comparer(
        engine,
        executor.submit,
        lambda: stream.history,
        monotonic,
        lambda format_: pump.formats.joins[format_],
        source.other_session,
        None if budget is None else budget.charge,
    )
    return Sampler(
        engine,
        comparer,
        substituted,
        share=share,
        source_up=lambda: stream.connected and not executor.queued,
        publish=lambda: pump.handle(engine.flush()),
        soon=asyncio.get_running_loop().call_soon,
    )


def auditor_of(engine: Engine, sampler: Sampler, catalog: Catalog, wanted: int, version: str) -> Auditor:
    """Compares the first answers of new caches."""
    return Auditor(
        engine,
        sampler.comparer,
        wanted,
        catalog.distrust,
        substituted=substituted,
        source_version=version,
        clock=monotonic,
    )
