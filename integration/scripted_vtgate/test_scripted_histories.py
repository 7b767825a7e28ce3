"""Random histories before a scripted vtgate: writes on its shards and through sessions, told late or in pieces, streams
that break off, errors and ends of connections, upqueries that wait anywhere while others go on, and reads.

In every second one vtgate finds no row by `n`, which is the column of a lookup.

What a key has shown is not taken back, a session sees what it has written, and at rest all is what the servers have.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
import pytest

from gtid_tracker.gtid import GtidSet
from integration.scripted_vtgate.scripted_vitess import TABLES, ScriptedVitess, ShardServers, place, scripted_vitess
from integration.scripted_vtgate.scripted_vitess_reads import BY_ID, BY_N, at_rest
from integration.support.grpc_app import run
from tests.support.scripted_vtgate import Step
from tests.support.vitess_events import HEARTBEAT, LEFT, RIGHT, Values, response
from tests.support.vtgate_errors import REFUSED
from tests.support.vtgate_faults import UPQUERY, Place, cut, lost, refused
from tests.support.vtgate_shards import whole
from tests.support.waiting import until
from upwell.errors import DeadlinePassed, SourceDown, SourceError
from vstream import vitess_pb2 as pb

SEEDS, STEPS = int(os.environ.get("HISTORIES", "3")), 120
FIRST = int(os.environ.get("FIRST_HISTORY", "0"))
KEYS, NUMBERS = range(8), range(4)
CACHES = {
    "by_id": (BY_ID, KEYS),
    "by_n": (BY_N, NUMBERS),
    "names": ("SELECT name FROM item WHERE n = ?", NUMBERS),
}
SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"verify_new_caches": "8", "check_sample": "0.3"},
)


class History:
    """`versions`: of each row, what it has been, in its shard's order; `shown`: the latest of them that a read has had
    from what is held."""

    def __init__(self, vitess: ScriptedVitess, rng: random.Random) -> None:
        self.vitess, self.rng = vitess, rng
        self.number = 0
        self.versions: dict[int, list[Values | None]] = {}
        self.shown: dict[int, int] = defaultdict(int)
        self.read: Counter[str] = Counter()
        self.counted: Counter[str] = Counter()
        self._known: Counter[str] = Counter()
        self._writing = asyncio.Lock()  # what is committed is known a moment later
        self._under_way: list[tuple[int, str, ExitStack]] = []
        self._begun = 0
        self._reading: set[asyncio.Task[None]] = set()
        self.session: pymysql.Connection[Any] | None = None

    async def begin(self) -> None:
        for key in KEYS:
            rows = await self.vitess.asked(BY_ID.replace("?", str(key)))
            self.versions[key] = [text(rows[0]) if rows else None]
        for name, (sql, _) in CACHES.items():
            await self.vitess.client.create_cache(sql, name=name)
        self.session = await asyncio.to_thread(self.vitess.connect)

    # -- writes -------------------------------------------------------------------------------------------------------

    def _statement(self, key: int) -> str:
        self.number += 1
        n, name = self.rng.choice(NUMBERS), f"w{self.number}"
        return self.rng.choice(
            (
                f"UPDATE item SET n = {n}, name = '{name}' WHERE id = {key}",
                f"DELETE FROM item WHERE id = {key}",
                f"INSERT INTO item VALUES ({key}, {n}, '{name}') ON DUPLICATE KEY UPDATE n = {n}, name = '{name}'",
            )
        )

    def _learn(self) -> None:
        for name, shard in self.vitess.keyspace.shards.items():
            for committed in shard.history[self._known[name] :]:
                for _, before, after in committed.changes:
                    key = int(str((before or after or ())[0]))
                    if key in self.versions:
                        self.versions[key].append(after)
            self._known[name] = len(shard.history)

    async def write(self, *keys: int) -> None:
        """One transaction: of these rows, or of any."""
        shard = place(keys[0]) if keys else self.rng.choice((LEFT, RIGHT))
        keys = keys or tuple(self.rng.choices([key for key in KEYS if place(key) == shard], k=self.rng.randrange(1, 4)))
        statements = [self._statement(key) for key in keys]
        async with self._writing:
            await self.vitess.write(shard, *statements)
            self._learn()

    async def write_in_session(self) -> None:
        """And read it there."""
        key = self.rng.choice(KEYS)
        statement = self._statement(key).split(" ON DUPLICATE")[0].replace("INSERT", "REPLACE")

        def do() -> list[Any]:
            assert self.session is not None
            with self.session.cursor() as cursor:
                cursor.execute(statement)
                cursor.execute(BY_ID.replace("?", str(key)))
                return list(cursor.fetchall())

        async with self._writing:
            found = await asyncio.to_thread(do)
            self._learn()
        expected = self.versions[key][-1]
        assert (text(found[0]) if found else None) == expected, ("own write", statement, found)

    # -- reads --------------------------------------------------------------------------------------------------------

    async def look(self, name: str = "", key: int = -1) -> None:
        """At any key, where none is given."""
        name = name or self.rng.choice(list(CACHES))
        key = key if key >= 0 else self.rng.choice(CACHES[name][1])
        begun, faulty = self._begun, bool(self._under_way)
        shown, committed = self.shown[key], len(self.versions[key]) - 1
        try:
            found = await self.vitess.client.cache(name).get(key)
        except (SourceError, SourceDown, DeadlinePassed):
            assert faulty or self._begun > begun, "no error without a fault"
            self.counted["errors"] += 1
            return
        self.read[found.served] += 1
        if name != "by_id":
            return
        async with self._writing:
            self._learn()
        row, versions = text(tuple(found[0])) if found else None, self.versions[key]
        first = committed if found.served == "passed" else shown  # vtgate's own answer has all that is committed
        at = next((at for at in range(first, len(versions)) if versions[at] == row), None)
        assert at is not None, ("gone back", key, found.served, row, versions[first:])
        if found.served != "passed":
            self.shown[key] = max(at, self.shown[key])

    def look_meanwhile(self) -> None:
        task = asyncio.create_task(self.look())
        self._reading.add(task)

    async def _read_all(self) -> None:
        await asyncio.gather(*self._reading)
        self._reading.clear()

    # -- faults -------------------------------------------------------------------------------------------------------

    def _is_under_way(self, *kinds: str) -> bool:
        return any(kind in kinds for _, kind, _ in self._under_way)

    def _begin(self, kind: str, context: AbstractContextManager[Any]) -> None:
        self._begun += 1
        stack = ExitStack()
        stack.enter_context(context)
        self._under_way.append((self.rng.randrange(1, 8), kind, stack))

    def fault(self) -> None:
        where = self.rng.sample((*UPQUERY, Place.VINDEX), self.rng.randrange(1, 4))
        error = self.rng.choice(list(REFUSED.values()))
        do = self.rng.choice((lost, cut, refused(error.errno, error.sqlstate, error.message)))
        self.counted["faults"] += 1
        self._begin("fault", self.vitess.sql.wrong(*where, do=do, times=self.rng.choice((1, 2, 100))))

    def pause(self) -> None:
        self.counted["pauses"] += 1
        self._begin("pause", self.vitess.sql.paused(self.rng.choice(UPQUERY), times=self.rng.choice((1, 2))))
        self.look_meanwhile()

    async def race(self) -> None:
        """A row is written while it is asked for. What of that is told then comes one after the other."""
        if self._under_way or self._reading:
            return
        key, where = self.rng.choice(KEYS), self.rng.choice(UPQUERY)
        with self.vitess.keyspace.told_late():
            with self.vitess.sql.paused(where) as pause:
                reading = asyncio.create_task(self.look("by_id", key))
                await until(lambda: pause.reached.is_set() or reading.done())
                for _ in range(self.rng.randrange(1, 4)):
                    await self.write(key)
            await reading
            shard = self.vitess.keyspace.shards[place(key)]
            while shard.told is not None and shard.told < len(shard.history):
                shard.told += 1
                position = shard.history[shard.told - 1].position
                await until(partial(self._has_come, position))
                await self.look("by_id", key)
        self.counted["races"] += 1

    def _has_come(self, position: GtidSet) -> bool:
        return position.issubset(self.vitess.app.stream.position)

    def late(self) -> None:
        self._begin("late", self.vitess.keyspace.told_late(*self.rng.choice(((), (LEFT,), (RIGHT,)))))

    def in_pieces(self) -> None:
        for shard in self.vitess.keyspace.shards.values():
            shard.cut = self.rng.choice((whole, self._cut))

    def _cut(self, events: list[pb.VEvent]) -> list[Step]:
        found: list[Step] = []
        for event in events:
            found.append(response(event))
            if self.rng.random() < 0.3:
                found.append(response(HEARTBEAT))
        return found

    def tell_one(self) -> None:
        """Of what is told late."""
        for shard in self.vitess.keyspace.shards.values():
            if shard.told is not None:
                shard.told += 1

    async def make_anew(self) -> None:
        """A cache, of which nothing is held then."""
        if not self._reading and not self._is_under_way("fault", "pause"):
            name = self.rng.choice(list(CACHES))
            await self.vitess.client.drop_cache(name)
            await self.vitess.client.create_cache(CACHES[name][0], name=name)

    def break_streams(self) -> None:
        self.counted["breaks"] += 1
        self.vitess.keyspace.break_streams()

    async def end_some(self, all_of_them: bool = False) -> None:
        left = []
        for steps, kind, stack in self._under_way:
            if steps > 1 and not all_of_them:
                left.append((steps - 1, kind, stack))
            else:
                stack.close()
        self._under_way = left
        if not left:
            await self._read_all()

    # -- all ----------------------------------------------------------------------------------------------------------

    async def go_on(self) -> None:
        acts: list[tuple[Callable[[], Awaitable[None] | None], float]] = [
            *((self.write, 8), (self.look, 12), (self.look_meanwhile, 5), (self.write_in_session, 2), (self.late, 2)),
            *((self.fault, 2), (self.pause, 4), (self.in_pieces, 1), (self.break_streams, 0.3)),
            *((self.tell_one, 6), (self.make_anew, 4), (self.race, 5)),
        ]
        for _ in range(STEPS):
            (act,) = self.rng.choices(*zip(*acts, strict=True))
            if self._is_under_way("pause") and act in (self.look, self.write_in_session):
                act = self.look_meanwhile  # it may wait for what waits
            if (waiting := act()) is not None:
                await asyncio.wait_for(waiting, 60)
            await self.end_some()
        await self.end_some(all_of_them=True)
        await at_rest(self.vitess, CACHES)
        for cache in self.vitess.app.catalog.caches.values():
            assert cache.plan is not None
            doubt = self.vitess.app.catalog.doubts.about(cache.plan.sql, cache.database)
            assert doubt is None, "what Upwell compares itself is vtgate's own answer, too"


def text(row: tuple[Any, ...]) -> Values:
    return tuple(None if value is None else str(value) for value in row)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_random_histories(shard_servers: ShardServers, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    settings = {"own_writes_wait": "0.2s", "upquery_timeout": "3s", **SETTINGS[seed % len(SETTINGS)]}

    async def scenario() -> None:
        async with scripted_vitess(shard_servers[0], shard_servers[1], tmp_path, TABLES, **settings) as vitess:
            vitess.sql.lookup = "n" if seed % 2 else ""
            history = History(vitess, rng)
            await history.begin()
            await history.go_on()
            print(seed, history.read, history.counted)

    run(scenario)
