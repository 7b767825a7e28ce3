"""Waits for what nobody tells of: the one place where tests look again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

PATIENCE = 60.0  # seconds
BETWEEN_LOOKS = 0.005  # seconds, in which others have the processor


async def turns(count: int = 5) -> None:
    """So many turns of the loop: what was begun goes on until it waits for something else. No time passes."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(
    condition: Callable[[], bool | Awaitable[bool]], seconds: float = PATIENCE, between: float = BETWEEN_LOOKS
) -> None:
    """Returns when the condition holds. Raises TimeoutError after so many seconds. `between`: seconds between two
    looks, more where a look is dear."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(between)
