"""A stream that stands still while new keys are asked for: each is asked of MySQL once, and is a hit from then on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dataflow.messages import StreamEvent
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, binlog_of, proxy_beside, run
from proxy.app import App
from upwell.rows import Answer

KEYS = 150
CACHES = {
    "rows": "SELECT id, n FROM items WHERE k = ?",
    "groups": "SELECT k, COUNT(*), SUM(n) FROM items WHERE k = ? GROUP BY k",
    "answers": "SELECT COUNT(DISTINCT n) FROM items WHERE k = ?",
}
TABLES = (
    "CREATE TABLE items (id INT PRIMARY KEY, k INT NOT NULL, n INT NOT NULL, KEY (k))",
    f"INSERT INTO items WITH RECURSIVE i AS (SELECT 0 AS x UNION ALL SELECT x + 1 FROM i WHERE x < {3 * KEYS - 1})"
    f" SELECT x, x % {KEYS}, x FROM i",
)


@contextmanager
def stream_held_back(app: App) -> Iterator[None]:
    """What the stream brings is given to the engine only at the end."""
    stream, held = binlog_of(app), list[StreamEvent]()
    sink = stream._sink
    assert sink is not None
    stream._sink = held.append
    try:
        yield
    finally:
        for event in held:
            sink(event)
        stream._sink = sink


def write_some(rng: random.Random) -> str:
    """A statement that changes rows of one key, or moves one between two."""
    key, other = rng.randrange(KEYS), rng.randrange(KEYS)
    return rng.choice(
        (
            f"UPDATE items SET n = n + 1 WHERE k = {key}",
            f"UPDATE items SET k = {other} WHERE id = {rng.randrange(KEYS)}",
        )
    )


@pytest.mark.parametrize("ahead", ["on", "off"])
def test_new_keys_are_asked_for_once_while_the_stream_stands_still(
    mysql: Server, database: str, tmp_path: Path, ahead: str
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, ahead_fills=ahead) as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            for name, sql in CACHES.items():
                await proxy.client.create_cache(sql, name=name, database=database)
            rng = random.Random(7)
            with stream_held_back(proxy.app):
                # From here on the position lacks something that every snapshot has.
                await proxy.write(*(write_some(rng) for _ in range(50)))
                served = await storm(proxy)
                asked = proxy.app.engine.memory.counters["upquery_keys"]
                second = [answer.served for answers in served.values() for answer in answers[1:]]
                if ahead == "on":
                    assert set(second) == {"hit"}
                    assert asked == len(served)
                    # What the held keys do not reflect is applied to them, what they reflect is not applied again.
                    await proxy.write(*(write_some(rng) for _ in range(50)))
                else:
                    assert set(second) == {"miss"}
            await proxy.caught_up()
            counters = proxy.app.engine.memory.counters
            assert (counters.get("fills_ahead", 0) > 0) == (ahead == "on")
            await equal_to_mysql(proxy, all_hits=ahead == "on")

    run(scenario)


async def storm(proxy: Proxy) -> dict[tuple[str, int], list[Answer]]:
    """Every key of every cache, three times one after the other, many at once."""

    async def key(name: str, number: int) -> tuple[tuple[str, int], list[Answer]]:
        return (name, number), [await proxy.client.cache(name).get(number) for _ in range(3)]

    return dict(await asyncio.gather(*(key(name, number) for name in CACHES for number in range(KEYS))))


async def equal_to_mysql(proxy: Proxy, all_hits: bool) -> None:
    for name, sql in CACHES.items():
        for number in range(0, KEYS, 6):
            answer = await proxy.client.cache(name).get(number)
            if all_hits and name != "answers":  # what changes an answer in evict mode takes it away
                assert answer.served == "hit", (name, number)
            query = f"USE `{proxy.database}`", sql.replace("?", str(number))
            expected = await asyncio.to_thread(proxy.mysql.execute, *query)
            assert sorted(map(tuple, answer)) == sorted(map(tuple, expected)), (name, number)
