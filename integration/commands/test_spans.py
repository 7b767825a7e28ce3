"""OpenTelemetry's spans of a whole proxy beside a real MySQL, as a collector gets them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.mysql_clients import connected
from integration.support.proxy_thread import proxy_in_thread
from integration.support.raw_client import bound
from proxy.mysql.session.shared import Shared
from tests.support.http_calls import call
from tests.support.otlp_receiver import Receiver, Span, receiving
from tests.support.waiting import until

TABLE = "CREATE TABLE stories (id BIGINT PRIMARY KEY, author BIGINT, title VARCHAR(100), INDEX (author))"
LONGLONG = 8
ROWS = "INSERT INTO stories VALUES (1, 7, 'one'), (2, 7, 'two'), (3, 8, 'secret')"
BY_AUTHOR = "SELECT id, title FROM stories WHERE author = "


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as found:
        for name, value in found.environment.items():
            monkeypatch.setenv(name, value)
        yield found


def shared_of(proxy: Proxy) -> Shared:
    assert proxy.app.mysql is not None
    return proxy.app.mysql.shared


def trace(number: int) -> str:
    return f"{number:032x}"


def sent(number: int) -> str:
    """What sqlcommenter puts behind a statement."""
    return f" /*db_driver='pymysql',route='%2Fa%2F{number}',traceparent='00-{trace(number)}-{number:016x}-01'*/"


def by_trace(collector: Receiver, number: int) -> list[Span]:
    return [span for span in collector.spans if span.trace == trace(number)]


def test_misses_and_passes_are_spans_of_the_callers_trace_and_hits_are_not(
    mysql: Server, database: str, tmp_path: Path, collector: Receiver
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(TABLE, ROWS)
            await proxy.client.create_cache(f"{BY_AUTHOR}?", name="by_author", database=database)
            asker = await connected(proxy)
            await asker.until_hit(f"{BY_AUTHOR}8")  # its columns are known
            began = time.time_ns()
            assert len(await asker.ask(f"{BY_AUTHOR}7{sent(1)}")) == 2
            ended = time.time_ns()
            for number in (2, 3):
                assert await asker.served(f"{BY_AUTHOR}7{sent(number)}") == "hit"
            assert await asker.served(f"SELECT title FROM stories WHERE title = 'secret'{sent(4)}") == "passed"
            assert await asker.served(f"{sent(5)} SELECT SQL_NO_CACHE id FROM stories WHERE id = 3") == "passed"
            await asker.ask(f"UPDATE stories SET title = 'x' WHERE id = 3{sent(6)}")
            assert await asker.served(f"{BY_AUTHOR}7 /* upwell: skip */{sent(7)}") == "passed"
            await until(lambda: all(by_trace(collector, number) for number in (1, 4, 5, 7)), 60)
            (miss,) = by_trace(collector, 1)
            assert (miss.name, miss.parent) == ("upwell miss", f"{1:016x}")
            assert began <= miss.started <= miss.ended <= ended
            asked = miss.attributes.pop("upwell.mysql_ms")
            assert isinstance(asked, float) and 0 < asked * 1e6 <= miss.ended - miss.started
            assert miss.attributes == {
                "db.system.name": "mysql", "db.namespace": database, "db.response.returned_rows": 2,
                "upwell.outcome": "miss", "upwell.cache": "by_author",
            }  # fmt: skip
            assert miss.resource["service.name"] == "upwell"
            (passed,) = by_trace(collector, 4)
            assert (passed.name, passed.parent) == ("upwell passed", f"{4:016x}")
            assert passed.attributes.keys() == {
                "db.system.name", "db.namespace", "upwell.outcome", "upwell.reason", "upwell.mysql_ms"
            }  # fmt: skip
            assert passed.attributes["upwell.reason"] == "not worth it"
            (skipped,) = by_trace(collector, 7)
            assert skipped.attributes["upwell.reason"] == "asked for"
            assert not any(by_trace(collector, number) for number in (2, 3, 6)), "hits, writes"
            assert "secret" not in repr(collector.spans)
            await asker.close()

    run(scenario)


def test_calls_of_grpc_tell_their_trace_by_metadata(
    mysql: Server, database: str, tmp_path: Path, collector: Receiver
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, otel_query_text="on") as proxy:
            await proxy.write(TABLE, ROWS)
            await proxy.client.create_cache(f"{BY_AUTHOR}?", name="by_author", database=database)
            metadata = proxy.client._credentials.metadata

            def traced(number: int) -> None:
                parent = ("traceparent", f"00-{trace(number)}-{number:016x}-01")
                proxy.client._credentials.metadata = lambda: (*metadata(), parent)  # type: ignore[method-assign]

            cache = proxy.client.cache("by_author")
            for number, served in ((1, "miss"), (2, "hit"), (3, "hit")):
                traced(number)
                assert (await cache.get(7)).served == served
            traced(4)
            query = "SELECT title FROM stories WHERE id = 3 LIMIT 1"
            assert (await proxy.client.query(query, database=database)).served == "passed"
            traced(5)
            await cache.get_many([8, 9])
            await until(lambda: len(by_trace(collector, 4) + by_trace(collector, 5)) == 3, 60)
            (miss,), (passed,) = by_trace(collector, 1), by_trace(collector, 4)
            assert miss.parent == f"{1:016x}" and miss.attributes["db.response.returned_rows"] == 2
            assert miss.attributes["db.query.text"] == f"{BY_AUTHOR}?"
            assert passed.attributes["db.query.text"] == "SELECT title FROM stories WHERE id = ? LIMIT 1"
            assert passed.attributes["db.response.returned_rows"] == 1
            assert float(passed.attributes["upwell.mysql_ms"]) * 1e6 <= passed.ended - passed.started
            assert not by_trace(collector, 2) and not by_trace(collector, 3), "hits"

    run(scenario)


def test_reads_over_http_tell_their_trace_by_headers(
    mysql: Server, database: str, tmp_path: Path, collector: Receiver
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            port, token = proxy.app.http_port, str(proxy.app.grpc_token)
            await proxy.write(TABLE, ROWS)
            await proxy.client.create_cache(f"{BY_AUTHOR}?", name="by_author", database=database)

            def traced(number: int) -> dict[str, str]:
                return {"traceparent": f"00-{trace(number)}-{number:016x}-01", "tracestate": "a=1"}

            path = "/v1/caches/by_author"
            for number, served in ((1, "miss"), (2, "hit")):
                _, answer = await call(port, "GET", f"{path}?key=7", token=token, more=traced(number))
                assert answer["served"] == served
            await call(port, "POST", path, {"keys": [8, 9]}, token, more=traced(3))
            await call(port, "GET", f"{path}?key=10", token=token, more={"traceparent": "nonsense"})
            await until(lambda: len(collector.spans) == 4, 60)
            (miss,) = by_trace(collector, 1)
            assert (miss.name, miss.parent) == ("upwell miss", f"{1:016x}")
            assert miss.attributes["upwell.cache"] == "by_author"
            assert [span.parent for span in by_trace(collector, 3)] == [f"{3:016x}"] * 2
            assert not by_trace(collector, 2), "a hit"
            assert len({span.trace for span in collector.spans}) == 3, "without a trace it begins one of its own"

    run(scenario)


def test_a_collector_that_takes_nothing_stops_nobody(
    mysql: Server, database: str, tmp_path: Path, collector: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "50")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    collector.held.clear()

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(TABLE)
            await proxy.client.create_cache(f"{BY_AUTHOR}?", name="by_author", database=database)
            cache = proxy.client.cache("by_author")
            late = proxy.app.router.lateness.times
            for number in range(200):
                assert (await cache.get(number)).served == "miss"
            assert collector.spans == [] and proxy.app.router.lateness.times == late
            started = time.monotonic()
        assert time.monotonic() - started < 30, "nor the end"

    run(scenario)


def test_executions_of_prepared_statements_tell_the_trace_of_their_text(
    mysql: Server, database: str, tmp_path: Path, collector: Receiver
) -> None:
    with proxy_in_thread(mysql, database, tmp_path, otel_query_text="on") as beside:
        mysql.execute(f"USE `{database}`", TABLE, ROWS)
        beside.caught_up()
        with beside.client() as client:
            client.query(f"CREATE CACHE by_author FROM {BY_AUTHOR}?")
            statement = client.prepare(f"{BY_AUTHOR}?{sent(1)}")
            for author in (7, 8):
                client.execute(statement.id, bound([LONGLONG], [author.to_bytes(8, "little")]))
            text = "SELECT id FROM stories WHERE title = ? AND 5 = 5"
            other = client.prepare(f"{text}{sent(2)}")
            client.execute(other.id, bound([LONGLONG], [bytes(8)]))
            beside.until(lambda: len(by_trace(collector, 1) + by_trace(collector, 2)) == 3)
            first, miss = by_trace(collector, 1)
            assert (first.attributes["upwell.reason"], miss.attributes["upwell.outcome"]) == ("columns", "miss")
            assert first.attributes["upwell.cache"] == miss.attributes["upwell.cache"] == "by_author"
            assert miss.attributes["db.query.text"] == f"{BY_AUTHOR}?"
            (passed,) = by_trace(collector, 2)
            assert passed.attributes["db.query.text"] == text


def test_statements_with_a_comment_of_their_own_each_are_hits_and_fill_no_memory(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(TABLE, ROWS)
            await proxy.client.create_cache("SELECT id FROM stories WHERE title = ?", name="t", database=database)
            await proxy.client.create_cache("SELECT id FROM stories WHERE id IN (?)", name="l", database=database)
            asker = await connected(proxy)
            queries = "SELECT id FROM stories WHERE title = 'one'", "SELECT id FROM stories WHERE id IN (1, 2)"
            for query in queries:
                await asker.until_hit(f"{query}{sent(1)}")
                await asker.until_hit(f"{sent(1)} {query}")
            caches, texts = proxy.app.catalog.caches, shared_of(proxy).texts.entries
            hits, learned = caches["t"].hits + caches["l"].hits, texts._bytes
            routes = [texts.find(f"{query}{sent(1)}".encode(), database)[0].attached for query in queries]
            for number in range(2, 300):
                for query in queries:
                    await asker.ask(f"{query}{sent(number)}")
                    await asker.ask(f"{sent(number)} {query}")
            assert caches["t"].hits + caches["l"].hits == hits + 4 * 298
            assert texts._bytes == learned, "nothing was learned"
            assert all(route is not None and len(route.keys) <= 1 for route in routes)
            await asker.close()

    run(scenario)
