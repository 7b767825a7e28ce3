"""No step of the event loop may be long, whatever is done meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from tests.support.step_times import StepTimes, step_times

ATTEMPTS = 3
"""What is too much for one step is so each time; a neighbour on the same core is not."""


def each_step_is_short(
    mysql: Server,
    database: str,
    folder: Path,
    statements: Sequence[str],
    scenario: Callable[[Path, StepTimes], Awaitable[None]],
    too_long: Callable[[StepTimes], bool],
) -> None:
    """Runs a scenario upon a database that the statements make, until its steps are short once. It is given a folder
    that no other attempt has seen."""
    for attempt in range(ATTEMPTS):
        mysql.execute(f"DROP DATABASE `{database}`", f"CREATE DATABASE `{database}`", f"USE `{database}`", *statements)
        own = folder / str(attempt)
        own.mkdir()
        with step_times() as found:
            asyncio.run(_run(scenario, own, found))
        print("\n" + found.report(40))
        assert found.counts[0] > 100, "steps were measured"
        if not too_long(found):
            return
    pytest.fail(found.report())


async def _run(scenario: Callable[[Path, StepTimes], Awaitable[None]], folder: Path, found: StepTimes) -> None:
    await scenario(folder, found)
