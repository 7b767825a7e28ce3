"""MySQL, its connections or its history go away in the middle of reads and writes, and come back: hits go on for as
long as was promised, misses fail at once with the reason, and afterwards everything is served and right.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pymysql
import pytest

from integration.conftest import OwnMySQL
from integration.grpc.test_concurrent_reads import CACHES, LISTS, MOVED, Readers
from integration.planner_truth.differential import truth
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.numbered_writers import NumberedWriter, numbered_writers
from integration.support.proxy_process import serving
from tests.support.waiting import until
from upwell.client import Client
from upwell.errors import SourceDown, Unavailable, UpwellError

ROOT = Path(__file__).parent.parent.parent
DURABLE = ("--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1")
WRITERS = 2
KILLS = 3  # at least; how many a connection's life allows
Keys = list[tuple[str, int]]


async def create_caches(proxy: Proxy) -> None:
    for name, sql in {**CACHES, **LISTS, "moved": MOVED}.items():
        await proxy.client.create_cache(sql, name=name, database="d")


def arguments(cache: str, key: int) -> list[object]:
    return [[key]] if cache in LISTS else [key] * CACHES[cache].count("?")


async def fill(proxy: Proxy, keys: Sequence[int]) -> None:
    for cache in (*CACHES, *LISTS):
        for key in keys:
            await proxy.client.cache(cache).get(*arguments(cache, key))


async def equal_at_rest(proxy: Proxy, keys: Sequence[int]) -> Counter[str]:
    """Compares every cache's answer for every key with MySQL's own."""
    await proxy.caught_up()
    await proxy.app.catalog.settled()
    proxy.app.engine.check_invariants()
    served: Counter[str] = Counter()
    for cache, sql in {**CACHES, **LISTS}.items():
        for key in keys:
            for _ in range(2):  # as it was found, and as it was filled
                answer = await proxy.client.cache(cache).get(*arguments(cache, key))
                _, wanted = await truth(proxy, sql, tuple(arguments(cache, key)))
                assert sorted(map(tuple, answer)) == sorted(wanted), (cache, key, answer.served)
                served[answer.served] += 1
    assert served["hit"] >= served["miss"], served
    return served


async def source_is_up(proxy: Proxy) -> bool:
    return bool((await proxy.client.status()).source_up)


def killed(server: Server, which: str) -> int:
    """Kills connections by a condition on information_schema.processlist; how many."""
    rows = server.execute(f"SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND {which}")
    for (number,) in rows:
        try:
            server.execute(f"KILL {number}")
        except pymysql.MySQLError as error:
            assert error.args[0] == 1094, error  # it has ended by itself
    return len(rows)


def test_mysql_dies_under_load_and_comes_back(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    mysql = own_mysql(*DURABLE)
    mysql.execute("CREATE DATABASE d", "CREATE TABLE d.steady (id INT PRIMARY KEY, v INT)")
    staleness = 1.5

    async def hits_until_closed(proxy: Proxy, died: float) -> int:
        hits = 0

        async def are_closed() -> bool:
            nonlocal hits
            try:
                answer = await proxy.client.cache("steady").get(0, timeout=5)
            except (SourceDown, Unavailable) as error:
                assert "max-staleness" in str(error), error
                assert monotonic() - died > staleness * 0.6, "hits ended too early"
                return True
            assert answer.served == "hit"
            hits += 1
            return False

        await until(are_closed, staleness + 60)
        return hits

    async def scenario() -> None:
        async with proxy_beside(mysql, "d", tmp_path, max_staleness=f"{staleness}s") as proxy:
            with pytest.raises(pymysql.MySQLError), numbered_writers(mysql, "d", WRITERS) as writers:
                await create_caches(proxy)
                keys = [key for writer in writers for key in writer.keys]
                await fill(proxy, keys)
                await proxy.client.create_cache("SELECT v FROM steady WHERE id = ?", name="steady", database="d")
                await until(lambda: steady_is_held(proxy))
                readers = Readers(proxy, writers, evictions=0)
                loads = [asyncio.create_task(read_until_it_fails(readers, number)) for number in range(3)]
                await until(lambda: written(writers, 60))
                await asyncio.to_thread(mysql.kill)
                died = monotonic()
                await asyncio.gather(*loads)
                with pytest.raises((SourceDown, Unavailable)):  # not DeadlinePassed: it does not wait
                    await proxy.client.cache("rows").get(10_000, timeout=30)
                await hits_until_closed(proxy, died)
            await asyncio.to_thread(mysql.start)
            await until(lambda: source_is_up(proxy))
            await until(lambda: open_again(proxy))
            await proxy.write("UPDATE pairs SET n = n + 1", "UPDATE twins SET n = n + 1 WHERE k < 5")
            await equal_at_rest(proxy, keys)

    run(scenario)


async def written(writers: Sequence[NumberedWriter], count: int) -> bool:
    await asyncio.to_thread(lambda: None)
    return all(writer.written >= count or writer.failed for writer in writers)


async def steady_is_held(proxy: Proxy) -> bool:
    """One read need not do: under load an answer may come too early or too late to be held."""
    return (await proxy.client.cache("steady").get(0)).served == "hit"


async def open_again(proxy: Proxy) -> bool:
    try:
        await proxy.client.cache("rows").get(0)
    except UpwellError:
        return False
    return True


async def read_until_it_fails(readers: Readers, number: int) -> None:
    """A load: every answer is judged; it ends when MySQL has gone."""
    try:
        await readers.read(random.Random(number))
    except (SourceDown, Unavailable):
        return


@pytest.mark.parametrize(
    "which",
    [
        "command LIKE 'Binlog Dump%'",
        "command NOT LIKE 'Binlog Dump%' AND info IS NOT NULL",
        "user = 'proxy'",
    ],
    ids=["the dump connection", "upqueries that run", "all of the proxy's connections"],
)
def test_connections_are_killed_under_load(own_mysql: OwnMySQL, tmp_path: Path, which: str) -> None:
    mysql = own_mysql()
    mysql.execute("CREATE DATABASE d", "CREATE USER proxy@'%'", "GRANT ALL ON *.* TO proxy@'%'")
    seen: Counter[str] = Counter()

    async def load(proxy: Proxy, readers: Readers, number: int) -> None:
        """Reads may fail while connections die, but never with a wrong answer."""
        rng = random.Random(number)
        while any(writer.is_alive() for writer in readers.writers):
            try:
                await readers.read(rng)
            except (SourceDown, Unavailable):
                seen["unavailable"] += 1
            except UpwellError as error:
                # A statement that was killed, not its connection.
                assert error.errno in (1317, 1053), error
                seen["interrupted"] += 1

    async def scenario() -> None:
        upstream = mysql.url.replace("root@", "proxy@")
        async with proxy_beside(mysql, "d", tmp_path, upstream=upstream) as proxy:
            with numbered_writers(mysql, "d", WRITERS) as writers:
                await create_caches(proxy)
                readers = Readers(proxy, writers)
                loads = [asyncio.create_task(load(proxy, readers, number)) for number in range(4)]
                while seen["killed"] < KILLS or not await written(writers, 500):
                    seen["killed"] += await asyncio.to_thread(killed, mysql, f"user = 'proxy' AND {which}")
                for writer in writers:
                    writer.stop.set()
                await asyncio.gather(*loads)
            await until(lambda: source_is_up(proxy))
            await equal_at_rest(proxy, [key for writer in writers for key in writer.keys])

    run(scenario)


def test_binlogs_purged_while_the_stream_is_away_make_everything_a_hole(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    mysql = own_mysql()
    mysql.execute("CREATE DATABASE d", "CREATE USER proxy@'%'", "GRANT ALL ON *.* TO proxy@'%'")

    async def scenario() -> None:
        upstream = mysql.url.replace("root@", "proxy@")
        async with proxy_beside(mysql, "d", tmp_path, upstream=upstream) as proxy:
            with numbered_writers(mysql, "d", WRITERS, 30) as writers:
                await create_caches(proxy)
            keys = [key for writer in writers for key in writer.keys]
            await proxy.caught_up()
            await fill(proxy, keys)
            resets = proxy.app.engine.memory.counters.get("resets", 0)
            mysql.execute("REVOKE REPLICATION SLAVE, REPLICATION CLIENT ON *.* FROM proxy@'%'")
            killed(mysql, "command LIKE 'Binlog Dump%'")
            await until(lambda: is_not(source_is_up(proxy)))
            mysql.execute("USE d", "UPDATE pairs SET n = -n", "UPDATE twins SET n = -n", "FLUSH BINARY LOGS")
            (*_, newest) = mysql.execute("SHOW BINARY LOGS")
            mysql.execute(f"PURGE BINARY LOGS TO '{newest[0]}'")
            answer = await proxy.client.cache("rows").get(keys[0])
            assert answer.served == "hit", "hits go on while the stream is away"
            mysql.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO proxy@'%'")
            await until(lambda: source_is_up(proxy))
            await proxy.caught_up()
            assert proxy.app.engine.memory.counters["resets"] > resets
            await equal_at_rest(proxy, keys)

    run(scenario)


async def is_not(condition: Awaitable[bool]) -> bool:
    return not await condition


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["told to stop", "killed"])
def test_definitions_survive_the_end_of_the_proxy_under_load(
    mysql: Server, database: str, tmp_path: Path, end: signal.Signals
) -> None:
    mysql.execute(f"USE `{database}`", "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10)")
    options = ["--warm-up=off", "--snapshot=off"]  # what is held by itself would hit at once
    with serving(mysql, database, tmp_path, *options) as first, Client(first.grpc) as client:
        client.create_cache("SELECT v FROM t WHERE id = ?", name="by_id", database=database)
        client.create_cache("SELECT COUNT(*) AS n FROM t", name="all", database=database)
        client.drop_cache("all")
        client.cache("by_id").get(1)
        with ThreadPoolExecutor(1) as thread:
            slow = thread.submit(client.query, f"SELECT SLEEP(2) AS {database}")
            running = f"SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP% {database}'"
            while not mysql.execute(running)[0][0]:
                pass
            first.process.send_signal(end)
            assert first.process.wait(60) == (0 if end is signal.SIGTERM else -end), first.log
            if end is signal.SIGTERM:
                assert list(slow.result()) == [(0,)], "an answer that was under way is finished"
            else:
                assert isinstance(slow.exception(), UpwellError)
    with serving(mysql, database, tmp_path, *options) as again, Client(again.grpc) as client:
        assert [cache.name for cache in client.caches()] == ["by_id"]
        while (served := client.cache("by_id").get(1).served) == "passed":
            pass  # it listens before it has planned what it remembers
        assert [served, client.cache("by_id").get(1).served] == ["miss", "hit"]
