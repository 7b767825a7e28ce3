"""MySQL's clock is known between two bounds, and told where both give the same second."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from proxy.source.clock import EPOCH, EVERY, FRESH, WANTED, SourceClock
from sqltypes.errors import SourceDown


class Source:
    """A MySQL whose clock is ahead of ours, and answers after some time."""

    def __init__(self, ahead: float, takes: float) -> None:
        self.now, self.ahead, self.takes, self.asked = 1000.0, ahead, takes, 0
        self.down = False
        self.clock = SourceClock(self.ask, lambda: self.now)

    async def ask(self) -> datetime:
        self.asked += 1
        if self.down:
            raise SourceDown("no")
        self.now += self.takes / 2
        told = EPOCH + timedelta(seconds=self.now + self.ahead)
        self.now += self.takes / 2
        return told

    def look(self) -> None:
        asyncio.run(self.clock.look())
        self.clock.check_invariants()


def test_it_is_told_where_it_is_sure() -> None:
    source = Source(ahead=500.25, takes=0.1)
    assert source.clock.utc() is None
    source.look()
    for at, second in ((1002.0, 1502), (1002.69, 1502), (1002.72, None), (1002.78, None), (1002.81, 1503)):
        source.now = at
        assert source.clock.utc() == (None if second is None else EPOCH + timedelta(seconds=second)), at


def test_it_may_be_behind_as_far_as_is_allowed() -> None:
    source = Source(ahead=500.25, takes=0.1)
    source.clock = SourceClock(source.ask, lambda: source.now, tolerance=5)
    source.look()
    for tenth in range(300):
        source.now += 0.1
        if tenth % 20 == 0:
            source.look()
        told = source.clock.utc()
        assert told is not None
        behind = source.now + source.ahead - (told - EPOCH).total_seconds()
        assert 0 <= behind < 5.1 and (told - EPOCH).total_seconds() % 5 == 0


def test_an_answer_says_nothing_for_long() -> None:
    source = Source(ahead=0.0, takes=0.0)
    source.look()
    source.now += FRESH + 0.1
    assert source.clock.utc() is None
    source.down = True
    source.look()
    assert source.clock.utc() is None
    source.down = False
    source.look()
    assert source.clock.utc() is not None


def test_a_clock_that_was_set_is_believed() -> None:
    source = Source(ahead=0.0, takes=0.0)
    source.look()
    source.ahead = -7200.0
    source.look()
    assert source.clock.utc() == EPOCH + timedelta(seconds=1000 - 7200)


def test_it_is_asked_while_somebody_wants_to_know() -> None:
    asyncio.run(_asked_while_wanted())


async def _asked_while_wanted() -> None:
    source = Source(ahead=0.0, takes=0.0)
    clock = source.clock
    clock.tick()
    assert source.asked == 0
    clock.utc()
    for _ in range(3):
        clock.tick()
        await asyncio.sleep(0)
    assert source.asked == 1
    source.now += EVERY
    clock.tick()
    await asyncio.sleep(0)
    assert source.asked == 2
    source.now += WANTED
    clock.tick()
    await asyncio.sleep(0)
    assert source.asked == 2
    await clock.close()


def test_of_a_second_it_is_told_between_which_microseconds_it_is() -> None:
    source = Source(ahead=500.25, takes=0.1)
    source.look()
    for at in (1002.0, 1002.3, 1002.6, 1002.69):
        source.now = at
        told, micros = source.clock.utc(), source.clock.micros()
        assert told is not None and micros is not None
        true = source.now + source.ahead - (told - EPOCH).total_seconds()
        assert micros[0] <= true * 1e6 <= micros[1] and 100_000 <= micros[1] - micros[0] <= 100_010
    assert source.clock.utc() is not None
    source.now += 0.05  # a moment later it may be the next second
    assert source.clock.micros() is None
    source.clock = SourceClock(source.ask, lambda: source.now, tolerance=5)
    source.look()
    assert source.clock.utc() is not None and source.clock.micros() == (0, 0)
