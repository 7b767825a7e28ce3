"""Puts together the parts that compare answers with MySQL's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from dataflow.engine import Engine
from proxy.cache.named_cache import NamedCache
from proxy.catalog.catalog import Catalog
from proxy.checking.auditor import Auditor
from proxy.checking.sampler import Sampler
from proxy.pump.pump import Pump
from proxy.read.literals import substituted
from proxy.source.source import Upqueries
from vstream.source import ChangeSource


def sampler_of(
    engine: Engine,
    executor: Upqueries,
    stream: ChangeSource,
    pump: Pump,
    share: float,
    spent: Callable[[NamedCache, float], None],
) -> Sampler:
    """Compares that share of the hits with MySQL's answers. `spent`: as the comparer has it."""
    sampler = Sampler(
        engine,
        executor.submit,
        substituted,
        share=share,
        source_up=lambda: stream.connected and not executor.queued,
        followed=lambda: stream.history,
        publish=lambda: pump.handle(engine.flush()),
        soon=asyncio.get_running_loop().call_soon,
    )
    sampler.comparer.join, sampler.comparer.spent = (lambda format_: pump.formats.joins[format_]), spent
    return sampler


def auditor_of(
    engine: Engine, sampler: Sampler, catalog: Catalog, wanted: int, source_version: Callable[[], str]
) -> Auditor:
    """Compares the first answers of new caches."""
    return Auditor(
        engine,
        sampler.comparer,
        wanted,
        catalog.distrust,
        substituted=substituted,
        source_version=source_version,
        clock=monotonic,
    )
