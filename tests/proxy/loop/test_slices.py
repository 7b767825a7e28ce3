"""What is done in slices, many at a time: each turn of the loop has one slice of one of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

import pytest

from proxy.loop.slices import Slices

MANY, PIECES = 10, 5


@pytest.fixture(autouse=True)
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.loop.slices.SLICE", 0.0)  # a look at the clock is the end of a slice


async def turns_of(tasks: list[asyncio.Task[None]], seen: list[Counter[int]]) -> None:
    """Begins a new count at each turn of the loop, until the tasks have ended."""
    while not all(task.done() for task in tasks):
        seen.append(Counter())
        await asyncio.sleep(0)


def test_a_turn_of_the_loop_has_one_slice_however_many_are_at_work() -> None:
    seen: list[Counter[int]] = [Counter()]
    order: list[int] = []

    async def work(number: int) -> None:
        slices = Slices()
        for _ in range(PIECES):
            await slices.turn()
            seen[-1][number] += 1
            order.append(number)

    async def scenario() -> None:
        tasks = [asyncio.get_running_loop().create_task(work(number)) for number in range(MANY)]
        await turns_of(tasks, seen)

    asyncio.run(scenario())
    assert max(counted.total() for counted in seen) == 1
    assert order == [*range(MANY)] * PIECES  # in turn


def test_who_is_alone_has_a_slice_in_each_turn() -> None:
    seen: list[Counter[int]] = [Counter()]

    async def work() -> None:
        slices = Slices()
        for _ in range(100):
            await slices.turn()
            seen[-1][0] += 1

    async def scenario() -> None:
        await turns_of([asyncio.get_running_loop().create_task(work())], seen)

    asyncio.run(scenario())
    assert [counted.total() for counted in seen].count(0) <= 4, "before the first and behind the last"


def test_one_that_is_cancelled_holds_up_nobody() -> None:
    done: list[int] = []

    async def work(number: int) -> None:
        slices = Slices()
        for _ in range(PIECES):
            await slices.turn()
        done.append(number)

    async def scenario() -> None:
        tasks = [asyncio.get_running_loop().create_task(work(number)) for number in range(MANY)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        tasks = [asyncio.get_running_loop().create_task(work(MANY))]
        await tasks[0]

    asyncio.run(scenario())
    assert done == [*range(1, MANY, 2), MANY]
