"""Where a stream's shards are, what comes to them at different times, and what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dataflow.messages import Ddl, Gap, Progress, StreamEvent, Transaction
from gtid_tracker.gtid import Gtid
from sqltypes.schema import Column, SqlType, Table
from tests.support import vitess_events as made
from tests.support.scripted_vtgate import END, Step, asked, forever, vtgate
from tests.support.vitess_events import (
    COMMITTED_AT,
    FIELDS,
    HEARTBEAT,
    KEYSPACE,
    LEFT,
    RIGHT,
    SERVERS,
    T,
    committed,
    field_event,
    response,
    row,
)
from tests.support.vitess_following import ALL, BEGUN, BOTH, PATIENT, following, insert, inserted, run, set_of
from tests.support.waiting import until
from vstream.vitess.stream import VitessStream


def test_a_heartbeat_does_not_say_that_a_resumed_stream_is_where_the_shards_are() -> None:
    """vtgate sends it, too, while it looks for a tablet. What the shards have is asked beside."""

    async def scenario() -> None:
        given: list[StreamEvent] = []
        let, cut = asyncio.Event(), asyncio.Event()
        now = [COMMITTED_AT + 1.0]
        again = (response(HEARTBEAT), let, response(*insert(10, 1)), response(HEARTBEAT), forever)
        async with vtgate(None, (*BEGUN, response(HEARTBEAT), cut, END), again) as gate:
            gate.now[LEFT] = 10
            stream = VitessStream(gate.address, KEYSPACE, PATIENT, clock=lambda: 7.0, wall_clock=lambda: now[0])
            await stream.start(given.append)
            await until(lambda: stream.connected)
            assert stream.lag() == 0.0 == stream.age()
            cut.set()
            await until(lambda: len(gate.requests) == 2 and stream.connected)
            now[0] += 30.0
            assert stream.lag() == 30.0 == stream.age() and gate.looks == 1
            let.set()
            await until(lambda: stream.lag() == 0.0)
            assert given == [Progress(Gtid(SERVERS[LEFT], 10))]
            await stream.close()

    run(scenario)


def test_a_resumed_stream_is_no_connection_before_all_shards_have_told() -> None:
    async def scenario() -> None:
        cut, let = asyncio.Event(), asyncio.Event()
        async with (
            vtgate(None, (*BEGUN, cut, END), (response(HEARTBEAT), let, response(*insert(10, 1)), forever)) as gate,
            following(gate, lambda event: None) as stream,
        ):
            gate.now = {LEFT: 9, RIGHT: "current"}  # type: ignore[dict-item]  # it does not tell
            await until(lambda: stream.connected)
            cut.set()
            await until(lambda: gate.looks == 1)
            let.set()
            await until(lambda: stream.position == set_of(left=10, right=5))
            assert not stream.connected

    run(scenario)


def test_shards_that_are_no_more_are_not_followed_for_ever() -> None:
    """They were split or merged while nobody read, and nothing is left that would tell."""

    async def scenario() -> None:
        given: list[StreamEvent] = []
        now = {"-40": 7, "40-80": 8}
        anew = [
            response(*made.told_where(shard, number, dict.fromkeys(now, "current") | {"-40": 7}))
            for shard, number in now.items()
        ]
        since = [0.0]  # the first look was answered

        def clock() -> float:
            return since[0] + (10 * PATIENT.start if gate.looks else 0.0)

        async with vtgate(None, (*BEGUN, END), (response(HEARTBEAT), forever), (*anew, forever)) as gate:
            gate.now = now
            stream = VitessStream(gate.address, KEYSPACE, PATIENT, clock=clock)
            await stream.start(given.append)
            await until(lambda: gate.looks > 3)
            assert not stream.connected and given == [], "they may be split just now, however long no shard has told"
            since[0] += PATIENT.start
            await until(lambda: len(gate.requests) == 3 and stream.connected)
            assert asked(gate.requests[2]) == {"": "current"}
            first, second = given
            assert isinstance(first, Gap) and "other shards serve than were followed: shop/-40" in first.reason
            assert isinstance(second, Gap) and second.position == set_of(**now) == stream.position
            await stream.close()

    run(scenario)


def test_a_primary_that_has_lost_what_it_had_told() -> None:
    """A replica has taken over that lacks the last transaction. vtgate finds no tablet that has our position, says
    nothing, and sends its heartbeats."""

    async def scenario() -> None:
        given: list[StreamEvent] = []
        cut = asyncio.Event()
        anew = response(*made.told_where(LEFT, 9, {RIGHT: "current"}), *made.told_where(RIGHT, 5, {LEFT: 9}))
        scripts: list[Sequence[Step]] = [
            (*BEGUN, response(*insert(10, 1)), cut, END),
            (response(HEARTBEAT), forever),
            (anew, forever),
        ]
        async with vtgate(None, *scripts) as gate, following(gate, given.append) as stream:
            await until(lambda: len(given) == 1)
            gate.now[LEFT] = 9
            cut.set()
            await until(lambda: len(gate.requests) == 3 and stream.connected)
            assert asked(gate.requests[2]) == {"": "current"}
            first, second = given[1:]
            assert isinstance(first, Gap) and "have lost what they had told" in first.reason
            assert isinstance(second, Gap) and second.position == set_of(left=9, right=5) == stream.position

    run(scenario)


def test_lag_and_heartbeats() -> None:
    async def scenario() -> None:
        now = [COMMITTED_AT + 4.0]
        let = asyncio.Event()
        script: Sequence[Step] = (*BEGUN, response(*insert(10, 1)), let, response(HEARTBEAT), forever)
        async with vtgate(None, script) as gate:
            stream = VitessStream(gate.address, KEYSPACE, PATIENT, clock=lambda: 7.0, wall_clock=lambda: now[0])
            await stream.start(lambda event: None)
            await until(lambda: Gtid(SERVERS[LEFT], 10) in stream.position)
            assert stream.lag() == 4.0 == stream.age()
            let.set()
            await until(lambda: stream.lag() == 0.0)
            await stream.close()
            assert not stream.connected
            now[0] += 3.0
            assert stream.lag() == 3.0 == stream.age()

    run(scenario)


# -- shards and schemas ----------------------------------------------------------------------------------------------


def test_a_reshard_that_is_cut_off_in_the_middle() -> None:
    """Both journals are needed again: the position of the shard that has told stays before its own."""
    new = {"-40": 3, "40-80": 3}
    left = made.journal(10, LEFT, (LEFT, RIGHT), new, BOTH)
    right = made.journal(6, RIGHT, (LEFT, RIGHT), new, BOTH)
    after = committed(4, field_event(shard="-40"), row(None, ("1", "a", "1"), "-40"), shard="-40", others=new)

    async def scenario() -> None:
        given: list[StreamEvent] = []
        cut = asyncio.Event()
        async with (
            vtgate(None, (*BEGUN, response(*left), cut, END), (response(*right), response(*left, *after), END)) as gate,
            following(gate, given.append) as stream,
        ):
            gate.play(forever)
            gate.now = new
            await until(lambda: stream.unfit != "")
            cut.set()
            await until(lambda: len(gate.requests) == 3)
            assert stream.unfit == ""
            gap, first = given
            assert isinstance(gap, Gap) and gap.position == set_of(**{"-40": 3, "40-80": 3})
            assert first == inserted(4, 1, "-40")
        assert asked(gate.requests[1]) == {LEFT: made.position(LEFT, 9), RIGHT: made.position(RIGHT, 5)}
        assert asked(gate.requests[2]) == {"-40": made.position("-40", 4), "40-80": made.position("40-80", 3)}

    run(scenario)


def test_a_position_that_goes_back() -> None:
    """What is behind it may be another history."""

    async def scenario() -> None:
        given: list[StreamEvent] = []
        back = committed(8, shard=LEFT, others=BOTH)
        anew = (BEGUN[0], response(*made.told_where(RIGHT, 5, {LEFT: 9})), forever)
        async with (
            vtgate(None, (*BEGUN, response(*insert(10, 1), *back, *insert(11, 2)), forever), anew) as gate,
            following(gate, given.append) as stream,
        ):
            await until(lambda: len(given) == 3)
            assert given[0] == inserted(10, 1)
            first, second = (event for event in given if isinstance(event, Gap))
            assert "shop/-80 has gone back" in first.reason and first.position == set_of(left=10, right=5)
            assert second.position == set_of(left=9, right=5) == stream.position
        assert asked(gate.requests[1]) == {"": "current"}

    run(scenario)


def test_shards_that_were_not_named_at_first() -> None:
    """A vtgate that does not tell of a reshard. The stream goes on with those that it names now."""
    now = {"-40": 3, "40-80": 7, RIGHT: 5}
    first = committed(4, field_event(shard="-40"), row(None, ("1", "a", "1"), "-40"), shard="-40", others=now)
    then = committed(8, field_event(shard="40-80"), row(None, ("2", "a", "1"), "40-80"), shard="40-80", others=now)

    async def scenario() -> None:
        given: list[StreamEvent] = []
        async with (
            vtgate(None, (*BEGUN, response(*first, *then), END), (forever,)) as gate,
            following(gate, given.append),
        ):
            await until(lambda: len(gate.requests) == 2)
            gap, last = given
            assert isinstance(gap, Gap) and gap.position == set_of(**{"-40": 4, "40-80": 7, "right": 5})
            assert last == inserted(8, 2, "40-80")
        where = {"-40": 4, "40-80": 8, RIGHT: 5}
        assert asked(gate.requests[1]) == {shard: made.position(shard, number) for shard, number in where.items()}

    run(scenario)


def test_tables_that_are_moved_to_another_keyspace() -> None:
    async def scenario() -> None:
        given: list[StreamEvent] = []
        moved = made.tables_journal(10, LEFT, ("t",), BOTH)
        async with (
            vtgate(None, (*BEGUN, response(*moved, *insert(11, 1)), END), (forever,)) as gate,
            following(gate, given.append),
        ):
            await until(lambda: len(gate.requests) == 2)
            told, last = given
            assert isinstance(told, Ddl) and told.tables == frozenset({"shop.t"}) and told.schema
            assert last == inserted(11, 1)
        assert asked(gate.requests[1]) == {LEFT: made.position(LEFT, 11), RIGHT: made.position(RIGHT, 5)}

    run(scenario)


WIDER = replace(T, columns=(*T.columns, Column("z", SqlType("int"), True, 3)))
WIDER_FIELDS = (*FIELDS, ("z", "int"))
ALTER = "alter table t add column z int"


@pytest.mark.parametrize("planned", [T, WIDER])
def test_a_definition_that_reaches_the_shards_at_different_times(planned: Table) -> None:
    """Whatever is planned again after the first shard's DDL, as the table was or as it will be: rows of a shard where
    it is not so are never decoded, and each shard's DDL closes the table's caches once more."""
    others = {LEFT: 11, RIGHT: 6}
    wide = row(None, ("5", "a", "1", "0"), RIGHT)
    last = committed(9, field_event(WIDER_FIELDS, RIGHT), wide, shard=RIGHT, others=others)
    events = [
        *insert(10, 1),
        *insert(6, 2, RIGHT),
        *made.ddl(11, ALTER, LEFT, BOTH),
        *committed(12, field_event(WIDER_FIELDS), row(None, ("3", "a", "1", "0")), others=others),
        *insert(7, 4, RIGHT, fields=False),
        *made.ddl(8, ALTER, RIGHT, others),
        *last,
    ]

    given: list[StreamEvent] = []

    async def scenario() -> None:
        found: list[VitessStream] = []

        def sink(event: StreamEvent) -> None:
            given.append(event)
            if isinstance(event, Ddl) and event.schema:
                ddls = sum(isinstance(one, Ddl) and one.statement == ALTER for one in given)
                found[0].unwant(T.qualified)
                found[0].want(WIDER if ddls == 2 else planned, ALL)

        let = asyncio.Event()
        async with vtgate(None, (*BEGUN, let, response(*events), forever)) as gate, following(gate, sink) as stream:
            found.append(stream)
            let.set()
            await until(lambda: Gtid(SERVERS[RIGHT], 9) in stream.position)

    run(scenario)
    as_was = planned is T
    assert [(event.gtid, type(event)) for event in given if isinstance(event, Transaction | Ddl)] == [
        (Gtid(SERVERS[LEFT], 10), Transaction),
        (Gtid(SERVERS[RIGHT], 6), Transaction),
        (Gtid(SERVERS[LEFT], 11), Ddl),
        (Gtid(SERVERS[LEFT], 12), Ddl if as_was else Transaction),
        (Gtid(SERVERS[RIGHT], 7), Transaction if as_was else Ddl),
        (Gtid(SERVERS[RIGHT], 8), Ddl),
        (Gtid(SERVERS[RIGHT], 9), Transaction),
    ]
    told = [event for event in given if isinstance(event, Ddl)]
    assert all(event.schema and event.tables == frozenset({"shop.t"}) for event in told)
