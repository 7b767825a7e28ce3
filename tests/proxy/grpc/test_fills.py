"""`Fill` over gRPC: what is asked for reaches the system, how far it is reaches the caller, and bad input is named."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing
from typing import Any

import grpc
import pytest

import proxy.grpc.fills
from proxy.grpc.fills import Asked, asked_to_fill
from proxy.grpc.server import GrpcOptions
from proxy.port.fill_progress import AuditProgress, FillBy, FillProgress
from sqltypes import errors as ours
from tests.support.grpc_listener import Served, serving
from upwell import errors
from upwell.v1 import upwell_pb2 as pb

HALF = FillProgress("story", FillBy.SPARK, keys=10, held=4, rows=40, slices=2, seconds=0.5, stage="filling")
WHOLE = FillProgress("story", FillBy.SPARK, 10, 9, 1, 90, 4, 1.5, "done", "a key was written", done=True)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 30))


async def told(served: Served, keys: list[object] | None, by: str = "size") -> list[Any]:
    return [progress async for progress in served.client.cache("story").fill(keys, by=by)]


def test_what_is_asked_for_and_how_far_it_is() -> None:
    async def scenario() -> None:
        async with serving() as served:
            served.system.fill_told = [HALF, WHOLE]
            first, last = await told(served, None, "spark")
            assert (first.keys, first.held, first.rows, first.stage, first.by) == (10, 4, 40, "filling", "spark")
            assert (last.left, last.why, last.done, last.seconds) == (1, "a key was written", True, 1.5)
            many = [(number, "x") for number in range(2500)]
            await told(served, [*many, 7])
            _ = [one async for one in served.client.cache("story").fill(hot=2)]
            assert served.system.filled == [
                ("story", None, FillBy.SPARK), ("story", [*many, (7,)], FillBy.SIZE),
                ("story", [(0,), (1,)], FillBy.SIZE),
            ]  # fmt: skip

    run(scenario())


def test_a_caller_that_goes_away_ends_it() -> None:
    async def scenario() -> None:
        async with serving() as served:
            served.system.endless = True
            async with aclosing(served.client.cache("story").fill()) as going_on:
                async for _ in going_on:
                    break
            await asyncio.wait_for(served.system.fill_ended.wait(), 10)

    run(scenario())


@pytest.mark.parametrize(
    ("ours_", "theirs"),
    [
        (ours.SparkUnavailable("no Java"), errors.SparkUnavailable),
        (ours.CannotFill("too many"), errors.CannotFill),
        (ours.UnknownCache("no cache 'story'"), errors.UnknownCache),
        (ours.SourceError(1142, "42000", "SELECT command denied"), errors.SourceError),
    ],
)
def test_errors_keep_their_names(ours_: ours.UpwellError, theirs: type[errors.UpwellError]) -> None:
    async def scenario() -> None:
        async with serving() as served:
            served.system.fill_told = [HALF, ours_]
            with pytest.raises(theirs, match=ours_.message):
                await told(served, None)

    run(scenario())


def test_audits() -> None:
    async def scenario() -> None:
        async with serving() as served:
            served.system.audit_told = [
                AuditProgress("story", 10, 4),
                AuditProgress("story", 10, 9, 1, 90, 1.5, ["7", '["a", 1]'], 2, "why", done=True),
                ours.SourceDown("MySQL is away"),
            ]
            told_ = []
            with pytest.raises(errors.SourceDown, match="MySQL is away"):
                async for one in served.client.audit("story", by="direct", repair=True):
                    told_.append(one)
            assert [one.compared for one in told_] == [4, 9]
            assert (told_[1].different, told_[1].repaired, told_[1].done) == (("7", '["a", 1]'), 2, True)
            assert served.system.audited == [("story", FillBy.DIRECT, True)]
            with pytest.raises(errors.BadParameters, match="by is 'magic'"):
                async for _ in served.client.audit(by="magic"):
                    pass

    run(scenario())


REQUESTS = {
    "no cache": ([pb.FillRequest(all=True)], "no cache is named"),
    "nothing at all": ([], "no cache is named"),
    "both": ([pb.FillRequest(cache="story", all=True, keys=[pb.Key()])], "one of these"),
    "hot and all": ([pb.FillRequest(cache="story", all=True, hot=3)], "one of these"),
    "neither": ([pb.FillRequest(cache="story")], "no keys are given"),
    "by": ([pb.FillRequest(cache="story", all=True, by=9)], "by is 9"),  # type: ignore[arg-type]  # on purpose
    "a value": (
        [pb.FillRequest(cache="story"), pb.FillRequest(keys=[pb.Key(), pb.Key(parameters=[pb.Value(decimal="x")])])],
        "key 2: .*'x' is not a decimal",
    ),
}


@pytest.mark.parametrize(("requests", "words"), REQUESTS.values(), ids=REQUESTS)
def test_bad_input_is_named(requests: list[pb.FillRequest], words: str) -> None:
    async def scenario() -> None:
        async with serving() as served:
            with pytest.raises(errors.BadParameters, match=words):
                await raw(served, requests)
            assert not served.system.filled

    run(scenario())


async def raw(served: Served, requests: list[pb.FillRequest]) -> None:
    async def send() -> AsyncIterator[pb.FillRequest]:
        for request in requests:
            yield request

    call = served.client._fill(send(), 10)  # type: ignore[arg-type]  # asynchronous
    try:
        async for _ in call:
            pass
    except grpc.RpcError as error:
        raise errors.from_rpc_error(error) from None


def field(tag: int, value: bytes) -> bytes:
    return bytes((tag, len(value))) + value


def test_fields_may_come_in_any_order_and_be_others_than_are_known() -> None:
    """As a later version of a client may send them: numbers of each length, and text."""
    number = pb.Key(parameters=[pb.Value(int=7)]).SerializeToString()
    long = pb.Key(parameters=[pb.Value(list=pb.List(values=[pb.Value(int=one) for one in range(5000)]))])
    whole = (
        field(0x22, number) + b"\x78\x85\x01" + field(0x7A, b"more") + field(0x0A, b"other") + b"\x79" + bytes(8)
        + b"\x7d" + bytes(4) + b"\x18\x01" + field(0x0A, b"story") + field(0x22, number)
        + pb.FillRequest(keys=[long]).SerializeToString() + field(0x22, b"")
    )  # fmt: skip
    keys = [(7,), (7,), (tuple(range(5000)),), ()]

    async def asked(request: bytes) -> Asked:
        async def requests() -> AsyncIterator[bytes]:
            yield request

        return await asked_to_fill(requests(), lambda size, what: None)

    async def scenario() -> None:
        assert await asked(whole) == Asked("story", keys, FillBy.DIRECT)
        known = pb.FillRequest.FromString(whole)
        assert (known.cache, known.by, len(known.keys)) == ("story", pb.DIRECT, 4), "the library reads it alike"
        for broken in (
            b"\x0a\x05sto",
            b"\x22\xff",
            b"\x22" + b"\xff" * 11,
            b"\x7d123",
            b"\x0b",
            b"\x18",
            b"\x0a\x01\xff",
        ):
            with pytest.raises(ours.MalformedRequest):
                await asked(field(0x0A, b"story") + field(0x22, number) + broken)

    run(scenario())


def test_by_of_the_client_is_checked_before_anything_is_sent() -> None:
    async def scenario() -> None:
        async with serving() as served:
            with pytest.raises(errors.BadParameters, match="by is 'magic': size, direct, spark"):
                await told(served, None, "magic")

    run(scenario())


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy.grpc.fills, "MOST_KEYS", 3)

    async def scenario() -> None:
        async with serving() as served:
            with pytest.raises(errors.Overloaded, match="more than 3 keys"):
                await told(served, [1, 2, 3, 4])
        async with serving(GrpcOptions(own_sql=False)) as served:
            with pytest.raises(errors.NotPermitted, match="grpc-query=off"):
                await told(served, None)

    run(scenario())
