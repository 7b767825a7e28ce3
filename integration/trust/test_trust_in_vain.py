"""Checks that cannot be made: what was not compared is given to nobody, until so many were in vain that some of it
is, and then everybody can see that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import external_upquery.snapshot
from dataflow.messages import OwnAnswer
from external_upquery.snapshot import own_answers
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, held_back, proxy_beside, run
from integration.support.mysql_clients import connected
from integration.trust.test_planted_faults import TABLES
from integration.trust.trusted import NOT_LIKE, counter, shown, truth
from proxy.cache.ledger import TIRED
from proxy.cache.trust import IN_VAIN
from sqltypes.errors import SourceError
from tests.support.waiting import until
from upwell.rows import Answer

LISTED = "SELECT id, word FROM item WHERE grp IN (?) AND word NOT LIKE 'a%'"


def failing_checks(monkeypatch: pytest.MonkeyPatch, fails: Callable[[], bool] = lambda: True) -> None:
    """MySQL has not the memory to sort for clients' own texts."""

    def answers(*args: Any) -> tuple[OwnAnswer | SourceError, ...]:
        found = own_answers(*args)
        return tuple(SourceError(1038, "HY001", "Out of sort memory") for _ in found) if fails() else found

    monkeypatch.setattr(external_upquery.snapshot, "own_answers", answers)


async def at_once(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, reads: Sequence[Coroutine[Any, Any, Answer]]
) -> list[Answer]:
    """All of them miss before the first upquery is sent."""
    pump, engine = proxy.app.router.pump, proxy.app.engine
    with monkeypatch.context() as patch:
        patch.setattr(pump, "_see_to_more", lambda: None)
        reading = [asyncio.create_task(read) for read in reads]
        await until(lambda: sum(map(len, engine.reads.missed.values())) == len(reading))
    pump._flush()
    return [await read for read in reading]


def test_what_a_fill_s_check_could_not_compare_is_compared_before_it_is_given(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    NOT_LIKE.plant(monkeypatch)
    left = [1]
    failing_checks(monkeypatch, lambda: bool(left) and bool(left.pop()))

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8", check="false") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            await proxy.client.create_cache(NOT_LIKE.sql, name="c", database=database)
            right = await truth(proxy, NOT_LIKE.sql.replace("?", "7"))
            cache = proxy.client.cache("c")
            while not counter(proxy, "caches_distrusted"):
                assert shown(list(await cache.get(7))) == right
                await proxy.settled()
            assert not left, "the fill's own check could not be made"

    run(scenario)


def test_lists_that_share_their_upqueries_are_compared_before_they_are_given(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    NOT_LIKE.plant(monkeypatch)

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8", check="false") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            await proxy.client.create_cache(LISTED, name="c", database=database)
            cache = proxy.client.cache("c")
            right = await truth(proxy, LISTED.replace("?", "7"))
            monkeypatch.setattr("dataflow.fills.waiting_reads.MAX_BATCH", 4)
            first, second = await at_once(proxy, monkeypatch, [cache.get(keys) for keys in ([1, 2, 3], [4, 5, 7])])
            assert shown(list(first)) == [] and shown(list(second)) == right
            while not counter(proxy, "caches_distrusted"):
                assert shown(list(await cache.get([7]))) == right
                await proxy.settled()

    run(scenario)


@pytest.mark.parametrize("held", [False, True], ids=["fill", "held"])
def test_a_view_that_is_replaced_while_the_stream_is_late_costs_no_trust(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    """MySQL computes the client's text by the new view; the cache has the plan of the old one."""
    view = "CREATE OR REPLACE VIEW shown AS SELECT id, grp, word FROM item WHERE m > %d"
    query = "SELECT id, word FROM shown WHERE grp = ?"

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8", check="false") as proxy:
            await proxy.write(*TABLES, view % 1)
            await proxy.caught_up()
            made = await proxy.client.create_cache(query, name="c", database=database)
            assert made.mode == "maintain"
            cache = proxy.client.cache("c")
            reader = proxy.app.catalog.caches["c"].reader
            assert reader is not None
            if held:
                while (await cache.get(7)).served != "hit":
                    pass
                reader.entries[7].doubt()
            with held_back(proxy):
                await proxy.write(view % 2)
                right = await truth(proxy, query.replace("?", "7"))
                for _ in range(3):
                    assert shown(list(await cache.get(7))) == right
                assert proxy.app.catalog.caches["c"].reader is reader
                assert counter(proxy, "caches_distrusted") == 0
            await proxy.caught_up()
            await proxy.settled()
            assert counter(proxy, "caches_distrusted") == 0 and not len(proxy.app.catalog.doubts)
            (info,) = await proxy.app.router.caches.listed()
            assert (info.mode, info.state, info.why) == ("maintain", "ready", "")
            assert proxy.app.catalog.caches["c"].reader is not reader
            for _ in range(3):
                assert shown(list(await cache.get(7))) == right

    run(scenario)


def test_the_first_rows_of_a_subscription_are_compared_though_its_fill_s_check_could_not_be_made(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    NOT_LIKE.plant(monkeypatch)
    left = [1]
    failing_checks(monkeypatch, lambda: bool(left) and bool(left.pop()))

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8", check="false") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            await proxy.client.create_cache(NOT_LIKE.sql, name="c", database=database)
            async with aclosing(proxy.client.cache("c").subscribe(7)) as events:
                first = await anext(events)
            assert shown(first.added) == await truth(proxy, NOT_LIKE.sql.replace("?", "7"))
            assert not left and counter(proxy, "caches_distrusted") == 1

    run(scenario)


def test_a_subscription_to_what_is_not_stored_but_derived_begins_when_its_first_rows_were_compared(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="32", check="false") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            query = "SELECT id FROM item WHERE grp = ? ORDER BY id LIMIT ?"
            await proxy.client.create_cache(query, name="c", database=database)
            async with aclosing(proxy.client.cache("c").subscribe(7, 2)) as events:
                first = await anext(events)
            assert shown(first.added) == ["(1,)", "(2,)"] and counter(proxy, "trust_agrees") >= 1

    run(scenario)


def test_a_subscription_to_a_cache_whose_checks_can_never_be_made_begins_when_so_many_were_in_vain(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_checks(monkeypatch)

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8", check="false") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            query = "SELECT id FROM item WHERE grp = ?"
            await proxy.client.create_cache(query, name="c", database=database)
            async with aclosing(proxy.client.cache("c").subscribe(7)) as events:
                first = await anext(events)
            assert shown(first.added) == await truth(proxy, query.replace("?", "7"))
            (info,) = await proxy.app.router.caches.listed()
            assert info.why == IN_VAIN and counter(proxy, "trust_given_unchecked") >= 1

    run(scenario)


def test_reads_of_one_key_at_once_do_not_tire_the_checks(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8", check="false") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            await proxy.client.create_cache("SELECT id FROM item WHERE grp = ?", name="c", database=database)
            cache = proxy.client.cache("c")
            await at_once(proxy, monkeypatch, [cache.get(7) for _ in range(3 * TIRED)])
            assert counter(proxy, "trust_agrees") == 1
            trust = proxy.app.catalog.caches["c"].trust
            assert trust is not None and not trust.fills.tired and not trust.changes.tired

    run(scenario)


def test_a_cache_whose_checks_can_never_be_made_says_so(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_checks(monkeypatch)
    query = "SELECT id, word FROM item WHERE grp = ?"

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8", check="false") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            asker = await connected(proxy)
            await asker.ask(f"CREATE CACHE c FROM {query}")
            passed = 0
            while (served := (await asker.read(query.replace("?", "7")))[1]) != "hit":
                assert served == "passed", "nothing is given uncompared"
                assert counter(proxy, "trust_given_unchecked") == 0
                passed += 1
            assert passed <= 2 * TIRED + 2, "the first read is passed for the columns, too"
            assert counter(proxy, "trust_given_unchecked") == 1 and counter(proxy, "trust_unknown") >= TIRED
            ((*_, reason),) = await asker.ask("SHOW CACHES")
            assert reason == IN_VAIN
            await asker.close()

    run(scenario)
