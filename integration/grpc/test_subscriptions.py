"""A subscriber sees the rows of its key and then every change once, whatever else happens: concurrent writers,
evictions, outages. Where that cannot be kept up it is told so, and the stream ends; it is never silently stale.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from gtid_tracker.gtid import GtidSet
from integration.conftest import OwnMySQL
from integration.grpc.test_concurrent_reads import CACHES, counters
from integration.planner_truth.differential import truth
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.numbered_writers import NumberedWriter, numbered_writers
from tests.support.waiting import until
from upwell.errors import SourceDown, SubscriptionEnded
from upwell.rows import Answer, Event

WRITERS, TRANSACTIONS = 3, 250
SUBSCRIBED = ("rows", "groups", "joined", "joined_groups", "subquery", "top", "answers")


class Copy:
    """A subscriber's own copy of a key's rows, kept by the events alone."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[Any, ...]] = Counter()
        self.position = GtidSet.empty()
        self.events = 0

    def take(self, event: Event) -> None:
        """Applies an event. A row that goes must be there: else a change was lost, or told twice."""
        assert event.snapshot == (self.events == 0), "the snapshot is the first event, and comes once"
        self.events += 1
        for row in event.removed:
            assert self.rows[tuple(row)] > 0, f"{row} goes, which is not there: {self.rows}"
            self.rows[tuple(row)] -= 1
        self.rows += Counter()  # without the zeros
        self.rows.update(map(tuple, event.added))
        position = GtidSet.parse(event.position)
        assert self.position.issubset(position), "positions go forward"
        self.position = position

    def answer(self, shape: type) -> Answer:
        return Answer(shape(row) for row in self.rows.elements())


async def follow(proxy: Proxy, cache: str, writer: NumberedWriter, key: int, last: int) -> Copy:
    """Takes events until the key's counter is what transaction `last` leaves; each must be the state it names."""
    copy = Copy()
    final = writer.state(key, GtidSet({writer.uuid: (1, last + 1)}))
    parameters = [key] * CACHES[cache].count("?")
    async with aclosing(proxy.client.cache(cache).subscribe(*parameters, timeout=90)) as events:
        shape: type = tuple
        async for event in events:
            shape = type(event.added[0]) if event.added else shape
            copy.take(event)
            exact = writer.state(key, copy.position)
            assert counters(cache, copy.answer(shape)) == {exact}, f"{cache} {key} at {exact}: {copy.rows}"
            if exact == final:
                return copy
    raise AssertionError("the subscription ended")


async def evict_until(proxy: Proxy, done: asyncio.Event) -> None:
    """Drops entries below the subscriptions again and again, as DDL and memory would."""
    engine = proxy.app.engine
    while not done.is_set():
        await proxy.client.status()
        for number, node in enumerate(engine.graph):
            for entry in list(node.entries.values())[number % 3 :: 3]:
                node.discard(entry)
        engine.check_invariants()


async def somebody_subscribed(proxy: Proxy) -> bool:
    return not await nobody_subscribed(proxy)


@pytest.mark.parametrize("evicting", [False, True], ids=["undisturbed", "with entries lost"])
def test_every_change_once_under_concurrent_writers(
    mysql: Server, database: str, tmp_path: Path, evicting: bool
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            with numbered_writers(mysql, database, WRITERS, TRANSACTIONS, at_once=False) as writers:
                for name in SUBSCRIBED:
                    await proxy.client.create_cache(CACHES[name], name=name, database=database)
                done = asyncio.Event()
                disturbing = asyncio.create_task(evict_until(proxy, done)) if evicting else None
                following = [
                    asyncio.create_task(follow(proxy, cache, writer, key, TRANSACTIONS))
                    for cache in SUBSCRIBED
                    for writer in writers
                    for key in writer.keys[:3]
                ]
                await until(lambda: somebody_subscribed(proxy))  # the others come while rows change
                for writer in writers:
                    writer.begin.set()
                copies = await asyncio.gather(*following)
                done.set()
                if disturbing is not None:
                    await disturbing
            assert sum(copy.events for copy in copies) > len(copies), "too few events to show anything"
            await until(lambda: nobody_subscribed(proxy))

    run(scenario)


async def nobody_subscribed(proxy: Proxy) -> bool:
    return dict((await proxy.client.status()).counters)["subscriptions"] == 0


async def subscribed(proxy: Proxy, name: str, sql: str, key: int) -> tuple[Copy, AsyncGenerator[Event, None]]:
    await proxy.client.create_cache(sql, name=name, database=proxy.database)
    events = proxy.client.cache(name).subscribe(key, timeout=60)
    copy = Copy()
    copy.take(await anext(events))
    return copy, events


STORIES = (
    "CREATE TABLE stories (id INT PRIMARY KEY, author INT, title TEXT)",
    "INSERT INTO stories VALUES (1, 1, 'one'), (2, 1, 'two'), (3, 2, NULL)",
)
BY_AUTHOR = "SELECT id, title FROM stories WHERE author = ?"


def test_a_subscriber_that_does_not_listen_is_cut_off_with_the_reason(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*STORIES)
            await proxy.caught_up()
            _, events = await subscribed(proxy, "by_author", BY_AUTHOR, 1)
            _, listening = await subscribed(proxy, "by_author", BY_AUTHOR, 1)
            title = "REPEAT('x', 30000)"
            writes = [f"UPDATE stories SET title = CONCAT({number}, {title}) WHERE id = 1" for number in range(1300)]
            writing = asyncio.create_task(proxy.write(*writes))
            heard = 0
            async for event in listening:
                heard += 1
                if event.added and event.added[0].title.startswith("1299x"):
                    break
            await writing
            await listening.aclose()
            assert heard == 1300, "one event a transaction for who listens"
            with pytest.raises(SubscriptionEnded, match="slow"):
                async for _ in events:
                    pass
            assert (await proxy.client.cache("by_author").get(2)).served == "miss"
            await until(lambda: nobody_subscribed(proxy))

    run(scenario)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE stories ADD COLUMN extra INT",
        "RENAME TABLE stories TO other",
        "DROP TABLE stories",
    ],
)
def test_a_schema_change_ends_the_subscription(mysql: Server, database: str, tmp_path: Path, statement: str) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*STORIES)
            await proxy.caught_up()
            _, events = await subscribed(proxy, "by_author", BY_AUTHOR, 1)
            await proxy.write(statement)
            with pytest.raises(SubscriptionEnded) as ended:
                await anext(events)
            assert str(ended.value)
            await until(lambda: nobody_subscribed(proxy))

    run(scenario)


@pytest.mark.parametrize(
    "statements",
    [
        ["TRUNCATE TABLE stories"],
        ["SET SESSION binlog_format = STATEMENT", "DELETE FROM stories"],
        ["SET SESSION binlog_format = STATEMENT", "UPDATE stories SET title = 'other' WHERE id = 2"],
    ],
    ids=["truncated", "deleted by statement", "updated by statement"],
)
def test_what_is_changed_without_row_events_is_told_and_the_subscription_goes_on(
    mysql: Server, database: str, tmp_path: Path, statements: list[str]
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*STORIES)
            await proxy.caught_up()
            copy, events = await subscribed(proxy, "by_author", BY_AUTHOR, 1)
            for change in (statements, ["INSERT INTO stories VALUES (4, 1, 'four')"], ["DELETE FROM stories"]):
                before = sorted(copy.rows.elements())
                await proxy.write(*change)
                copy.take(await anext(events))
                _, wanted = await truth(proxy, BY_AUTHOR, (1,))
                assert sorted(copy.rows.elements()) == sorted(wanted) != before
            await events.aclose()

    run(scenario)


def test_a_dropped_cache_ends_its_subscriptions(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*STORIES)
            await proxy.caught_up()
            _, events = await subscribed(proxy, "by_author", BY_AUTHOR, 1)
            await proxy.client.drop_cache("by_author")
            with pytest.raises(SubscriptionEnded, match="dropped"):
                await anext(events)

    run(scenario)


def test_a_subscription_outlives_an_outage_or_says_that_it_does_not(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    mysql = own_mysql("--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1")
    mysql.execute("CREATE DATABASE d")

    async def scenario() -> None:
        async with proxy_beside(mysql, "d", tmp_path) as proxy:
            await proxy.write(*STORIES)
            await proxy.caught_up()
            copy, events = await subscribed(proxy, "by_author", BY_AUTHOR, 1)
            for end in (mysql.kill, mysql.halt):
                await asyncio.to_thread(end)
                await asyncio.to_thread(mysql.start)
                await proxy.write("UPDATE stories SET title = CONCAT(title, '!') WHERE author = 1 AND id = 1")
                copy.take(await anext(events))
                _, wanted = await truth(proxy, BY_AUTHOR, (1,))
                assert sorted(copy.rows.elements()) == sorted(wanted)
            await events.aclose()

    run(scenario)


def test_a_subscription_ends_when_hits_end(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    mysql = own_mysql()
    mysql.execute("CREATE DATABASE d")

    async def scenario() -> None:
        async with proxy_beside(mysql, "d", tmp_path, max_staleness="1s") as proxy:
            await proxy.write(*STORIES)
            await proxy.caught_up()
            _, events = await subscribed(proxy, "by_author", BY_AUTHOR, 1)
            await asyncio.to_thread(mysql.kill)
            with pytest.raises(SubscriptionEnded, match="max-staleness"):
                await anext(events)
            with pytest.raises(SourceDown):
                await anext(proxy.client.cache("by_author").subscribe(1, timeout=60))
            await asyncio.to_thread(mysql.start)

    run(scenario)
