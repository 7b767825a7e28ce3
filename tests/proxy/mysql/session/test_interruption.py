"""Which texts are a KILL QUERY, how long a text may take, and what an interruption ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from proxy.mysql.session.interruption import Interrupted, Waiting, kill_of, time_limit


@pytest.mark.parametrize(
    ("text", "killed"),
    [
        ("KILL QUERY 17", (17, True)),
        ("/* a timeout */ kill  Query 17 ; -- now", (17, True)),
        ("KILL 17", (17, False)),
        ("kill /* it */ CONNECTION 17;", (17, False)),
        *dict.fromkeys(
            (
                "KILL QUERY", "KILL QUERY 17, 18", "KILL QUERY CONNECTION_ID()", "KILL SOFT 17", "KILL",
                "KILL QUERY '17'", "KILL QUERY 1.7", "KILL QUERY -17", "KILL QUERY @x", "KILL QUERY 0x11", "SELECT 17",
                "KILL QUERY 17; KILL QUERY 18", "KILL QUERY 'unclosed", "KILL QUERY 17" + " " * 1000, "",
            )
        ).items(),
    ],
)  # fmt: skip
def test_what_is_killed(text: str, killed: tuple[int, bool] | None) -> None:
    found = kill_of(text.encode())
    assert found == killed


def test_bytes_that_are_no_text_kill_nothing() -> None:
    assert kill_of(b"KILL QUERY 1\xe4") is None


@pytest.mark.parametrize(
    ("text", "value", "seconds"),
    [
        ("SELECT 1", "0", None),
        ("SELECT 1", "", None),
        ("SELECT 1", "250", 0.25),
        ("SELECT /*+ max_execution_time( 40 ) */ 1", "250", 0.04),
        ("SELECT /*+ MAX_EXECUTION_TIME(0) */ 1", "250", None),
    ],
)
def test_how_long_a_text_may_take(text: str, value: str, seconds: float | None) -> None:
    assert time_limit(text.encode(), value) == seconds


async def waited(waiting: Waiting, coming: Awaitable[str]) -> str:
    with waiting:
        return await coming


def test_an_interruption_ends_the_wait_and_no_other() -> None:
    async def script() -> None:
        waiting = Waiting()
        waiting.interrupt()  # nothing is waited for
        assert await waited(waiting, _said("done")) == "done"
        never = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(waited(waiting, never))
        await asyncio.sleep(0)
        waiting.interrupt()
        waiting.interrupt()
        with pytest.raises(Interrupted):
            await task
        assert never.cancelled()
        task = asyncio.create_task(waited(waiting, asyncio.get_running_loop().create_future()))
        await asyncio.sleep(0)
        task.cancel()  # the session ends
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await waited(waiting, _said("again")) == "again"

    asyncio.run(script())


def test_the_end_of_the_session_is_no_interruption() -> None:
    async def script() -> None:
        waiting = Waiting()
        task = asyncio.create_task(waited(waiting, asyncio.get_running_loop().create_future()))
        await asyncio.sleep(0)
        waiting.interrupt()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(script())


async def _said(word: str) -> str:
    return word
