"""While one process takes over from another, a cache that one of them finds wrong is wrong at both."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from external_upquery.address import parse_upstream
from integration.servers.mysql_server import Server
from integration.support.grpc_app import proxy_beside, run
from integration.trust.test_planted_faults import TABLES
from proxy.app import App
from proxy.catalog.distrusted import Doubt, doubt_of
from proxy.takeover.channel import Channel, connected, network
from proxy.takeover.protocol import Hello, Message, encoded, encoded_hello
from tests.support.waiting import until

WRONG = "an answer of it was not MySQL's"


async def heard(channel: Channel) -> Message:
    message = await channel.read()
    assert message is not None
    return message


def asking(app: App, folder: Path) -> Channel:
    """Another process that wants to take over, as far as the proxy sees."""
    ports = {"mysql-listen": app.mysql_port, "grpc-listen": app.grpc_port, "http-listen": app.http_port}
    at = {name: ("127.0.0.1", port) for name, port in ports.items()}
    channel = connected(folder)
    channel.tell(encoded_hello(Hello(os.getpid(), parse_upstream(app.config.upstream).redacted, network(), at)))
    return channel


def test_each_tells_the_other(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            for name, column in (("one", "grp"), ("two", "id")):
                await proxy.client.create_cache(f"SELECT n FROM item WHERE {column} = ?", name=name, database=database)
            catalog = proxy.app.catalog
            one, two = catalog.get("one"), catalog.get("two")
            channel = asking(proxy.app, tmp_path)
            try:
                assert (await heard(channel)).word == "take"
                catalog.distrust(one, WRONG)
                assert (await heard(channel)).word == "doubt"
                told = await heard(channel)
                assert told.word == "distrust"
                found = doubt_of(told.more)
                assert found is not None and (found.name, found.reason) == ("one", WRONG)
                assert found == catalog.doubts.about(found.sql, database)
                channel.tell(encoded("ready"))
                assert (await heard(channel)).word == "yours"
                channel.tell(encoded("mine"))
                assert two.plan is not None
                wrong = Doubt("two", two.plan.sql, database, found.level, WRONG)
                for doubt in (wrong, found):  # the second it knows
                    channel.tell(encoded("distrust", **asdict(doubt)))
                channel.tell(encoded("distrust", name=1))  # none
                await until(lambda: catalog.doubts.about(wrong.sql, database) is not None)
                await until(lambda: (two.state, two.plan and two.plan.mode.value) == ("ready", "evict"))
                assert catalog.doubts.about(found.sql, database) == found
                assert "MySQL's own answers" in two.why
            finally:
                channel.close()

    run(scenario)


def test_a_cache_that_is_not_planned_yet_is_distrusted_once_it_is(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            sql = "SELECT n FROM item WHERE grp = ?"
            await proxy.client.create_cache(sql, name="before", database=database)
            plan = proxy.app.catalog.get("before").plan
            assert plan is not None
            await proxy.client.drop_cache("before")
            proxy.app.catalog.distrusted_by_another(Doubt("c", plan.sql, database, 1, WRONG))
            assert (await proxy.client.create_cache(sql, name="c", database=database)).mode == "evict"

    run(scenario)
