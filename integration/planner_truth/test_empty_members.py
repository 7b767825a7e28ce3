"""An ENUM that has the member '': by an index MySQL tells it from what the ENUM does not have, which is '' too."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import proxy_beside, run
from proxy.grpc.rows import FORMAT
from proxy.port.reasons import NO_REASON
from sqltypes.errors import UnsupportedQuery

QUERIES = {
    "SELECT COUNT(*), MAX(id) FROM t WHERE e = ?": ("",),
    "SELECT id FROM t WHERE e IN (?)": (("", "a"),),
    "SELECT t.id FROM t JOIN u ON t.e = u.e WHERE u.id = ?": (1,),
    "SELECT e, COUNT(*) FROM t WHERE n = ? GROUP BY e": (1,),
    "SELECT id, e FROM t WHERE n = ? ORDER BY e, id": (1,),
    "SELECT id, e FROM t WHERE id = ?": (2,),
}


@pytest.mark.parametrize("index", ["", ", KEY (e)"], ids=["scan", "index"])
def test_what_equals_the_empty_text_is_what_mysql_finds(
    mysql: Server, database: str, tmp_path: Path, index: str
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            columns = "id INT PRIMARY KEY, n INT, e ENUM('', 'a')"
            await proxy.write(
                "SET sql_mode = ''",
                f"CREATE TABLE t ({columns}{index})",
                f"CREATE TABLE u ({columns}{index})",
                "INSERT INTO t VALUES (1, 1, ''), (2, 1, 'a')",
                "INSERT INTO u SELECT * FROM t",
            )
            router, cached = proxy.app.router, []
            for number, (sql, parameters) in enumerate(QUERIES.items()):
                try:
                    await router.caches.create(f"c{number}", sql, database)
                except UnsupportedQuery:
                    continue
                cached.append(number)
                await router.caches.open(f"c{number}", FORMAT).read(parameters)
            await proxy.write("SET sql_mode = ''", "INSERT INTO t VALUES (3, 1, 'unknown'), (4, 1, '')")
            await proxy.caught_up()
            for number, parameters in enumerate(QUERIES.values()):
                if number in cached:
                    found = await router.caches.open(f"c{number}", FORMAT).read(parameters)
                    cache = proxy.app.catalog.get(f"c{number}")
                    own = await router.reads.passing.read_cache(
                        cache, parameters, router.pump.formats.number(FORMAT), NO_REASON
                    )
                    assert sorted(found.body) == sorted(own.body), (cache.sql, found.served)
            assert len(cached) >= 2, "what is shown only is cached"

    run(scenario)
