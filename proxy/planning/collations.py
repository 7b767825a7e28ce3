"""The weights of collations, loaded before a plan is installed that compares or sorts by them.

Loading one collation takes up to a quarter of a second, once in the life of a process. A thread does it. If an answer
met them first, everybody would wait.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from dataflow.graph.wanted import wanted_columns
from planner.tree.plan import QueryPlan
from sqltypes.collation import key_function, sort_key, supported
from sqltypes.errors import UpwellError

NOT_ASCII = "é"  # texts of ASCII alone need less

_loaded: set[str] = set()


async def load_collations(plan: QueryPlan) -> None:
    """Those of the columns that the plan reads, and of its parameters."""
    wanted = collations_of(plan) - _loaded
    if wanted:
        await asyncio.to_thread(_load, wanted)


def collations_of(plan: QueryPlan) -> frozenset[str]:
    read = [
        table.column(name).type for part in plan.arrangements for table, names in wanted_columns(part) for name in names
    ]
    types = [*read, *(parameter.type for parameter in plan.parameters)]
    return frozenset(type_.collation for type_ in types if type_.collation is not None and supported(type_.collation))


def _load(collations: frozenset[str]) -> None:
    for collation in sorted(collations):
        for function in (key_function, sort_key):
            with suppress(UpwellError):  # not every character set has it
                function(collation)(NOT_ASCII)
    _loaded.update(collations)
