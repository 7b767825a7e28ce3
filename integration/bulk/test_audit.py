"""Audits find what is held otherwise than MySQL has it, each key and only those, also while writers go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace

import pytest

from integration.bulk.filler import in_database, needs_spark, run_in
from integration.bulk.test_bulk_fills import NUMBERS, SHAPES, answer, fill, rows, truth
from integration.support.grpc_app import Proxy
from integration.support.proxy_thread import Beside
from proxy.grpc.rows import FORMAT
from proxy.port.fill_progress import AuditProgress, FillBy

BY = pytest.mark.parametrize("by", [FillBy.DIRECT, FillBy.SPARK], ids=["direct", "spark"])
EVICTED = "SELECT id FROM item WHERE grp = ? ORDER BY RIGHT(name, 1), id"


@pytest.fixture
def proxy(filler: Beside, database: str) -> Iterator[Proxy]:
    with in_database(filler, database) as found:
        yield found


async def audit(proxy: Proxy, by: FillBy = FillBy.DIRECT, *, repair: bool = False) -> dict[str, AuditProgress]:
    """What came of each cache."""
    done: dict[str, AuditProgress] = {}
    async with aclosing(proxy.app.router.fills.audit("", by, repair=repair)) as going_on:
        async for progress in going_on:
            if progress.done:
                done[progress.cache] = replace(progress)
    proxy.app.engine.check_invariants()
    return done


async def behind_the_stream(proxy: Proxy, *statements: str) -> None:
    """MySQL has these writes, and no binlog does."""
    await proxy.write("SET sql_log_bin = 0", *statements)


@BY
def test_nothing_differs_of_any_shape_and_each_planted_key_does(filler: Beside, proxy: Proxy, by: FillBy) -> None:
    if by is FillBy.SPARK:
        needs_spark()

    async def scenario() -> None:
        router = proxy.app.router
        await proxy.write(*NUMBERS, rows(1000), "INSERT INTO tag SELECT id, CONCAT('w', id % 7) FROM item")
        for name, (sql, _, _) in SHAPES.items():
            await router.caches.create(name, sql, proxy.database)
            await fill(proxy, name, FillBy.DIRECT)
        await router.caches.create("evicted", EVICTED, proxy.database)
        await fill(proxy, "evicted", FillBy.DIRECT, [(number,) for number in range(30)])
        for name, (_, _, parameters) in SHAPES.items():
            assert answer(proxy, name, *parameters) == await truth(proxy, name, *parameters)
        found = await audit(proxy, by)
        assert {name: one.different for name, one in found.items()} == {name: [] for name in found}
        assert {name: one.compared for name, one in found.items()} == {
            **{name: keys for name, (_, keys, _) in SHAPES.items()}, "evicted": 30,
        }  # fmt: skip
        await behind_the_stream(
            proxy,
            "UPDATE item SET n = 1000000 WHERE id = 31",  # group 3
            "DELETE FROM tag WHERE item = 45",  # group 4, word w3
            "INSERT INTO item VALUES (5000, 600, 1, 'new')",  # a group that nobody holds
        )
        found = await audit(proxy, by)
        assert {name: one.different for name, one in found.items()} == {
            "rows": ["3"], "sums": ["3"], "first": ["3"], "list": [], "joined": ["4"], "outer": ["45"],
            "words": ['"w3"'], "two": [], "null": [], "whole": ["[]"], "evicted": [],
        }  # fmt: skip
        repaired = await audit(proxy, by, repair=True)
        assert {name: one.repaired for name, one in repaired.items() if one.repaired} == {
            "rows": 1, "sums": 1, "first": 1, "joined": 1, "words": 1, "whole": 1,
        }, "what two caches share is mended once"  # fmt: skip
        assert answer(proxy, "rows", 3) is None and answer(proxy, "rows", 2) is not None
        opened = router.caches.open("rows", FORMAT)
        assert (await opened.read((3,))).body == await truth(proxy, "rows", 3)
        again = await audit(proxy, by)
        assert not any(one.different for one in again.values())

    run_in(filler, scenario)


def test_a_stored_answer_that_is_not_of_its_rows_differs(filler: Beside, proxy: Proxy) -> None:
    async def scenario() -> None:
        await proxy.write(*NUMBERS, rows(100))
        await proxy.app.router.caches.create("c", "SELECT id, n, name FROM item WHERE id = ?", proxy.database)
        await fill(proxy, "c", FillBy.DIRECT)
        right = answer(proxy, "c", 5)
        assert right is not None and answer(proxy, "c", 6) is not None
        reader = proxy.app.catalog.get("c").reader
        assert reader is not None
        bodies = reader.entries[5].bodies
        assert bodies is not None
        bodies[bodies.index(right)] = right.replace(b"i5", b"i6")
        assert (await audit(proxy, repair=True))["c"].different == ["5"]
        assert (await proxy.app.router.caches.open("c", FORMAT).read((5,))).body == right

    run_in(filler, scenario)


@BY
def test_writers_go_on_meanwhile(filler: Beside, proxy: Proxy, by: FillBy) -> None:
    """What they write is no difference; what is planted beside it is one."""
    if by is FillBy.SPARK:
        needs_spark()

    async def scenario() -> None:
        router = proxy.app.router
        await proxy.write(*NUMBERS, rows(10_000))
        await router.caches.create("c", "SELECT id, n FROM item WHERE grp = ?", proxy.database)
        await router.caches.create("s", "SELECT COUNT(*), SUM(n) FROM item WHERE grp = ?", proxy.database)
        for name in ("c", "s"):
            await fill(proxy, name, FillBy.DIRECT)
        await behind_the_stream(proxy, "UPDATE item SET n = -5 WHERE id IN (9995, 4)")
        ending = asyncio.Event()

        def write(number: int) -> None:
            one = number * 7919 % 9_000 + 100
            proxy.mysql.execute(
                f"USE `{proxy.database}`",
                f"UPDATE item SET n = n + 1, grp = 10 + (id * 31 + {number}) % 900"
                f" WHERE id >= {one} AND id < {one} + 9",
            )

        async def writer() -> int:
            number = 0
            while not ending.is_set():
                await asyncio.to_thread(write, number)
                number += 1
            return number

        writing = asyncio.create_task(writer())
        try:
            for _ in range(3):
                for one in (await audit(proxy, by)).values():
                    assert sorted(one.different, key=int) == ["0", "999"], one
                    assert one.compared + one.left >= 1000 and one.left < 20
        finally:
            ending.set()  # whoever comes next has the proxy to itself
            written = await writing
        assert written > 3

    run_in(filler, scenario)


def test_over_grpc(filler: Beside, proxy: Proxy) -> None:
    async def scenario() -> None:
        await proxy.write(*NUMBERS, rows(100))
        await proxy.app.router.caches.create("c", "SELECT id, n FROM item WHERE id = ?", proxy.database)
        await fill(proxy, "c", FillBy.DIRECT)
        await behind_the_stream(proxy, "UPDATE item SET n = -5 WHERE id = 4")
        told = [one async for one in proxy.client.audit("c", repair=True)]
        assert (told[-1].done, told[-1].different, told[-1].repaired, told[-1].compared) == (True, ("4",), 1, 100)

    run_in(filler, scenario)


def test_it_is_told_that_it_has_ended_however_late_one_asks(
    filler: Beside, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit ends while the caller is busy with what it was told last."""
    monkeypatch.setattr("proxy.fills.fills.TOLD_EVERY", 0.0)

    async def scenario() -> None:
        await proxy.write(*NUMBERS, rows(1000))
        await proxy.app.router.caches.create("c", "SELECT id, n FROM item WHERE id = ?", proxy.database)
        await fill(proxy, "c", FillBy.DIRECT)
        async with aclosing(proxy.app.router.fills.audit("c", FillBy.DIRECT, repair=False)) as going_on:
            assert not (await anext(going_on)).done
            await asyncio.wait([task for task in asyncio.all_tasks() if "Bulk._audit" in repr(task)])
            told = [replace(one) async for one in going_on]
        assert [(one.compared, one.done) for one in told] == [(1000, True)]

    run_in(filler, scenario)
