"""The gRPC service through a real channel, over the fake system."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from proxy.grpc.server import GrpcListener, GrpcOptions
from proxy.port.api import SubscriptionEvent
from sqltypes.errors import ConfigError
from sqltypes.schema import ResultColumn, SqlType
from tests.support.fake_system import SERVER, FakeCache, FakeSystem
from tests.support.grpc_listener import serving
from upwell import errors
from upwell.aio import Client
from upwell.v1 import upwell_pb2 as pb


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


def test_a_miss_then_a_hit_of_the_same_key() -> None:
    async def scenario() -> None:
        async with serving() as served:
            story = served.client.cache("story")
            first, second = await story.get(3), await story.get(3)
            assert (first.served, second.served) == ("miss", "hit")
            assert first == second == [(3, "title 3")]
            assert second.one is not None and second.one.title == "title 3"
            assert (second.cache, second.position, second.columns) == ("story", SERVER + ":1-5", ("id", "title"))
            assert served.system.caches["story"].misses == 1

    run(scenario())


def test_a_key_without_rows_is_an_answer() -> None:
    async def scenario() -> None:
        async with serving() as served:
            story = served.client.cache("story")
            assert await story.get(77) == [] == await story.get(77)

    run(scenario())


def test_the_position_of_a_hit_follows_the_system() -> None:
    async def scenario() -> None:
        async with serving() as served:
            story = served.client.cache("story")
            await story.get(1)
            assert (await story.get(1)).position == SERVER + ":1-5"
            served.system.position_text = SERVER + ":1-6"
            assert (await story.get(1)).position == SERVER + ":1-6"

    run(scenario())


def test_columns_are_sent_once_and_again_when_they_change() -> None:
    async def scenario() -> None:
        async with serving() as served, grpc.aio.insecure_channel(served.target) as channel:
            execute: Any = channel.unary_unary(
                "/upwell.v1.Upwell/Execute", pb.ExecuteRequest.SerializeToString, pb.Answer.FromString
            )
            request = pb.ExecuteRequest(cache="story", key=pb.Key(parameters=[pb.Value(int=1)]))
            for served_as in (pb.MISS, pb.HIT):
                request.columns_id = 0
                full = await execute(request)
                assert (full.served, [column.name for column in full.columns]) == (served_as, ["id", "title"])
                assert full.columns[1].type.collation == "utf8mb4_0900_ai_ci"
                request.columns_id = full.columns_id
                assert not (await execute(request)).columns
            cache = served.system.caches["story"]
            cache.columns = (ResultColumn("id", SqlType("int"), False), cache.columns[1])
            changed = await execute(request)
            assert (changed.columns[0].type.name, changed.columns_id != full.columns_id) == ("int", True)

    run(scenario())


def test_a_batch_answers_in_the_order_of_its_keys_whatever_is_held() -> None:
    async def scenario() -> None:
        async with serving() as served:
            story = served.client.cache("story")
            await story.get(2)
            answers = await story.get_many([3, 2, 55, 3])
            assert [[row.id for row in answer] for answer in answers] == [[3], [2], [], [3]]
            assert [answer.served for answer in answers] == ["miss", "hit", "miss", "miss"]
            assert [answer.served for answer in await story.get_many([3, 2, 55])] == ["hit"] * 3
            assert await story.get_many([]) == []

    run(scenario())


def test_a_parameter_that_mysql_compares_in_another_type_is_mysqls_to_answer() -> None:
    async def scenario() -> None:
        async with serving() as served:
            story = served.client.cache("story")
            single = await story.get(3.0)
            assert (single, single.served, single.why) == ([(3, "title 3")], "passed", "compared_elsewhere")
            assert [answer.served for answer in await story.get_many([3, 3.0])] == ["miss", "passed"]
            streamed = [outcome async for _, outcome in story.stream([3.0])]
            assert streamed == [[(3, "title 3")]]

    run(scenario())


def test_a_batch_waits_for_so_many_lists_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand lists of 1,000 keys were 10,000 upqueries at once: more than the queue takes."""
    monkeypatch.setattr("proxy.grpc.batch.LISTS_AT_ONCE", 3)
    under_way = most = 0
    read = FakeCache.read

    async def counted(self: FakeCache, parameters: Any, demand: Any = None) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(3):
            await asyncio.sleep(0)
        under_way -= 1
        return await read(self, (2,), demand)

    async def none_held(self: FakeCache, keys: Any) -> Any:
        return [None] * len(keys)

    monkeypatch.setattr(FakeCache, "read", counted)
    monkeypatch.setattr(FakeCache, "hit_batch", none_held)

    async def scenario() -> None:
        nonlocal most
        async with serving() as served:
            story = served.client.cache("story")
            for keys, at_once in (([[[1, 2]]] * 20, range(1, 4)), ([[1]] * 20, range(4, 21))):
                most = 0
                answers = await story.get_many(keys)
                assert [list(answer) for answer in answers] == [[(2, "title 2")]] * 20
                assert most in at_once

    run(scenario())


def test_a_failing_miss_fails_no_other_key_of_its_batch() -> None:
    async def scenario() -> None:
        from sqltypes.errors import SourceDown

        async with serving() as served:
            story = served.client.cache("story")
            await story.get(2)
            served.system.caches["story"].failing = SourceDown("mysql cannot be reached")
            held, lost = await story.try_many([2, 3])
            assert held == [(2, "title 2")]
            assert isinstance(lost, errors.SourceDown) and str(lost) == "mysql cannot be reached"
            with pytest.raises(errors.SourceDown):
                await story.get_many([2, 3])

    run(scenario())


def test_a_cache_dropped_and_made_again_is_found_and_one_dropped_for_good_is_unknown() -> None:
    async def scenario() -> None:
        async with serving() as served:
            story = served.client.cache("story")
            await story.get(1)
            await served.system.caches.drop("story")
            served.system.caches.add("story", {1: [(1, "renamed")]})
            assert await story.get_many([1]) == [[(1, "renamed")]]
            await served.client.drop_cache("story")
            with pytest.raises(errors.UnknownCache, match="no cache 'story'") as failed:
                await story.get(1)
            assert failed.value.reason == "unknown_cache"

    run(scenario())


def test_a_stream_answers_hits_while_a_miss_waits() -> None:
    async def scenario() -> None:
        async with serving() as served:
            story, cache = served.client.cache("story"), served.system.caches["story"]
            await story.get(1)
            cache.gate.clear()
            outcomes = []
            async for id, outcome in story.stream([5, 1, (1, 2), 1]):
                outcomes.append((id, outcome))
                if len(outcomes) == 3:
                    cache.gate.set()
            assert [id for id, _ in outcomes] == [1, 2, 3, 0]
            assert outcomes[0][1] == outcomes[2][1] == [(1, "title 1")]
            assert isinstance(outcomes[1][1], errors.BadParameters)
            assert outcomes[3][1] == [(5, "title 5")]

    run(scenario())


def test_a_stream_that_its_caller_leaves_abandons_its_misses() -> None:
    async def scenario() -> None:
        async with serving() as served:
            cache = served.system.caches["story"]
            await served.client.cache("story").get(1)
            cache.gate.clear()
            stream = served.client.cache("story").stream([5, 1])
            await anext(stream)
            await stream.aclose()
            await cache.abandoned.wait()

    run(scenario())


def test_a_subscriber_sees_the_snapshot_the_changes_and_the_reason_of_the_end() -> None:
    async def scenario() -> None:
        async with serving() as served:
            served.system.events = [
                SubscriptionEvent(added=[(1, "a")], snapshot=True, position="p:1"),
                SubscriptionEvent(removed=[(1, "a")], added=[(1, "b"), (2, None)], position="p:2"),
                SubscriptionEvent(end="the cache was dropped"),
            ]
            seen = []
            with pytest.raises(errors.SubscriptionEnded, match="the cache was dropped"):
                async for event in served.client.cache("story").subscribe(1):
                    seen.append((event.snapshot, event.removed, event.added, event.position))
            assert seen == [(True, [], [(1, "a")], "p:1"), (False, [(1, "a")], [(1, "b"), (2, None)], "p:2")]

    run(scenario())


def test_a_subscription_is_closed_when_its_subscriber_goes() -> None:
    async def scenario() -> None:
        async with serving() as served:
            served.system.events = [SubscriptionEvent(snapshot=True), SubscriptionEvent(added=[(1, "x")])]
            served.system.endless = True
            events = served.client.cache("story").subscribe(1)
            await anext(events)
            await events.aclose()
            await served.system.subscription_closed.wait()

    run(scenario())


def test_a_subscriber_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with serving() as served:
            big = SubscriptionEvent(added=[(1, "x" * 1_000_000)])
            served.system.events = [SubscriptionEvent(snapshot=True), big]
            served.system.endless = True
            monkeypatch.setattr("proxy.grpc.service.SLOW_SUBSCRIBER_SECONDS", 0.2)
            events = served.client.cache("story").subscribe(1)
            await anext(events)
            await served.system.subscription_closed.wait()
            with pytest.raises(errors.Overloaded, match="slow subscriber"):
                async for _ in events:
                    pass

    run(scenario())


def test_a_query_that_is_not_cached_is_passed_and_says_why() -> None:
    async def scenario() -> None:
        async with serving() as served:
            answer = await served.client.query("SELECT ?", [1, None], database="lobsters")
            assert (answer, answer.served, answer.why) == ([(2,)], "passed", "no cache of this query")

    run(scenario())


def test_caches_are_made_listed_explained_and_dropped() -> None:
    async def scenario() -> None:
        async with serving() as served:
            made = await served.client.create_cache("SELECT 1 FROM t WHERE id = ?", name="one", database="d")
            assert (made.name, made.parameters[0].type.name, made.state) == ("one", "bigint", "ready")
            assert [cache.name for cache in await served.client.caches()] == ["story", "one"]
            plan = await served.client.explain("one")
            assert (plan.text, plan.graphviz) == ("plan of one", "digraph {}")
            await served.client.drop_cache("one")
            assert [cache.name for cache in await served.client.caches()] == ["story"]
            status = await served.client.status()
            assert (status.memory_limit, status.lag_seconds, status.counters["transactions"]) == (2000, 0.25, 12)

    run(scenario())


# -- around the calls ------------------------------------------------------------------------------------------


def test_a_deadline_passes_and_the_wait_is_abandoned() -> None:
    async def scenario() -> None:
        async with serving() as served:
            cache = served.system.caches["story"]
            cache.gate.clear()
            with pytest.raises(errors.DeadlinePassed):
                await served.client.cache("story").get(1, timeout=0.2)
            await cache.abandoned.wait()
            cache.gate.set()
            assert await served.client.cache("story").get(1) == [(1, "title 1")]

    run(scenario())


def test_a_cancelled_call_abandons_its_wait() -> None:
    async def scenario() -> None:
        async with serving() as served:
            cache = served.system.caches["story"]
            cache.gate.clear()
            call = asyncio.create_task(served.client.cache("story").get_many([1, 2]))
            await cache.arrived.wait()
            call.cancel()
            await cache.abandoned.wait()

    run(scenario())


def test_health_says_serving_only_when_the_system_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("proxy.grpc.server.HEALTH_SECONDS", 0.01)
        async with serving() as served, grpc.aio.insecure_channel(served.target) as channel:
            health: Any = health_pb2_grpc.HealthStub(channel)
            states = health_pb2.HealthCheckResponse
            for service in ("", "upwell.v1.Upwell"):
                request = health_pb2.HealthCheckRequest(service=service)
                watch = health.Watch(request)
                assert (await watch.read()).status == states.SERVING
                served.system.why_not_ready = "mysql cannot be reached"
                assert (await watch.read()).status == states.NOT_SERVING
                assert (await health.Check(request)).status == states.NOT_SERVING
                served.system.why_not_ready = ""
                assert (await watch.read()).status == states.SERVING
                watch.cancel()

    run(scenario())


def test_reflection_names_the_public_services_only() -> None:
    async def scenario() -> None:
        async with serving() as served, grpc.aio.insecure_channel(served.target) as channel:
            stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
            call = stub.ServerReflectionInfo()
            await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
            answer = await call.read()
            names = {service.name for service in answer.list_services_response.service}
            assert names == {
                "upwell.v1.Upwell",
                "grpc.health.v1.Health",
                "grpc.reflection.v1alpha.ServerReflection",
            }
            await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol="upwell.v1.Upwell"))
            assert (await call.read()).file_descriptor_response.file_descriptor_proto
            call.cancel()

    run(scenario())


def test_a_call_needs_the_token_where_one_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # where no other proxy has left a token

    async def scenario() -> None:
        async with serving(GrpcOptions(token="secret"), token="secret") as served:
            assert await served.client.cache("story").get(1) == [(1, "title 1")]
            for wrong in (None, "guess", "secret "):
                async with Client(served.target, token=wrong) as stranger:
                    with pytest.raises(errors.UpwellError):
                        await stranger.status()
                    with pytest.raises(errors.UpwellError):
                        await anext(stranger.cache("story").subscribe(1))
                    with pytest.raises(errors.UpwellError):
                        await anext(stranger.cache("story").stream([1]))
            async with Client(served.target) as stranger:
                with pytest.raises(errors.Unauthenticated, match="no token: it is in the file of") as failed:
                    await stranger.cache("story").get(1)
                assert failed.value.reason == "unauthenticated"
            with pytest.raises(errors.Unauthenticated, match="printable ASCII"):
                Client(served.target, token="sécret")

    run(scenario())


def test_an_address_in_use_is_a_configuration_error() -> None:
    async def scenario() -> None:
        async with serving() as served:
            second = GrpcListener(FakeSystem(), GrpcOptions(port=served.port))
            with pytest.raises(ConfigError, match="cannot listen for gRPC"):
                await second.start()

    run(scenario())


def test_calls_run_to_their_end_while_the_listener_stops() -> None:
    async def scenario() -> None:
        async with serving() as served:
            cache = served.system.caches["story"]
            cache.gate.clear()
            call = asyncio.create_task(served.client.cache("story").get(1))
            await cache.arrived.wait()
            stopping = asyncio.create_task(served.listener.stop(20))
            cache.gate.set()
            assert await call == [(1, "title 1")]
            await stopping

    run(scenario())


def test_a_cache_is_emptied_and_stays() -> None:
    async def scenario() -> None:
        async with serving() as served:
            story = served.client.cache("story")
            await story.get(3)
            assert await served.client.flush_cache("story") == 1
            assert (await story.get(3)).served == "miss"
            with pytest.raises(errors.UnknownCache):
                await served.client.flush_cache("stroy")

    run(scenario())


def test_settings_are_listed_and_changed() -> None:
    async def scenario() -> None:
        async with serving() as served:
            by_name = {setting.name: setting for setting in await served.client.settings()}
            assert (by_name["upstream"].value, by_name["max-staleness"].live) == ("mysql://app@db:3306/shop", "yes")
            setting = await served.client.set("max-staleness", "5s")
            assert (setting.value, setting.origin) == ("5s", "SET")
            assert (await served.client.set("max-staleness", None)).value == "30s"
            for name, value, why in (
                ("upstream", "mysql://b@db", "cannot change while Upwell serves"),
                ("max-staleness", "soon", "SET UPWELL max-staleness is 'soon': a time such as"),
                ("max-stalenes", "1s", "is 'max-staleness' meant"),
            ):
                with pytest.raises(errors.BadSetting, match=why):
                    await served.client.set(name, value)

    run(scenario())


def test_a_query_that_mysql_has_answered_is_cached_by_its_id() -> None:
    async def scenario() -> None:
        async with serving() as served:
            served.system.proxied.entry("SELECT a FROM t WHERE id = 7", "shop").note(10.0, "")
            (line,) = await served.system.proxied.listed(lambda entry: True)
            made = await served.client.create_cache(name="a", from_query=line.id)
            assert (made.sql, made.database) == ("SELECT a FROM t WHERE id = ?", "shop")
            with pytest.raises(errors.UnknownName, match="no query has the id 'q_none'"):
                await served.client.create_cache(from_query="q_none")

    run(scenario())
