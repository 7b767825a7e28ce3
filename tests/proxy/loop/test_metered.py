"""The time of a coroutine's own steps."""

from __future__ import annotations

import asyncio
import time

import pytest

from proxy.loop.metered import Metered


def work(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_what_it_waits_for_does_not_count() -> None:
    async def steps() -> str:
        work(0.01)
        await asyncio.sleep(0.2)
        work(0.01)
        return "done"

    async def scenario() -> None:
        metered = Metered(steps())
        started = time.perf_counter()
        assert await metered == "done"
        took = (time.perf_counter() - started) * 1e6
        assert 20_000 <= metered.us < took - 150_000

    asyncio.run(scenario())


def test_errors_pass_in_both_directions() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("its own")

    async def catches(future: asyncio.Future[None]) -> str:
        try:
            await future
        except ValueError as error:
            return f"caught {error}"
        return "nothing came"

    async def scenario() -> None:
        with pytest.raises(KeyError, match="its own"):
            await Metered(fails())
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(Metered(catches(future)))
        await asyncio.sleep(0)
        future.set_exception(ValueError("from outside"))
        assert await task == "caught from outside"

    asyncio.run(scenario())


def test_a_task_that_is_cancelled_cancels_it_and_its_time_is_known() -> None:
    ended = []

    async def waits() -> None:
        try:
            work(0.001)
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def scenario() -> None:
        metered = Metered(waits())

        async def outer() -> None:
            await metered

        task = asyncio.ensure_future(outer())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended and metered.us >= 1000

    asyncio.run(scenario())
