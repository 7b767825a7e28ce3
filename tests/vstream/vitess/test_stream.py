"""A stream of a vtgate that says what a test tells it to: what a real one does rarely, and what is made of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc
import pytest
from grpc import StatusCode

from dataflow.messages import Gap, Progress, StreamEvent, TableChanges, Transaction
from gtid_tracker.gtid import Gtid
from sqltypes.errors import ConfigError, SourceDown, SourceError, UpwellError
from tests.support import vitess_events as made
from tests.support.scripted_vtgate import END, Abort, Step, asked, forever, vtgate
from tests.support.vitess_events import (
    HEARTBEAT,
    KEYSPACE,
    LEFT,
    RIGHT,
    SERVERS,
    committed,
    field_event,
    response,
    row,
)
from tests.support.vitess_following import BEGUN, BOTH, PATIENT, following, insert, inserted, run, set_of
from tests.support.waiting import until
from vstream import vitess_pb2 as pb
from vstream.vitess.stream import VitessStream

CODES = (
    StatusCode.UNAVAILABLE,
    StatusCode.CANCELLED,
    StatusCode.DEADLINE_EXCEEDED,
    StatusCode.ABORTED,
    StatusCode.RESOURCE_EXHAUSTED,
    StatusCode.INTERNAL,
    StatusCode.UNKNOWN,
    StatusCode.INVALID_ARGUMENT,
    StatusCode.FAILED_PRECONDITION,
    StatusCode.NOT_FOUND,
    StatusCode.UNIMPLEMENTED,
    StatusCode.PERMISSION_DENIED,
    StatusCode.UNAUTHENTICATED,
)
TOLD = {StatusCode.INVALID_ARGUMENT, StatusCode.NOT_FOUND, StatusCode.UNIMPLEMENTED}
TOLD |= {StatusCode.PERMISSION_DENIED, StatusCode.UNAUTHENTICATED}
NOT_OURS_TO_LOSE = {StatusCode.UNIMPLEMENTED, StatusCode.PERMISSION_DENIED, StatusCode.UNAUTHENTICATED}
NOT_OURS_TO_LOSE |= {StatusCode.UNAVAILABLE, StatusCode.CANCELLED, StatusCode.DEADLINE_EXCEEDED}
NOT_OURS_TO_LOSE |= {StatusCode.ABORTED, StatusCode.RESOURCE_EXHAUSTED}


def test_it_begins_where_the_shards_are_and_asks_for_all_tables() -> None:
    async def scenario() -> None:
        given: list[StreamEvent] = []
        let = asyncio.Event()
        async with (
            vtgate(None, (*BEGUN, let, response(*insert(10, 1)), forever)) as gate,
            following(gate, given.append) as stream,
        ):
            assert stream.position == set_of(left=9, right=5) and stream.unfit == ""
            assert stream.history == "keyspace shop" and stream.connected
            let.set()
            await until(lambda: given == [inserted(10, 1)])
            assert stream.connected and stream.position == set_of(left=10, right=5)
        (request,) = gate.requests
        assert [one.gtid for one in request.vgtid.shard_gtids] == ["current"] and request.tablet_type == pb.PRIMARY
        assert [one.match for one in request.filter.rules] == ["/.*/"] and request.flags.heartbeat_interval == 1
        assert request.flags.include_reshard_journal_events and request.flags.exclude_keyspace_from_table_name

    run(scenario)


def test_a_transaction_in_pieces_with_heartbeats_between_and_begun_anew() -> None:
    begin, fields, one, where, commit = insert(10, 1)
    two = row(None, ("2", "a", "1"), LEFT, 10)
    pieces: list[Step] = [
        response(begin, fields),
        response(HEARTBEAT),
        response(one),
        response(begin),
        response(fields, one),
        response(two),
        response(HEARTBEAT),
        response(where),
        response(commit),
    ]

    async def scenario() -> None:
        given: list[StreamEvent] = []
        async with vtgate(None, (*BEGUN, *pieces, forever)) as gate, following(gate, given.append):
            await until(lambda: len(given) > 0)
            (found,) = given
            assert isinstance(found, Transaction)
            assert found.changes == [TableChanges("shop.t", [(None, (1, "a", 1)), (None, (2, "a", 1))])]

    run(scenario)


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_refused_at_the_start(code: StatusCode) -> None:
    """One sentence: what was seen, and what is wanted."""
    passing = {StatusCode.UNAVAILABLE, StatusCode.CANCELLED, StatusCode.DEADLINE_EXCEEDED, StatusCode.ABORTED}
    passing |= {StatusCode.RESOURCE_EXHAUSTED}
    kind: type[UpwellError] = SourceDown if code in passing else ConfigError
    wanted = "primary tablet" if code in passing else "a keyspace is wanted that vtgate serves"
    if code in (StatusCode.PERMISSION_DENIED, StatusCode.UNAUTHENTICATED):
        kind, wanted = SourceError, "does not let its changes be read"
    elif code is StatusCode.UNIMPLEMENTED:
        wanted = "grpc-port"

    async def scenario() -> None:
        async with vtgate(None, (Abort(code, "vtgate's own words"),)) as gate:
            stream = VitessStream(gate.address, KEYSPACE, PATIENT)
            with pytest.raises(kind) as raised:
                await stream.start(lambda event: None)
            said = str(raised.value)
            assert "vtgate's own words" in said and wanted in said and "\n" not in said, said
            assert not stream.connected and stream.history == ""

    run(scenario)


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_broken_off_later(code: StatusCode) -> None:
    """It goes on from the last transaction whose end had come; `refused` says what somebody must mend."""
    half = insert(11, 2)[:3]

    async def scenario() -> None:
        given: list[StreamEvent] = []
        let, refusal = asyncio.Event(), Abort(code, "vtgate's own words")
        first = (*BEGUN, response(*insert(10, 1), *half), refusal)
        rest = committed(6, shard=RIGHT, others=BOTH | {LEFT: 11})
        again: Sequence[Step] = (response(*insert(11, 2)), response(*rest), forever)
        async with vtgate(None, first, (refusal,), (let, *again)) as gate, following(gate, given.append) as stream:
            await until(lambda: len(gate.requests) == 3)
            assert not stream.connected and stream.refused == ("vtgate's own words" if code in TOLD else "")
            let.set()
            await until(lambda: len(given) == 3)
            assert given == [inserted(10, 1), inserted(11, 2), Progress(Gtid(SERVERS[RIGHT], 6))]
            await until(lambda: stream.connected)
            assert stream.refused == "" and stream.pauses.count == 2
        for request in gate.requests[1:]:
            assert asked(request) == {LEFT: made.position(LEFT, 10), RIGHT: made.position(RIGHT, 5)}

    run(scenario)


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_refused_again_and_again(code: StatusCode) -> None:
    """What stands in the way may be behind our position: then it is given up. Where vtgate is only not there, or lets
    nobody in, it is kept."""
    refusal = Abort(code, "vtgate's own words")

    async def scenario() -> None:
        given: list[StreamEvent] = []
        scripts: list[Sequence[Step]] = [(*BEGUN, refusal), (refusal,), (refusal,)]
        scripts.append((*BEGUN, response(*insert(10, 1)), forever))
        async with vtgate(None, *scripts) as gate, following(gate, given.append):
            await until(lambda: inserted(10, 1) in given)
            gaps = [event for event in given if isinstance(event, Gap)]
            if code in NOT_OURS_TO_LOSE:
                assert asked(gate.requests[3]) == {LEFT: made.position(LEFT, 9), RIGHT: made.position(RIGHT, 5)}
                assert gaps == []
            else:
                assert asked(gate.requests[3]) == {"": "current"}
                assert [gap.position for gap in gaps] == [set_of(left=9, right=5)] * 2

    run(scenario)


@pytest.mark.parametrize("errno", [2002, 2003, 2006, 2013])
def test_a_shard_whose_mysql_is_being_restarted_has_lost_nothing(errno: int) -> None:
    """vtgate tells of it as of an error that it does not know, for as long as it takes."""
    said = f"vttablet: rpc error: code = Unknown desc = connection refused (errno {errno}) (sqlstate HY000)"

    async def scenario() -> None:
        given: list[StreamEvent] = []
        down: list[Sequence[Step]] = [(Abort(StatusCode.UNKNOWN, said),)] * 5
        again = (response(*insert(11, 2)), forever)
        async with (
            vtgate(None, (*BEGUN, response(*insert(10, 1)), Abort(StatusCode.UNKNOWN, said)), *down, again) as gate,
            following(gate, given.append),
        ):
            await until(lambda: len(given) == 2)
            assert given == [inserted(10, 1), inserted(11, 2)] and len(gate.requests) == 7

    run(scenario)


def test_what_is_refused_between_transactions_does_not_count_together() -> None:
    refusal = Abort(StatusCode.INTERNAL, "now and then")

    async def scenario() -> None:
        given: list[StreamEvent] = []
        scripts: list[Sequence[Step]] = [(*BEGUN, refusal)]
        scripts += [(response(*insert(number, number)), refusal) for number in range(10, 16)]
        async with vtgate(None, *scripts, (forever,)) as gate, following(gate, given.append):
            await until(lambda: len(gate.requests) == 8)
            assert given == [inserted(number, number) for number in range(10, 16)]

    run(scenario)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (StatusCode.UNKNOWN, "source purged required binary logs (errno 1236) (sqlstate HY000)"),
        (StatusCode.INVALID_ARGUMENT, "GTIDSet Mismatch: requested source position:x, current target vrep position: y"),
        (StatusCode.FAILED_PRECONDITION, "shard provided in VGTID, -80, not found in the shop keyspace"),
    ],
)
def test_history_that_is_lost(code: StatusCode, said: str) -> None:
    """The stream begins anew where the shards are now. What it had of before is no more in its position: nobody knows
    whether it is in the history that is followed now."""

    async def scenario() -> None:
        given: list[StreamEvent] = []
        let = asyncio.Event()
        anew = (
            response(*made.told_where(LEFT, 7)),
            response(*committed(8, shard=LEFT, others={LEFT: 7, RIGHT: "current"})),
            let,
            response(*made.told_where(RIGHT, 9, {LEFT: 8})),
            response(*committed(10, field_event(shard=RIGHT), shard=RIGHT, others={LEFT: 8})),
            forever,
        )
        scripts: list[Sequence[Step]] = [(*BEGUN, response(*insert(10, 1)), Abort(code, said)), anew]
        async with vtgate(None, *scripts) as gate, following(gate, given.append) as stream:
            await until(lambda: len(gate.requests) == 2)
            assert asked(gate.requests[1]) == {"": "current"}
            first, gap = given
            assert first == inserted(10, 1) and isinstance(gap, Gap) and said in gap.reason
            assert gap.position == set_of(left=10, right=5) and not stream.connected
            let.set()
            await until(lambda: len(given) == 4)
            gap, last = given[2:]
            assert isinstance(gap, Gap) and gap.position == set_of(left=8, right=9)
            assert last == Progress(Gtid(SERVERS[RIGHT], 10)) and stream.connected

    run(scenario)


# -- connections that are lost ---------------------------------------------------------------------------------------


def test_what_is_begun_and_lost_before_all_shards_have_told_is_begun_again() -> None:
    """A request with the positions of some shards would never have the others."""

    async def scenario() -> None:
        given: list[StreamEvent] = []
        partly = (BEGUN[0], response(*insert(10, 1)), END)
        async with (
            vtgate(None, partly, (*BEGUN, response(*insert(10, 2, RIGHT, fields=True)[:3]), forever)) as gate,
            following(gate, given.append) as stream,
        ):
            assert stream.position == set_of(left=9, right=5) and given == []
        assert [asked(request) for request in gate.requests] == [{"": "current"}] * 2

    run(scenario)


def test_silence_is_the_end_of_a_connection() -> None:
    async def scenario() -> None:
        given: list[StreamEvent] = []
        periods = replace(PATIENT, silence=0.05)
        at_once = response(*made.told_where(LEFT, 9), *made.told_where(RIGHT, 5, {LEFT: 9}))
        async with (
            vtgate(None, (at_once, forever), (response(*insert(10, 1)), forever)) as gate,
            following(gate, given.append, periods),
        ):
            await until(lambda: given == [inserted(10, 1)])
        assert asked(gate.requests[1]) == {LEFT: made.position(LEFT, 9), RIGHT: made.position(RIGHT, 5)}

    run(scenario)


@pytest.mark.parametrize("says", [(forever,), (BEGUN[0], forever), (response(HEARTBEAT), forever), (END,)])
def test_a_shard_that_does_not_tell_where_it_is(says: Sequence[Step]) -> None:
    async def scenario() -> None:
        async with vtgate(lambda request: _each(says)) as gate:
            stream = VitessStream(gate.address, KEYSPACE, replace(PATIENT, start=0.2))
            with pytest.raises(SourceDown, match="does not tell where keyspace 'shop' is"):
                await stream.start(lambda event: None)

    run(scenario)


async def _each(steps: Sequence[Step]) -> AsyncIterator[Step]:
    for step in steps:
        yield step


def test_a_vtgate_that_is_started_anew() -> None:
    async def scenario() -> None:
        given: list[StreamEvent] = []
        async with (
            vtgate(None, (*BEGUN, forever), (response(*insert(10, 1)), forever)) as gate,
            following(gate, given.append) as stream,
        ):
            await gate.stop()
            await until(lambda: not stream.connected)
            assert stream.lag() >= 0.0 and stream.refused == ""
            await gate.start()
            await until(lambda: given == [inserted(10, 1)] and stream.connected)

    run(scenario)


def test_who_takes_the_changes_may_fail() -> None:
    """What it did not take is missed: everything is read anew. So it is where it does not take that, either."""

    async def scenario() -> None:
        given: list[StreamEvent] = []
        gaps: list[Gap] = []

        def sink(event: StreamEvent) -> None:
            if isinstance(event, Gap):
                gaps.append(event)
            if event == inserted(10, 1) or (isinstance(event, Gap) and len(gaps) < 3):
                raise TypeError("a fault of ours")
            given.append(event)

        begun = (*BEGUN[:1], response(*made.told_where(RIGHT, 5, {LEFT: 9})))
        async with (
            vtgate(
                None, (*BEGUN, response(*insert(10, 1)), forever), begun, (*begun, response(*insert(10, 2)), forever)
            ) as gate,
            following(gate, sink) as stream,
        ):
            await until(lambda: len(given) == 2)
            gap, last = given
            assert isinstance(gap, Gap) and "a fault of ours" in gap.reason and last == inserted(10, 2)
            assert [gap.position for gap in gaps] == [set_of(left=10, right=5), *[set_of(left=9, right=5)] * 2]
            await until(lambda: stream.connected)

    run(scenario)


# -- what is no vtgate -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def speaking(answer: bytes) -> AsyncIterator[str]:
    """Whatever it is asked it answers so, and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer:
            await reader.read(1000)
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b"J\0\0\0\n9.7.0\0"])
def test_a_server_of_something_else(answer: bytes) -> None:
    """Also a port where a MySQL speaks first."""

    async def scenario() -> None:
        async with speaking(answer) as address:
            stream = VitessStream(address, KEYSPACE, PATIENT)
            with pytest.raises(
                SourceDown, match=f"vtgate's gRPC is not at {address} .the port of vtgate's --grpc-port"
            ):
                await stream.start(lambda event: None)

    run(scenario)


def test_a_grpc_server_of_something_else() -> None:
    async def scenario() -> None:
        server = grpc.aio.server()
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        stream = VitessStream(f"127.0.0.1:{port}", KEYSPACE, PATIENT)
        with pytest.raises(ConfigError, match="is no vtgate that has VStream"):
            await stream.start(lambda event: None)
        await server.stop(None)

    run(scenario)


@pytest.mark.parametrize(
    "sent", [b"\x0a\x05\x08\x02", b"\x0a\x03\x08\x02\xff", b"\x0b", b"\x0a\x06\x22\x04\xff\xff\xff\xff"]
)
def test_responses_that_are_none(sent: bytes) -> None:
    """At the start an error. Later everything is read anew."""

    async def scenario() -> None:
        async with vtgate(None, (sent, forever)) as gate:
            stream = VitessStream(gate.address, KEYSPACE, PATIENT)
            with pytest.raises(ConfigError, match="cannot be followed: an event that cannot be read"):
                await stream.start(lambda event: None)
        given: list[StreamEvent] = []
        scripts: list[Sequence[Step]] = [(*BEGUN, sent, forever), (*BEGUN, response(*insert(10, 1)), forever)]
        async with vtgate(None, *scripts) as gate, following(gate, given.append):
            await until(lambda: len(given) == 3)
            assert [type(event) for event in given] == [Gap, Gap, Transaction]

    run(scenario)
