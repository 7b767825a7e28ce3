"""Who waits for the position, and what one call may be served."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from time import monotonic
from typing import Any

import pytest

from dataflow.engine import Engine
from dataflow.messages import Gap, Progress, StreamEvent
from gtid_tracker.gtid import Gtid, GtidSet
from proxy.port.api import Freshness, Otherwise
from proxy.read.freshness import Freshener
from sqltypes.errors import SourceDown, TooStale
from tests.support.engine_rig import NEW, OLD, gtids

LONG = 60.0  # seconds that no test lasts


class Stream:
    """An engine at position 1, what waits for it, and a source that says what it has executed."""

    def __init__(self) -> None:
        self.engine = Engine(gtids(1), 1 << 30, lambda: 0.0)
        self.seconds = 0.0
        self.executed: GtidSet | Exception = gtids(1)
        self.asked = 0
        self.freshener = Freshener(self.engine, lambda: self.seconds, self.ask)

    async def ask(self) -> GtidSet:
        self.asked += 1
        await asyncio.sleep(0)
        if isinstance(self.executed, Exception):
            raise self.executed
        return self.executed

    def process(self, event: StreamEvent) -> None:
        self.engine.on_stream(event)
        self.freshener.on_stream(event)

    def bring(self, *numbers: int, source: str = OLD) -> None:
        for number in numbers:
            self.process(Progress(Gtid(source, number)))


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


async def begun(waits: Coroutine[Any, Any, bool], stream: Stream) -> asyncio.Task[bool]:
    """The wait as a task, once it is under way."""
    before = stream.freshener.waiting
    task = asyncio.ensure_future(waits)
    while stream.freshener.waiting == before and not task.done():
        await asyncio.sleep(0)
    return task


def test_what_the_position_has_is_not_waited_for() -> None:
    async def scenario() -> None:
        stream = Stream()
        demand = stream.freshener.demand(Freshness(gtids(1), wait=0))
        assert demand.met()
        assert await demand.reached()
        assert stream.freshener.waits == 0

    run(scenario())


def test_waiter_wakes_when_the_last_of_what_it_needs_has_come() -> None:
    async def scenario() -> None:
        stream = Stream()
        demand = stream.freshener.demand(Freshness(gtids(2, 3, 4), wait=LONG))
        task = await begun(demand.reached(), stream)
        stream.bring(4, 2)
        await asyncio.sleep(0)
        assert not task.done() and not demand.met()
        stream.bring(3)
        assert demand.met()
        assert await task
        assert stream.freshener.waiting == 0

    run(scenario())


def test_wait_for_a_gtid_that_never_comes_ends() -> None:
    async def scenario() -> None:
        stream = Stream()
        demand = stream.freshener.demand(Freshness(GtidSet.parse(f"{NEW}:tag:1-5"), wait=0.01))
        assert not await demand.reached()
        assert (stream.freshener.waiting, stream.freshener.waits, stream.freshener.late) == (0, 1, 1)

    run(scenario())


def test_who_gives_up_leaves_those_who_wait_for_the_same() -> None:
    async def scenario() -> None:
        stream = Stream()
        patient, leaving = (stream.freshener.demand(Freshness(gtids(2, 3), wait=LONG)) for _ in range(2))
        task, gone = await begun(patient.reached(), stream), await begun(leaving.reached(), stream)
        stream.bring(3)  # both are filed anew
        gone.cancel()
        await asyncio.wait((gone,))
        assert stream.freshener.waiting == 1
        stream.bring(2)
        assert await task

    run(scenario())


def test_what_comes_just_after_one_gave_up_is_no_fault() -> None:
    async def scenario() -> None:
        stream = Stream()
        leaving = await begun(stream.freshener.demand(Freshness(gtids(2), wait=LONG)).reached(), stream)
        leaving.cancel()
        stream.bring(2)
        (done,), _ = await asyncio.wait((leaving,))
        assert done.cancelled()
        assert stream.freshener.waiting == 0

    run(scenario())


def test_no_wait_without_time_for_it() -> None:
    async def scenario() -> None:
        stream = Stream()
        assert not await stream.freshener.demand(Freshness(gtids(2), wait=0)).reached()
        assert stream.freshener.waits == 0

    run(scenario())


def test_position_of_another_server_that_has_it_wakes() -> None:
    async def scenario() -> None:
        stream = Stream()
        task = await begun(stream.freshener.demand(Freshness(gtids(2), wait=LONG)).reached(), stream)
        stream.process(Gap("another server answers", gtids(1, 2, 3)))
        assert await task

    run(scenario())


def test_position_of_another_server_that_lacks_it_is_waited_for() -> None:
    async def scenario() -> None:
        stream = Stream()
        task = await begun(stream.freshener.demand(Freshness(gtids(2), wait=LONG)).reached(), stream)
        stream.process(Gap("another server answers", GtidSet.parse(f"{NEW}:1")))
        assert not task.done()
        stream.bring(2)
        assert await task

    run(scenario())


def test_stream_heard_of_just_now_serves_without_a_question() -> None:
    async def scenario() -> None:
        stream = Stream()
        stream.seconds = 0.5
        assert stream.freshener.demand(Freshness(max_staleness=0.6)).met()
        assert not stream.freshener.demand(Freshness(max_staleness=0.4)).met()
        assert stream.asked == 0

    run(scenario())


def test_silent_stream_serves_when_the_source_says_that_nothing_is_missing() -> None:
    async def scenario() -> None:
        stream = Stream()
        stream.seconds = 5.0
        demand = stream.freshener.demand(Freshness(max_staleness=0.0))
        assert not demand.met()
        assert await demand.reached()
        assert demand.met(), "and stays so"
        assert stream.asked == 1

    run(scenario())


def test_what_the_source_has_executed_is_waited_for_where_the_stream_is_too_old() -> None:
    async def scenario() -> None:
        stream = Stream()
        stream.seconds, stream.executed = 5.0, gtids(1, 2)
        demand = stream.freshener.demand(Freshness(max_staleness=1.0, wait=LONG))
        task = await begun(demand.reached(), stream)
        assert not demand.met()
        assert not demand.met_by(gtids(1), float("inf")), "no upquery serves either that lacks it"
        stream.bring(2)
        assert await task
        assert demand.met()

    run(scenario())


def test_one_question_serves_all_who_came_before_it() -> None:
    async def scenario() -> None:
        stream = Stream()
        stream.seconds = 5.0
        demands = [stream.freshener.demand(Freshness(max_staleness=1.0)) for _ in range(5)]
        assert all(await asyncio.gather(*(demand.reached() for demand in demands)))
        assert stream.asked == 1
        assert await stream.freshener.demand(Freshness(max_staleness=0.0)).reached()
        assert stream.asked == 2, "an answer from before it came is not good enough for this one"

    run(scenario())


def test_source_that_cannot_be_asked_is_said_and_asked_again() -> None:
    async def scenario() -> None:
        stream = Stream()
        stream.seconds, stream.executed = 5.0, SourceDown("the source is away")
        with pytest.raises(SourceDown):
            await stream.freshener.demand(Freshness(max_staleness=1.0)).reached()
        stream.executed = gtids(1)
        assert await stream.freshener.demand(Freshness(max_staleness=1.0)).reached()

    run(scenario())


def test_error_of_a_question_is_nobodys_once_who_asked_has_gone() -> None:
    async def scenario() -> None:
        stream, faults, goes_on = Stream(), list[object](), asyncio.Event()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))

        async def ask() -> GtidSet:
            await goes_on.wait()
            raise SourceDown("gone")

        freshener = Freshener(stream.engine, lambda: 0.0, ask)
        asking = asyncio.ensure_future(freshener.executed(monotonic()))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        del asking  # its error would keep the question's
        goes_on.set()
        while freshener._reading is None or not freshener._reading[1].done():
            await asyncio.sleep(0)
        freshener._reading = None
        gc.collect()
        assert faults == []

    run(scenario())


def test_refusal_names_what_is_missing() -> None:
    stream = Stream()
    stream.freshener.demand(Freshness(gtids(2))).refuse()  # MySQL is to answer
    with pytest.raises(TooStale, match=f"lacks {OLD}:2 of what the read asks for, after 0.2 s of waiting"):
        stream.freshener.demand(Freshness(gtids(1, 2), wait=0.2, otherwise=Otherwise.FAIL)).refuse()


def test_what_was_shown_must_be_in_a_hit_but_not_in_a_newer_answer_of_mysql() -> None:
    shown = Freshness(not_before=gtids(2), max_staleness=3600.0)
    demand = Stream().freshener.demand(shown)
    assert not demand.met()
    assert demand.met_by(gtids(1), monotonic()), "it was sent after the read came"
    assert not demand.met_by(gtids(1), monotonic() - 60), "it may be older than what was shown"
    assert demand.met_by(gtids(1, 2), monotonic() - 60)
    assert demand.met_by_source(f"{OLD}:1")
    assert not demand.met_ahead(gtids(1)) and demand.met_ahead(gtids(2))


def test_answer_of_mysql_serves_if_it_had_executed_what_is_asked_for() -> None:
    demand = Stream().freshener.demand(Freshness(gtids(1, 2)))
    assert demand.met_by_source(f"{OLD}:1-2")
    assert not demand.met_by_source(f"{OLD}:1")
    assert Stream().freshener.demand(Freshness(max_staleness=0.0)).met_by_source("")
