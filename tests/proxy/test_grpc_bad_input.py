"""Bad input, item by item: a status, a reason, a sentence with what was seen and is accepted; and the proxy goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import grpc
import pytest
import structlog

from proxy.grpc.errors import as_upwell_error, sentence, status_code
from proxy.grpc.server import GrpcOptions
from sqltypes import errors as ours
from tests.support.grpc_listener import Served, serving
from upwell.v1 import upwell_pb2 as pb

Status = grpc.StatusCode


def key(*values: pb.Value) -> pb.Key:
    return pb.Key(parameters=values)


async def refusal(served: Served, method: str, request: bytes, timeout: float = 20) -> tuple[Status, str, str]:
    """(code, reason, sentence) of a call that fails; and after it the proxy still answers."""
    async with grpc.aio.insecure_channel(served.target) as channel:
        call: Any = channel.unary_unary("/upwell.v1.Upwell/" + method, bytes, bytes)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await call(request, timeout=timeout)
    assert await served.client.cache("story").get(9) == [(9, "title 9")]
    return failed.value.code(), trailing(failed.value).get("upwell-reason", ""), failed.value.details() or ""


def trailing(failed: Any) -> dict[str, str]:
    return dict(failed.trailing_metadata())


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


EXECUTE = pb.ExecuteRequest(cache="story", key=key(pb.Value(int=1)))
BAD = {
    "unknown cache": (
        "Execute",
        pb.ExecuteRequest(cache="stroy"),
        (Status.NOT_FOUND, "unknown_cache", "no cache 'stroy': there are ['story']"),
    ),
    "too many parameters": (
        "Execute",
        pb.ExecuteRequest(cache="story", key=key(pb.Value(int=1), pb.Value(int=2))),
        (Status.INVALID_ARGUMENT, "bad_parameters", "2 parameters: 1 is accepted"),
    ),
    "parameter of another type": (
        "Execute",
        pb.ExecuteRequest(cache="story", key=key(pb.Value(string="one"))),
        (Status.INVALID_ARGUMENT, "bad_parameters", "parameter 1 is 'one': an integer is accepted"),
    ),
    "parameter without a value": (
        "Execute",
        pb.ExecuteRequest(cache="story", key=key(pb.Value())),
        (Status.INVALID_ARGUMENT, "bad_parameters", "parameter 1 has no value: NULL is given as `null`"),
    ),
    "one bad key in a batch": (
        "ExecuteBatch",
        pb.ExecuteBatchRequest(cache="story", keys=[key(pb.Value(int=1)), key()]),
        (Status.INVALID_ARGUMENT, "bad_parameters", "key 2 of 2: 0 parameters: 1 is accepted"),
    ),
    "batch of an unknown cache": (
        "ExecuteBatch",
        pb.ExecuteBatchRequest(cache="stroy"),
        (Status.NOT_FOUND, "unknown_cache", "no cache 'stroy': there are ['story']"),
    ),
    "batch of too many keys": (
        "ExecuteBatch",
        pb.ExecuteBatchRequest(cache="story", keys=[key()] * 20_001),
        (Status.RESOURCE_EXHAUSTED, "overloaded", "20001 keys in one batch: up to 20000 are accepted"),
    ),
    "sql that does not parse": (
        "CreateCache",
        pb.CreateCacheRequest(sql="SELEC 1"),
        (Status.INVALID_ARGUMENT, "parse_error", "'SELEC 1' does not parse: a SELECT is accepted"),
    ),
    "refused query": (
        "CreateCache",
        pb.CreateCacheRequest(sql="SELECT RAND()"),
        (Status.INVALID_ARGUMENT, "unsupported_query", "a function whose value differs between calls: RAND()"),
    ),
    "name that is taken": (
        "CreateCache",
        pb.CreateCacheRequest(name="story", sql="SELECT 2"),
        (Status.ALREADY_EXISTS, "cache_exists", "the name 'story' is taken by another query"),
    ),
    "drop of an unknown cache": (
        "DropCache",
        pb.DropCacheRequest(name="stroy"),
        (Status.NOT_FOUND, "unknown_cache", "no cache 'stroy': there are ['story']"),
    ),
    "write through Query": (
        "Query",
        pb.QueryRequest(sql="DELETE FROM stories"),
        (
            Status.INVALID_ARGUMENT,
            "not_a_read",
            "'DELETE FROM stories' is not a read: a single SELECT is accepted",
        ),
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_refused_with_a_reason_and_a_sentence(case: str) -> None:
    async def scenario() -> None:
        method, request, expected = BAD[case]
        async with serving() as served:
            assert await refusal(served, method, request.SerializeToString()) == expected

    run(scenario())


@pytest.mark.parametrize("method", ["Execute", "ExecuteBatch", "Query", "CreateCache", "Status"])
def test_bytes_that_are_no_message(method: str) -> None:
    async def scenario() -> None:
        async with serving() as served:
            code, reason, _ = await refusal(served, method, b"\x0a\xff\xff")
            assert (code, reason) == (Status.INVALID_ARGUMENT, "malformed_request")

    run(scenario())


def test_a_method_that_does_not_exist() -> None:
    async def scenario() -> None:
        async with serving() as served:
            assert (await refusal(served, "Excute", b""))[0] is Status.UNIMPLEMENTED

    run(scenario())


def test_a_source_that_is_down() -> None:
    async def scenario() -> None:
        async with serving() as served:
            served.system.query_failing = ours.SourceDown("mysql at 127.0.0.1:3306 cannot be reached")
            request = pb.QueryRequest(sql="SELECT 1").SerializeToString()
            expected = (Status.UNAVAILABLE, "source_down", "mysql at 127.0.0.1:3306 cannot be reached")
            assert await refusal(served, "Query", request) == expected

    run(scenario())


def test_mysqls_own_error_keeps_its_number_and_state() -> None:
    async def scenario() -> None:
        async with serving() as served:
            served.system.query_failing = ours.SourceError(1146, "42S02", "Table 'd.t' doesn't exist")
            async with grpc.aio.insecure_channel(served.target) as channel:
                call: Any = channel.unary_unary("/upwell.v1.Upwell/Query", bytes, bytes)
                with pytest.raises(grpc.aio.AioRpcError) as failed:
                    await call(pb.QueryRequest(sql="SELECT 1").SerializeToString())
            metadata = trailing(failed.value)
            assert failed.value.code() is Status.NOT_FOUND
            assert failed.value.details() == "Table 'd.t' doesn't exist"
            assert [metadata[f"upwell-{name}"] for name in ("reason", "errno", "sqlstate")] == [
                "source_error",
                "1146",
                "42S02",
            ]

    run(scenario())


def test_a_deadline_that_passes() -> None:
    async def scenario() -> None:
        async with serving() as served:
            served.system.query_gate.clear()
            request = pb.QueryRequest(sql="SELECT SLEEP(9)").SerializeToString()
            assert (await refusal(served, "Query", request, timeout=0.2))[0] is Status.DEADLINE_EXCEEDED

    run(scenario())


def test_a_request_over_the_size_limit() -> None:
    async def scenario() -> None:
        async with serving(GrpcOptions(message_limit=10_000)) as served:
            request = pb.QueryRequest(sql="SELECT '" + "x" * 11_000 + "'").SerializeToString()
            assert await refusal(served, "Query", request) == (
                Status.RESOURCE_EXHAUSTED,
                "message_too_large",
                f"request of {len(request)} bytes: up to 10000 are accepted (--max-message-size)",
            )
            far_above = pb.QueryRequest(sql="x" * 100_000).SerializeToString()
            assert (await refusal(served, "Query", far_above))[0] is Status.RESOURCE_EXHAUSTED

    run(scenario())


def test_an_answer_over_the_size_limit() -> None:
    async def scenario() -> None:
        async with serving(GrpcOptions(message_limit=10_000)) as served:
            served.system.caches["story"].source[(1,)] = [(1, "x" * 11_000)]
            code, reason, text = await refusal(served, "Execute", EXECUTE.SerializeToString())
            assert (code, reason) == (Status.RESOURCE_EXHAUSTED, "message_too_large")
            assert text.startswith("answer of 11") and text.endswith("up to 10000 are accepted (--max-message-size)")

    run(scenario())


def test_what_was_not_meant_to_happen_is_logged_and_tells_the_caller_nothing() -> None:
    async def scenario() -> None:
        async with serving() as served:
            served.system.query_failing = ZeroDivisionError("secret detail")
            request = pb.QueryRequest(sql="SELECT 1").SerializeToString()
            with structlog.testing.capture_logs() as logs:
                expected = (Status.INTERNAL, "internal", "an internal error; the proxy's log has it")
                assert await refusal(served, "Query", request) == expected
            assert [type(entry["exc_info"]) for entry in logs] == [ZeroDivisionError]

    run(scenario())


@pytest.mark.parametrize(
    ("errno", "sqlstate", "code"),
    [
        (1064, "42000", Status.INVALID_ARGUMENT),
        (1142, "42000", Status.PERMISSION_DENIED),
        (1213, "40001", Status.ABORTED),
        (1205, "HY000", Status.ABORTED),
        (1040, "08004", Status.RESOURCE_EXHAUSTED),
        (3024, "HY000", Status.DEADLINE_EXCEEDED),
        (1046, "3D000", Status.INVALID_ARGUMENT),
        (1105, "HY000", Status.UNKNOWN),
    ],
)
def test_mysqls_errors_by_class(errno: int, sqlstate: str, code: Status) -> None:
    assert status_code(ours.SourceError(errno, sqlstate, "message")) is code


def test_every_reason_a_caller_can_meet_has_a_status_of_its_own_choice() -> None:
    internal = {"internal", "config", "invariant_violated", "need_relations", "source_error"}
    internal |= {"cannot_compute", "unproven_string", "other_types", "fault"}  # such reads are passed through
    internal |= {"cannot_force", "client_left"}  # of MySQL's protocol only
    internal |= {"stream_stopped"}  # of Spark's processes only
    pending: list[type[ours.UpwellError]] = [ours.UpwellError]
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        if kind.reason in internal:
            continue
        error = kind("code", "message") if kind is ours.UnsupportedQuery else kind("message")
        assert status_code(error) is not Status.INTERNAL, kind
        assert as_upwell_error(error) is error


def test_a_very_long_sentence_still_fits_a_header() -> None:
    assert len(sentence(ours.ParseError("x" * 100_000))) == 2000
