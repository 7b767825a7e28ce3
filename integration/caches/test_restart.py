"""What was held before a stop, or a kill, is held after the start, and is MySQL's. What cannot be used is dropped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gtid_tracker.gtid import GtidSet
from integration.bulk.test_bulk_fills import NUMBERS, answer, fill, rows, truth
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from proxy.fills import restart, snapshot_file
from proxy.fills.restart import Restart
from proxy.fills.snapshot_file import TAIL, Reader
from proxy.port.api import ParameterValue
from proxy.port.fill_progress import FillBy
from tests.support.waiting import until
from vstream.binlog.source import BinlogSource

Keys = list[tuple[ParameterValue, ...]]

CACHES = {
    "by_id": "SELECT id, n, name FROM item WHERE id = ?",
    "counted": "SELECT name, COUNT(*), SUM(n), AVG(n), MAX(n) FROM item WHERE name = ? GROUP BY name",
    "joined": "SELECT a.id, b.name FROM item a JOIN item b ON b.id = a.n WHERE a.id = ?",
    "first": "SELECT id FROM item WHERE grp = ? ORDER BY n DESC LIMIT 3",
    "evicted": "SELECT id, n / 7 FROM item WHERE LOWER(name) = ? AND n & 1 = 1",
    "ranged": "SELECT id, name FROM item WHERE grp = ? AND n > ?",
}
KEYS: dict[str, Keys] = {
    "by_id": [(number,) for number in range(700)],
    "counted": [(f"i{number}",) for number in range(50)],
    "joined": [(number,) for number in range(300)],
    "first": [(number,) for number in range(40)],
    "evicted": [(f"i{number}",) for number in range(40)],
    "ranged": [(number, 3) for number in range(30)],
}
HELD = {name: len(keys) for name, keys in KEYS.items()}
WRITES = (
    "UPDATE item SET n = n + 1, name = CONCAT(name, 'x') WHERE id % 7 = 0",
    "UPDATE item SET grp = grp + 1 WHERE id BETWEEN 30 AND 40",
    "DELETE FROM item WHERE id BETWEEN 20 AND 25",
    "INSERT INTO item VALUES (20, 2, 61, 'i20'), (9000, 3, 999, 'i7')",
)


@asynccontextmanager
async def restarted(mysql: Server, database: str, folder: Path) -> AsyncIterator[Proxy]:
    async with proxy_beside(mysql, database, folder, snapshot="5m") as proxy:
        await proxy.app.restart.restored()
        await until(lambda: not proxy.app.router.reads.closed)
        proxy.app.engine.check_invariants()
        yield proxy


async def held_once(mysql: Server, database: str, folder: Path) -> None:
    """A proxy that holds all keys, and ends."""
    async with proxy_beside(mysql, database, folder, snapshot="5m") as proxy:
        await proxy.write(*NUMBERS, rows(3000))
        for name, sql in CACHES.items():
            await proxy.app.router.caches.create(name, sql, database)
            await fill(proxy, name, FillBy.DIRECT, KEYS[name])
        assert held(proxy) == HELD
        await until(lambda: not proxy.binlog.asking.unsettled)  # a definition is known a second later at the most


def held(proxy: Proxy) -> dict[str, int]:
    return {name: proxy.app.catalog.get(name).info().keys for name in CACHES}


async def check_all(proxy: Proxy) -> int:
    """All that is held is MySQL's; how many keys that are."""
    count = 0
    for name, keys in KEYS.items():
        for key in keys:
            found = answer(proxy, name, *key)
            count += found is not None
            assert found is None or found == await truth(proxy, name, *key), (name, key)
    return count


async def written(mysql: Server, database: str, folder: Path, *statements: str) -> None:
    async with proxy_beside(mysql, database, folder / "other") as proxy:
        await proxy.write(*statements)


def test_what_was_held_is_held_again(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        await held_once(mysql, database, tmp_path)
        async with restarted(mysql, database, tmp_path) as proxy:
            assert held(proxy) == HELD
            assert await check_all(proxy) == sum(HELD.values())
            await proxy.write(*WRITES)
            await proxy.caught_up()
            await check_all(proxy)
        async with restarted(mysql, database, tmp_path) as proxy:
            assert await check_all(proxy) > sum(HELD.values()) / 2

    run(scenario)


MORE = (
    "INSERT INTO item SELECT a.id + 100000 * b.i, a.grp + 1000000, a.n, a.name FROM item a"
    " JOIN (SELECT 1 AS i UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) b"
)
PLANS = {
    "all is as it was": ("", len(CACHES)),
    "a table of one is defined anew": ("ALTER TABLE other ADD COLUMN more INT", len(CACHES)),
    "their table is defined anew": ("ALTER TABLE item ADD INDEX (n)", 1),
    "their table has many more rows": (MORE, 1),
    "a view is another one": ("ALTER VIEW some AS SELECT id FROM other WHERE id > 1", len(CACHES)),
    "another planner": ("", 0),
}


@pytest.mark.parametrize("what", PLANS)
def test_plans_are_taken_up_where_all_that_they_were_made_from_is_as_it_was(
    what: str, mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement, reused = PLANS[what]

    async def scenario() -> None:
        mysql.execute(
            f"USE `{database}`",
            "CREATE TABLE other (id INT PRIMARY KEY)",
            "INSERT INTO other VALUES (1), (2)",
            "CREATE VIEW some AS SELECT id FROM other",
        )
        await held_once(mysql, database, tmp_path)
        async with restarted(mysql, database, tmp_path) as proxy:
            await proxy.app.router.caches.create("viewed", "SELECT id FROM some WHERE id = ?", database)
            plans = {name: cache.plan for name, cache in proxy.app.catalog.caches.items()}
            await fill(proxy, "viewed", FillBy.DIRECT, [(1,), (2,)])
        if statement:
            await written(mysql, database, tmp_path, statement)
        if what == "another planner":
            monkeypatch.setattr(restart, "code_identity", lambda: "another")
        async with restarted(mysql, database, tmp_path) as proxy:
            texts, found = proxy.app.catalog.texts, proxy.app.catalog.caches
            assert texts.reused == reused + (what == "all is as it was") and not texts.before
            await until(lambda: {cache.state for cache in found.values()} == {"ready"})
            if not statement:
                assert {name: cache.plan for name, cache in found.items()} == plans
                assert held(proxy) == HELD
                assert (texts.process.counters["planned_aside"] == 0) == (what == "all is as it was")
            for key in (1, 2):
                assert answer(proxy, "viewed", key) in (None, await truth(proxy, "viewed", key))
            await check_all(proxy)

    run(scenario)


async def restarted_behind_writes(mysql: Server, database: str, folder: Path) -> None:
    await held_once(mysql, database, folder)
    await written(mysql, database, folder, *WRITES)
    async with restarted(mysql, database, folder) as proxy:
        assert held(proxy)["by_id"] == HELD["by_id"], "its keys were changed, and are held"
        assert await check_all(proxy) > sum(HELD.values()) / 2


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_what_was_written_while_nobody_served_is_seen(
    metadata: str, mysql: Server, database: str, tmp_path: Path
) -> None:
    """MINIMAL, MySQL's default: the binlog does not name columns, so it must be known whose the rows are."""
    ((before,),) = mysql.execute("SELECT @@GLOBAL.binlog_row_metadata")
    mysql.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
    try:
        run(lambda: restarted_behind_writes(mysql, database, tmp_path))
    finally:
        mysql.execute(f"SET GLOBAL binlog_row_metadata = {before}")


def test_a_start_that_skips_the_catching_up_is_found(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check above looks: with the stream begun where the source is, what is held stays as it was."""
    start = BinlogSource.start

    async def skips(self: BinlogSource, sink: Any, busy: Any, resume: Any) -> GtidSet:
        async def later(history: str) -> Any:
            found = await resume(history)
            return found and replace(found, position=(await mysql_executed(mysql)))

        return await start(self, sink, busy=busy, resume=later)

    monkeypatch.setattr(BinlogSource, "start", skips)
    begin = Restart.begin

    def believes(self: Restart, engine: Any, catalog: Any, source: Any, faults: Any) -> bool:
        if self._reader is not None:
            self._reader.footer.followed = source.stream.taken_up
        return begin(self, engine, catalog, source, faults)

    monkeypatch.setattr(Restart, "begin", believes)
    with pytest.raises(AssertionError, match=r"by_id|counted|joined|first|evicted|ranged"):
        run(lambda: restarted_behind_writes(mysql, database, tmp_path))


async def mysql_executed(mysql: Server) -> GtidSet:
    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.gtid_executed")
        return GtidSet.parse(str(cursor.fetchone()[0]))


def test_no_hit_before_the_position_has_what_was_executed(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the stream waits, every read is MySQL's to answer."""
    monkeypatch.setattr(restart, "HEAD_START", 3600.0)
    held_back = Restart._hold
    waits: list[Restart] = []

    async def holds_and_waits(self: Restart, *arguments: Any) -> None:
        await held_back(self, *arguments)
        waits.append(self)
        await until(lambda: not waits)

    monkeypatch.setattr(Restart, "_hold", holds_and_waits)

    async def scenario() -> None:
        await held_once(mysql, database, tmp_path)
        await written(mysql, database, tmp_path, *WRITES)
        async with proxy_beside(mysql, database, tmp_path, snapshot="5m") as proxy:
            await until(lambda: bool(waits))
            assert held(proxy) == HELD
            assert not await check_all(proxy) and proxy.app.router.reads.closed
            waits.clear()
            await until(lambda: not proxy.app.router.reads.closed)
            assert await check_all(proxy)

    run(scenario)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[60] ^= 1  # within the first block
    path.write_bytes(content)


def of_nothing(path: Path) -> None:
    path.write_bytes(b"")


def of_others(path: Path) -> None:
    path.write_bytes(b"something else, of some length, as if it were one\n" * 100)


def with_another_end(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: -TAIL.size] + TAIL.pack(7, b"WHOLE\x00\x00\n"))


@pytest.mark.parametrize("spoil", [cut, damaged, of_nothing, of_others, with_another_end])
def test_a_file_that_cannot_be_used_is_dropped(
    spoil: Callable[[Path], None], mysql: Server, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario() -> None:
        await held_once(mysql, database, tmp_path)
        (path,) = tmp_path.rglob("held-*.snapshot")
        spoil(path)
        async with restarted(mysql, database, tmp_path) as proxy:
            assert sum(held(proxy).values()) < sum(HELD.values())
            await check_all(proxy)
            await fill(proxy, "by_id", FillBy.DIRECT, KEYS["by_id"])
        async with restarted(mysql, database, tmp_path) as proxy:
            assert held(proxy)["by_id"] == HELD["by_id"], "another one was written"

    run(scenario)
    said = capsys.readouterr()
    assert "snapshot_not_used" in said.out + said.err or "rest_of_snapshot_dropped" in said.out + said.err


def test_another_version_begins_empty(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        await held_once(mysql, database, tmp_path)
        monkeypatch.setattr(snapshot_file, "WRITTEN_BY", "9.9.9 on another Python")
        async with restarted(mysql, database, tmp_path) as proxy:
            assert not any(held(proxy).values())

    run(scenario)


def test_another_schema_drops_what_is_of_it(mysql: Server, database: str, tmp_path: Path) -> None:
    """Also where the table is another one of the same definition."""

    async def scenario() -> None:
        await held_once(mysql, database, tmp_path)
        await written(mysql, database, tmp_path, "ALTER TABLE item ADD COLUMN more INT DEFAULT 5")
        async with restarted(mysql, database, tmp_path) as proxy:
            assert await check_all(proxy) == 0
            await fill(proxy, "by_id", FillBy.DIRECT, KEYS["by_id"])
        await written(
            mysql, database, tmp_path, "CREATE TABLE next LIKE item", "INSERT INTO next SELECT * FROM item",
            "UPDATE next SET name = 'another'", "DROP TABLE item", "RENAME TABLE next TO item",
        )  # fmt: skip
        async with restarted(mysql, database, tmp_path) as proxy:
            await until(lambda: all(proxy.app.catalog.get(name).reader is not None for name in CACHES))
            assert await check_all(proxy) == 0

    run(scenario)


def test_a_cache_that_was_dropped_and_made_of_another_query_is_empty(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        await held_once(mysql, database, tmp_path)
        async with proxy_beside(mysql, database, tmp_path, snapshot="off") as proxy:
            await proxy.app.router.caches.drop("by_id")
            await proxy.app.router.caches.create("by_id", "SELECT id, name FROM item WHERE id = ?", database)
            await proxy.app.router.caches.drop("first")
        async with restarted(mysql, database, tmp_path) as proxy:
            assert "first" not in proxy.app.catalog.caches
            assert proxy.app.catalog.get("by_id").info().keys == 0
            assert proxy.app.catalog.get("counted").info().keys == HELD["counted"]

    run(scenario)


def test_memory_that_is_less_holds_what_fits(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Restart._hold

    async def with_less(self: Restart, *given: Any) -> None:
        self._engine.limit.bytes = 100_000
        await hold(self, *given)

    async def scenario() -> None:
        await held_once(mysql, database, tmp_path)
        monkeypatch.setattr(Restart, "_hold", with_less)
        async with proxy_beside(mysql, database, tmp_path, snapshot="5m", memory_limit="1MiB") as proxy:
            await proxy.app.restart.restored()
            await until(lambda: not proxy.app.router.reads.closed)
            assert 0 < sum(held(proxy).values()) < sum(HELD.values())
            assert proxy.app.engine.sieve.evicted == 0
            await check_all(proxy)

    run(scenario)


def test_what_no_binlog_tells_makes_a_snapshot_untrue(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, snapshot="5m") as proxy:
            await proxy.write(*NUMBERS, rows(3000))
            for name, sql in CACHES.items():
                await proxy.app.router.caches.create(name, sql, database)
            await fill(proxy, "by_id", FillBy.DIRECT, KEYS["by_id"])
            await proxy.app.restart.save()
            (path,) = tmp_path.rglob("held-*.snapshot")
            proxy.app.catalog.written_unlogged("somebody", cause="sql_log_bin", schema=False)
            assert not path.exists(), "at once: the process may be killed now"
            await proxy.app.restart.save()
            assert not path.exists(), "nothing is held"
            await fill(proxy, "by_id", FillBy.DIRECT, KEYS["by_id"])
            await proxy.app.restart.save()
            with closing(Reader(path, proxy.app.restart._source_of(proxy.app.stream.history))) as reader:
                assert reader.footer.keys == HELD["by_id"]

    run(scenario)
