"""Large responses and large transactions: what is done in one step, what is kept, and what is passed over."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from dataflow.messages import Ddl, Gap, StreamEvent, Transaction
from gtid_tracker.gtid import Gtid, MutableGtidSet
from sqltypes.schema import Column, SqlType, Table
from tests.support import vitess_events as made
from tests.support.scripted_vtgate import forever, vtgate
from tests.support.vitess_events import LEFT, SERVERS, T, Values, committed, field_event, response, row, rows
from tests.support.vitess_following import ALL, following, run
from tests.support.waiting import until
from vstream import vitess_pb2 as pb
from vstream.source import Busy
from vstream.vitess.assemble import AT_ONCE, LARGEST, LARGEST_ROW, VALUES_A_STEP, VitessAssembler
from vstream.vitess.vtgate import LARGEST_RESPONSE

DOCUMENT = Table("shop", "d", (Column("id", SqlType("int"), False, 0), Column("j", SqlType("json"), True, 1)), ("id",))
MIB = 1 << 20
ONLY_T = frozenset({"shop.t"})


class Read:
    """An assembler that has begun, with t and d wanted, and what it gave."""

    def __init__(self, max_weight: int = 64 * MIB) -> None:
        self.given: list[StreamEvent] = []
        self.assembler = VitessAssembler("shop", MutableGtidSet(), self.given.append, max_weight)
        self.assembler.want(T, ALL)
        self.assembler.want(DOCUMENT, frozenset({"id", "j"}))
        for one in made.told_where(LEFT, 9, {}):
            self.assembler.feed(one)

    def steps(self, *events: pb.VEvent) -> Iterator[None]:
        return self.assembler.steps(response(*events).SerializeToString())

    def read(self, *events: pb.VEvent) -> list[StreamEvent]:
        before = len(self.given)
        for _ in self.steps(*events):
            pass
        return self.given[before:]


def values(number: int, text: str = "a") -> Values:
    return str(number), text, None


def inserts(first: int, count: int, text: str = "a") -> pb.VEvent:
    """In one event."""
    return rows([(None, values(number, text)) for number in range(first, first + count)])


def pairs_of(event: StreamEvent) -> int:
    assert isinstance(event, Transaction), event
    return sum(len(change.pairs) for change in event.changes)


def test_an_event_of_many_rows_is_read_in_steps() -> None:
    """No step decodes more than some hundred rows, and none parses an event that is not small."""
    found = Read()
    kept: list[int] = []
    begin, *end = committed(10, shard=LEFT, others={})
    event = inserts(0, 5000)
    assert event.ByteSize() > 2 * AT_ONCE
    for _ in found.steps(begin, field_event(), event):
        (state,) = found.assembler._shards.values()
        kept.append(sum(len(change.pairs) for change in state.received.changes))
    assert max(after - before for before, after in pairwise(kept)) <= VALUES_A_STEP // len(T.columns)
    (given,) = found.read(*end)
    assert isinstance(given, Transaction)
    assert given.changes[0].pairs == [(None, (number, "a", None)) for number in range(5000)]


def test_what_is_wanted_may_change_between_two_steps() -> None:
    found = Read()
    begin, *end = committed(10, shard=LEFT, others={})
    for number, _ in enumerate(found.steps(begin, field_event(), inserts(0, 5000))):
        if number == 4:
            found.assembler.want(T, frozenset({"id"}))
    (given,) = found.read(*end)
    assert isinstance(given, Ddl) and given.tables == ONLY_T and not given.schema
    (given,) = found.read(*committed(11, inserts(0, 2), others={}))
    assert isinstance(given, Transaction) and given.changes[0].pairs == [
        (None, (0, None, None)),
        (None, (1, None, None)),
    ]


def test_large_and_small_events_give_the_same() -> None:
    found = Read()
    updates = [(values(number), values(number, "é" * (number % 20))) for number in range(700)]
    event, alone = rows(updates), Read()
    (given,) = found.read(*committed(10, field_event(), event, others={}))
    (same,) = alone.read(*committed(10, field_event(), *(row(*one) for one in updates), others={}))
    assert given == same and pairs_of(given) == 700


@pytest.mark.parametrize("size", [LARGEST_ROW + 1, LARGEST + 1, 15 * MIB])
def test_a_row_of_many_mb_is_passed_over(size: int) -> None:
    """Its table is emptied, the plans stay; others of the transaction are as they were."""
    found = Read()
    document = row(None, ("1", '{"a": 1}'), table="d")
    fields = field_event((("id", "int"), ("j", "json")), table="d")
    large = row(None, values(1, "x" * size))
    (given,) = found.read(*committed(10, field_event(), large, inserts(2, 1), others={}))
    assert given == Ddl(Gtid(SERVERS[LEFT], 10), "rows not decoded: shop.t: a row of many MB", ONLY_T, schema=False)
    (given,) = found.read(*committed(11, fields, document, others={}))
    assert pairs_of(given) == 1


def test_a_row_of_two_mib_is_read() -> None:
    found = Read()
    text = "x" * (LARGEST_ROW - 2)
    (given,) = found.read(*committed(10, field_event(), row(values(1, text), values(2, text + "y")), others={}))
    assert isinstance(given, Transaction) and given.changes[0].pairs == [((1, text, None), (2, text + "y", None))]


def test_a_transaction_that_never_ends_takes_no_more_memory() -> None:
    """Its rows are given up, of all its tables."""
    found = Read(max_weight=MIB)
    fields = field_event((("id", "int"), ("j", "json")), table="d")
    found.read(committed(10, others={})[0], field_event(), fields, row(None, ("1", "{}"), table="d"))
    event = inserts(0, 2000, "x" * 20)
    for _ in range(20):
        found.read(event)
    tracemalloc.start()
    try:
        for _ in range(100):
            found.read(event)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < event.ByteSize(), f"{kept} bytes of 100 times {event.ByteSize()}"
    (given,) = found.read(*committed(10, others={})[1:])
    assert isinstance(given, Ddl) and given.tables == ONLY_T | {"shop.d"} and not given.schema
    assert "too large" in given.statement


def test_what_is_told_of_a_table_does_not_keep_its_response() -> None:
    found = Read()
    found.read(*committed(10, field_event(), others={}))
    tracemalloc.start()
    try:
        for number in range(11, 60):
            large = row(None, ("1", "x" * MIB), table="unwanted")
            found.read(*committed(number, field_event(table=f"t{number}"), large, others={}))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 4 * MIB


def test_large_json_documents_are_made_in_steps() -> None:
    """Small ones at once; what is none empties its table."""
    found = Read()
    members = {f"k{number:05}": [number, None] for number in range(4000)}
    texts = [json.dumps(members), "[1]"]
    begin, *end = committed(10, others={})
    fields = field_event((("id", "int"), ("j", "json")), table="d")
    many = rows([(None, (str(number), text)) for number, text in enumerate(texts)], table="d")
    assert sum(1 for _ in found.steps(begin, fields, many)) > 4000 // 50
    (given,) = found.read(*end)
    assert isinstance(given, Transaction) and given.changes[0].pairs == [(None, (n, t)) for n, t in enumerate(texts)]
    (given,) = found.read(*committed(11, rows([(None, ("1", texts[0] + "x"))], table="d"), others={}))
    assert isinstance(given, Ddl) and given.tables == frozenset({"shop.d"}) and not given.schema


def test_others_have_their_turn_while_a_large_response_is_read() -> None:
    """And while whoever takes the changes is busy, nothing is read."""
    events = committed(10, field_event(), *(inserts(1000 * number, 1000) for number in range(60)), others={})

    async def scenario() -> None:
        given: list[StreamEvent] = []
        let, turns, busy, asked = asyncio.Event(), 0, True, 0
        waiting: list[Callable[[], None]] = []

        def is_busy() -> bool:
            nonlocal asked
            asked += 1
            return busy

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        begun = response(*made.told_where(LEFT, 9, {}))
        async with (
            vtgate(None, (begun, let, response(*events), forever)) as gate,
            following(gate, given.append) as stream,
        ):
            stream.busy = Busy(is_busy, waiting.append)
            let.set()
            await until(lambda: bool(waiting))
            for _ in range(100):
                await asyncio.sleep(0)
            assert stream.writes == {} and given == [] and asked == len(waiting) == 1
            task = asyncio.get_running_loop().create_task(others())
            await until(lambda: turns > 0)
            busy, before = False, turns
            waiting[0]()
            await until(lambda: given != [])
            task.cancel()
            assert pairs_of(given[0]) == 60_000 and turns - before > 10

    run(scenario)


def test_a_response_that_is_larger_than_any_is_history_that_is_lost() -> None:
    """It would come again and again."""

    async def scenario() -> None:
        given: list[StreamEvent] = []
        begun = response(*made.told_where(LEFT, 9, {}))
        large = row(None, values(1, "x" * LARGEST_RESPONSE))
        again = response(*committed(10, field_event(), inserts(1, 1), others={}))
        async with (
            vtgate(None, (begun, response(large), forever), (begun, again, forever)) as gate,
            following(gate, given.append),
        ):
            await until(lambda: len(given) == 3)
            assert [type(event) for event in given] == [Gap, Gap, Transaction]

    run(scenario)


def test_a_table_of_many_columns_takes_more_steps() -> None:
    wide = replace(
        T, name="w", columns=(*T.columns, *(Column(f"c{n}", SqlType("int"), True, n) for n in range(3, 900)))
    )
    found = Read()
    found.assembler.want(wide, frozenset({"id"}))
    fields = field_event([(column.name, "int") for column in wide.columns], table="w")
    fields.field_event.fields[0].column_type = "bigint"
    fields.field_event.fields[1].column_type = "varchar(20)"
    event = rows([(None, (str(n), "a", *["1"] * 898)) for n in range(20)], table="w")
    assert sum(1 for _ in found.steps(*committed(10, fields, event, others={}))) >= 20
    assert pairs_of(found.given[-1]) == 20
