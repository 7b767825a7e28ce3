"""The keys of a small table are filled together, behind what is read; not where there are more than was said."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import proxy_beside, run
from integration.support.proxy_thread import proxy_in_thread
from integration.support.served import last_served
from proxy.mysql.wire.rows import BINARY
from proxy.port.made_by import MadeBy, Origin
from proxy.read.misses import WHOLE_FILL
from tests.support.waiting import until

TABLES = (
    "CREATE TABLE small (id INT PRIMARY KEY, kind INT, name VARCHAR(20), INDEX (kind))",
    "INSERT INTO small WITH RECURSIVE n AS (SELECT 1 id UNION ALL SELECT id + 1 FROM n WHERE id < 500)"
    " SELECT id, id % 7, CONCAT('n', id) FROM n",
    "ANALYZE TABLE small",
)
ROWS, KINDS = 500, 7


@pytest.mark.parametrize(("most", "held"), [(ROWS, True), (ROWS - 1, False)])
def test_all_keys_are_held_or_none(mysql: Server, database: str, tmp_path: Path, most: int, held: bool) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*TABLES)
            for name, column in (("by_id", "id"), ("by_kind", "kind")):
                sql = f"SELECT id, name FROM small WHERE {column} = ?"
                await proxy.client.create_cache(sql, name=name, database=proxy.database)
                proxy.app.router.fills.bulk.hold_all(name, most)
            bulk = proxy.app.router.fills.bulk
            assert bulk is not None
            await until(lambda: not bulk._behind)
            keys = {info.name: info.keys for info in await proxy.app.router.caches.listed()}
            assert keys == {"by_id": ROWS if held else 0, "by_kind": KINDS}
            answer = await proxy.client.cache("by_kind").get(3)
            assert answer.served == "hit" and len(answer) == len(range(3, ROWS + 1, KINDS))

    run(scenario)


@pytest.mark.parametrize(
    ("sql", "small"),
    [
        ("SELECT name FROM small WHERE id = ?", True),
        ("SELECT COUNT(*) FROM small WHERE kind = ?", True),
        ("SELECT name FROM small WHERE id BETWEEN ? AND ?", True),
        ("SELECT SUM(kind) FROM small WHERE id BETWEEN ? AND ?", True),
        ("SELECT name FROM small WHERE kind = ? AND id > ?", False),
        ("SELECT a.name FROM small a JOIN small b ON a.id = b.kind WHERE b.id = ?", False),
        ("SELECT UUID_SHORT() > 0, name FROM small WHERE name LIKE ?", False),
    ],
)
def test_what_is_small(mysql: Server, database: str, tmp_path: Path, sql: str, small: bool) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*TABLES)
            judgement = await proxy.app.catalog.judge(sql, proxy.database)
            assert judgement.small is small, judgement

    run(scenario)


def test_nobody_waits_for_the_fill_of_a_whole_table(mysql: Server, database: str, tmp_path: Path) -> None:
    """MySQL answers ranges meanwhile."""
    range_ = "SELECT name FROM small WHERE id BETWEEN {} AND {}"
    mysql.execute(f"USE {database}", *TABLES)
    with proxy_in_thread(mysql, database, tmp_path, auto_cache="on") as beside:
        router = beside.proxy.app.router
        made_by = MadeBy(Origin.AUTOMATIC, reason="a test")
        making = router.caches.create("ranges", range_.format("?", "?"), database, made_by)
        asyncio.run_coroutine_threadsafe(making, beside.loop).result(60)
        (named,) = beside.call(router.caches.automatic)
        opened = beside.call(lambda: router.caches.open("ranges", BINARY))
        asked = asyncio.run_coroutine_threadsafe(opened.fill((1, 5), None, wait=False), beside.loop).result(60)
        assert asked == WHOLE_FILL
        beside.until(lambda: named.filling is not None and named.filling.done())
        with beside.client() as client, beside.direct() as direct:
            hits = 0
            for key in range(1, 60):
                text = range_.format(key, key + 5)
                assert client.query(text) == direct.query(text)
                hits += last_served(beside, client).startswith("hit")
                beside.until(lambda: not beside.shared.fills)
            assert hits > 40
