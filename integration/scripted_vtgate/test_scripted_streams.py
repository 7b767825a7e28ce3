"""The stream before and behind upqueries: writes are committed and told at each command of an upquery. At rest what is
held is what the servers of the shards have."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest

from external_upquery.protocol import Answer, ResultSet
from external_upquery.vitess import snapshot
from external_upquery.vitess.snapshot import Plan, bracket_of
from gtid_tracker.bracket import Bracket
from integration.scripted_vtgate.scripted_vitess import ScriptedVitess, ShardServers, scripted_vitess
from integration.scripted_vtgate.scripted_vitess_reads import BY_ID, BY_N, asked, at_rest
from integration.support.grpc_app import run
from tests.support.scripted_vtgate import Step
from tests.support.vitess_events import HEARTBEAT, LEFT, RIGHT, response
from tests.support.vtgate_faults import UPQUERY, Place
from tests.support.waiting import until
from upwell.errors import UnknownCache
from vstream import vitess_pb2 as pb

CACHES = {
    "by_id": (BY_ID, range(0, 20, 3)),
    "by_n": (BY_N, range(40, 44)),
    "by_n_names": ("SELECT name FROM item WHERE n = ?", range(40, 44)),
}
PLACES = tuple(place for place in UPQUERY if place not in (Place.TO_SHARD, Place.BACK))
NUMBERS = count(1)


async def writes(vitess: ScriptedVitess) -> None:
    """Rows of each shard come into the answers of a key, are changed in them, and leave them."""
    for shard, first in ((LEFT, 0), (RIGHT, 1)):
        number = next(NUMBERS)
        await vitess.write(
            shard,
            f"UPDATE item SET n = 40 + (id + {number}) % 5",
            f"DELETE FROM item WHERE id = {first + 2 * (number % 10)}",
            f"INSERT INTO item VALUES ({first + 2 * ((number + 5) % 10)}, 41, 'x{number}')"
            f" ON DUPLICATE KEY UPDATE name = 'y{number}'",
        )


async def asked_while(vitess: ScriptedVitess, where: Place, told: bool) -> None:
    """Writes before an upquery, while it is at this command, and behind it. `told`: the stream is ahead of it; else it
    is behind."""
    cache, key = ("by_n_names", 40 + next(NUMBERS) % 4)
    with vitess.sql.paused(where, shard=RIGHT if where in (Place.LOWER, Place.UPPER) else None) as pause:
        reading = asyncio.create_task(vitess.client.cache(cache).get(key))
        await until(pause.reached.is_set)
        await writes(vitess)
        if told:
            await vitess.caught_up()
    await reading
    await vitess.client.cache(cache).get(key)


async def told_one_by_one(vitess: ScriptedVitess, where: Place) -> None:
    """Two writes of a shard while an upquery is at this command are told one after the other. Who has seen both does
    not see the first one alone then."""
    with vitess.keyspace.told_late():
        with vitess.sql.paused(where) as pause:
            reading = asyncio.create_task(vitess.client.cache("by_n").get(41))
            await until(pause.reached.is_set)
            key = 1 + 2 * (next(NUMBERS) % 10)
            for n in (42, 41):
                await vitess.write(RIGHT, f"INSERT INTO item VALUES ({key}, {n}, '') ON DUPLICATE KEY UPDATE n = {n}")
        seen = sorted(map(tuple, await reading)) == await vitess.asked(BY_N.replace("?", "41"))
        shard = vitess.keyspace.shards[RIGHT]
        for position in [committed.position for committed in shard.history[-2:]]:
            assert shard.told is not None
            shard.told += 1
            await until(lambda position=position: position.issubset(vitess.app.stream.position))  # type: ignore[misc]
            if seen:
                await asked(vitess, "by_n", 41)


async def nothing_held(vitess: ScriptedVitess) -> None:
    """All keys are holes."""
    for name in CACHES:
        with suppress(UnknownCache):
            await vitess.client.drop_cache(name)
    for name, (sql, _) in CACHES.items():
        await vitess.client.create_cache(sql, name=name)


async def interleaved(vitess: ScriptedVitess, places: Sequence[Place] = PLACES) -> None:
    for where in places:
        await nothing_held(vitess)
        await asked_while(vitess, where, told=True)
        await at_rest(vitess, CACHES)
        await nothing_held(vitess)
        await told_one_by_one(vitess, where)
        await at_rest(vitess, CACHES)
        await nothing_held(vitess)
        with vitess.keyspace.told_late():
            await asked_while(vitess, where, told=False)
            await writes(vitess)
            await vitess.client.cache("by_n").get(40)
        await at_rest(vitess, CACHES)


def test_writes_at_each_command_of_an_upquery(shard_servers: ShardServers, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            await interleaved(vitess)

    run(scenario)


def test_an_upquery_while_half_of_a_transaction_is_told(shard_servers: ShardServers, tmp_path: Path) -> None:
    """The end comes in another response, behind heartbeats: before the upquery goes on, or after it."""
    told = threading.Event()

    def in_halves(events: list[pb.VEvent]) -> list[Step]:
        return [response(*events[:-2]), response(HEARTBEAT), told.is_set, response(HEARTBEAT), response(*events[-2:])]

    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            for where in (Place.LOWER, Place.STATEMENT, Place.UPPER):
                for first in (True, False):
                    await nothing_held(vitess)
                    await vitess.client.cache("by_n").get(42)
                    told.clear()
                    for shard in vitess.keyspace.shards.values():
                        shard.cut = in_halves
                    await writes(vitess)
                    with vitess.sql.paused(where) as pause:
                        reading = asyncio.create_task(vitess.client.cache("by_n").get(41))
                        await until(pause.reached.is_set)
                        if first:
                            told.set()
                            await vitess.caught_up()
                    await reading
                    await vitess.client.cache("by_n").get(41)
                    told.set()
                    await at_rest(vitess, CACHES)

    run(scenario)


def without_one(plan: Plan, answers: Sequence[Answer]) -> Bracket:
    """What the last shard had executed behind the statement is forgotten."""
    found = bracket_of(plan, answers)
    told = list(answers)
    for first, last in zip(plan.lowers[-1:], plan.uppers[-1:], strict=True):
        lower, upper = told[first], told[last]
        assert isinstance(lower, ResultSet) and isinstance(upper, ResultSet)
        ((server, had),) = lower.rows
        told[last] = replace(upper, rows=[(server, "", had)])
    forgetful = bracket_of(plan, told)
    return Bracket(found.history, found.lower, forgetful.owned, forgetful.executed)


def too_high(plan: Plan, answers: Sequence[Answer]) -> Bracket:
    """What is executed behind the statement counts as seen by it."""
    found = bracket_of(plan, answers)
    return Bracket(found.history, found.executed, found.owned, found.executed)


@pytest.mark.parametrize(("mutant", "where"), [(without_one, Place.TO_KEYSPACE), (too_high, Place.UPPER)])
def test_a_bracket_that_is_wrong_is_found(
    shard_servers: ShardServers, tmp_path: Path, mutant: Callable[[Plan, Sequence[Answer]], Bracket], where: Place
) -> None:
    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path, check="false") as vitess:
            with patch.object(snapshot, "bracket_of", mutant):
                for _ in range(5):
                    await interleaved(vitess, [where])

    with pytest.raises(AssertionError, match="by_"):
        run(scenario)
