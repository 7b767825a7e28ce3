"""What becomes of a read that met a hole, once the engine has its answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from dataflow.engine import Engine
from dataflow.fills.read import Read
from dataflow.messages import Ready, UpqueryAnswer, UpqueryRequest
from dataflow.readers.derivation import Hole
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import GtidSet
from planner.tree.plan import Mode
from proxy.cache.trust import SLOW_SECONDS, Trust
from proxy.checking.given_hit import GivenHit
from proxy.port.api import Answer, Served
from proxy.pump.pump import BEHIND, Behind
from proxy.read.freshness import CallDemand, Freshener
from proxy.read.look import InSteps, Missing
from proxy.read.misses import Misses
from proxy.read.open_cache import OpenCache
from sqltypes.errors import UnknownCache
from tests.simulation.desk import Desk
from tests.simulation.queries import query

ROWS = [(1,)]


def opened(name: str, settled: bool, compared: Any) -> tuple[OpenCache, Trust]:
    """A cache whose misses the engine answers, and whose comparisons end so; and its trust."""
    desk = Desk(Engine(GtidSet.empty(), 1 << 30, lambda: 0.0))
    desk.open(query(name))
    cache = desk.caches[name].named
    cache.trust = Trust(2, Mode.EVICT, Counter())

    async def miss(*given: object, **named: object) -> Ready:
        return Ready(1, [*ROWS], GtidSet.empty(), settled=settled)

    async def compare(*given: object, **named: object) -> Any:
        return compared

    host: Any = desk.host
    host.pump.miss = miss
    host.auditor = SimpleNamespace(fill_is_due=lambda *given: False, list_is_due=lambda *given: False, compared=compare)
    return desk.caches[name], cache.trust


@pytest.mark.parametrize("settled", [False, True])
def test_what_is_no_snapshot_s_answer_is_compared_before_it_is_given(settled: bool) -> None:
    """In evict mode the fill is MySQL's own answer. What was brought forward from it is not."""
    body = b"as compared"
    cache, _ = opened("union", settled, SimpleNamespace(body=body, at=""))
    answer = asyncio.run(cache.fill((1, 2)))
    assert isinstance(answer, Answer)
    assert answer.served is Served.MISS and (answer.body == body) == settled


def test_what_is_no_snapshot_s_answer_and_cannot_be_compared_is_mysql_s_to_answer() -> None:
    cache, _ = opened("union", True, None)
    assert isinstance(asyncio.run(cache.fill((1, 2))), str)


def test_a_slow_answer_that_is_due_stays_due_until_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is large, derived in steps; another is given meanwhile."""
    cache, _ = opened("union", False, None)
    reader = cache.named.reader
    assert reader is not None
    compared: list[Any] = []
    host: Any = cache._host

    def behind(hit: GivenHit) -> None:
        compared.append(hit.binding.params)

    host.auditor.behind = behind
    large, small = (1, 2), (3, 4)
    for number, params in enumerate((large, small), 1):
        engine = host.engine
        engine.reads.read(Read(number, reader, [(reader.key_of(params), params)]))
        (upquery,) = [one for one in engine.flush() if isinstance(one, UpqueryRequest)]
        at = Bracket("", GtidSet.empty(), GtidSet.empty(), GtidSet.empty())
        engine.on_answer(UpqueryAnswer(upquery.id, at, ([(number,)],)))
        host.engine.sieve.hold(reader, reader.key_of(params), params).stale()
    host.engine.fills.latency[reader.tag] = 2 * SLOW_SECONDS
    monkeypatch.setattr(type(reader), "is_large", lambda _, held, format_: held.key == reader.key_of(large))
    assert cache.hit(large) is None and not compared
    assert cache.hit(small) is not None and compared == [small]
    monkeypatch.setattr(type(reader), "is_large", lambda *given: False)
    assert cache.hit(large) is not None and compared == [small, large]


def test_a_due_answer_whose_read_is_cancelled_stays_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was derived in steps, and is not compared: the next read must not take it for one that was."""
    cache, _ = opened("union", False, None)
    reader = cache.named.reader
    assert reader is not None
    host: Any = cache._host
    params, engine = (1, 2), host.engine
    key = reader.key_of(params)
    engine.reads.read(Read(1, reader, [(key, params)]))
    (upquery,) = [one for one in engine.flush() if isinstance(one, UpqueryRequest)]
    at = Bracket("", GtidSet.empty(), GtidSet.empty(), GtidSet.empty())
    engine.on_answer(UpqueryAnswer(upquery.id, at, ([(1,)],)))
    host.engine.fills.latency[reader.tag] = 2 * SLOW_SECONDS
    held = host.engine.sieve.hold(reader, key, params)
    held.stale()
    monkeypatch.setattr(type(reader), "is_large", lambda *given: True)

    async def scenario() -> None:
        reading = asyncio.create_task(cache.fill(params))
        while held.version is None:
            assert not reading.done()
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait((reading,))

    asyncio.run(scenario())
    assert held.version is None and held.bodies is None


def test_what_is_no_snapshot_s_answer_is_given_where_no_comparison_is_due() -> None:
    cache, trust = opened("union", True, None)
    while trust.changes.due:
        trust.changes.agree(trust.changes.agreed, rows=True)
    assert isinstance(asyncio.run(cache.fill((1, 2))), Answer)


def planned(name: str) -> tuple[OpenCache, list[object]]:
    """A trusted cache, and the misses that its engine was asked for."""
    cache, _ = opened(name, False, None)
    cache.named.trust = None
    asked: list[object] = []
    host: Any = cache._host
    told = host.pump.miss

    async def miss(*given: object, **named: object) -> Any:
        asked.append(given)
        return await told()

    host.pump.miss = miss
    return cache, asked


def test_a_cache_that_goes_while_it_is_asked_where_a_key_is_has_no_miss() -> None:
    """The session is told that it has gone: a transaction may be shown again what it was shown."""
    cache, asked = planned("rows")

    async def would_wait(*given: object) -> bool:
        cache.named.dropped, cache.named.reader = True, None
        cache.named.generation += 1
        return False

    host: Any = cache._host
    host.pump.would_wait = would_wait

    async def never() -> GtidSet:
        raise AssertionError

    demand = Freshener(host.engine, lambda: 0.0, never).demand_after(GtidSet.empty(), None, 1.0)
    with pytest.raises(UnknownCache):
        asyncio.run(cache.fill((1,), demand, wait=False))
    assert not asked


def test_what_was_missing_below_an_old_plan_is_not_asked_for_by_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is derived in steps, which find holes; meanwhile the cache is planned again."""
    cache, _ = planned("rows")
    another, _ = planned("rows")
    looked: list[object] = []

    async def look(misses: Misses, parameters: object, found: object) -> Answer | Missing:
        looked.append(dict(misses.holes))
        if len(looked) > 1:
            return Answer(Served.HIT, (), b"")
        misses.holes = {1: []}
        cache.named.reader, cache.named.binder = another.named.reader, another.named.binder
        cache.named.generation += 1
        return Missing.HOLE

    monkeypatch.setattr(Misses, "look", look)
    monkeypatch.setattr(OpenCache, "look", lambda cache, parameters: InSteps())
    assert isinstance(asyncio.run(cache.fill((1,))), Answer)
    assert looked == [{}, {}]


def test_what_was_missing_before_a_read_has_waited_is_not_asked_for_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fill was too old for it, so it waited for the position; meanwhile the cache is planned again."""
    cache, _ = planned("rows")
    another, _ = planned("rows")
    asked: list[object] = []

    async def miss(*given: object, **named: Any) -> Ready:
        asked.append(dict(named["holes"]))
        if len(asked) == 1:
            raise Behind(BEHIND)
        return Ready(1, [*ROWS], GtidSet.empty())

    async def look(misses: Misses, parameters: object, found: object) -> Missing:
        if not asked:
            misses.holes = {1: [Hole(1, 7, (7,))]}
        return Missing.HOLE

    async def reached(demand: CallDemand) -> bool:
        cache.named.reader, cache.named.binder = another.named.reader, another.named.binder
        cache.named.generation += 1
        return True

    host: Any = cache._host
    host.pump.miss = miss
    monkeypatch.setattr(Misses, "look", look)
    monkeypatch.setattr(CallDemand, "reached", reached)
    monkeypatch.setattr(OpenCache, "look", lambda cache, parameters: InSteps())
    demand = Freshener(host.engine, lambda: 0.0, executed).demand_after(GtidSet.empty(), None, 1.0)
    assert isinstance(asyncio.run(cache.fill((1,), demand)), Answer)
    assert asked == [{1: [Hole(1, 7, (7,))]}, {}]


async def executed() -> GtidSet:
    return GtidSet.empty()
