"""Reads over HTTP: the rules and answers of gRPC, as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pytest
import uvloop

from proxy.grpc.service import BATCH_KEYS, UpwellService
from proxy.http.server import HttpListener
from proxy.http.spelled import VALUES, key_of_texts
from proxy.port.api import ParameterInfo, SubscriptionEvent
from proxy.settings.config import Listen
from sqltypes.errors import BadParameters, SourceDown
from sqltypes.schema import ResultColumn, SqlType
from tests.support.fake_overviews import FakeCharts
from tests.support.fake_system import SERVER, FakeSystem
from tests.support.http_calls import call, events, get, listener_of, listening
from upwell.v1 import upwell_pb2 as pb

TOKEN = "secret"
KEYS = {"keys": [[1], 2, [7.5]]}
SEVEN = chr(0xFF17)  # a digit, as wide as a Chinese character


def run(scenario: Coroutine[Any, Any, None]) -> None:
    uvloop.run(asyncio.wait_for(scenario, 60))


def system() -> FakeSystem:
    made = FakeSystem()
    made.caches.add("story", {1: [(1, "one")], 2: []})
    return made


def test_a_read_by_its_key_is_a_miss_and_then_a_hit() -> None:
    async def scenario() -> None:
        async with listening(system(), token=TOKEN) as port:
            for served in ("miss", "hit"):
                status, answer = await call(port, "GET", "/v1/caches/story?key=1", token=TOKEN)
                assert (status, answer["served"], answer["rows"]) == (200, served, [[1, "one"]])
                assert answer["columns"] == [{"name": "id", "type": "bigint"}, {"name": "title", "type": "varchar"}]
                assert answer["position"] == SERVER + ":1-5" and "why" not in answer

    run(scenario())


def test_many_keys_have_an_answer_or_an_error_each() -> None:
    async def scenario() -> None:
        made = system()
        async with listening(made, token=TOKEN) as port:
            status, answer = await call(port, "POST", "/v1/caches/story", KEYS, TOKEN)
            assert status == 200 and [one["served"] for one in answer["answers"]] == ["miss", "miss", "passed"]
            assert [one["rows"] for one in answer["answers"]] == [[[1, "one"]], [], []]
            assert answer["answers"][2]["why"] == "compared_elsewhere"
            made.caches["story"].failing = SourceDown("nobody there")
            status, answer = await call(port, "POST", "/v1/caches/story", {"keys": [1, 9]}, TOKEN)
            assert answer["answers"][0]["rows"] == [[1, "one"]]
            assert answer["answers"][1]["error"]["reason"] == "source_down"

    run(scenario())


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("GET", "/v1/caches/nothing?key=1", None, 404, "unknown_cache"),
        ("GET", "/v1/caches/story", None, 400, "bad_parameters"),
        ("GET", "/v1/caches/story?key=x", None, 400, "bad_parameters"),
        ("GET", "/v1/caches/story?key=1&min_gtid=x", None, 400, "bad_parameters"),
        ("GET", "/v1/caches/story?key=1&otherwise=x", None, 400, "bad_parameters"),
        ("GET", "/v1/caches/story?key=1&wait=x", None, 400, "bad_parameters"),
        ("GET", "/v1/caches/story?key=1&wait=1_0", None, 400, "bad_parameters"),
        ("GET", "/v1/caches/story?key=1_000", None, 400, "bad_parameters"),
        ("GET", "/v1/caches/story?key=+1", None, 400, "bad_parameters"),
        ("GET", f"/v1/caches/story?key={quote(SEVEN)}", None, 400, "bad_parameters"),
        ("GET", "/v1/caches/story?key=99999999999999999999", None, 400, "bad_parameters"),
        ("GET", "/v1/caches/story?key=1&max-staleness=0", None, 400, "bad_parameters"),
        ("GET", "/v1/caches/story?key=1&wait=1&wait=2", None, 400, "bad_parameters"),
        ("GET", "/v1/caches/story/changes?key=1&wait=1", None, 400, "bad_parameters"),
        ("POST", "/v1/caches/story?max_staleness=0", KEYS, 400, "bad_parameters"),
        ("POST", "/v1/caches/story", KEYS | {"freshness": {"max-staleness": 0}}, 400, "bad_parameters"),
        ("POST", "/v1/caches/story", KEYS | {"freshness": {"otherwise": []}}, 400, "bad_parameters"),
        ("POST", "/v1/caches/story", KEYS | {"freshness": {"wait": 10**400}}, 400, "bad_parameters"),
        ("POST", "/v1/caches/story", {"keys": [[1, [1] * VALUES]]}, 400, "bad_parameters"),
        ("POST", "/v1/caches/story", b'{"keys":' + b"[" * 400 + b"]" * 400 + b"}", 400, "bad_parameters"),
        ("POST", "/v1/caches/story", b'{"keys": ["\\ud800"]}', 400, "bad_parameters"),
        ("POST", "/v1/caches/story", {"keys": [{"decimal": "1e1000"}]}, 400, "bad_parameters"),
        ("POST", "/v1/caches/story", {"keys": [{"decimal": "-1e-1000"}]}, 400, "bad_parameters"),
        ("GET", f"/v1/caches/story?key=1&min_gtid={SERVER}:9&otherwise=fail", None, 400, "too_stale"),
        ("POST", "/v1/caches/story", {"keys": 1}, 400, "malformed_request"),
        ("POST", "/v1/caches/story", {"keyz": [1]}, 400, "malformed_request"),
        ("POST", "/v1/caches/story", b"{", 400, "malformed_request"),
        ("POST", "/v1/caches/story", b"[" * 100_000, 400, "malformed_request"),
        ("POST", "/v1/caches/story", {"keys": [{"decimal": "x"}]}, 400, "bad_parameters"),
        ("POST", "/v1/caches/story", {"keys": [[1 << 70]]}, 400, "bad_parameters"),
        ("POST", "/v1/caches", {"sql": "SELECT RAND()"}, 400, "unsupported_query"),
        ("POST", "/v1/caches", {"sql": "nonsense"}, 400, "parse_error"),
        ("POST", "/v1/caches", {"sql": "SELECT 2", "name": "story"}, 409, "cache_exists"),
        ("DELETE", "/v1/caches/nothing", None, 404, "unknown_cache"),
        ("GET", "/v1/caches/nothing/changes?key=1", None, 404, "unknown_cache"),
    ],
)
def test_errors_have_grpcs_codes(method: str, path: str, body: object, status: int, reason: str) -> None:
    async def scenario() -> None:
        async with listening(system(), token=TOKEN) as port:
            got, answer = await call(port, method, path, body, TOKEN)
            assert (got, answer["error"]["reason"]) == (status, reason)
            assert answer["error"]["message"] and answer["error"]["errno"]

    run(scenario())


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        ("bigint", "-7", pb.Value(int=-7)),
        ("bigint", "+7", pb.Value(int=7)),
        ("bigint", " 7", pb.Value(string=" 7")),
        ("bigint", "1_000", pb.Value(string="1_000")),
        ("bigint", SEVEN, pb.Value(string=SEVEN)),
        ("bigint", "7\n", pb.Value(string="7\n")),
        ("double", "-.5e3", pb.Value(double=-500.0)),
        ("double", "nan", pb.Value(string="nan")),
        ("decimal", "1.50", pb.Value(decimal="1.50")),
        ("decimal", "1_0", pb.Value(string="1_0")),
        ("varchar", "7", pb.Value(string="7")),
    ],
)
def test_a_text_of_an_address_is_a_number_only_if_it_is_written_as_one(kind: str, given: str, value: pb.Value) -> None:
    parameters = [ParameterInfo("id", SqlType(kind), False)]
    assert key_of_texts([given], parameters) == pb.Key(parameters=[value])


@pytest.mark.parametrize("given", ["1e1000", "1e-1000", "0e1000"])
def test_a_decimal_of_more_digits_than_mysql_has_is_not_written_out(given: str) -> None:
    with pytest.raises(BadParameters, match="65 digits"):
        key_of_texts([given], [ParameterInfo("price", SqlType("decimal"), False)])


def test_too_many_keys_are_told_so_before_any_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(key: object) -> pb.Key:
        raise AssertionError

    async def scenario() -> None:
        async with listening(system()) as port:
            monkeypatch.setattr("proxy.http.calls.key_of_json", read)
            status, answer = await call(port, "POST", "/v1/caches/story", {"keys": [1] * (BATCH_KEYS + 1)})
            assert (status, answer["error"]["reason"]) == (429, "overloaded")

    run(scenario())


def test_thousands_of_keys_have_their_answers() -> None:
    async def scenario() -> None:
        async with listening(system()) as port:
            body = {"keys": [1, *range(3, 2000)], "freshness": {"wait": 1}}
            status, answer = await call(port, "POST", "/v1/caches/story", body)
            assert status == 200 and len(answer["answers"]) == 1998 and answer["answers"][0]["rows"] == [[1, "one"]]

    run(scenario())


CALLS = [
    ("GET", "/v1/caches/story?key=1", None),
    ("POST", "/v1/caches/story", KEYS),
    ("POST", "/v1/caches", {"sql": "SELECT 1"}),
    ("DELETE", "/v1/caches/story", None),
    ("GET", "/v1/caches/story/changes?key=1", None),
]


@pytest.mark.parametrize(("method", "path", "body"), CALLS)
@pytest.mark.parametrize("token", ["", "wrong"])
def test_without_the_token_nothing_is_read_or_changed(method: str, path: str, body: object, token: str) -> None:
    async def scenario() -> None:
        made = system()
        for host in ("127.0.0.1", "0.0.0.0"):
            async with listening(made, host, TOKEN) as port:
                status, answer = await call(port, method, path, body, token)
                assert (status, answer["error"]["reason"]) == (401, "unauthenticated")
        assert list(made.caches) == ["story"] and not made.caches["story"].misses

    run(scenario())


@pytest.mark.parametrize(("method", "path", "body"), CALLS)
def test_where_grpc_needs_no_token_only_loopback_needs_none(method: str, path: str, body: object) -> None:
    async def scenario() -> None:
        made = system()
        made.events = [SubscriptionEvent(snapshot=True)]
        async with listening(made, "0.0.0.0") as port:
            assert (await call(port, method, path, body))[0] == 403
        if "changes" not in path:
            async with listening(made) as port:
                assert (await call(port, method, path, body))[0] < 300

    run(scenario())


def test_caches_are_made_and_dropped() -> None:
    async def scenario() -> None:
        made = system()
        async with listening(made, token=TOKEN) as port:
            asked = {"sql": "SELECT 1", "name": "one", "database": "db"}
            status, answer = await call(port, "POST", "/v1/caches", asked, TOKEN)
            assert (status, answer["name"], answer["mode"]) == (201, "one", "maintain") and "one" in made.caches
            assert await call(port, "DELETE", "/v1/caches/one", token=TOKEN) == (204, None)
            assert "one" not in made.caches

    run(scenario())


def test_the_access_log_is_told_to_those_who_may_see_texts() -> None:
    async def scenario() -> None:
        made = FakeSystem()
        async with listening(made, token=TOKEN) as here, listening(made, "0.0.0.0", TOKEN) as beyond:
            status, told = await call(here, "GET", "/v1/access")
            assert (status, "--access-log" in told["error"]["message"]) == (404, True)
            charts = made.overviews.charts = FakeCharts({"rows": 3})
            assert await call(here, "GET", "/v1/access?hours=168") == (200, {"rows": 3})
            assert charts.asked == [168.0]
            assert (await call(here, "GET", "/v1/access?hours=2"))[0] == 400
            assert (await call(beyond, "GET", "/v1/access"))[0] == 401
            assert (await call(beyond, "GET", "/v1/access", token=TOKEN))[0] == 200
            charts.fault = "no disk"
            status, told = await call(here, "GET", "/v1/access")
            assert (status, told["error"]["message"]) == (503, "no disk")

    run(scenario())


@pytest.mark.parametrize("name", ["a/b", "a b?c", "süß", "plan"])
def test_a_name_may_have_any_characters(name: str) -> None:
    async def scenario() -> None:
        made = system()
        made.caches.add(name, {1: [(1, "one")]})
        made.events = [SubscriptionEvent(snapshot=True)]
        path = f"/v1/caches/{quote(name, safe='')}"
        async with listening(made) as port:
            assert (await call(port, "GET", f"{path}?key=1"))[1]["rows"] == [[1, "one"]]
            assert (await call(port, "GET", f"{path}/plan"))[1]["text"] == f"plan of {name}"
            async with events(port, f"{path}/changes?key=1") as found:
                assert (await anext(found))[0] == "snapshot"
            assert (await call(port, "DELETE", path))[0] == 204

    run(scenario())


def test_without_own_sql_caches_are_read_only() -> None:
    async def scenario() -> None:
        async with listening(system(), token=TOKEN, own_sql=False) as port:
            for method, path, body in CALLS[2:4]:
                status, answer = await call(port, method, path, body, TOKEN)
                assert (status, answer["error"]["reason"]) == (403, "not_permitted")
            assert (await call(port, "GET", "/v1/caches/story?key=1", token=TOKEN))[0] == 200

    run(scenario())


def test_a_form_of_another_site_makes_no_cache() -> None:
    """A browser sends a form to any address without asking, but no JSON."""

    async def scenario() -> None:
        made = system()
        async with listening(made) as port:
            for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
                assert (await call(port, "POST", "/v1/caches", {"sql": "SELECT 1"}, kind=kind))[0] == 400
        assert list(made.caches) == ["story"]

    run(scenario())


def test_an_answer_that_is_too_large_is_told_so() -> None:
    async def scenario() -> None:
        made = system()
        made.caches["story"].source[(3,)] = [(3, "x" * 5000)]
        listener = HttpListener(made, Listen("127.0.0.1", 0), UpwellService(made, 1000))
        port = await listener.start()
        status, answer = await call(port, "GET", "/v1/caches/story?key=3")
        assert (status, answer["error"]["reason"]) == (429, "message_too_large")
        await listener.stop(0)

    run(scenario())


def test_a_request_that_is_too_large_is_told_so_whatever_it_asks_for() -> None:
    async def scenario() -> None:
        made = system()
        made.events = [SubscriptionEvent(snapshot=True)]
        listener = HttpListener(made, Listen("127.0.0.1", 0), UpwellService(made, 1000))
        port = await listener.start()
        long = "x" * 2000
        for path in (f"/v1/caches/story?key={long}", f"/v1/caches/story/changes?key={long}"):
            status, answer = await call(port, "GET", path)
            assert (status, answer["error"]["reason"]) == (429, "message_too_large"), path
        status, answer = await call(port, "POST", "/v1/caches/story", {"keys": [long]})
        assert (status, answer["error"]["reason"]) == (429, "message_too_large")
        await listener.stop(0)

    run(scenario())


def test_an_event_that_is_too_large_ends_its_subscription() -> None:
    async def scenario() -> None:
        made = system()
        made.events = [SubscriptionEvent(snapshot=True), SubscriptionEvent(added=[(1, "x" * 5000)])]
        listener = HttpListener(made, Listen("127.0.0.1", 0), UpwellService(made, 1000))
        port = await listener.start()
        async with events(port, "/v1/caches/story/changes?key=1") as found:
            assert [(kind, data.get("reason")) async for kind, data in found] == [
                ("snapshot", None), ("end", "message_too_large")
            ]  # fmt: skip
        await listener.stop(0)

    run(scenario())


def test_values_are_spelled_so_that_nothing_is_lost() -> None:
    names = ("bigint", "decimal", "blob", "date", "datetime", "time", "double", "json")
    columns = tuple(ResultColumn(name, SqlType(name), True) for name in names)
    row = (
        (1 << 53) + 1, Decimal("-12.50"), b"\xff\x00", "2026-01-31", "2026-01-31 01:02:03", -3_600_000_001, 0.1, "[1]",
    )  # fmt: skip
    told = [str((1 << 53) + 1), "-12.50", "/wA=", "2026-01-31", "2026-01-31 01:02:03", "-01:00:00.000001", 0.1, "[1]"]

    async def scenario() -> None:
        made = system()
        made.caches.add("all", {1: [row, (None,) * len(row)]}, columns)
        made.events = [SubscriptionEvent(added=[row, (None,) * len(row)], snapshot=True, position="p")]
        async with listening(made) as port:
            _, answer = await call(port, "GET", "/v1/caches/all?key=1")
            assert answer["rows"] == [told, [None] * len(row)]
            async with events(port, "/v1/caches/all/changes?key=1") as found:
                assert (await anext(found))[1]["rows"] == [told, [None] * len(row)]

    run(scenario())


def test_a_subscription_has_a_snapshot_then_changes_then_its_end() -> None:
    async def scenario() -> None:
        made = system()
        made.events = [
            SubscriptionEvent(added=[(1, "one")], snapshot=True, position="p1"),
            SubscriptionEvent(removed=[(1, "one")], added=[(1, "two")], position="p2"),
            SubscriptionEvent(end="the source is away"),
        ]
        async with listening(made) as port, events(port, "/v1/caches/story/changes?key=1") as found:
            got = [event async for event in found]
        assert [kind for kind, _ in got] == ["snapshot", "change", "end"]
        assert got[0][1]["rows"] == [[1, "one"]] and got[0][1]["position"] == "p1"
        assert got[1][1] == {"position": "p2", "removed": [[1, "one"]], "added": [[1, "two"]]}
        assert got[2][1] == {"reason": "subscription_ended", "message": "the source is away"}

    run(scenario())


def test_a_subscriber_that_goes_away_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        made = system()
        made.events, made.endless = [SubscriptionEvent(added=[(1, "one")], snapshot=True)], True
        async with listening(made) as port:
            async with events(port, "/v1/caches/story/changes?key=1") as found:
                await anext(found)
            await made.subscription_closed.wait()

    run(scenario())


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"])
def test_who_comes_by_another_proxy_is_not_on_loopback(header: str) -> None:
    async def scenario() -> None:
        made = system()
        for token, status in ((None, 403), (TOKEN, 401)):
            async with listening(made, token=token) as port:
                for method, path, body in CALLS:
                    assert (await call(port, method, path, body, more={header: "1.2.3.4"}))[0] == status
                assert "sql" not in (await call(port, "GET", "/v1/overview", more={header: ""}))[1]["caches"]["story"]
        assert list(made.caches) == ["story"] and not made.caches["story"].misses
        async with listening(made, token=TOKEN) as port:
            assert (await call(port, *CALLS[0], TOKEN, more={header: "1.2.3.4"}))[0] == 200

    run(scenario())


async def call_status(port: int, path: str) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(get(path))
    status = int((await reader.readline()).split()[1])
    writer.transport.abort()
    return status


def test_more_watchers_than_accepted_are_told_so_until_one_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.http.streams.SILENCE", 0.01)  # then whoever has gone is noticed

    async def scenario() -> None:
        made = system()
        async with listening(made) as port, AsyncExitStack() as watching:
            for _ in range(3):
                await watching.enter_async_context(events(port, "/v1/reads"))
            async with events(port, "/v1/reads"):
                status, answer = await call(port, "GET", "/v1/reads")
                assert status == 503 and "4 watch reads" in answer["error"]["message"]
                async with events(port, "/v1/live") as found:
                    await anext(found)
            while (await call_status(port, "/v1/reads")) == 503:
                pass

    run(scenario())


@pytest.mark.parametrize("path", ["/v1/live", "/v1/caches/story/changes?key=1"])
def test_more_streams_than_accepted_are_told_so(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr("proxy.http.streams.MOST", 1)

    async def scenario() -> None:
        async with listening(system()) as port, events(port, "/v1/live") as found:
            await anext(found)
            assert (await call(port, "GET", path))[0] == 503

    run(scenario())


@pytest.mark.parametrize("path", ["/v1/live", "/v1/reads", "/v1/caches/story/changes?key=1"])
def test_the_streams_end_with_the_listener_and_tell_meanwhile_that_they_are_there(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("proxy.http.streams.SILENCE", 0.01)
    monkeypatch.setattr("proxy.http.live.EVERY", 60)

    async def scenario() -> None:
        made = system()
        made.events, made.waiting = [SubscriptionEvent(snapshot=True)], True
        listener = listener_of(made)
        port = await listener.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get(path))
        while (await reader.readline()).rstrip() != b":":
            pass
        await listener.stop(30)
        assert listener.connections is not None and not listener.connections.open
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

    run(scenario())
