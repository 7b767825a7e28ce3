"""The pump between an engine that fails and a source that is never asked."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from dataflow.changes.large_change import Sizes
from dataflow.engine import Engine
from dataflow.fills.waiting_reads import MAX_BATCH
from dataflow.messages import (
    Ddl,
    Gap,
    Pair,
    Progress,
    StreamEvent,
    TableChanges,
    Transaction,
    UpqueryRequest,
)
from external_upquery.executor import Executor
from gtid_tracker.gtid import Gtid
from proxy.pump.pump import Pump
from sqltypes.errors import Fault
from tests.support.engine_rig import OLD, ROWS, Rig, gtids


def test_flush_that_always_fails_ends_the_reads_that_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was tried again in the same step, until there was no stack left."""
    rig = Rig(ROWS)
    tried = 0

    def fails(self: Engine, failed: object = None) -> None:
        nonlocal tried
        tried += 1
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Engine, "flush", fails)

    async def scenario() -> None:
        pump = Pump(rig.engine, cast(Executor, None), 1.0)
        for value in (7, 8):
            with pytest.raises(Fault):
                await pump.miss(rig.readers[0], [(value, (value,))])
        assert tried == 2 and not rig.engine.reads.pending

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_answers_that_waited_for_the_position_are_inserted_in_steps_of_the_loop() -> None:
    rig = Rig(ROWS)
    rig.engine.inserting.most = 1
    for key in range(5):
        rig.read(key)
        (request,) = rig.asked()
        rig.answer(request, [(key, key, 5)], lower=gtids(1, 2))

    async def scenario() -> None:
        pump = Pump(rig.engine, cast(Executor, None), 1.0)
        pump.on_stream(Progress(Gtid(OLD, 2)))
        steps = 1
        while rig.engine.unfinished:
            steps += 1
            await asyncio.sleep(0)
        assert steps >= 5

    asyncio.run(asyncio.wait_for(scenario(), 30))
    assert all(rig.held(key) == [(key, 5)] for key in range(5))


def test_an_upquery_that_cannot_be_sent_fails_who_waits_for_it_and_nobody_else() -> None:
    rig = Rig(ROWS)
    sent: list[str] = []

    def submit(request: UpqueryRequest, deliver: object, deadline: float) -> None:
        if not sent:
            sent.append("in vain")
            raise UnicodeEncodeError("utf-8", "\udc80", 0, 1, "planted")
        sent.append(request.statements[0].sql)

    async def scenario() -> None:
        pump = Pump(rig.engine, cast(Executor, SimpleNamespace(submit=submit, cancel=lambda number: None)), 1.0)
        first = asyncio.ensure_future(pump.miss(rig.readers[0], [(key, (key,)) for key in range(MAX_BATCH + 1)]))
        with pytest.raises(Fault):
            await first
        assert len(sent) == 2, "the second upquery of the same step"
        assert pump.engine.memory.counters["faults"] == 1 and not pump.engine.reads.waiting

    asyncio.run(asyncio.wait_for(scenario(), 30))


class Streamed:
    """A pump whose engine takes each transaction as a large one, a row a step. `told`: the events that it has told of,
    each with what a reader had by then."""

    def __init__(self) -> None:
        self.rig = Rig(ROWS)
        self.rig.fill_from({number: (number, 1, 0) for number in range(40)}, 1)
        self.rig.engine.state.sizes = Sizes(large=0, rows=1)
        follower = lambda event: self.told.append((event, self.changed()))  # noqa: E731
        self.pump = Pump(self.rig.engine, cast(Executor, None), 1.0, followers=(follower,))
        self.told: list[tuple[StreamEvent, int | None]] = []

    def changed(self) -> int | None:
        """How many of the rows are changed; None: the key is not held."""
        rows = self.rig.held(1)
        return None if rows is None else sum(1 for _, value in rows if value)

    def give(self, number: int, *rows: int) -> Transaction:
        pairs: list[Pair] = [((row, 1, 0), (row, 1, 1)) for row in rows]
        event = Transaction(Gtid(OLD, number), [TableChanges("test.t", pairs)])
        self.pump.on_stream(event)
        return event

    async def ended(self) -> int:
        """Waits until nothing is under way; after how many steps of the loop."""
        steps = 0
        while self.pump.change.event:
            assert self.changed() in (0, None), "half of a transaction is shown"
            await asyncio.sleep(0)
            steps += 1
        return steps


def test_a_large_transaction_takes_effect_in_one_step_after_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.pump.change_in_slices.SLICE", 0.0)  # a look at the clock is the end of a slice

    async def scenario() -> None:
        streamed = Streamed()
        event = streamed.give(2, *range(40))
        assert streamed.pump.change.event and not streamed.told
        assert await streamed.ended() >= 3
        assert streamed.told == [(event, 40)]

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_what_comes_meanwhile_comes_after_it() -> None:
    async def scenario() -> None:
        streamed = Streamed()
        events: list[StreamEvent] = [streamed.give(2, *range(20)), Progress(Gtid(OLD, 3))]
        streamed.pump.on_stream(events[1])
        assert streamed.told == [(events[0], 20), (events[1], 20)]
        events.append(streamed.give(4, *range(20, 40)))
        while streamed.pump.change.event:
            await asyncio.sleep(0)
        assert streamed.told[2:] == [(events[2], 40)]

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_lost_history_ends_a_large_transaction_and_a_statement_without_a_gtid_does_not() -> None:
    async def scenario() -> None:
        streamed = Streamed()
        streamed.give(2, *range(20))
        stray, gap = Ddl(None, "a session wrote with sql_log_bin=0", None), Gap("purged", gtids(1, 2, 3))
        streamed.pump.on_stream(stray)
        assert streamed.pump.change.event and streamed.told == [(stray, None)]
        streamed.pump.on_stream(gap)
        assert not streamed.pump.change.event and streamed.told[1:] == [(gap, None)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(streamed.told) == 2 and streamed.rig.engine.under_way is None

    asyncio.run(asyncio.wait_for(scenario(), 30))
