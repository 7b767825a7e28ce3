"""Work of the loop in slices: long work lets others run in between."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future, get_running_loop
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from time import perf_counter
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from sqltypes.expression import Row

Encoder = Callable[[Sequence[Row]], bytes]  # of the rows of an answer, for one wire format
Join = Callable[[Sequence[bytes]], bytes]  # of the encodings of several keys

Item = TypeVar("Item")
Result = TypeVar("Result")

SLICE = 0.001  # seconds of one step of what is done a little at a time
ROWS_AT_ONCE = 512  # a multiple of 256: over MySQL's protocol each part goes on with the number that the next one has


class Turns:
    """The tasks that work in slices on one loop. Each turn of the loop has one slice, and the tasks take turns in the
    order in which they came. So other work waits for one slice, however many tasks there are.

    Invariants: 1. while one waits, `_begin` is scheduled. It is so in the turn behind a slice's begin, too: who comes
    back in that has the next one.
    """

    def __init__(self) -> None:
        self._waiting: deque[Future[None]] = deque()
        self._scheduled = False

    def next(self) -> Future[None]:
        """Is done when the next slice is the caller's."""
        loop = get_running_loop()
        mine: Future[None] = loop.create_future()
        self._waiting.append(mine)
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._begin)
        return mine

    def _begin(self) -> None:
        self._scheduled = False
        while self._waiting:
            one = self._waiting.popleft()
            if not one.done():  # else its task was cancelled
                one.set_result(None)
                self._scheduled = True
                get_running_loop().call_soon(self._begin)
                break


_turns: WeakKeyDictionary[AbstractEventLoop, Turns] = WeakKeyDictionary()


class Slices:
    """`turn` is awaited between two small pieces of the work."""

    def __init__(self) -> None:
        self._until = perf_counter() + SLICE

    async def turn(self) -> None:
        """Gives others their turn, if the slice is over."""
        if perf_counter() >= self._until:
            loop = get_running_loop()
            turns = _turns.get(loop)
            if turns is None:
                turns = _turns[loop] = Turns()
            await turns.next()
            self._until = perf_counter() + SLICE


async def in_slices(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yields each item; others run now and then. Requires: their work does not change the iterable."""
    slices = Slices()
    for item in items:
        yield item
        await slices.turn()


def taken(items: list[Item]) -> Iterator[Item]:
    """Yields each item, the last first, and takes it out of the list, so that not all are freed at the end."""
    while items:
        yield items.pop()


async def emptied(items: list[Any], at_once: int = 256) -> None:
    """Takes all items out of a list that nobody needs any more. That frees the items that nobody else holds: a million
    at once would be a long step."""
    slices = Slices()
    while items:
        del items[-at_once:]
        await slices.turn()


async def run_in_slices(steps: Generator[None, None, Result]) -> Result:
    """Runs the steps and returns their result. Others run now and then."""
    slices = Slices()
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: Result = ended.value
            return result
        await slices.turn()


async def encode_in_slices(encode: Encoder, join: Join, rows: Sequence[Row]) -> bytes:
    """The answer's bytes. Requires: the rows do not change meanwhile."""
    if len(rows) <= ROWS_AT_ONCE:
        return encode(rows)
    firsts = range(0, len(rows), ROWS_AT_ONCE)
    return join([encode(rows[first : first + ROWS_AT_ONCE]) async for first in in_slices(firsts)])
