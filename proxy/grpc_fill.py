"""`Fill` and `Audit`: what a caller asks for, and how far it is, as messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from proxy.api import AuditProgress, FillBy, FillProgress, ParameterValue
from proxy.grpc_values import key_parameters
from proxy.slices import Slices
from sqltypes.errors import BadParameters, MalformedRequest, Overloaded
from upwell.v1 import upwell_pb2 as pb

MOST_KEYS = 1_000_000
"""Of one call: each is held as it was given until it is filled."""
BY: dict[int, FillBy] = {pb.SIZE: FillBy.SIZE, pb.DIRECT: FillBy.DIRECT, pb.SPARK: FillBy.SPARK}
_TOLD = {FillBy.SIZE: pb.SIZE, FillBy.DIRECT: pb.DIRECT, FillBy.SPARK: pb.SPARK}
DIFFERENT_AT_ONCE = 10_000  # keys of one message


@dataclass(frozen=True, slots=True)
class Asked:
    """`keys` None: all that have rows. `hot` not 0: so many that were held before."""

    cache: str
    keys: list[tuple[ParameterValue, ...]] | None
    by: FillBy
    hot: int = 0


async def asked_to_fill(requests: AsyncIterator[bytes], check_size: Callable[[int, str], None]) -> Asked:
    """Reads all requests. Raises BadParameters, Overloaded, MalformedRequest, and what `check_size` raises."""
    first: pb.FillRequest | None = None
    keys: list[tuple[ParameterValue, ...]] = []
    turns = Slices()
    async for request in requests:
        check_size(len(request), "request")
        try:
            message = pb.FillRequest.FromString(request)
        except DecodeError as error:
            raise MalformedRequest(f"the request is no message of its method: {error}") from None
        first = first or message
        if len(keys) + len(message.keys) > MOST_KEYS:
            raise Overloaded(f"more than {MOST_KEYS:,} keys: fill them by several calls, or all by `all`")
        for key in message.keys:
            try:
                keys.append(key_parameters(key.SerializeToString()))
            except BadParameters as error:
                raise BadParameters(f"key {len(keys) + 1}: {error}") from error
            await turns.turn()
    if first is None or not first.cache:
        raise BadParameters("no cache is named: the first request names it")
    if first.all + bool(keys) + bool(first.hot) > 1:
        raise BadParameters("all keys, hot ones, and some by name: one of these is accepted")
    if not first.all and not keys and not first.hot:
        raise BadParameters("no keys are given: give some, or ask for all that have rows")
    return Asked(first.cache, None if first.all else keys, by_of(first.by), first.hot)


def by_of(number: int) -> FillBy:
    """Raises BadParameters."""
    if number not in BY:
        raise BadParameters(f"by is {number}: SIZE, DIRECT and SPARK are accepted")
    return BY[number]


def progress_bytes(progress: FillProgress) -> bytes:
    return progress_message(progress).SerializeToString()


def progress_message(progress: FillProgress) -> pb.FillProgress:
    return pb.FillProgress(
        cache=progress.cache,
        keys=progress.keys,
        held=progress.held,
        left=progress.left,
        rows=progress.rows,
        slices=progress.slices,
        seconds=progress.seconds,
        stage=progress.stage,
        by=_TOLD[progress.by],
        why=progress.why,
        done=progress.done,
    )


def audit_bytes(progress: AuditProgress) -> bytes:
    """Of very many differences the first ones are named."""
    message = pb.AuditProgress(
        cache=progress.cache,
        keys=progress.keys,
        compared=progress.compared,
        left=progress.left,
        rows=progress.rows,
        seconds=progress.seconds,
        different=progress.different[:DIFFERENT_AT_ONCE],
        repaired=progress.repaired,
        why=progress.why,
        done=progress.done,
    )
    return message.SerializeToString()
