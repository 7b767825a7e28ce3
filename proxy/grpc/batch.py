"""Many keys of one cache in one call: one header, then two parts for each key.

One header describes all rows of the call, so they must be of one cache with one set of columns. Hits are looked up at
one position. Misses take a while. If a DDL statement comes meanwhile, or another cache gets the name, the call is
answered again from the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from proxy.grpc.answers import ANSWER_HEADS, SERVED
from proxy.grpc.errors import as_upwell_error, failure
from proxy.grpc.opened_caches import KEY_HIT, OpenCache, OpenCaches, Parameters
from proxy.grpc.rows import varint
from proxy.loop.memo import Memo
from proxy.loop.slices import Slices
from proxy.port.api import Demand
from sqltypes.errors import Overloaded, UnknownCache
from sqltypes.schema import ResultColumn
from upwell.v1 import upwell_pb2 as pb

TRIES, PAUSE = 100, 0.05
"""How often, and after how many seconds, a batch is answered anew."""
PARTS_AT_ONCE = 1_000
"""How many answers are put together from one look at the clock to the next."""
MISSES_AT_ONCE = 50
"""How many misses are begun in one turn of the loop."""
LISTS_AT_ONCE = 100  # misses with lists that one batch waits for; each may take ten upqueries

# A KeyAnswer of a hit inside a BatchAnswer: the field's head, then `served: HIT`, then the rows' bytes.
_hit_heads: Memo[int] = Memo(lambda length: b"\x0a" + varint(length + len(KEY_HIT)) + KEY_HIT)


async def batch(
    caches: OpenCaches, name: str, keys: Sequence[Parameters], demand: Demand | None, known_columns: int
) -> bytes:
    """A serialised BatchAnswer. A key that fails has its failure. Raises UnknownCache, BadParameters, Overloaded."""
    filled = False
    for _ in range(TRIES):
        answer = await _once(caches, name, keys, demand, known_columns, filled=filled)
        if answer is not None:
            return answer
        if not filled:
            filled = True  # very many were missing
            continue
        await asyncio.sleep(PAUSE)  # what has changed the tables is on its way through the stream
    raise Overloaded(f"cache {name!r} was made or planned anew during each of {TRIES} attempts")


async def _once(
    caches: OpenCaches,
    name: str,
    keys: Sequence[Parameters],
    demand: Demand | None,
    known_columns: int,
    *,
    filled: bool,
) -> bytes | None:
    """None if the cache or its columns changed meanwhile. Also None after very many missing keys were filled, which is
    done unless they are `filled` already."""
    try:
        opened = caches.of(name)
        met = demand is None or demand.met()
        bodies = await opened.cache.hit_batch(keys) if met else [None] * len(keys)
    except UnknownCache:
        opened = caches.anew(name)
        bodies = await opened.cache.hit_batch(keys)
    # Nothing has run since the answers were looked up: the header tells their position.
    parts = [opened.batch_header(known_columns)]
    columns = opened.cache.columns
    missed: list[int] = []
    append = parts.append
    slices = Slices()
    for index, body in enumerate(bodies):
        if index % PARTS_AT_ONCE == 0:
            await slices.turn()
        if body is None:
            missed.append(index)
            body = b""
        append(_hit_heads[len(body)])
        append(body)
    if missed and not filled and await caches.fill_first(name, [keys[index] for index in missed]):
        return None
    if missed:
        answers = await _answers(opened, [keys[index] for index in missed], demand)
        told = next((one.columns for one in answers if one is not None and one.columns is not None), columns)
        if len(missed) == len(keys) and not agree(told, columns):
            columns = told
            parts[0] = opened.header_of(columns, known_columns)
        for number, (index, answer) in enumerate(zip(missed, answers, strict=True)):
            if number % MISSES_AT_ONCE == 0:
                await slices.turn()
            if answer is None or not (answer.columns is None or agree(answer.columns, columns)):
                return None
            parts[2 * index + 1] = ANSWER_HEADS[len(answer.data)]
            parts[2 * index + 2] = answer.data
    return b"".join(parts)


@dataclass(slots=True)
class KeyAnswer:
    """A serialised KeyAnswer, and the columns of its rows; None: it is a failure."""

    data: bytes
    columns: tuple[ResultColumn, ...] | None = None


async def _answers(opened: OpenCache, keys: Sequence[Parameters], demand: Demand | None) -> list[KeyAnswer | None]:
    """The answers of many misses. Some are begun at a time: others have their turn in between."""
    tasks: list[asyncio.Task[KeyAnswer | None]] = []
    lists = asyncio.Semaphore(LISTS_AT_ONCE)

    async def answer(parameters: Parameters) -> KeyAnswer | None:
        async with lists if any(isinstance(value, tuple) for value in parameters) else nullcontext():
            return await _answer(opened, parameters, demand)

    async with asyncio.TaskGroup() as group:
        for number, parameters in enumerate(keys, 1):
            tasks.append(group.create_task(answer(parameters)))
            if number % MISSES_AT_ONCE == 0:
                await asyncio.sleep(0)
    return [task.result() for task in tasks]


async def _answer(opened: OpenCache, parameters: Parameters, demand: Demand | None) -> KeyAnswer | None:
    """Of one miss: its failure fails no other key. None where the cache has been dropped."""
    try:
        answer = await opened.cache.read(parameters, demand)
    except UnknownCache:
        return None
    except Exception as error:  # noqa: BLE001 - the top level of one key's task; logged by as_upwell_error
        return KeyAnswer(pb.KeyAnswer(failure=failure(as_upwell_error(error))).SerializeToString())
    served, position, horizon = SERVED[answer.served], answer.position, answer.horizon
    head = pb.KeyAnswer(served=served, position=position, why=answer.why, horizon=horizon)
    return KeyAnswer(head.SerializeToString() + answer.body, answer.columns)


def agree(one: Sequence[ResultColumn], other: Sequence[ResultColumn]) -> bool:
    """Whether rows of the one may be told under the other. Each value says its type itself, so the names of the tables'
    columns tell it. What is computed has its text for a name, values included, and may be named after no table."""
    return one is other or (
        len(one) == len(other)
        and all(not (a.table and b.table) or a.name == b.name for a, b in zip(one, other, strict=True))
    )
