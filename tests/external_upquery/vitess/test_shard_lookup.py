"""Keys whose shards are asked for together, for many who want to know."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from dataflow.messages import Keyed
from external_upquery.vitess.shard_lookup import AT_ONCE, MOST, Finding
from external_upquery.vitess.shard_of_key import Key, Places
from sqltypes.errors import SourceDown
from tests.external_upquery.vitess.test_shard_of_key import TABLE, answers, places
from tests.support.waiting import turns

ROWS = Keyed(TABLE, ("id",), [(1,)])


def key(number: int) -> Key:
    return "hash", str(number)


class Vtgate:
    """Answers when it is told to. `asked`: the batches, in the order in which they came. `found`: what it has told."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, asyncio.Future[bool]]] = []
        self.found = places()

    async def ask(self, keys: Sequence[Key], of: Sequence[Keyed]) -> None:
        assert of == [ROWS]
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.asked.append((len(keys), future))
        if not await future:
            raise SourceDown("gone")
        self.found.told(keys, answers(*("80-" for _ in keys)))

    @property
    def under_way(self) -> list[asyncio.Future[bool]]:
        return [future for _, future in self.asked if not future.done()]


def known(found: Places, number: int) -> bool:
    return key(number) in found._found


def test_those_of_one_step_are_asked_for_together_and_once() -> None:
    async def scenario() -> None:
        vtgate = Vtgate()
        finding = Finding(vtgate.ask)
        waiting = [
            asyncio.ensure_future(finding.find([key(one), key(two)], ROWS)) for one, two in ((1, 2), (2, 3), (1, 4))
        ]
        await turns()
        assert [count for count, _ in vtgate.asked] == [4]
        again = asyncio.ensure_future(finding.find([key(3)], ROWS))
        await turns()
        assert len(vtgate.asked) == 1 and not again.done(), "it is being asked for"
        vtgate.asked[0][1].set_result(True)
        await asyncio.gather(*waiting, again)
        assert all(known(vtgate.found, number) for number in (1, 2, 3, 4))
        await finding.close()

    asyncio.run(scenario())


def test_an_error_is_not_told_to_who_waits() -> None:
    async def scenario() -> None:
        vtgate = Vtgate()
        finding = Finding(vtgate.ask)
        waiting = asyncio.ensure_future(finding.find([key(1)], ROWS))
        await turns()
        vtgate.asked[0][1].set_result(False)
        await waiting
        assert not known(vtgate.found, 1)
        again = asyncio.ensure_future(finding.find([key(1)], ROWS))
        await turns()
        vtgate.asked[1][1].set_result(True)
        await again
        assert known(vtgate.found, 1)
        await finding.close()

    asyncio.run(scenario())


def test_nobody_waits_once_it_is_closed() -> None:
    async def scenario() -> None:
        vtgate = Vtgate()
        finding = Finding(vtgate.ask)
        waiting = []
        for number in range(AT_ONCE + 1):
            waiting.append(asyncio.ensure_future(finding.find([key(number)], ROWS)))
            await turns()
        assert len(vtgate.asked) == AT_ONCE
        await finding.close()
        await asyncio.wait_for(asyncio.gather(*waiting), 30)

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(20))
def test_everybody_is_told_in_the_end(seed: int) -> None:
    rng = random.Random(seed)

    async def scenario() -> None:
        vtgate = Vtgate()
        finding = Finding(vtgate.ask)
        waiting: list[tuple[list[Key], asyncio.Task[None]]] = []
        for _ in range(200):
            chance = rng.random()
            if chance < 0.5:
                most = 3 * MOST if rng.random() < 0.02 else 3
                keys = [key(rng.randrange(2000)) for _ in range(rng.randint(1, most))]
                waiting.append((keys, asyncio.ensure_future(finding.find(keys, ROWS))))
            elif chance < 0.6 and waiting:
                rng.choice(waiting)[1].cancel()
            elif vtgate.under_way:
                rng.choice(vtgate.under_way).set_result(rng.random() < 0.9)
            await turns()
            assert len(vtgate.under_way) <= AT_ONCE
            finding.check_invariants()
        while vtgate.under_way:
            vtgate.under_way[0].set_result(True)
            await turns()
        assert all(task.done() for _, task in waiting)
        assert max(count for count, _ in vtgate.asked) <= MOST
        vtgate.found.check_invariants()
        await finding.close()

    asyncio.run(scenario())
