"""`Fill` and `Audit`: what a caller asks for, and how far it is, as messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from proxy.grpc.requests import AT_ONCE, field_at, key_parameters, long_key_parameters
from proxy.loop.slices import Slices, emptied
from proxy.port.api import ParameterValue
from proxy.port.fill_progress import AuditProgress, FillBy, FillProgress
from sqltypes.errors import BadParameters, MalformedRequest, Overloaded
from upwell.v1 import upwell_pb2 as pb

MOST_KEYS = 1_000_000
"""Of one call: each is held as it was given until it is filled."""
BY: dict[int, FillBy] = {pb.SIZE: FillBy.SIZE, pb.DIRECT: FillBy.DIRECT, pb.SPARK: FillBy.SPARK}
_TOLD = {FillBy.SIZE: pb.SIZE, FillBy.DIRECT: pb.DIRECT, FillBy.SPARK: pb.SPARK}
KEY = 0x22  # the tag of `FillRequest.keys`


@dataclass(frozen=True, slots=True)
class Asked:
    """`keys` None: all that have rows. `hot` not 0: so many that were held before."""

    cache: str
    keys: list[tuple[ParameterValue, ...]] | None
    by: FillBy
    hot: int = 0


async def asked_to_fill(requests: AsyncIterator[bytes], check_size: Callable[[int, str], None]) -> Asked:
    """Reads all requests. Raises BadParameters, Overloaded, MalformedRequest, and what `check_size` raises."""
    keys: list[tuple[ParameterValue, ...]] = []
    try:
        return await _asked_to_fill(requests, check_size, keys)
    except BaseException:
        await emptied(keys)
        raise


async def _asked_to_fill(
    requests: AsyncIterator[bytes], check_size: Callable[[int, str], None], keys: list[tuple[ParameterValue, ...]]
) -> Asked:
    first: pb.FillRequest | None = None
    async for request in requests:
        check_size(len(request), "request")
        others = await _keys_taken(request, keys)
        try:
            message = pb.FillRequest.FromString(others)
        except DecodeError as error:
            raise MalformedRequest(f"the request is no message of its method: {error}") from None
        first = first or message
    if first is None or not first.cache:
        raise BadParameters("no cache is named: the first request names it")
    if first.all + bool(keys) + bool(first.hot) > 1:
        raise BadParameters("all keys, hot ones, and some by name: one of these is accepted")
    if not first.all and not keys and not first.hot:
        raise BadParameters("no keys are given: give some, or ask for all that have rows")
    return Asked(first.cache, None if first.all else keys, by_of(first.by), first.hot)


async def _keys_taken(request: bytes, keys: list[tuple[ParameterValue, ...]]) -> bytes:
    """Adds a request's keys to `keys`, each parsed by itself: all of a large request would be a long step. Returns the
    request without them."""
    others: list[bytes] = []
    turns = Slices()
    at = 0
    while at < len(request):
        tag, first, end = field_at(request, at)
        if tag != KEY:
            others.append(request[at:end])
        elif len(keys) >= MOST_KEYS:
            raise Overloaded(f"more than {MOST_KEYS:,} keys: fill them by several calls, or all by `all`")
        else:
            raw = request[first:end]
            try:
                keys.append(key_parameters(raw) if len(raw) <= AT_ONCE else await long_key_parameters(raw))
            except BadParameters as error:
                raise BadParameters(f"key {len(keys) + 1}: {error}") from error
        at = end
        await turns.turn()
    return b"".join(others)


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
    message = pb.AuditProgress(
        cache=progress.cache,
        keys=progress.keys,
        compared=progress.compared,
        left=progress.left,
        rows=progress.rows,
        seconds=progress.seconds,
        different=progress.different,
        repaired=progress.repaired,
        why=progress.why,
        done=progress.done,
    )
    return message.SerializeToString()
