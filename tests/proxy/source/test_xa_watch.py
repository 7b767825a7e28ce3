"""Which prepared XA transactions are taken to have ended unseen."""

from __future__ import annotations

import asyncio

from gtid_tracker.gtid import GtidSet
from proxy.source.xa_watch import EVERY, PreparedWatch
from sqltypes.errors import SourceDown, SourceError

SOURCE = "11111111-2222-3333-4444-555555555555"
A, B = b"X'61',X'',1", b"X'62',X'',1"


def upto(number: int) -> GtidSet:
    return GtidSet.parse(f"{SOURCE}:1-{number}")


class Xa:
    def __init__(self) -> None:
        self.xids: frozenset[bytes] = frozenset()
        self.told: list[tuple[frozenset[bytes], bool]] = []
        self.forgotten: list[float] = []  # each time that everything was

    def untold(self, xids: frozenset[bytes], *, over: bool) -> None:
        self.told.append((xids, over))
        if over:
            self.xids -= xids

    def unseen(self) -> None:
        self.forgotten.append(0)


class Stream:
    def __init__(self) -> None:
        self.xa = Xa()
        self.position = upto(5)
        self.logins = 0


class Source:
    """What MySQL says of it."""

    def __init__(self) -> None:
        self.there: frozenset[bytes] = frozenset()
        self.executed = upto(5)
        self.error: Exception | None = None
        self.asked: list[float] = []

    async def __call__(self) -> tuple[frozenset[bytes], GtidSet]:
        self.asked.append(0)
        if self.error is not None:
            raise self.error
        return self.there, self.executed


def looked(watch: PreparedWatch, times: int) -> None:
    for _ in range(times):
        asyncio.run(watch.look())


def test_what_mysql_has_no_more_is_over_at_the_third_look() -> None:
    stream, source = Stream(), Source()
    watch = PreparedWatch(source, stream)
    stream.xa.xids, source.there = frozenset({A, B}), frozenset({B})
    looked(watch, 2)
    assert not stream.xa.told, "it may be about to be executed"
    looked(watch, 1)
    assert stream.xa.told == [(frozenset({A}), True)] and stream.xa.xids == {B}
    looked(watch, 3)
    assert len(stream.xa.told) == 1


def test_while_the_stream_is_behind_nothing_is_said() -> None:
    stream, source = Stream(), Source()
    watch = PreparedWatch(source, stream)
    stream.xa.xids, source.executed = frozenset({A}), upto(6)
    looked(watch, 5)
    assert not stream.xa.told, "its end may be under way"
    stream.position = upto(6)
    looked(watch, 1)
    assert stream.xa.told == [(frozenset({A}), True)]


def test_one_that_ends_while_mysql_is_asked_is_not_judged() -> None:
    stream, source = Stream(), Source()
    watch = PreparedWatch(source, stream)
    stream.xa.xids = frozenset({A})
    looked(watch, 2)
    stream.xa.xids = frozenset()
    looked(watch, 1)
    assert not stream.xa.told


def test_without_the_right_to_see_them_they_may_end_at_any_time() -> None:
    stream, source = Stream(), Source()
    source.error = SourceError(1401, "XAE03", "XAER_RMERR")
    watch = PreparedWatch(source, stream)
    stream.xa.xids = frozenset({A})
    looked(watch, 1)
    assert not stream.xa.told, "most are over within a second"
    stream.xa.xids = frozenset({A, B})
    looked(watch, 2)
    assert stream.xa.told == [(frozenset({A}), False), (frozenset({A, B}), False)]


def test_out_of_reach_nothing_is_concluded() -> None:
    stream, source = Stream(), Source()
    watch = PreparedWatch(source, stream)
    stream.xa.xids = frozenset({A})
    source.error = SourceDown("away")
    looked(watch, 5)
    source.error = None
    looked(watch, 2)
    assert not stream.xa.told
    looked(watch, 1)
    assert stream.xa.told


def test_nothing_is_asked_while_none_is_prepared() -> None:
    stream, source, now = Stream(), Source(), [0.0]

    async def ticks() -> None:
        watch = PreparedWatch(source, stream, lambda: now[0])
        for _ in range(3):
            watch.tick()
            await asyncio.sleep(0)
            now[0] += EVERY
        assert not source.asked
        stream.xa.xids = frozenset({A})
        for _ in range(4):
            watch.tick()
            await asyncio.sleep(0)
            now[0] += EVERY / 2
        assert len(source.asked) == 2, "once a second"
        await watch.close()

    asyncio.run(ticks())


def test_one_that_was_prepared_before_the_stream_makes_everything_a_hole_when_it_is_gone() -> None:
    stream, source = Stream(), Source()
    watch = PreparedWatch(source, stream)
    stream.logins, stream.xa.xids, source.there = 1, frozenset({B}), frozenset({A, B})
    looked(watch, 3)
    assert not stream.xa.forgotten
    source.there = frozenset({B})
    looked(watch, 1)
    assert len(stream.xa.forgotten) == 1
    looked(watch, 1)
    assert len(stream.xa.forgotten) == 2, "it may have been executed only now"
    looked(watch, 3)
    assert len(stream.xa.forgotten) == 2 and not stream.xa.told


def test_one_whose_preparation_the_stream_will_still_tell_is_none_of_these() -> None:
    stream, source = Stream(), Source()
    watch = PreparedWatch(source, stream)
    stream.logins, source.there, source.executed = 1, frozenset({A}), upto(6)
    looked(watch, 2)
    stream.xa.xids, stream.position = frozenset({A}), upto(6)
    looked(watch, 1)
    stream.xa.xids, source.there = frozenset(), frozenset()
    looked(watch, 3)
    assert not stream.xa.forgotten


def test_after_each_login_of_the_stream_it_is_asked_once() -> None:
    stream, source, now = Stream(), Source(), [0.0]

    async def ticks() -> None:
        watch = PreparedWatch(source, stream, lambda: now[0])
        for stream.logins in (1, 1, 1, 2, 2):
            watch.tick()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            now[0] += EVERY
        assert len(source.asked) == 2
        stream.logins, source.error = 3, SourceError(1401, "XAE03", "XAER_RMERR")
        for _ in range(3):
            watch.tick()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            now[0] += EVERY
        assert len(source.asked) == 3, "who may not see them does not see them the next time"
        await watch.close()

    asyncio.run(ticks())
