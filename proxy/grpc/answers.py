"""Whole protobuf messages for everything that is no hit: answers, caches, events, and their places in a stream."""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Sequence
from dataclasses import replace

from proxy.grpc.errors import as_upwell_error, failure
from proxy.grpc.rows import column_messages, columns_id, length_delimited, type_message
from proxy.loop.slices import Encoder, encode_in_slices
from proxy.port.api import Answer, CacheInfo, Served, SubscriptionEvent
from sqltypes.schema import ResultColumn
from upwell.v1 import upwell_pb2 as pb

SERVED = {Served.HIT: pb.HIT, Served.MISS: pb.MISS, Served.PASSED: pb.PASSED}
ANSWER_HEADS = length_delimited(0x0A)
_OUTCOME_HEADS = length_delimited(0x12)  # StreamResponse.answer, SubscribeEvent.change
_FAILURE_HEADS = length_delimited(0x1A)
_REMOVED_HEADS = length_delimited(0x12)
_ADDED_HEADS = length_delimited(0x1A)


def answer_bytes(answer: Answer, known_columns: int) -> bytes:
    """A whole Answer message: what is no hit of a known cache."""
    columns = column_messages(answer.columns)
    id = columns_id(columns)
    message = pb.Answer(
        served=SERVED[answer.served],
        cache=answer.cache,
        position=answer.position,
        why=answer.why,
        horizon=answer.horizon,
        columns=columns if id != known_columns else (),
        columns_id=id,
    )
    return message.SerializeToString() + answer.body


async def wide_answer_bytes(answer: Answer, at_once: int) -> bytes:
    """As `answer_bytes` without known columns, but with so many columns in one turn of the loop. The bytes of the
    messages, joined, are those of one message with all columns."""
    parts, id = list[bytes](), 0
    for first in range(0, len(answer.columns), at_once):
        columns = column_messages(answer.columns[first : first + at_once])
        parts.append(pb.Answer(columns=columns).SerializeToString())
        id = columns_id(columns, id)
        await sleep(0)
    head = answer_bytes(replace(answer, columns=(), body=b""), 0)
    return b"".join((head, pb.Answer(columns_id=id).SerializeToString(), *parts, answer.body))


def cache_message(info: CacheInfo) -> pb.Cache:
    return pb.Cache(
        name=info.name,
        sql=info.sql,
        database=info.database,
        mode=info.mode,
        state=info.state,
        why=info.why,
        parameters=[
            pb.Parameter(name=parameter.name, type=type_message(parameter.type), list=parameter.list)
            for parameter in info.parameters
        ],
        columns=column_messages(info.columns),
        keys=info.keys,
        bytes=info.bytes,
        hits=info.hits,
        misses=info.misses,
        passed=info.passed,
        passed_reason=info.passed_why,
        hit_p50_us=info.hit_p50_us,
        miss_p50_us=info.miss_p50_us,
    )


async def event_bytes(event: SubscriptionEvent, columns: Sequence[ResultColumn], encode: Encoder) -> bytes:
    """A serialised SubscribeEvent. Many rows are encoded in several steps of the loop."""
    if event.end:
        end = pb.Failure(reason="subscription_ended", message=event.end)
        return pb.SubscribeEvent(end=end, position=event.position).SerializeToString()
    if event.snapshot:
        body = pb.Snapshot(columns=column_messages(columns)).SerializeToString()
        body += await encode_in_slices(encode, b"".join, event.added)
        head = ANSWER_HEADS[len(body)]
    else:
        removed = await encode_in_slices(encode, b"".join, event.removed)
        added = await encode_in_slices(encode, b"".join, event.added)
        body = b"".join([_REMOVED_HEADS[len(removed)], removed, _ADDED_HEADS[len(added)], added])
        head = _OUTCOME_HEADS[len(body)]
    return head + body + pb.SubscribeEvent(position=event.position).SerializeToString()


def stream_answer(answer: bytes) -> bytes:
    return _OUTCOME_HEADS[len(answer)] + answer


def stream_failure(error: Exception) -> bytes:
    body = failure(as_upwell_error(error)).SerializeToString()
    return _FAILURE_HEADS[len(body)] + body
