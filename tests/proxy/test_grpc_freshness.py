"""What a request asks of freshness, from its bytes to the system: held answers are served only to whom they are fresh
enough."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import grpc
import pytest

from gtid_tracker.gtid import GtidSet
from proxy.grpc.requests import freshness_asked
from proxy.port.api import Freshness, Otherwise
from sqltypes.errors import BadParameters
from tests.support.fake_system import SERVER
from tests.support.grpc_listener import Served, serving
from upwell.v1 import upwell_pb2 as pb

KEY = pb.Key(parameters=[pb.Value(int=1)])
REACHED, AHEAD = pb.Freshness(min_gtid=SERVER + ":1-5"), pb.Freshness(min_gtid=SERVER + ":6")


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


def call(channel: grpc.aio.Channel, method: str, answer: Any) -> Any:
    """A method that takes its own message."""
    path = "/upwell.v1.Upwell/" + method
    return channel.unary_unary(path, request_serializer=pb_bytes, response_deserializer=answer.FromString)


def pb_bytes(message: Any) -> Any:
    return message.SerializeToString()


async def hold(served: Served) -> None:
    """Key 1 is held from here on, at position 1-5."""
    assert (await served.client.cache("story").get(1)).served == "miss"


def reason(failed: grpc.aio.AioRpcError) -> tuple[grpc.StatusCode, str]:
    trailing: Any = failed.trailing_metadata()
    return failed.code(), dict(trailing)["upwell-reason"]


def test_held_answer_is_served_to_whom_it_is_fresh_enough() -> None:
    async def scenario() -> None:
        async with serving() as served, grpc.aio.insecure_channel(served.target) as channel:
            await hold(served)
            execute = call(channel, "Execute", pb.Answer)
            answer = await execute(pb.ExecuteRequest(cache="story", key=KEY, freshness=REACHED))
            assert (answer.served, answer.position) == (pb.HIT, SERVER + ":1-5")
            assert served.system.asked == Freshness(GtidSet.parse(SERVER + ":1-5"))
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await execute(pb.ExecuteRequest(cache="story", key=KEY, freshness=AHEAD))
            assert reason(failed.value) == (grpc.StatusCode.FAILED_PRECONDITION, "too_stale")
            served.system.position_text = SERVER + ":1-6"
            assert (await execute(pb.ExecuteRequest(cache="story", key=KEY, freshness=AHEAD))).served == pb.HIT

    run(scenario())


def test_keys_of_a_batch_are_served_to_whom_they_are_fresh_enough() -> None:
    async def scenario() -> None:
        async with serving() as served, grpc.aio.insecure_channel(served.target) as channel:
            await hold(served)
            batch = call(channel, "ExecuteBatch", pb.BatchAnswer)
            missed = pb.Key(parameters=[pb.Value(int=2)])
            answer = await batch(pb.ExecuteBatchRequest(cache="story", keys=[KEY, missed], freshness=REACHED))
            assert [item.served for item in answer.answers] == [pb.HIT, pb.MISS]
            assert [item.position for item in answer.answers] == ["", SERVER + ":1-5"]
            answer = await batch(pb.ExecuteBatchRequest(cache="story", keys=[KEY, KEY], freshness=AHEAD))
            assert [item.failure.reason for item in answer.answers] == ["too_stale"] * 2

    run(scenario())


def test_requests_of_a_stream_ask_each_for_their_own() -> None:
    async def scenario() -> None:
        async with serving() as served, grpc.aio.insecure_channel(served.target) as channel:
            await hold(served)
            stream: Any = channel.stream_stream(
                "/upwell.v1.Upwell/ExecuteStream", pb.StreamRequest.SerializeToString, pb.StreamResponse.FromString
            )
            asked = [None, REACHED, AHEAD, pb.Freshness(min_gtid="yesterday")]
            requests = [pb.StreamRequest(id=n, cache="story", key=KEY, freshness=f) for n, f in enumerate(asked)]
            outcomes = {message.id: message async for message in stream(iter(requests))}
            assert [outcomes[n].answer.served for n in (0, 1)] == [pb.HIT, pb.HIT]
            assert [outcomes[n].failure.reason for n in (2, 3)] == ["too_stale", "bad_parameters"]

    run(scenario())


def test_query_hands_on_what_is_asked() -> None:
    async def scenario() -> None:
        async with serving() as served, grpc.aio.insecure_channel(served.target) as channel:
            query = call(channel, "Query", pb.Answer)
            await query(pb.QueryRequest(sql="SELECT 1"))
            assert served.system.asked is None
            asked = pb.Freshness(max_staleness=0, wait=0, otherwise=pb.FAIL)
            await query(pb.QueryRequest(sql="SELECT 1", freshness=asked))
            assert served.system.asked == Freshness(GtidSet.empty(), 0.0, 0.0, Otherwise.FAIL)

    run(scenario())


UUID = "3E11FA47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("", ""),
        (f"{UUID}:5", f"{SERVER}:5"),
        (f" {UUID}:1-3:7,\n{UUID}:4", f"{SERVER}:1-4:7"),
        (f"{UUID}:tag:1-5", f"{SERVER}:tag:1-5"),
        (f"{UUID}:1-2:a_tag:3,", f"{SERVER}:1-2:a_tag:3"),
    ],
)
def test_gtid_sets_as_mysql_writes_them(text: str, means: str) -> None:
    asked = freshness_asked(pb.Freshness(min_gtid=text)).min_gtid
    assert str(asked) == means


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (pb.Freshness(min_gtid="5"), "min_gtid '5' is no GTID set"),
        (pb.Freshness(min_gtid=f"{UUID}:0"), "an interval out of range"),
        (pb.Freshness(min_gtid=f"{UUID}:x-y"), "is no GTID set"),
        (pb.Freshness(min_gtid="9" * 5000), "999...' is no GTID set"),
        (pb.Freshness(not_before="9" * 40_000), "not_before has 40000 characters: up to 32768 are accepted"),
        (pb.Freshness(max_staleness=-1), "max_staleness -1.0 is not accepted"),
        (pb.Freshness(max_staleness=float("nan")), "max_staleness nan is not accepted"),
        (pb.Freshness(wait=61), "wait 61.0 is not accepted: 0 to 60 seconds are"),
        (pb.Freshness(wait=float("nan")), "wait nan is not accepted"),
        (pb.Freshness(otherwise=7), "otherwise 7 is not known"),  # type: ignore[arg-type]  # a newer client's
    ],
)
def test_what_is_not_understood_is_shown_with_what_is_accepted(message: pb.Freshness, said: str) -> None:
    with pytest.raises(BadParameters) as refused:
        freshness_asked(message)
    assert said in refused.value.message
    assert len(refused.value.message) < 1000
