"""How busy the loop is said to be."""

from __future__ import annotations

import threading
import time

from proxy.loop.loop_load import LoopLoad, thread_times


class Rig:
    def __init__(self) -> None:
        self.now = self.used = 0.0
        self.load = LoopLoad(lambda: self.used, lambda: self.now)

    def ticks(self, count: int, share: float) -> None:
        for _ in range(count):
            self.now += 0.25
            self.used += 0.25 * share
            self.load.tick()


def test_a_loop_that_is_always_at_work_is_short_within_a_second_and_no_more_soon_after() -> None:
    rig = Rig()
    rig.ticks(1, 1.0)
    assert not rig.load.short and rig.load.idle == 0.0
    rig.ticks(3, 1.0)
    assert rig.load.short
    rig.ticks(4, 0.1)
    assert not rig.load.short and rig.load.idle > 0.89


def test_between_the_two_bounds_it_stays_as_it_was() -> None:
    rig = Rig()
    rig.ticks(20, 0.6)
    assert not rig.load.short
    rig.ticks(20, 1.0)
    rig.ticks(20, 0.6)
    assert rig.load.short


def test_two_looks_at_one_moment_are_one() -> None:
    rig = Rig()
    rig.ticks(4, 1.0)
    busy = rig.load.busy
    rig.load.tick()
    assert rig.load.busy == busy


def test_a_thread_that_works_has_times_and_one_that_sleeps_has_none() -> None:
    times = thread_times()
    before, until = times(), time.thread_time() + 0.02
    while time.thread_time() < until:
        pass
    worked = times()
    assert worked - before >= 0.015
    threading.Event().wait(0.05)
    assert times() - worked < 0.04
