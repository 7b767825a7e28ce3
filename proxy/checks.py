"""What compares answers with MySQL's, put together from the parts of the proxy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from dataflow.engine import Engine
from proxy.auditor import Auditor
from proxy.catalog import Catalog
from proxy.long_sql import substituted
from proxy.named_cache import NamedCache
from proxy.pump import Pump
from proxy.sample import Sampler
from proxy.source import Upqueries
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
    sampler.comparer.join, sampler.comparer.spent = (lambda format_: pump.joins[format_]), spent
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
