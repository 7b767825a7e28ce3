"""The pump between an engine that fails and a source that is never asked."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from dataflow.engine import Engine
from dataflow.messages import Progress, UpqueryRequest
from dataflow.reads import MAX_BATCH
from external_upquery.executor import Executor
from gtid_tracker.gtid import Gtid
from proxy.pump import Pump
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
        assert tried == 2 and not rig.engine.misses_pending

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_answers_that_waited_for_the_position_are_inserted_in_steps_of_the_loop() -> None:
    rig = Rig(ROWS)
    rig.engine.most_inserted = 1
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
        assert pump.engine.memory.counters["faults"] == 1 and not pump.engine._reads

    asyncio.run(asyncio.wait_for(scenario(), 30))
