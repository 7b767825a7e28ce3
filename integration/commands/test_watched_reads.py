"""`GET /v1/reads` beside a real MySQL: misses and passed reads with their reasons, and nothing while nobody watches."""

from __future__ import annotations

import asyncio
import json
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

from integration.servers.mysql_server import Server
from integration.support.mysql_shop import BY_ID, OF_GROUP, shop
from proxy.port.reasons import Reason
from tests.support.waiting import until


class Stream:
    """A stream of reads, as a client that knows only HTTP sees it."""

    def __init__(self, port: int, query: str = "") -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self._connection.request("GET", f"/v1/reads{query}")
        self.response: HTTPResponse = self._connection.getresponse()
        self._reads: list[dict[str, Any]] = []

    def line(self) -> bytes:
        return self.response.readline()

    def next(self) -> dict[str, Any]:
        while not self._reads:
            line = self.line()
            if line.startswith(b"data: "):
                self._reads = json.loads(line[6:])["reads"]
        return self._reads.pop(0)

    def close(self) -> None:
        self.response.close()
        self._connection.close()


def test_misses_and_passed_reads_are_told_with_their_reasons(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            port, router = proxy.app.http_port, proxy.app.router
            assert port is not None and router.reads.watch is None and not router.proxied.noted
            stream = await asyncio.to_thread(Stream, port)
            assert await asyncio.to_thread(stream.line) == b": from now on\n"
            assert await asker.served(BY_ID, 5) == "miss"
            read = await asyncio.to_thread(stream.next)
            assert (read["outcome"], read["cache"], read["key"], read["why"]) == ("miss", "by_id", "[5]", "not held")
            assert read["query"].startswith("SELECT id, n, name FROM item") and 0 < read["us"] < 6e7
            await asker.until_hit(BY_ID, 5)
            await asker.ask("SELECT name FROM item WHERE n = 3")
            read = await asyncio.to_thread(stream.next)
            assert (read["outcome"], read["cache"], read["times"]) == ("passed", "", 1)
            assert (read["query"], read["reason"]) == ("SELECT name FROM item WHERE n = ?", "not worth it")
            await asker.ask("SET sql_mode = 'PIPES_AS_CONCAT'")
            await asker.ask(BY_ID, 5)
            read = await asyncio.to_thread(stream.next)
            assert (read["outcome"], read["cache"]) == ("passed", "by_id")
            assert read["reason"] in {reason.value for reason in Reason} and read["why"]
            (answer,) = await proxy.client.cache("by_id").get_many([(7,)])
            assert answer.served == "miss"
            read = await asyncio.to_thread(stream.next)
            assert (read["outcome"], read["key"]) == ("miss", "[7]")
            await asyncio.to_thread(stream.close)
            await until(lambda: router.reads.watch is None)
            assert not router.proxied.noted

    asyncio.run(scenario())


def test_a_watcher_may_choose(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            port = proxy.app.http_port
            assert port is not None
            stream = await asyncio.to_thread(Stream, port, "?cache=of_group&outcome=miss")
            assert await asyncio.to_thread(stream.line) == b": from now on\n"
            await asker.ask(BY_ID, 5)
            await asker.ask("SELECT name FROM item WHERE n = 3")
            await asker.ask(OF_GROUP, 2)
            assert (await asyncio.to_thread(stream.next))["cache"] == "of_group"
            await asyncio.to_thread(stream.close)
            for query, status in (("?cache=no", 404), ("?outcome=hit", 400)):
                refused = await asyncio.to_thread(Stream, port, query)
                assert refused.response.status == status
                refused.close()

    asyncio.run(scenario())
