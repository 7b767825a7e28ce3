"""Settings that change while a proxy serves beside a real MySQL: each is in effect where it is used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.mysql_clients import Asker, connected
from proxy.settings.quantities import Transactions
from tests.support.waiting import until
from upwell.aio import Client
from upwell.errors import NotPermitted

TABLE = "CREATE TABLE stories (id BIGINT PRIMARY KEY, title VARCHAR(1000))"
BY_ID = "SELECT title FROM stories WHERE id = %s"


def seen(proxy: Proxy) -> dict[str, Callable[[], object]]:
    """By a setting, what is in effect where it is used."""
    app, router = proxy.app, proxy.app.router
    mysql, running = app.mysql, app.running
    assert mysql is not None and running is not None
    return {
        "max-staleness": lambda: router.gate.max_staleness,
        "clock-tolerance": lambda: app.clock.tolerance,
        "upquery-timeout": lambda: router.pump.timeout,
        "warm-up": lambda: router.fills.warm_up.enabled,
        "spark-min-rows": lambda: router.fills.bulk.spark_min_rows,
        "grpc-query": lambda: running.grpc.service.own_sql,
        "ahead-fills": lambda: app.engine.inserting.ahead_fills,
        "exact-fills": lambda: app.engine.state.hot_keys.enabled,
        "transactions": lambda: mysql.shared.transactions,
        "read-your-writes": lambda: mysql.shared.read_your_writes,
        "own-writes-wait": lambda: mysql.shared.options.own_writes_wait,
        "mysql-connections": lambda: mysql.shared.options.connections,
        "mysql-idle-timeout": lambda: mysql.shared.options.idle,
        "mysql-max-packet": lambda: mysql.shared.options.largest_command,
        "max-caches": lambda: app.catalog.limits.total,
        "max-caches-per-account": lambda: app.catalog.limits.per_account,
        "verify-new-caches": lambda: router.earning.wanted,
        "check-sample": lambda: router.sampler._share,
        "snapshot": lambda: running.restart._least,
        "shutdown-delay": lambda: app.config.shutdown_delay,
        "takeover-drain": lambda: app.config.takeover_drain,
        "check": lambda: app.config.check,
    }


VALUES: dict[str, tuple[str, object]] = {
    "max-staleness": ("3s", 3.0),
    "clock-tolerance": ("5s", 5),
    "upquery-timeout": ("4s", 4.0),
    "warm-up": ("on", True),
    "spark-min-rows": ("99", 99),
    "ahead-fills": ("off", False),
    "exact-fills": ("off", False),
    "transactions": ("strict", Transactions.STRICT),
    "read-your-writes": ("off", False),
    "own-writes-wait": ("2s", 2.0),
    "mysql-connections": ("17", 17),
    "mysql-idle-timeout": ("600s", 600.0),
    "mysql-max-packet": ("1MiB", 1 << 20),
    "max-caches": ("7", 7),
    "max-caches-per-account": ("6", 6),
    "verify-new-caches": ("9", 9),
    "check-sample": ("0.25", 0.25),
    "snapshot": ("7m", 420.0),
    "shutdown-delay": ("1s", 1.0),
    "takeover-drain": ("2s", 2.0),
    "check": ("false", False),
    "grpc-query": ("off", False),
}
SHOWN_BELOW = {"memory-limit", "log-level", "auto-cache", "auto-cache-reads", "auto-cache-time", "auto-cache-memory",
               "admin-users", "access-log-sample", "otel-query-text"}  # fmt: skip


def test_each_setting_that_can_change_is_in_effect_at_once(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            effects = seen(proxy)
            live = {setting.name for setting in await proxy.client.settings() if setting.live == "yes"}
            assert live == VALUES.keys() | SHOWN_BELOW and effects.keys() == VALUES.keys()
            asker = await connected(proxy, database=database)
            for name, (text, value) in VALUES.items():
                before = effects[name]()
                assert before != value
                await asker.ask(f"SET UPWELL {name} = {text}")
                assert effects[name]() == value, name
                await asker.ask(f"SET UPWELL {name} = DEFAULT")
                assert effects[name]() == before, name
            for name, text in (("grpc-query", "off"), ("check", "true")):
                await asker.ask(f"SET UPWELL {name} = {text}")
            with pytest.raises(NotPermitted):
                await proxy.client.set("max-staleness", "1s")
            await asker.close()

    run(scenario)


def test_the_log_and_the_access_log_follow(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, access_log=str(tmp_path / "log")) as proxy:
            await proxy.client.set("log-level", "error")
            assert not structlog.get_logger().is_enabled_for(logging.WARNING)
            await proxy.client.set("log-level", "warning")
            assert structlog.get_logger().is_enabled_for(logging.WARNING)
            access_log = proxy.app.router.reads.access_log
            assert access_log is not None and access_log.weight == 100
            await proxy.client.set("access-log-sample", "0.5")
            assert (access_log.weight, access_log.every) == (2, 2)
            assert proxy.app.router.sampler._offered == 2, "as many hits are offered"

    before = structlog.get_config()
    try:
        run(scenario)
    finally:
        structlog.configure(**before)


def test_a_lowered_limit_of_memory_evicts_and_a_raised_one_lets_more_in(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(
                TABLE,
                "SET SESSION cte_max_recursion_depth = 10000",
                "INSERT INTO stories WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)"
                " SELECT i, REPEAT('x', 900) FROM n",
            )
            await proxy.client.create_cache("SELECT title FROM stories WHERE id = ?", name="s", database=database)
            cache = proxy.client.cache("s")
            await cache.get_many(range(1, 6001))
            memory, limit = proxy.app.engine.memory, proxy.app.engine.limit
            assert memory.used > 4 << 20
            ring = proxy.app.engine.state.ring.max_weight
            await proxy.client.set("memory-limit", "2MiB")
            assert limit.bytes <= 2 << 20 and proxy.app.engine.state.ring.max_weight < ring
            await until(lambda: memory.used <= limit.bytes, 30)
            proxy.app.engine.check_invariants()
            await cache.get_many(range(1, 6001))
            assert memory.used <= limit.bytes
            await proxy.client.set("memory-limit", "64MiB")
            await cache.get_many(range(1, 6001))
            assert memory.used > 4 << 20

    run(scenario)


def test_automatic_caching_goes_on_and_off_and_its_caches_come_back(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(TABLE, "INSERT INTO stories VALUES (1, 'one')")
            await proxy.client.create_cache("SELECT id FROM stories WHERE id = ?", name="own", database=database)
            asker = await connected(proxy, database=database)
            for setting in ("auto-cache = on", "auto-cache-reads = 2", "auto-cache-time = 0ms"):
                await asker.ask(f"SET UPWELL {setting}")
            proxy.unhurried()
            names = proxy.app.catalog.caches.keys
            await asked_until(asker, lambda: len(names()) == 2)
            await asker.until_hit(BY_ID, 1)
            await asker.ask("SET UPWELL auto-cache = off")
            await until(lambda: [*names()] == ["own"], 30)
            assert await asker.served(BY_ID, 1) == "passed"
            await asker.ask("SET UPWELL auto-cache = on")
            await until(lambda: len(names()) == 2, 30)
            await asker.until_hit(BY_ID, 1)
            for setting in ("off", "on", "off", "on"):  # the last one counts
                await asker.ask(f"SET UPWELL auto-cache = {setting}")
            await until(lambda: proxy.app.router.auto_cache is not None and len(names()) == 2, 30)
            await asker.ask("SET UPWELL auto-cache-memory = 0.25")
            auto = proxy.app.router.auto_cache
            assert auto is not None and auto.policy.memory == proxy.app.config.memory_limit // 4
            await asker.close()

    run(scenario)


async def asked_until(asker: Asker, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asker.ask(BY_ID, 1)


def test_caches_that_were_not_checked_are_once_checks_are_switched_on(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(TABLE, "INSERT INTO stories VALUES (1, 'one')")
            await proxy.client.create_cache("SELECT title FROM stories WHERE id = ?", name="s", database=database)
            cache = proxy.app.catalog.caches["s"]
            assert cache.trust is None
            await proxy.client.set("verify-new-caches", "3")
            await until(lambda: cache.trust is not None)
            for key in range(200):
                await proxy.client.cache("s").get(key)
            assert proxy.app.router.earning.counters["trust_agrees"] >= 3
            await proxy.client.set("verify-new-caches", "off")
            await until(lambda: cache.trust is None)

    run(scenario)


def test_hits_in_transactions_stop_and_come_back_with_the_setting(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(TABLE, "INSERT INTO stories VALUES (1, 'one'), (2, 'two')")
            await proxy.client.create_cache("SELECT title FROM stories WHERE id = ?", name="s", database=database)
            asker, writer = await connected(proxy), await connected(proxy)
            for key in (1, 2):
                await asker.until_hit(BY_ID, key)
            await asker.ask("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            await asker.until_hit(BY_ID, 1)
            await asker.ask("BEGIN")
            assert await asker.served(BY_ID, 1) == "hit"
            await proxy.client.set("transactions", "off")
            assert await asker.served(BY_ID, 2) == "passed"
            await writer.ask("UPDATE stories SET title = 'later'")
            await proxy.caught_up()
            await proxy.client.set("transactions", "on")
            rows, *_ = await asker.read(BY_ID, 2)
            assert rows == (("two",),), "as the transaction was shown"
            await asker.ask("COMMIT")
            assert await asker.ask(BY_ID, 2) == (("later",),)
            await asker.close()
            await writer.close()

    run(scenario)


def test_a_changed_tolerance_of_the_clock_gives_no_answer_of_another_moment(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    query = "SELECT COUNT(*) AS c FROM stories WHERE posted <= NOW()"

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, clock_tolerance="86400s") as proxy:
            await proxy.write(
                "CREATE TABLE stories (id BIGINT PRIMARY KEY, posted DATETIME)", "INSERT INTO stories VALUES (1, NOW())"
            )
            asker = await connected(proxy)
            await asker.ask("CREATE CACHE FROM SELECT COUNT(*) AS c FROM stories WHERE posted <= ?")

            async def hit() -> int:
                async with asyncio.timeout(60):
                    while True:
                        rows, served, _ = await asker.read(query)
                        if served == "hit":
                            return int(rows[0][0])

            assert await hit() == 0, "of the day's beginning"
            await asker.ask("SET UPWELL clock-tolerance = 0s")
            for _ in range(3):
                assert await hit() == 1, "of now"
            await asker.ask("SET UPWELL clock-tolerance = DEFAULT")
            assert await hit() == 0
            await asker.close()

    run(scenario)


def test_who_is_an_administrator_changes_for_sessions_that_are_there(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            asker = await connected(proxy, database=database)
            assert len(await asker.ask("SHOW UPWELL SETTINGS LIKE 'admin-users'")) == 1
            await asker.ask("SET UPWELL admin-users = somebody_else")
            with pytest.raises(Exception, match="the accounts of --admin-users may"):
                await asker.ask("SHOW UPWELL SETTINGS")
            await proxy.client.set("admin-users", None)
            assert len(await asker.ask("SHOW UPWELL SETTINGS LIKE 'admin-users'")) == 1
            await asker.close()

    run(scenario)


def test_what_cannot_be_set_gets_one_sentence(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            asker = await connected(proxy, database=database)
            for text, number, why in (
                ("upquery-connections = 9", 1231, "it takes effect at the next start"),
                ("memory-limit = much", 1231, "'much': a size such as 512MiB or 2GiB is accepted"),
                ("memory_limits = 1GiB", 1231, "is 'memory-limit' meant?"),
                ("memory-limit", 1064, "= is expected at the end; accepted is: SET UPWELL name = value"),
            ):
                with pytest.raises(Exception, match=why) as failed:
                    await asker.ask(f"SET UPWELL {text}")
                assert failed.value.args[0] == number
            await asker.close()

    run(scenario)


def test_an_emptied_cache_is_filled_anew_and_subscribers_see_no_difference(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with (
            proxy_beside(mysql, database, tmp_path) as proxy,
            Client(f"127.0.0.1:{proxy.app.grpc_port}", token=proxy.app.grpc_token) as other,
        ):
            await proxy.write(TABLE, "INSERT INTO stories VALUES (1, 'one'), (2, 'two')")
            await proxy.client.create_cache("SELECT title FROM stories WHERE id = ?", name="s", database=database)
            cache = proxy.client.cache("s")
            await cache.get_many([1, 2])
            events = other.cache("s").subscribe(1)
            assert (await anext(events)).added == [("one",)]
            assert await proxy.client.flush_cache("s") == 2
            assert (await cache.get(2)).served == "miss" and (await cache.get(2)).served == "hit"
            await proxy.write("UPDATE stories SET title = 'uno' WHERE id = 1")
            event = await asyncio.wait_for(anext(events), 60)
            assert (event.removed, event.added) == ([("one",)], [("uno",)]), "and nothing before"
            assert await cache.get(1) == [("uno",)]
            await events.aclose()

    run(scenario)


def test_a_query_that_was_passed_is_cached_by_its_id(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(TABLE, "INSERT INTO stories VALUES (1, 'one')")
            asker = await connected(proxy, database=database)
            await asker.ask(BY_ID, 1)
            ((*_, id_),) = await asker.ask("SHOW PROXIED QUERIES LIKE '%stories%'")
            assert str(id_).startswith("q_")
            await asker.ask(f"CREATE CACHE mine FROM QUERY '{id_}'")
            await asker.until_hit(BY_ID, 1)
            with pytest.raises(Exception, match="no query has the id 'q_0'"):
                await asker.ask("CREATE CACHE FROM QUERY 'q_0'")
            assert (await proxy.client.create_cache(name="two", from_query=str(id_))).name == "two"
            await asker.close()

    run(scenario)
