"""What was held before a start is held again after it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from integration.bulk.filler import bulk_of
from integration.bulk.test_bulk_fills import NUMBERS, answer, fill, rows, truth
from integration.servers.mysql_server import Server
from integration.support.grpc_app import proxy_beside, run
from proxy.port.fill_progress import FillBy
from sqltypes.errors import CannotFill
from tests.support.waiting import until


def test_keys_are_held_again_after_a_start(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, warm_up="on") as proxy:
            await proxy.write(*NUMBERS, rows(3000))
            router = proxy.app.router
            await router.caches.create("c", "SELECT id, n FROM item WHERE id = ?", database)
            await router.caches.create("named", "SELECT id FROM item WHERE name = ?", database)
            await router.caches.create("untyped", "SELECT id FROM item WHERE LOWER(name) = ? AND n & ? = 1", database)
            with pytest.raises(CannotFill, match="no keys of cache 'c' are known"):
                await router.fills.held_before("c", 5)
            await fill(proxy, "c", FillBy.DIRECT, [(number,) for number in range(700)])
            await fill(proxy, "named", FillBy.DIRECT, [("i7",), ("nobody",)])
            await fill(proxy, "untyped", FillBy.DIRECT, [("i7", 1), ("it's", -1)])
        async with proxy_beside(mysql, database, tmp_path, warm_up="off") as proxy:
            assert not proxy.app.catalog.get("c").info().keys
            with pytest.raises(CannotFill, match="warm-up is off"):
                await proxy.app.router.fills.held_before("c", 5)
        async with proxy_beside(mysql, database, tmp_path, warm_up="on") as proxy:
            await until(lambda: proxy.app.catalog.get("c").info().keys == 700)
            await until(lambda: proxy.app.catalog.get("named").info().keys == 2)
            await until(lambda: proxy.app.catalog.get("untyped").info().keys == 2)
            for given in (("i7", 1), ("it's", -1)):
                assert answer(proxy, "untyped", *given) == await truth(proxy, "untyped", *given) is not None
            assert answer(proxy, "c", 699) == await truth(proxy, "c", 699)
            assert answer(proxy, "c", 700) is None
            assert answer(proxy, "named", "I7") == await truth(proxy, "named", "i7"), "equal under its collation"
            assert len(await proxy.app.router.fills.held_before("c", 5)) == 5
            await proxy.app.router.caches.drop("c")
            told = [one async for one in proxy.client.cache("named").fill(hot=1)]
            assert told[-1].held == 1
        async with proxy_beside(mysql, database, tmp_path, warm_up="on") as proxy:
            await until(lambda: proxy.app.catalog.get("named").info().keys == 2)
            assert "c" not in proxy.app.catalog.caches

    run(scenario)


def test_of_all_that_does_not_fit_the_hottest_are_filled(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, warm_up="on") as proxy:
            await proxy.write(*NUMBERS, rows(40_000))
            await proxy.app.router.caches.create("c", "SELECT id, n, name FROM item WHERE id = ?", database)
            await fill(proxy, "c", FillBy.DIRECT, [(number,) for number in range(5, 305)])
        async with proxy_beside(mysql, database, tmp_path, warm_up="on", memory_limit="1MiB") as proxy:
            await until(lambda: proxy.app.catalog.get("c").info().keys >= 300 and not bulk_of(proxy).under_way)
            progress = await fill(proxy, "c", FillBy.DIRECT)
            assert progress.held == progress.keys > 300 and progress.left == 0, "others, too"
            assert progress.why.startswith("of 40,000 keys only about "), progress.why
            assert bulk_of(proxy)._engine.sieve.evicted == 0, "no more than fit"
            with pytest.raises(CannotFill, match="do not fit"):
                await fill(proxy, "c", FillBy.DIRECT, [(number,) for number in range(40_000)])
            assert answer(proxy, "c", 304) == await truth(proxy, "c", 304)

    run(scenario)


def test_a_fill_behind_another_one_waits_for_it(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*NUMBERS, rows(20_000))
            await proxy.app.router.caches.create("c", "SELECT id, n, name FROM item WHERE id = ?", database)
            stages: set[str] = set()

            async def second() -> tuple[int, int]:
                async with aclosing(proxy.app.router.fills.fill("c", [(5,), (6,)], FillBy.DIRECT)) as going_on:
                    async for progress in going_on:
                        stages.add(progress.stage)
                return progress.keys, progress.held

            first = asyncio.ensure_future(fill(proxy, "c", FillBy.DIRECT))
            await until(lambda: bool(bulk_of(proxy).under_way))
            assert await second() == (2, 2)
            assert (await first).held == 20_000
            assert "waiting for another fill of the cache" in stages

    run(scenario)


def test_what_is_held_already_is_no_reason_for_spark(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        options = {"spark_master": "off", "spark_min_rows": "1000"}
        async with proxy_beside(mysql, database, tmp_path, **options) as proxy:
            await proxy.write(*NUMBERS, rows(5_000))
            for name, where in (("by_id", "id = ?"), ("by_name", "name = ?")):
                await proxy.app.router.caches.create(name, f"SELECT id, n, name FROM item WHERE {where}", database)
                assert "not by Spark" in (await fill(proxy, name, FillBy.SIZE)).why, name
                again = await fill(proxy, name, FillBy.SIZE)
                assert (again.why, again.held) == ("", again.keys), "nothing is missing"
            named = await fill(proxy, "by_id", FillBy.SIZE, [(number,) for number in range(5, 5_000)])
            assert named.why == ""

    run(scenario)
