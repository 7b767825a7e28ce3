"""DROP DATABASE concerns the caches of that database, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run

OTHER = "{database}_other"
BY_ID = "SELECT id, n FROM item WHERE id = ?"


@pytest.fixture
def other(mysql: Server, database: str) -> Iterator[str]:
    """A second database beside `database`, with the same table in both."""
    name = OTHER.format(database=database[:50])
    mysql.execute(f"CREATE DATABASE `{name}`")
    for schema in (database, name):
        mysql.execute(
            f"USE `{schema}`", "CREATE TABLE item (id INT PRIMARY KEY, n INT)", "INSERT INTO item VALUES (1, 10)"
        )
    yield name
    mysql.execute(f"DROP DATABASE IF EXISTS `{name}`")


async def served(proxy: Proxy, cache: str) -> str:
    return (await proxy.client.cache(cache).get(1)).served


async def held(proxy: Proxy, cache: str) -> None:
    while await served(proxy, cache) != "hit":
        await proxy.caught_up()


def test_caches_of_other_databases_stay_held(mysql: Server, database: str, other: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.client.create_cache(BY_ID, name="here", database=database)
            await proxy.client.create_cache(BY_ID, name="there", database=other)
            for cache in ("here", "there"):
                await held(proxy, cache)
            mysql.execute(f"DROP DATABASE `{other}`")
            await proxy.caught_up()
            assert await served(proxy, "here") == "hit"
            await proxy.app.catalog.settled()
            states = {cache.name: cache.state for cache in proxy.app.catalog.caches.values()}
            assert states == {"here": "ready", "there": "refused"}

    run(scenario)


def test_a_database_that_comes_back_is_read_anew(mysql: Server, database: str, other: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.client.create_cache(BY_ID, name="there", database=other)
            await held(proxy, "there")
            mysql.execute(
                f"DROP DATABASE `{other}`",
                f"CREATE DATABASE `{other}`",
                f"CREATE TABLE `{other}`.item (id INT PRIMARY KEY, n INT)",
                f"INSERT INTO `{other}`.item VALUES (1, 77)",
            )
            await proxy.caught_up()
            await proxy.app.catalog.settled()
            assert [tuple(row) for row in await proxy.client.cache("there").get(1)] == [(1, 77)]

    run(scenario)


def test_a_view_in_the_database_over_a_table_elsewhere(
    mysql: Server, database: str, other: str, tmp_path: Path
) -> None:
    mysql.execute(f"CREATE VIEW `{other}`.seen AS SELECT id, n FROM `{database}`.item")

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.client.create_cache("SELECT id, n FROM seen WHERE id = ?", name="through", database=other)
            await held(proxy, "through")
            mysql.execute(f"DROP DATABASE `{other}`")
            await proxy.caught_up()
            await proxy.app.catalog.settled()
            assert proxy.app.catalog.get("through").state == "refused"

    run(scenario)
