"""The pump between an engine that fails and a source that is never asked."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from dataflow.engine import Engine
from dataflow.messages import Progress
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
