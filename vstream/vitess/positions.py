"""Where all shards of a keyspace are now: a stream of its own tells, and ends then.

vtgate's heartbeats say that vtgate is there. They come, too, while it has found no tablet for a shard, or one of a
shard that is no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import grpc

from dataflow.messages import StreamEvent
from gtid_tracker.gtid import GtidSet, MutableGtidSet
from sqltypes.errors import SourceDown
from vstream import vitess_pb2 as pb
from vstream.vitess.assemble import VitessAssembler
from vstream.vitess.shard import Shard

CURRENT = "current"
ALL_TABLES = "/.*/"
STEPS = 20  # of a response, in one step of the loop


def request_of(keyspace: str, positions: Mapping[Shard, str], heartbeat: int) -> pb.VStreamRequest:
    """`positions`: behind which each shard's stream goes on; none: where all are. `heartbeat`: seconds; 0: none."""
    gtids = [pb.ShardGtid(keyspace=of, shard=shard, gtid=gtid) for (of, shard), gtid in positions.items()]
    return pb.VStreamRequest(
        tablet_type=pb.PRIMARY,
        vgtid=pb.VGtid(shard_gtids=gtids or [pb.ShardGtid(keyspace=keyspace, gtid=CURRENT)]),
        filter=pb.Filter(rules=[pb.Rule(match=ALL_TABLES)]),
        flags=pb.VStreamFlags(
            heartbeat_interval=heartbeat,
            include_reshard_journal_events=True,
            exclude_keyspace_from_table_name=True,
        ),
    )


def _nobody(event: StreamEvent) -> None:
    """Who looks takes no changes."""


async def where_shards_are(opened: Callable[[pb.VStreamRequest], Any], keyspace: str) -> tuple[set[Shard], GtidSet]:
    """Those that serve, and all that they have executed. Raises SourceDown, AioRpcError, and what the assembler
    raises."""
    found = VitessAssembler(keyspace, MutableGtidSet(), _nobody)
    call = opened(request_of(keyspace, {}, 0))
    try:
        while not found.complete:
            response = await _read(call)
            for number, _ in enumerate(found.steps(response)):
                if found.complete:
                    break
                if number % STEPS == STEPS - 1:
                    await asyncio.sleep(0)
    finally:
        call.cancel()
    return set(found.positions), found.position.freeze()


async def _read(call: Any) -> bytes:
    try:
        response = await call.read()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise SourceDown("vtgate has given it up") from None  # gRPC's client makes the same of both
    if response is grpc.aio.EOF:  # type: ignore[attr-defined]  # grpc-stubs lack it
        raise SourceDown("vtgate has ended it")
    return bytes(response)
