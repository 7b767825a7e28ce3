"""Hot keys read through gRPC while several writers write them: an answer shows all of the position that it names and
nothing beyond its horizon (a hit at P: exactly P), never half of a transaction, never a mix of two.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from dataflow.changes.large_change import SIZES, Sizes
from gtid_tracker.gtid import GtidSet
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.numbered_writers import MOVERS, NumberedWriter, numbered_writers
from upwell.rows import Answer

WRITERS, TRANSACTIONS, READERS, HITS = 4, 400, 6, 200
CACHES = {
    "rows": "SELECT id, n FROM pairs WHERE k = ?",
    "groups": "SELECT k, SUM(n), MIN(n), MAX(n), COUNT(*) FROM pairs WHERE k = ? GROUP BY k",
    "joined": "SELECT a.n, b.n FROM pairs a JOIN twins b ON b.k = a.k WHERE a.k = ?",
    "joined_groups": "SELECT b.k, b.n, MAX(a.n) FROM twins b LEFT JOIN pairs a ON a.k = b.k WHERE b.k = ?"
    " GROUP BY b.k, b.n",
    "subquery": "SELECT b.n, (SELECT SUM(a.n) FROM pairs a WHERE a.k = b.k) FROM twins b WHERE b.k = ?",
    "top": "SELECT n, id FROM pairs WHERE k = ? ORDER BY n DESC, id LIMIT 1",
    "answers": "SELECT COUNT(DISTINCT n), MAX(n) FROM pairs WHERE k = ?",
    "united": "SELECT n FROM pairs WHERE k = ? UNION ALL SELECT n FROM twins WHERE k = ?",
}
LISTS = {
    "list": "SELECT k, n FROM pairs WHERE k IN (?)",
    "list_joined": "SELECT a.k, a.n, b.n FROM pairs a JOIN twins b ON b.k = a.k WHERE a.k IN (?) ORDER BY a.k, a.id",
}
MOVED = "SELECT id, k FROM movers WHERE k IN (?)"


def counters(cache: str, rows: Answer) -> set[int]:
    """The counter as every part of the answer shows it: one value, if the answer is one state."""
    match cache:
        case "rows" | "top":
            assert len(rows) == (2 if cache == "rows" else 1)
            return {row.n for row in rows}
        case "groups":
            ((_, total, low, high, count),) = rows
            assert count == 2
            return {int(total) // 2, low, high} | ({int(total)} if int(total) % 2 else set())
        case "joined" | "united":
            return {value for row in rows for value in row}
        case "joined_groups":
            ((_, one, other),) = rows
            return {one, other}
        case "subquery":
            ((one, double),) = rows
            return {one, int(double) // 2}
    ((distinct, high),) = rows
    assert distinct == 1
    return {high}


class Readers:
    """Reads random keys of random caches while the writers write, and judges each answer."""

    def __init__(self, proxy: Proxy, writers: list[NumberedWriter], evictions: float = 0.004) -> None:
        """`evictions`: how many reads are followed by one."""
        self.evictions = evictions
        self.proxy = proxy
        self.writers = writers
        self.served: Counter[str] = Counter()

    @property
    def hits(self) -> int:
        return sum(count for name, count in self.served.items() if name.endswith("hit"))

    async def read(self, rng: random.Random) -> None:
        """While there are writers, and until there were hits, however busy the machine is with other things."""
        while any(writer.is_alive() for writer in self.writers) or self.hits <= HITS:
            writer = rng.choice(self.writers)
            before = self.proxy.app.engine.state.ring.position.freeze()
            if rng.random() < 0.25:
                await self.read_list(rng, writer, before)
            else:
                await self.read_key(rng, writer, before)
            if rng.random() < self.evictions:
                self.evict(rng)

    async def read_key(self, rng: random.Random, writer: NumberedWriter, before: GtidSet) -> None:
        cache, key = rng.choice(list(CACHES)), rng.choice(writer.keys)
        rows = await self.proxy.client.cache(cache).get(*([key] * CACHES[cache].count("?")))
        found = counters(cache, rows)
        assert len(found) == 1, f"{cache} {key}: a mix of {found}: {list(rows)}"
        self.judge(cache, rows, writer, key, found.pop(), before)

    async def read_list(self, rng: random.Random, writer: NumberedWriter, before: GtidSet) -> None:
        cache = rng.choice(("list", "list_joined", "moved"))
        rows = await self.proxy.client.cache(cache).get(list(writer.keys))
        if cache == "moved":
            assert sorted(row.id for row in rows) == [writer.number * MOVERS + at for at in range(MOVERS)], list(rows)
            self.served[f"{cache} {rows.served}"] += 1
            return
        for key in writer.keys:
            found = {value for row in rows if row[0] == key for value in row[1:]}
            assert len(found) == 1, f"{cache} {key}: a mix of {found}"
            self.judge(cache, rows, writer, key, found.pop(), before)

    def judge(self, cache: str, rows: Answer, writer: NumberedWriter, key: int, counter: int, before: GtidSet) -> None:
        self.served[f"{cache} {rows.served}"] += 1
        seen = f"{cache} {key}: {rows.served} shows {counter}"
        floor = writer.state(key, before)
        assert counter >= floor, f"{seen}, the position had {floor} before the read began"
        if rows.served != "passed":  # a hit at P has one for both
            least, most = (writer.state(key, GtidSet.parse(text)) for text in (rows.position, rows.horizon))
            assert least <= counter <= most, f"{seen}, its position has {least}, its horizon {most}"

    def evict(self, rng: random.Random) -> None:
        for reader in self.proxy.app.engine.graph.readers.values():
            for held in list(reader.entries.values()):
                if rng.random() < 0.3:
                    reader.drop(held)


@pytest.mark.parametrize(
    "sizes", [SIZES, Sizes(0, 1, 50, 1000, 5, in_place=0)], ids=["as they are", "all transactions are large"]
)
def test_hits_are_the_state_at_the_position_they_name(
    mysql: Server, database: str, tmp_path: Path, sizes: Sizes
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            proxy.app.engine.state.sizes = sizes
            with numbered_writers(mysql, database, WRITERS, TRANSACTIONS) as writers:
                for name, sql in {**CACHES, **LISTS, "moved": MOVED}.items():
                    await proxy.client.create_cache(sql, name=name, database=database)
                readers = Readers(proxy, writers)
                await asyncio.gather(*(readers.read(random.Random(number)) for number in range(READERS)))
            await proxy.caught_up()
            final = proxy.app.engine.state.ring.position.freeze()
            for writer in writers:
                assert writer.written == TRANSACTIONS
                for key in writer.keys:
                    wanted = {writer.state(key, final)}
                    for cache in CACHES:
                        rows = await proxy.client.cache(cache).get(*([key] * CACHES[cache].count("?")))
                        assert counters(cache, rows) == wanted, (cache, key, list(rows))
            proxy.app.engine.check_invariants()
            print(dict(sorted(readers.served.items())), dict(proxy.app.engine.memory.counters))
            assert readers.hits > HITS, readers.served

    run(scenario)
