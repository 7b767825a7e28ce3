"""Keys of moments that have passed are forgotten, those that are read stay, and no answer is another for it."""

from __future__ import annotations

from pathlib import Path

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.mysql_clients import Asker, connected

MOMENT = "SELECT id FROM p WHERE k = 1 AND at <= NOW() ORDER BY id"
DAY = "SELECT COUNT(*) FROM p WHERE k = 1 AND DATE(at) <= CURDATE()"
TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY, k INT NOT NULL, at DATETIME NOT NULL, KEY (k))",
    "INSERT INTO p VALUES (1, 1, '2020-01-01'), (2, 1, '2021-01-01'), (3, 2, '2022-01-01'), (4, 1, '2100-01-01')",
)


async def keys(proxy: Proxy) -> dict[str, int]:
    return {info.name: info.keys for info in await proxy.app.router.caches.listed()}


async def hit(asker: Asker, sql: str) -> tuple[tuple[object, ...], ...]:
    """The rows, once the read is a hit."""
    while True:
        rows, served, _ = await asker.read(sql)
        if served == "hit":
            return tuple(rows)


def test_keys_of_seconds_that_have_passed_go_and_a_day_that_is_read_stays(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*TABLES)
            asker = await connected(proxy)
            for name, sql in (("moment", MOMENT), ("day", DAY)):
                await asker.ask(f"CREATE CACHE {name} FROM {sql}")
            sweeper = proxy.app.router.clock_keys
            while (await keys(proxy))["moment"] < 3:  # a key a second
                assert await hit(asker, MOMENT) == ((1,), (2,))
                assert await hit(asker, DAY) == ((2,),)
            day = (await keys(proxy))["day"]
            await sweeper.look()
            assert (await keys(proxy))["moment"] >= 3, "nothing is known of them yet"
            await hit(asker, MOMENT)
            await hit(asker, DAY)
            await sweeper.look()
            held = await keys(proxy)
            assert held["moment"] <= 2 and 1 <= held["day"] <= day
            assert sweeper.dropped >= 2 and (await proxy.client.status()).counters["clock_keys_dropped"] >= 2
            proxy.app.router._engine.check_invariants()

            await sweeper.look()
            await sweeper.look()
            assert await keys(proxy) == {"moment": 0, "day": 0}, "nobody has read them"
            await proxy.write("DELETE FROM p WHERE id = 1")
            await proxy.caught_up()
            assert await hit(asker, MOMENT) == ((2,),) and await hit(asker, DAY) == ((1,),)
            await asker.close()

    run(scenario)


def test_other_caches_keep_what_nobody_reads(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*TABLES)
            asker = await connected(proxy)
            await asker.ask("CREATE CACHE plain FROM SELECT id FROM p WHERE k = ?")
            await hit(asker, "SELECT id FROM p WHERE k = 1")
            for _ in range(3):
                await proxy.app.router.clock_keys.look()
            assert await keys(proxy) == {"plain": 1}
            await asker.close()

    run(scenario)
