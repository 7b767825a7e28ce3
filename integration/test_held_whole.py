"""The keys of a small table are filled together, behind what is read; not where there are more than was said."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.grpc_app import proxy_beside, run
from integration.mysql_server import Server
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
                proxy.app.router.hold_all(name, most)
            bulk = proxy.app.router.bulk
            assert bulk is not None
            await until(lambda: not bulk._behind)
            keys = {info.name: info.keys for info in await proxy.app.router.list_caches()}
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
