"""Who asks for freshness gets it from a real MySQL, also while the change stream is held back; who writes reads it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from external_upquery.address import parse_upstream
from gtid_tracker.gtid import GtidSet
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, held_back, proxy_beside, run
from integration.support.numbered_writers import numbered_writers
from upwell.client import Client
from upwell.errors import BadParameters, TooStale, UpwellError
from upwell.freshness import Freshness
from upwell.rows import Answer
from upwell.written import TrackingConnection, gtids

NEVER = "5e1ec7ed-0000-4000-8000-00000000000f:tag:1-5"
LONG = 30.0  # seconds that no test lasts
ROUNDS = 200


def tracking(mysql: Server, database: str) -> TrackingConnection:
    at = parse_upstream(mysql.url)
    return TrackingConnection(
        host=at.host, port=at.port, user=at.user, password=at.password, database=database, autocommit=True
    )


class Writer:
    """Writes `n` of a row of `t`; its last transaction's GTID."""

    def __init__(self, mysql: Server, database: str) -> None:
        self.connection = tracking(mysql, database)

    def write(self, key: int, n: int) -> str:
        with self.connection.cursor() as cursor:
            cursor.execute("REPLACE INTO t VALUES (%s, %s)", (key, n))
        return gtids(self.connection)


@asynccontextmanager
async def with_table(mysql: Server, database: str, state: Path) -> AsyncIterator[tuple[Proxy, Writer]]:
    """The cache `n` of the table `t`, whose rows 1 to 3 have n = 1; key 1 is held."""
    async with proxy_beside(mysql, database, state) as proxy:
        await proxy.write(
            "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO t VALUES (1,1),(2,1),(3,1)"
        )
        await proxy.caught_up()
        await proxy.client.create_cache("SELECT id, n FROM t WHERE id = ?", name="n", database=database)
        await proxy.caught_up()
        await proxy.client.cache("n").get(1)
        assert shown(await proxy.client.cache("n").get(1)) == ("hit", 1)
        yield proxy, await asyncio.to_thread(Writer, mysql, database)


def shown(answer: Answer | UpwellError) -> tuple[str, int]:
    assert isinstance(answer, Answer) and answer.one is not None, answer
    return answer.served, answer.one.n


async def somebody_waits(proxy: Proxy, before: int) -> None:
    """Returns when one more read waits for the position than did before."""
    while dict((await proxy.client.status()).counters)["freshness_waits"] == before:
        pass


def test_own_write_is_read_while_the_stream_is_held_back(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with with_table(mysql, database, tmp_path) as (proxy, writer):
            cache = proxy.client.cache("n")
            with held_back(proxy):
                for key in (1, 2):
                    own = await asyncio.to_thread(writer.write, key, 2)
                assert GtidSet.parse(own).count() == 1, "the driver says which transaction it was"
                assert shown(await cache.get(1)) == ("hit", 1), "who asks for nothing gets what is held"
                at_once = Freshness(own, wait=0)
                passed = await cache.get(1, fresh=at_once)
                assert shown(passed) == ("passed", 2)
                assert passed.why.endswith("(too_stale)")
                assert GtidSet.parse(own).issubset(GtidSet.parse(passed.position))
                assert shown(await cache.get(2, fresh=at_once)) == ("miss", 2), "MySQL's answer has it"
                assert shown(await cache.get(2, fresh=at_once)) == ("hit", 2), "and so has what is held of it"
                assert [shown(answer) for answer in await cache.get_many([1, 3], fresh=at_once)] == [
                    ("passed", 2),
                    ("miss", 1),
                ]
                with pytest.raises(TooStale, match="lacks"):
                    await cache.get(1, fresh=Freshness(own, wait=0.01, fail=True))
            await proxy.caught_up()
            assert shown(await cache.get(1, fresh=Freshness(own, wait=0, fail=True))) == ("hit", 2)

    run(scenario)


def test_read_waits_until_the_stream_brings_what_it_asks_for(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with with_table(mysql, database, tmp_path) as (proxy, writer):
            cache = proxy.client.cache("n")
            with held_back(proxy):
                own = await asyncio.to_thread(writer.write, 1, 2)
                waiting = asyncio.ensure_future(cache.get(1, fresh=Freshness(own, wait=LONG, fail=True)))
                await somebody_waits(proxy, 0)
            assert shown(await waiting) == ("hit", 2)

    run(scenario)


def test_session_does_not_go_back_after_a_miss_ahead_of_the_position(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with with_table(mysql, database, tmp_path) as (proxy, writer):
            with held_back(proxy), proxy.client.session(Freshness(wait=0)) as session:
                for key in (1, 2):
                    await asyncio.to_thread(writer.write, key, 2)
                assert shown(await session.get("n", 1)) == ("hit", 1), "a new session may begin in the past"
                assert shown(await session.get("n", 2)) == ("miss", 2)
                assert shown(await session.get("n", 1)) == ("passed", 2), (
                    "what it was shown is after the write of key 1"
                )
                assert shown(await proxy.client.cache("n").get(1)) == ("hit", 1)
            await proxy.caught_up()
            assert shown(await session.get("n", 1)) == ("hit", 2)

    run(scenario)


def test_bound_on_staleness_holds_while_the_stream_is_held_back(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with with_table(mysql, database, tmp_path) as (proxy, writer):
            cache = proxy.client.cache("n")
            none = Freshness(max_staleness=0, wait=0)
            assert shown(await cache.get(1, fresh=none)) == ("hit", 1), "MySQL says that nothing is missing"
            with held_back(proxy):
                await asyncio.to_thread(writer.write, 1, 2)
                assert shown(await cache.get(1, fresh=Freshness(max_staleness=3600))) == ("hit", 1)
                assert shown(await cache.get(1, fresh=none)) == ("passed", 2)
                with pytest.raises(TooStale):
                    await cache.get(1, fresh=Freshness(max_staleness=0, wait=0, fail=True))
                waiting = asyncio.ensure_future(cache.get(1, fresh=Freshness(max_staleness=0, wait=LONG)))
                await somebody_waits(proxy, 0)
            assert shown(await waiting) == ("hit", 2)

    run(scenario)


def test_what_never_comes_ends_with_the_wait(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with with_table(mysql, database, tmp_path) as (proxy, _):
            cache, never = proxy.client.cache("n"), Freshness(NEVER, wait=0.05)
            for key in (1, 2):  # held, and a hole
                with pytest.raises(TooStale, match=f"MySQL has not executed {NEVER}"):
                    await cache.get(key, fresh=never)
            with pytest.raises(TooStale):
                await proxy.client.query("SELECT 7 AS n", database=database, fresh=never)
            assert [type(outcome) for outcome in await cache.try_many([1, 2], fresh=never)] == [TooStale] * 2
            assert [type(outcome) async for _, outcome in cache.stream([1, 2], fresh=never)] == [TooStale] * 2
            for text in ("5", "yesterday", f"{NEVER}:0"):
                with pytest.raises(BadParameters, match="is no GTID set"):
                    await cache.get(1, fresh=Freshness(text))

    run(scenario)


def test_every_answer_says_what_it_reflects(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with with_table(mysql, database, tmp_path) as (proxy, writer):
            own = GtidSet.parse(await asyncio.to_thread(writer.write, 1, 2))
            await proxy.caught_up()
            cache = proxy.client.cache("n")
            answers = [await cache.get(1), await cache.get(2), *await cache.get_many([1, 3])]
            answers += [outcome async for _, outcome in cache.stream([1]) if isinstance(outcome, Answer)]
            answers.append(await proxy.client.query("SELECT 7 AS n", database=database))
            assert [answer.served for answer in answers] == ["hit", "miss", "hit", "miss", "hit", "passed"]
            for answer in answers:
                assert own.issubset(GtidSet.parse(answer.position)), answer.served
                assert GtidSet.parse(answer.position).issubset(GtidSet.parse(answer.horizon))

    run(scenario)


@pytest.mark.parametrize("driver", ["the transaction's own GTID", "what MySQL has executed"])
def test_everybody_reads_his_own_writes_under_load(mysql: Server, database: str, tmp_path: Path, driver: str) -> None:
    def user(target: str, token: str | None) -> dict[str, int]:
        served = {"hit": 0, "miss": 0, "passed": 0}
        tracked = driver.startswith("the")
        own = tracking(mysql, database) if tracked else mysql.connect(database=database, autocommit=True)
        with Client(target, token=token) as client, client.session() as session, own, own.cursor() as cursor:
            last = 0
            for n in range(2, ROUNDS):
                cursor.execute("UPDATE t SET n = %s WHERE id = %s", (n, 1 + n % 3))
                session.wrote(gtids(own))
                answer = session.get("n", 1 + n % 3)
                assert shown(answer)[1] == n, answer.served
                served[answer.served] += 1
                (total,) = session.get("sum")
                assert total.n >= last, "a session never goes back"
                last = total.n
        return served

    async def scenario() -> None:
        async with with_table(mysql, database, tmp_path) as (proxy, _):
            await proxy.client.create_cache("SELECT SUM(n) AS n FROM t", name="sum", database=database)
            with numbered_writers(mysql, database, 2):
                app = proxy.app
                served = await asyncio.to_thread(user, f"127.0.0.1:{app.grpc_port}", app.grpc_token)
            assert served["hit"] > 0, served

    run(scenario)
