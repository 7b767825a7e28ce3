"""How late the loop is, and what made it late."""

from __future__ import annotations

import asyncio
import time

from proxy.loop.lateness import BOUNDS, LATE, NO_PROCESSOR, NOT_SEEN, Lateness


def hold_up(seconds: float) -> None:
    """A step of the loop that takes so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def test_a_long_step_is_counted_and_named() -> None:
    async def scenario() -> Lateness:
        lateness = Lateness()
        lateness.start()
        try:
            while lateness.buckets()[-1][1] == 0:
                await asyncio.sleep(0.001)
            while "hold_up" not in lateness.doing:
                hold_up(4 * LATE)
                await asyncio.sleep(0.001)
        finally:
            lateness.stop()
        return lateness

    lateness = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert lateness.most > LATE and lateness.sum >= lateness.most
    bounds, counts = zip(*lateness.buckets(), strict=True)
    assert bounds == (*BOUNDS, float("inf"))
    assert list(counts) == sorted(counts) and counts[-1] > counts[BOUNDS.index(LATE)]


def test_what_was_not_seen_is_a_machine_without_a_processor_or_short_steps() -> None:
    async def scenario() -> list[str]:
        lateness, found = Lateness(), []
        for used in (0.0, 0.09):
            lateness.note(0.1, used)
            found.append(lateness.doing)
        return found

    assert asyncio.run(scenario()) == [NO_PROCESSOR, NOT_SEEN]


def test_each_lateness_is_in_its_bucket() -> None:
    async def scenario() -> tuple[tuple[float, int], ...]:
        lateness = Lateness()
        for late in (0.0, 0.001, 0.004, 0.3, 60.0):
            lateness.note(late, 0.0)
        return lateness.buckets()

    found = dict(asyncio.run(scenario()))
    assert (found[0.001], found[0.005], found[0.25], found[0.5], found[float("inf")]) == (2, 3, 3, 4, 5)
