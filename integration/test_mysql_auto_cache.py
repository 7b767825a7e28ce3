"""Automatic caching as a client of the MySQL listener meets it: it does nothing, and its reads become hits."""

from __future__ import annotations

from pathlib import Path

from integration.grpc_app import proxy_beside, run
from integration.mysql_clients import connected
from integration.mysql_server import Server


def test_what_is_read_often_is_cached_by_itself(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        options = {"auto_cache": "on", "auto_cache_reads": "10", "auto_cache_time": "0.001ms"}
        async with proxy_beside(mysql, database, tmp_path, **options) as proxy:
            proxy.unhurried()
            asker = await connected(proxy)
            served = ""
            while served != "hit":
                rows, served, _ = await asker.read("SELECT name FROM item WHERE id = %s", 1)
                assert rows == (("one",),)
            (cache,) = await asker.ask("SHOW CACHES")
            assert "automatic" in cache
            await asker.close()

    mysql.execute(
        f"USE `{database}`", "CREATE TABLE item (id INT PRIMARY KEY, name TEXT)", "INSERT INTO item VALUES (1, 'one')"
    )
    run(scenario)
