"""A key that is written all the time is held all the same, kept current by its changes, and right when all rest."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from dataflow.fills.exact_fills import CONFLICTS
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from upwell.aio import Cache

WRITERS, READS = 4, 1000
ROUNDS = 5
SUCCESSION = 200
HOT = 1
CACHES = {
    "rows": "SELECT id, n FROM hot WHERE k = ?",
    "groups": "SELECT COUNT(*), SUM(n) FROM hot WHERE k = ?",
    "joined": "SELECT h.id, h.n, s.n FROM hot h JOIN side s ON s.id = h.id WHERE h.k = ?",
}
SCHEMA = (
    "CREATE TABLE hot (id INT PRIMARY KEY, k INT NOT NULL, n BIGINT NOT NULL, KEY (k))",
    "CREATE TABLE side (id INT PRIMARY KEY, n BIGINT NOT NULL)",
    "CREATE TABLE stop (id INT PRIMARY KEY)",
    f"INSERT INTO hot VALUES (1, {HOT}, 0), (2, {HOT}, 0), (3, 2, 0)",
    "INSERT INTO side VALUES (1, 0), (2, 0), (3, 0)",
    f"CREATE PROCEDURE hammer() REPEAT START TRANSACTION; UPDATE hot SET n = n + 1 WHERE k = {HOT};"
    " UPDATE side SET n = n + 1 WHERE id = 1; COMMIT; UNTIL (SELECT COUNT(*) FROM stop) END REPEAT",
)
LOCKING = "SELECT COALESCE(SUM(COUNT_STAR), 0) FROM performance_schema.events_statements_summary_by_digest"
LOCKING += (
    " WHERE DIGEST_TEXT LIKE '%SERIALIZABLE%' OR DIGEST_TEXT LIKE '%FOR SHARE%' OR DIGEST_TEXT LIKE '%FOR UPDATE%'"
)
LOCKING += " OR DIGEST_TEXT LIKE 'LOCK %' OR DIGEST_TEXT LIKE 'FLUSH TABLES%' OR DIGEST_TEXT LIKE '%IN SHARE MODE%'"
FORGET = "TRUNCATE performance_schema.events_statements_summary_by_digest"


# A transaction is owned, and its rows are locked, while its group waits to be synced: so in every bracket's Q is one
# that writes the key.
GROUPED = ("--sync-binlog=1", "--binlog-group-commit-sync-delay=2000")


@contextmanager
def hammering(server: Server, database: str) -> Iterator[None]:
    """Writers inside the server, as fast as it can."""

    def write() -> None:
        with server.connect(database=database) as connection, connection.cursor() as cursor:
            cursor.execute("CALL hammer()")

    threads = [threading.Thread(target=write) for _ in range(WRITERS)]
    with ExitStack() as ending:
        for thread in threads:
            thread.start()
            ending.callback(thread.join)
        ending.callback(server.execute, f"INSERT INTO {database}.stop VALUES (1)")
        yield


def number(server: Server, sql: str) -> int:
    return int(str(server.execute(sql)[0][0]))


def drop_all(proxy: Proxy) -> None:
    for reader in proxy.app.engine.graph.readers.values():
        for held in list(reader.entries.values()):
            reader.drop(held)
    for node in proxy.app.engine.graph:
        for entry in list(node.entries.values()):
            node.discard(entry)


async def held_again(proxy: Proxy, caches: dict[str, Cache]) -> Counter[str]:
    """Reads each cache's hot key, from nothing held, until that is a hit many times in succession: what is held ahead
    of the position may still be dropped. How the reads were served."""
    drop_all(proxy)
    served: Counter[str] = Counter()
    for cache in caches.values():
        hits = 0
        while hits < SUCCESSION:
            how = (await cache.get(HOT)).served
            served[how] += 1
            hits = hits + 1 if how == "hit" else 0
    return served


@asynccontextmanager
async def hot_caches(mysql: Server, folder: Path, **options: str) -> AsyncIterator[tuple[Proxy, dict[str, Cache]]]:
    """A proxy with the caches, and the writers under way."""
    mysql.execute("CREATE DATABASE hot")
    async with proxy_beside(mysql, "hot", folder, **options) as proxy:
        await proxy.write(*SCHEMA)
        await proxy.caught_up()
        for name, sql in CACHES.items():
            await proxy.client.create_cache(sql, name=name, database="hot")
        mysql.execute(FORGET)
        caches = {name: proxy.client.cache(name) for name in CACHES}
        with hammering(mysql, "hot"):
            yield proxy, caches
        await proxy.caught_up()
        for name, cache in caches.items():
            truth = mysql.execute("USE hot", CACHES[name].replace("?", str(HOT)))
            assert sorted(map(tuple, await cache.get(HOT))) == sorted(truth)
    assert number(mysql, "SELECT COUNT(*) FROM performance_schema.data_locks") == 0


def test_hammered_key_is_held_and_right_at_rest(own_mysql: Callable[..., Server], tmp_path: Path) -> None:
    mysql = own_mysql(*GROUPED)

    async def scenario() -> None:
        async with hot_caches(mysql, tmp_path) as (proxy, caches):
            for _ in range(ROUNDS):
                await held_again(proxy, caches)
            for cache in caches.values():
                reads: Counter[str] = Counter()
                while reads["hit"] <= 0.95 * READS:  # while the stream is behind, an answer waits for the position
                    reads = Counter([(await cache.get(HOT)).served for _ in range(READS)])
        counters = proxy.app.engine.memory.counters
        assert counters["conflicts"] > 0 and counters["exact_fills"] > 0
        assert number(mysql, LOCKING) > 0

    run(scenario)


def test_switched_off_nothing_is_ever_locked(own_mysql: Callable[..., Server], tmp_path: Path) -> None:
    mysql = own_mysql(*GROUPED)

    async def scenario() -> None:
        async with hot_caches(mysql, tmp_path, exact_fills="off") as (proxy, caches):
            counters = proxy.app.engine.memory.counters
            while counters.get("conflicts", 0) < 4 * CONFLICTS:
                drop_all(proxy)
                for cache in caches.values():
                    await cache.get(HOT)
        assert counters["exact_fills"] == 0
        assert number(mysql, LOCKING) == 0

    run(scenario)
