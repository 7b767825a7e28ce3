"""A `VitessStream` of a vtgate of the tests', which does not wait where another would, and what it gives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from dataflow.messages import TableChanges, Transaction
from gtid_tracker.gtid import Gtid, GtidSet
from tests.support.scripted_vtgate import ScriptedVtgate, Step
from tests.support.vitess_events import (
    COMMITTED_AT,
    KEYSPACE,
    LEFT,
    RIGHT,
    SERVERS,
    T,
    committed,
    field_event,
    response,
    row,
    told_where,
)
from vstream import vitess_pb2 as pb
from vstream.source import Sink
from vstream.vitess.connection import Periods
from vstream.vitess.stream import VitessStream

PATIENT = Periods(start=60, silence=60, look=0.005, smallest_pause=0.001, largest_pause=0.005)
"""Nothing is given up for the clock's sake, and nothing waits."""
U = replace(T, name="u")
ALL = frozenset({"id", "name", "n"})


BEGUN: tuple[Step, ...] = (
    response(*told_where(LEFT, 9)),
    response(*told_where(RIGHT, 5, {LEFT: 9})),
)
"""What a keyspace of two shards says first."""
BOTH = {LEFT: 9, RIGHT: 5}


def set_of(**numbers: int) -> GtidSet:
    shards = {"left": LEFT, "right": RIGHT}
    return GtidSet.parse(",".join(f"{SERVERS[shards.get(name, name)]}:1-{n}" for name, n in numbers.items()))


def inserted(number: int, id_: int, shard: str = LEFT, table: str = "shop.t") -> Transaction:
    return Transaction(Gtid(SERVERS[shard], number), [TableChanges(table, [(None, (id_, "a", 1))])], COMMITTED_AT)


def insert(number: int, id_: int, shard: str = LEFT, *, fields: bool = True) -> list[pb.VEvent]:
    told = [field_event(shard=shard)] if fields else []
    return committed(number, *told, row(None, (str(id_), "a", "1"), shard, number), shard=shard, others=BOTH)


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
