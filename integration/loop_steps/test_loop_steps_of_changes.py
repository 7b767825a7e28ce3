"""A transaction of many rows, or a change that concerns many keys, makes no step of the event loop long.

Measured is the processor's time of each step, as in `integration/loop_steps/test_loop_steps.py`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from integration.loop_steps.test_loop_steps_of_answers import Say, measure
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy
from upwell.client import Client

ROWS = 20_000
AT_ONCE = 5_000  # keys of a batch
QUERIES = {
    "by_id": "SELECT id, n FROM many WHERE id = ?",
    "count": "SELECT n, COUNT(*) FROM many WHERE owner = ? GROUP BY n",
    "joined": "SELECT m.id, s.c FROM many m JOIN few s ON s.id = m.one WHERE m.id = ?",
    "evict": "SELECT id, RANK() OVER (ORDER BY n) FROM many WHERE id = ? AND one = ?",
}


def tables() -> list[str]:
    digits = " UNION ALL ".join(f"SELECT {digit}" for digit in range(10))
    return [
        "CREATE TABLE many (id INT PRIMARY KEY, owner INT NOT NULL, n INT NOT NULL, one INT NOT NULL, KEY (owner))",
        f"INSERT INTO many WITH d (d) AS ({digits}), t (id) AS (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d"
        f" + 10000 * f.d FROM d a, d b, d c, d e, d f WHERE f.d < {ROWS // 10_000})"
        " SELECT id, id DIV 10, id % 7, 1 FROM t",
        "CREATE TABLE few (id INT PRIMARY KEY, c INT NOT NULL)",
        "INSERT INTO few VALUES (1, 1), (2, 2)",
    ]


def fill(proxy: Proxy, say: Say) -> None:
    with Client(f"127.0.0.1:{proxy.app.grpc_port}", token=proxy.app.grpc_token) as client:
        for name, text in QUERIES.items():
            say(f"fills of {name}")
            client.create_cache(text, name=name, database=proxy.database)
            read(client, name)


def read(client: Client, name: str) -> None:
    cache = client.cache(name)
    keys = ROWS // 10 if name == "count" else ROWS
    for first in range(0, keys, AT_ONCE):
        some = [[key, 1] if name == "evict" else [key] for key in range(first, min(first + AT_ONCE, keys))]
        cache.try_many(some, timeout=120)


async def changes(proxy: Proxy, say: Say) -> None:
    await asyncio.to_thread(fill, proxy, say)
    memory = proxy.app.engine.memory
    for rows in (2_000, 4_500, ROWS):
        say(f"a transaction of {rows} rows")
        before = memory.counters["emptied_by_large_change"]
        await proxy.write(f"UPDATE many SET n = n + 1 WHERE id < {rows}")
        await proxy.caught_up()
        emptied = memory.counters["emptied_by_large_change"] - before
        assert (emptied > 0) == (rows == ROWS), "what one step can replace is replaced"
    await asyncio.to_thread(fill_again, proxy, say)
    say("a change that concerns all answers")
    await proxy.write("UPDATE few SET c = c + 1")
    await proxy.caught_up()
    say("a transaction of rows that nobody has read")
    await proxy.write(f"INSERT INTO many SELECT id + {ROWS}, owner + {ROWS}, n, one FROM many")
    await proxy.caught_up()


def fill_again(proxy: Proxy, say: Say) -> None:
    with Client(f"127.0.0.1:{proxy.app.grpc_port}", token=proxy.app.grpc_token) as client:
        for name in QUERIES:
            say(f"fills of {name}, again")
            read(client, name)


def test_transactions_of_many_rows(mysql: Server, database: str, tmp_path: Path) -> None:
    measure(mysql, database, tmp_path, changes, tables())
