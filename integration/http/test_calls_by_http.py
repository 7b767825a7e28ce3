"""Reads, subscriptions and new caches over HTTP beside a real MySQL: what curl is told is what MySQL has."""

from __future__ import annotations

from pathlib import Path

from integration.servers.mysql_server import Server
from integration.support.grpc_app import proxy_beside, run
from tests.support.http_calls import call, events
from tests.support.waiting import until

TABLE = (
    "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, d DECIMAL(20,3), b VARBINARY(10), f DOUBLE, day DATE,"
    " moment DATETIME(3), utc TIMESTAMP NULL, since TIME, doc JSON, word VARCHAR(20), n BIGINT)"
)
ROW = (
    "INSERT INTO t VALUES (18446744073709551615, 1.5, x'00ff', 0.1, '2026-01-31', '2026-01-31 01:02:03.5',"
    " '2026-01-31 01:02:03', '-01:02:03', '{\"a\": 1}', 'süß', -9007199254740993)"
)
TOLD = [
    "18446744073709551615", "1.500", "AP8=", 0.1, "2026-01-31", "2026-01-31 01:02:03.500", "2026-01-31 01:02:03",
    "-01:02:03", '{"a": 1}', "süß", "-9007199254740993",
]  # fmt: skip


def test_a_cache_is_made_read_and_followed_with_curls_means(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            port, token = proxy.app.http_port, str(proxy.app.grpc_token)
            await proxy.write("SET time_zone = '+00:00'", TABLE, ROW)
            for column in ("id", "d", "word", "day", "f"):
                asked = {"sql": f"SELECT * FROM t WHERE {column} = ?", "name": f"by_{column}", "database": database}
                assert (await call(port, "POST", "/v1/caches", asked, token))[0] == 201
            keys = {"id": "18446744073709551615", "d": "1.5", "word": "s%C3%BC%C3%9F", "day": "2026-01-31", "f": "0.1"}
            for column, key in keys.items():
                status, answer = await call(port, "GET", f"/v1/caches/by_{column}?key={key}", token=token)
                assert (status, answer["rows"]) == (200, [TOLD]), column
            status, answer = await call(port, "POST", "/v1/caches/by_id", {"keys": [1, {"decimal": "2"}]}, token)
            assert status == 200 and [one["rows"] for one in answer["answers"]] == [[], []]

            async with events(port, f"/v1/caches/by_id/changes?key={keys['id']}", token) as found:
                kind, snapshot = await anext(found)
                assert (kind, snapshot["rows"]) == ("snapshot", [TOLD])
                await proxy.write("UPDATE t SET word = 'x'")
                kind, change = await anext(found)
                assert kind == "change" and change["removed"] == [TOLD]
                assert change["added"] == [[*TOLD[:9], "x", TOLD[10]]]
            await until(lambda: not proxy.app.router.status().counters["subscriptions"])
            assert (await call(port, "DELETE", "/v1/caches/by_id", token=token))[0] == 204
            assert (await call(port, "GET", "/v1/caches/by_id?key=1", token=token))[0] == 404

    run(scenario)
