"""What is done again after a while: once at most at a time, and not before its time."""

from __future__ import annotations

import asyncio

from proxy.loop.periodic import Periodic, Share
from tests.support.waiting import until


def test_it_begins_when_it_is_due_and_has_ended_before() -> None:
    async def scenario() -> None:
        now, begun, let = [0.0], [0], asyncio.Event()

        async def do() -> None:
            begun[0] += 1
            await let.wait()

        periodic = Periodic(do, 10.0, lambda: now[0])
        assert not periodic.running
        periodic.tick()
        periodic.tick()
        await until(lambda: begun == [1])
        now[0] = 30.0
        periodic.tick()
        assert periodic.running, "the first one is under way"
        let.set()
        await until(lambda: not periodic.running)
        assert begun == [1]
        periodic.tick()
        await until(lambda: begun == [2] and not periodic.running)
        now[0] = 39.9
        periodic.tick()
        assert not periodic.running, "not before its time"
        let.clear()
        now[0] = 40.0
        periodic.tick()
        await until(lambda: begun == [3])
        await periodic.close()
        assert not periodic.running

    asyncio.run(scenario())


def test_what_takes_long_is_done_again_later() -> None:
    now, done, takes = [0.0], [0], [0.0]

    def do() -> None:
        done[0] += 1
        now[0] += takes[0]

    share = Share(10.0, lambda: now[0])
    for _ in range(3):
        share.tick(do)
    assert done == [3], "it takes no time"
    takes[0] = 2.0
    share.tick(do)  # until 2
    now[0] = 21.9
    share.tick(do)
    assert done == [4]
    now[0] = 22.0
    share.tick(do)
    assert done == [5]
