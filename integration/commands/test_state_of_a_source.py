"""What is kept of a source is its own, whatever address leads there, and one proxy keeps it at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import proxy_beside, run
from sqltypes.errors import ConfigError

TABLE = "CREATE TABLE stories (id BIGINT PRIMARY KEY, title VARCHAR(100))"
STORY = "SELECT title FROM stories WHERE id = ?"


def test_definitions_are_found_by_another_spelling_of_the_address(mysql: Server, database: str, tmp_path: Path) -> None:
    other = mysql.url.replace("127.0.0.1", "localhost")
    assert other != mysql.url

    async def scenario() -> None:
        mysql.execute(f"USE `{database}`", TABLE)
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.client.create_cache(STORY, name="story", database=database)
        async with proxy_beside(mysql, database, tmp_path, upstream=other) as proxy:
            assert [cache.name for cache in await proxy.client.caches()] == ["story"]
            await proxy.client.drop_cache("story")
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            assert await proxy.client.caches() == []

    run(scenario)


def test_a_second_proxy_is_refused(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path):
            with pytest.raises(ConfigError, match=r"is in use by the process .*, which serves mysql://"):
                async with proxy_beside(mysql, database, tmp_path):
                    pytest.fail("it serves")

    run(scenario)
