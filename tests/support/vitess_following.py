"""A `VitessStream` of a vtgate of the tests', which does not wait where another would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tests.support.scripted_vtgate import ScriptedVtgate
from tests.support.vitess_events import KEYSPACE, T
from vstream.source import Sink
from vstream.vitess import Periods, VitessStream

PATIENT = Periods(start=60, silence=60, look=0.005, smallest_pause=0.001, largest_pause=0.005)
"""Nothing is given up for the clock's sake, and nothing waits."""
U = replace(T, name="u")
ALL = frozenset({"id", "name", "n"})


def run(scenario: Callable[[], Coroutine[Any, Any, None]], seconds: float = 120) -> None:
    asyncio.run(asyncio.wait_for(scenario(), seconds))


@asynccontextmanager
async def following(vtgate: ScriptedVtgate, sink: Sink, periods: Periods = PATIENT) -> AsyncIterator[VitessStream]:
    """From its start on, with t and u wanted."""
    stream = VitessStream(vtgate.address, KEYSPACE, periods)
    for table in (T, U):
        stream.want(table, ALL)
    await stream.start(sink)
    try:
        yield stream
    finally:
        await stream.close()
