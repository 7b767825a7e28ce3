"""The proxy before a keyspace of two shards: its answers are vtgate's, held and kept current by the stream."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Self

import pymysql
import pytest

from external_upquery.address import parse_upstream
from external_upquery.login import log_in
from integration.support.grpc_app import run
from integration.vitess.cluster import Cluster
from integration.vitess.proxy import VitessProxy, address, proxy_before
from integration.vitess.shop import PLAIN, SHARDED, SHARDS, write
from tests.support.waiting import until
from upwell.errors import SourceError, UnsupportedQuery

LONG = 60.0  # seconds: how long a test waits for what should come at once
pytestmark = pytest.mark.timeout(1800)  # the first of them may build it

QUERIES = {
    "by_id": ("SELECT id, n, name FROM item WHERE id = ?", range(60)),
    "by_n": ("SELECT id, name FROM item WHERE n = ? ORDER BY id", range(8)),
    "sums": ("SELECT COUNT(*), SUM(n), MAX(id) FROM item WHERE n = ?", range(8)),
    "first": ("SELECT id, n FROM item WHERE n < ? ORDER BY id LIMIT 5", (5, 50)),
    "pairs": ("SELECT a.id, b.id FROM item a JOIN item b ON b.id = a.n WHERE a.n = ?", range(8)),
}


async def compare(proxy: VitessProxy) -> Counter[str]:
    """Each answer with vtgate's own; how they were served."""
    served: Counter[str] = Counter()
    for name, (sql, keys) in QUERIES.items():
        for key in keys:
            await proxy.client.cache(name).get(key)
            found = await proxy.client.cache(name).get(key)
            expected = await proxy.asked(sql.replace("?", str(key)))
            assert sorted(map(tuple, found)) == sorted(expected), (name, key)
            served[f"{found.served} {found.why}".strip()] += 1
    return served


def test_answers_are_held_and_kept_current(vitess: Cluster, tmp_path: Path) -> None:
    rng = random.Random(3)
    vitess.execute(SHARDED, "DELETE FROM item")

    def some_writes() -> None:
        with closing(vitess.connect(SHARDED)) as connection, connection.cursor() as cursor:
            for number in range(60):
                write(cursor, rng, number % 8)

    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path) as proxy:
            for name, (sql, _) in QUERIES.items():
                await proxy.client.create_cache(sql, name=name)
            asked = sum(len(keys) for _, keys in QUERIES.values())
            for _ in range(3):
                await asyncio.to_thread(some_writes)
                await proxy.caught_up()
                assert await compare(proxy) == {"hit": asked}

    run(scenario)


def test_a_text_is_about_the_keyspace_that_is_named_with_it(vitess: Cluster, tmp_path: Path) -> None:
    vitess.execute(SHARDED, "DELETE FROM item", "INSERT INTO item (id, n) VALUES (1, 1)")
    vitess.execute(PLAIN, "CREATE TABLE IF NOT EXISTS lone (id BIGINT PRIMARY KEY)")

    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path) as proxy:
            for _ in range(3):
                assert [row[0] for row in await proxy.client.query("SELECT COUNT(*) FROM item")] == [1]
                with pytest.raises(SourceError):
                    await proxy.client.query("SELECT COUNT(*) FROM item", database=PLAIN)
                assert [row[0] for row in await proxy.client.query("SELECT COUNT(*) FROM lone", database=PLAIN)] == [0]
            await proxy.client.create_cache(f"SELECT id FROM {SHARDED}.item WHERE id = ?", name="named", database=PLAIN)
            for _ in range(3):
                assert [row.id for row in await proxy.client.cache("named").get(1)] == [1]
            assert [row[0] for row in await proxy.client.query("SELECT COUNT(*) FROM lone", database=PLAIN)] == [0]

    run(scenario)


@pytest.mark.parametrize("checked", ["off", "32"])
def test_a_shard_that_does_nothing_makes_no_key_of_another_one_wait(
    vitess: Cluster, tmp_path: Path, checked: str
) -> None:
    rows = ", ".join(f"({number}, 0)" for number in range(40))
    vitess.execute(SHARDED, "DELETE FROM item", f"INSERT INTO item (id, n) VALUES {rows}")

    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path, verify_new_caches=checked, check_sample="off") as proxy:
            await proxy.client.create_cache("SELECT id, n FROM item WHERE id = ?", name="by_id")
            await proxy.client.create_cache("SELECT id, name FROM item WHERE id = ?", name="names")
            cache, another = proxy.client.cache("by_id"), proxy.client.cache("names")
            here = []
            for number in range(40):
                await cache.get(number)
                if "-80" in str(await proxy.asked(f"SELECT shard FROM {SHARDED}.hash WHERE id = {number}")):
                    here.append(number)
            assert 10 < len(here) < 30
            with vitess.held_up(SHARDED, "80-"):
                async with asyncio.timeout(30):
                    for number in here:
                        update = f"UPDATE item SET n = 7, name = 'x' WHERE id = {number}"
                        await asyncio.to_thread(vitess.execute, SHARDED, update)
                        found = await cache.get(number)
                        while [row.n for row in found] != [7]:  # until the stream has brought it
                            found = await cache.get(number)
                        assert found.served == "hit"
                        assert (await another.get(number)).served == "miss"
                        assert (await another.get(number)).served == "hit"

    run(scenario)


ASKED = 60  # keys of each shard
SESSIONS = 12  # clients by MySQL's protocol that wait for some of them


class Session:
    """A client by MySQL's protocol, which blocks a thread."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self.connection: pymysql.Connection[Any]

    @classmethod
    async def opened(cls, proxy: VitessProxy, threads: ThreadPoolExecutor) -> Self:
        session = cls(threads)
        session.connection = await asyncio.get_running_loop().run_in_executor(threads, proxy.session)
        return session

    async def asked(self, sql: str) -> tuple[list[tuple[Any, ...]], str]:
        """The rows, and how they were served."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._asked, sql)

    def _asked(self, sql: str) -> tuple[list[tuple[Any, ...]], str]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            rows = list(cursor.fetchall())
            cursor.execute("EXPLAIN LAST STATEMENT")
            explained = cursor.fetchone()
        assert explained is not None
        return rows, explained[0] if explained[0] != "passed" else f"passed: {explained[2]}"


def by_shard(cluster: Cluster, numbers: range) -> tuple[list[int], list[int]]:
    """The ids that are on `80-`, and the others."""
    found: tuple[list[int], list[int]] = [], []
    for number in numbers:
        ((shard,),) = cluster.execute(SHARDED, f"SELECT shard FROM hash WHERE id = {number}")
        found[b"80-" not in (shard, str(shard).encode())].append(number)
    return found


@pytest.mark.parametrize("checked", ["off", "32"])
def test_however_many_ask_a_shard_that_does_nothing_keys_of_others_are_answered(
    vitess: Cluster, tmp_path: Path, checked: str
) -> None:
    """`checked`: whether the cache's first answers are compared with vtgate's own."""
    numbers = range(400)
    rows = ", ".join(f"({number}, {number % 7}, 'x')" for number in numbers)
    vitess.execute(SHARDED, "DELETE FROM item", f"INSERT INTO item (id, n, name) VALUES {rows}")
    hung, cold = map(iter, by_shard(vitess, numbers))
    sql = "SELECT id, n FROM item WHERE id = {}"

    async def scenario() -> None:
        given = {"verify_new_caches": checked, "check_sample": "off", "upquery_timeout": "600s"}
        with ThreadPoolExecutor(SESSIONS + 1) as threads:
            async with proxy_before(vitess, SHARDED, tmp_path, **given) as proxy:
                await proxy.client.create_cache(sql.format("?"), name="by_id")
                cache = proxy.client.cache("by_id")
                *stuck, free = [await Session.opened(proxy, threads) for _ in range(SESSIONS + 1)]
                known = sql.format(next(cold))
                for _ in range(3):  # what is asked once for a session
                    await free.asked(known)
                with vitess.held_up(SHARDED, "80-"):
                    waiting: list[asyncio.Future[Any]] = []
                    answers = []
                    executor = proxy.app.executor
                    for _ in range(2 * proxy.app.config.upquery_connections):  # each in an upquery of its own
                        before = executor.counters["upqueries"]
                        waiting.append(asyncio.ensure_future(cache.get(next(hung))))
                        await until(lambda before=before: executor.counters["upqueries"] > before)  # type: ignore[misc]
                    assert proxy.app.router.status().counters["source_held_back"] > 0
                    for _ in range(ASKED):  # in one step of the loop: what may share an upquery does
                        waiting.append(asyncio.ensure_future(cache.get(next(hung))))
                        answers.append(asyncio.ensure_future(cache.get(next(cold))))
                    waiting += [asyncio.ensure_future(one.asked(sql.format(next(hung)))) for one in stuck]
                    found = await asyncio.wait_for(asyncio.gather(*answers), LONG)
                    assert Counter(one.served for one in found) == {"miss": ASKED}
                    for number in islice(cold, 10):
                        for served in ("miss", "hit"):
                            assert await asyncio.wait_for(free.asked(sql.format(number)), LONG) == (
                                [(number, number % 7)],
                                served,
                            )
                    for number in islice(cold, 10):
                        again = await asyncio.wait_for(cache.get(number), LONG)
                        assert ([tuple(row) for row in again], again.served) == ([(number, number % 7)], "miss")
                    assert [one for one in waiting if one.done()] == []
                answered = await asyncio.gather(*waiting)
                assert all(len(one) for one in answered)
                for one in (*stuck, free):
                    one.connection.close()

    run(scenario)


def test_a_login_ends_while_a_shard_does_nothing(vitess: Cluster) -> None:
    upstream = parse_upstream(address(vitess, SHARDED))
    with vitess.held_up(SHARDED, "80-"):
        for _ in range(4):  # one of them tries that shard first
            log_in(upstream).socket.close()


def test_a_table_that_the_vschema_lacks_is_refused_with_that_reason(vitess: Cluster, tmp_path: Path) -> None:
    shards = [f"USE `{SHARDED}:{shard}`" for shard in SHARDS]
    for target in shards:
        vitess.execute(SHARDED, target, "CREATE TABLE lacking (id BIGINT PRIMARY KEY)")

    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path) as proxy:
            with pytest.raises(UnsupportedQuery, match="the VSchema of keyspace shop has no table lacking"):
                await proxy.client.create_cache("SELECT id FROM lacking WHERE id = ?", name="lacks")

    try:
        run(scenario)
    finally:
        for target in shards:
            vitess.execute(SHARDED, target, "DROP TABLE lacking")
