"""What caches earn their trust by beside single reads: subscriptions, long IN-lists, slow queries of evict mode; and
reads that wait while other caches come."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from dataflow.messages import UpqueryRequest
from integration.servers.mysql_server import Server
from integration.support.grpc_app import proxy_beside, run
from integration.support.mysql_clients import connected
from integration.trust.test_planted_faults import FAULTS, NEW_ROW, NUMBERED, TABLES, as_shown, no_row_concerns_an_answer
from integration.trust.trusted import NOT_LIKE, lost, shown, truth
from tests.support.waiting import until
from upwell.errors import SubscriptionEnded

INVERTED = next(fault for fault in FAULTS if fault.name == "a filter is inverted on changes")


def test_the_first_rows_of_a_subscription_are_compared(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    NOT_LIKE.plant(monkeypatch)

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8", check="false") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            await proxy.client.create_cache(NOT_LIKE.sql, name="c", database=database)
            async with aclosing(proxy.client.cache("c").subscribe(7)) as events:
                first = await anext(events)
            assert shown(first.added) == await truth(proxy, NOT_LIKE.sql.replace("?", "7"))
            assert lost(proxy) == 1

    run(scenario)


def test_changes_that_a_subscriber_was_told_are_compared_and_a_difference_ends_the_subscription(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    INVERTED.plant(monkeypatch)

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8", check="false") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            await proxy.client.create_cache(INVERTED.sql, name="c", database=database)
            async with aclosing(proxy.client.cache("c").subscribe(7)) as events:
                await anext(events)
                assert lost(proxy) == 0

                async def to_the_end() -> None:
                    with pytest.raises(SubscriptionEnded):
                        while True:
                            await anext(events)

                following = asyncio.create_task(to_the_end())
                number = 11
                while not lost(proxy):  # a comparison may not be able to tell; that of a later change is
                    await proxy.write(
                        f"INSERT INTO item VALUES ({number}, 7, 1, 'new', 'x', 1, 0)"
                    )  # it passes no filter
                    await proxy.caught_up()
                    number += 1
                await following
            assert lost(proxy) == 1

    run(scenario)


def test_a_list_of_more_keys_than_one_fill_has_is_compared_before_it_is_given(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    NOT_LIKE.plant(monkeypatch)
    listed = ", ".join(map(str, range(1, 151)))
    query = "SELECT id, word FROM item WHERE grp IN (%s) AND word NOT LIKE 'a%%'"

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8", check="false") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            made = await proxy.client.create_cache(query % "?", name="c", database=database)
            assert made.mode == "maintain"
            asker = await connected(proxy)
            right = await truth(proxy, query % listed)
            for _ in range(3):
                assert as_shown(await asker.ask(query % listed), False) == right
                await proxy.settled()
            await until(lambda: lost(proxy) == 1)
            await asker.close()

    run(scenario)


def test_what_a_part_of_a_list_has_filled_is_given_to_nobody_before_the_list_is_compared(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    NOT_LIKE.plant(monkeypatch)
    listed = ", ".join(map(str, range(1, 151)))
    query = "SELECT id, word FROM item WHERE grp IN (%s) AND word NOT LIKE 'a%%'"

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8", check="false") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            await proxy.client.create_cache(query % "?", name="c", database=database)
            reader = proxy.app.catalog.caches["c"].reader
            assert reader is not None
            asker, other = await connected(proxy), await connected(proxy)
            await other.read("SELECT 1")
            right = await truth(proxy, query % 7)
            pump, held = proxy.app.router.pump, list[UpqueryRequest]()
            submit = pump._submit

            def first_alone(request: UpqueryRequest) -> None:
                (submit if not any(reader.entries) and not held and not sent else held.append)(request)
                sent.append(request)

            sent: list[UpqueryRequest] = []
            monkeypatch.setattr(pump, "_submit", first_alone)
            reading = asyncio.create_task(asker.read(query % listed))
            await until(lambda: 7 in reader.entries)
            assert held, "the list is filled by several"
            monkeypatch.setattr(pump, "_submit", submit)
            rows, _, why = await other.read(query % 7)
            assert as_shown(rows, False) == right, why
            for request in held:
                submit(request)
            rows, _, _ = await reading
            assert as_shown(rows, False) == await truth(proxy, query % listed)
            await until(lambda: lost(proxy) == 1)
            for one in (asker, other):
                await one.close()

    run(scenario)


def test_what_is_given_before_it_is_compared_is_given_once(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a query that MySQL takes long for a hit does not wait; the next one does."""
    no_row_concerns_an_answer(monkeypatch)

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8", check="false") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            await proxy.client.create_cache(NUMBERED, name="c", database=database)
            cache = proxy.client.cache("c")
            for _ in range(2):
                await cache.get(7)
            monkeypatch.setattr("proxy.cache.trust.SLOW_SECONDS", -1.0)
            await proxy.write(NEW_ROW % 100)
            await proxy.caught_up()
            right = await truth(proxy, NUMBERED.replace("?", "7"))
            answers = [as_shown(list(await cache.get(7)), False) for _ in range(4)]
            assert answers[0] != right, "it is given first"
            assert answers[1:] == [right] * 3
            await until(lambda: lost(proxy) == 1)

    run(scenario)


def test_a_read_that_waits_is_answered_though_another_cache_is_made_meanwhile(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, check="false") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            query = "SELECT id, word FROM item WHERE grp = ?"
            await proxy.client.create_cache(query, name="c", database=database)
            asker = await connected(proxy)
            await asker.until_hit(query.replace("?", "7"))
            pump, held = proxy.app.router.pump, list[UpqueryRequest]()
            monkeypatch.setattr(pump, "_submit", held.append)
            reading = asyncio.create_task(asker.read(query.replace("?", "8")))
            await until(lambda: bool(held))
            made = asyncio.create_task(
                proxy.client.create_cache("SELECT word FROM item WHERE id = ?", name="d", database=database)
            )
            await made
            monkeypatch.undo()
            for request in held:
                pump._submit(request)
            _, served, why = await reading
            assert served == "miss", why
            await asker.close()

    run(scenario)
