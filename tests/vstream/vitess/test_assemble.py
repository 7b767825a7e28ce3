"""VStream events -> messages: what vtgate does always, and what it does rarely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dataflow.messages import Ddl, Gap, Progress, Restarted, StreamEvent, TableChanges, Transaction
from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet
from tests.support import vitess_events as made
from tests.support.vitess_events import (
    FIELDS,
    HEARTBEAT,
    LEFT,
    RIGHT,
    SERVERS,
    T,
    Values,
    committed,
    event,
    field_event,
    row,
    vgtid,
)
from vstream import vitess_pb2 as pb
from vstream.errors import StreamBroken
from vstream.vitess.assemble import VitessAssembler


def change(before: Values | None, after: Values | None, table: str = "shop.t") -> TableChanges:
    def typed(values: Values | None) -> tuple[int | str | None, ...] | None:
        if values is None:
            return None
        id_, name, n = values
        return int(id_ or 0), name, None if n is None else int(n)

    return TableChanges(table, [(typed(before), typed(after))])


class Stream:
    """An assembler with t wanted, begun at 9 of each shard, and what it gave."""

    def __init__(
        self, shards: Sequence[str] = (LEFT, RIGHT), max_weight: int = 1 << 20, *, prefixed: bool = False
    ) -> None:
        self.given: list[StreamEvent] = []
        self.position = MutableGtidSet()
        self.assembler = VitessAssembler("shop", self.position, self.given.append, max_weight, prefixed=prefixed)
        self.assembler.want(T, frozenset({"id", "name", "n"}))
        for shard in shards:
            self.feed(made.told_where(shard, 9))

    def feed(self, events: Sequence[pb.VEvent]) -> list[StreamEvent]:
        before = len(self.given)
        for one in events:
            self.assembler.feed(one)
        return self.given[before:]


def gtid(number: int, shard: str = LEFT) -> Gtid:
    return Gtid(SERVERS[shard], number)


def whole(number: int, *changes: TableChanges, shard: str = LEFT) -> list[StreamEvent]:
    return [Transaction(gtid(number, shard), list(changes), 1_700_000_000.0)]


ONLY_T = frozenset({"shop.t"})
ONE: Values = ("1", "é", None)
TWO: Values = ("1", "x", "-5")


def test_a_stream_begins_where_each_shard_is_now() -> None:
    stream = Stream()
    assert stream.given == []
    assert stream.position.freeze() == GtidSet.parse(",".join(f"{SERVERS[shard]}:1-9" for shard in (LEFT, RIGHT)))
    assert stream.assembler.positions == {("shop", shard): made.position(shard, 9) for shard in (LEFT, RIGHT)}


def test_transactions_of_each_shard() -> None:
    stream = Stream()
    given = stream.feed(committed(10, field_event(), row(None, ONE)))
    assert given == whole(10, change(None, ONE))
    other = committed(10, field_event(shard=RIGHT), row(ONE, TWO, RIGHT), row(TWO, None, RIGHT), shard=RIGHT)
    (found,) = stream.feed(other)
    assert isinstance(found, Transaction) and found.gtid == gtid(10, RIGHT)
    assert [pair for one in found.changes for pair in one.pairs] == [
        ((1, "é", None), (1, "x", -5)),
        ((1, "x", -5), None),
    ]
    assert stream.feed(committed(11)) == [Progress(gtid(11))]
    assert stream.feed(committed(12, row(None, ONE, table="unwanted"))) == [Progress(gtid(12))]
    assert stream.assembler.writes == {"shop.t": 3, "shop.unwanted": 1}


def test_heartbeats_between_the_parts_of_a_transaction() -> None:
    stream = Stream()
    events = [each for one in committed(10, field_event(), row(None, ONE)) for each in (one, HEARTBEAT)]
    assert stream.feed(events) == whole(10, change(None, ONE))


def test_a_transaction_that_is_begun_anew_is_not_given_twice() -> None:
    stream = Stream()
    begun = committed(10, field_event(), row(None, ONE))[:3]
    assert stream.feed([*begun, *committed(10, row(None, TWO))]) == whole(10, change(None, TWO))
    assert stream.feed(committed(10, row(None, TWO))) == []


def test_after_a_reconnect_what_was_half_received_comes_again() -> None:
    stream = Stream()
    stream.feed(committed(10, field_event(), row(None, ONE))[:3])
    stream.assembler.reset()
    assert stream.assembler.positions["shop", LEFT] == f"MySQL56/{SERVERS[LEFT]}:1-9"
    assert stream.feed(committed(10, field_event(), row(None, ONE))) == whole(10, change(None, ONE))
    stream.assembler.reset()
    (found,) = stream.feed(committed(11, row(None, ONE)))
    assert isinstance(found, Ddl) and "columns were not told" in found.statement


def test_a_commit_that_moves_nothing_and_a_rollback() -> None:
    stream = Stream()
    assert stream.feed([event(pb.BEGIN), event(pb.COMMIT)]) == []
    rolled_back = [event(pb.BEGIN, number=10), field_event(), row(None, ONE), event(pb.ROLLBACK)]
    assert stream.feed([*rolled_back, *committed(10)]) == [Progress(gtid(10))]


@pytest.mark.parametrize(
    ("statement", "tables", "schema"),
    [
        ("alter table t add column z int", {"shop.t"}, True),
        ("truncate table t", {"shop.t"}, False),
        ("rename table t to old, new to t", {"shop.t", "shop.old", "shop.new"}, True),
        ("drop database shop", None, True),
        ("something that nobody knows", None, True),
    ],
)
def test_ddl(statement: str, tables: set[str] | None, schema: bool) -> None:
    stream = Stream()
    for shard in (RIGHT, LEFT):  # each comes there by itself
        (found,) = stream.feed([vgtid(shard, 10), event(pb.DDL, shard, 10, statement=statement)])
        wanted = None if tables is None else frozenset(tables)
        assert found == Ddl(gtid(10, shard), statement, wanted, schema)


def test_a_shard_whose_columns_are_others_already() -> None:
    stream = Stream()
    stream.feed(committed(10, field_event(), row(None, ONE)))
    stream.feed(committed(10, field_event(shard=RIGHT), row(None, ONE, RIGHT), shard=RIGHT))
    wider = field_event((*FIELDS, ("z", "int")), RIGHT)
    (found,) = stream.feed(committed(11, wider, row(None, (*ONE, None), RIGHT), shard=RIGHT))
    assert isinstance(found, Ddl) and found.schema and found.tables == ONLY_T
    assert "4 columns in the stream, 3 in the schema" in found.statement
    assert stream.feed(committed(11, row(None, TWO))) == whole(11, change(None, TWO)), "the other shard goes on"


@pytest.mark.parametrize("part", ["data_columns", "json_partial_values"])
def test_partial_images_are_not_trusted(part: str) -> None:
    stream = Stream()
    partial = row(ONE, TWO)
    getattr(partial.row_event.row_changes[0], part).count = 3
    (found,) = stream.feed(committed(10, field_event(), partial, row(None, TWO)))
    assert isinstance(found, Ddl) and found.tables == ONLY_T and found.gtid == gtid(10)


def test_what_is_half_received_while_it_is_wanted_otherwise() -> None:
    stream = Stream()
    events = committed(10, field_event(), row(None, ONE))
    stream.feed(events[:3])
    stream.assembler.want(T, frozenset({"id"}))
    (found,) = stream.feed(events[3:])
    assert isinstance(found, Ddl) and not found.schema and found.tables == ONLY_T
    (given,) = stream.feed(committed(11, row(None, TWO)))
    assert isinstance(given, Transaction) and given.changes[0].pairs == [(None, (1, None, None))]
    stream.assembler.unwant("shop.t")
    assert stream.feed(committed(12, row(None, TWO))) == [Progress(gtid(12))]


def test_a_transaction_that_is_too_large_empties_its_tables() -> None:
    stream = Stream(max_weight=100)
    rows = [row(None, (str(number), "abcdef", None)) for number in range(5)]
    (found,) = stream.feed(committed(10, field_event(), *rows))
    assert isinstance(found, Ddl) and not found.schema and found.tables == ONLY_T
    assert stream.feed(committed(11, row(None, ONE))) == whole(11, change(None, ONE))


def test_one_that_is_too_large_empties_all_tables_of_which_it_has_rows() -> None:
    """Those, too, whose rows came before there were too many, or after."""
    stream = Stream(max_weight=200)
    for name in ("u", "v", "w"):
        stream.assembler.want(replace(T, name=name), frozenset({"id"}))
    fields = [field_event(table=name) for name in ("t", "u", "v", "w")]
    many = [row(None, (str(number), "abcdef", None)) for number in range(10)]
    (found,) = stream.feed(
        committed(10, *fields, row(None, ONE, table="u"), *many, row(None, ONE, table="v"), row(None, ONE, table="x"))
    )
    assert isinstance(found, Ddl) and not found.schema
    assert found.tables == frozenset({"shop.t", "shop.u", "shop.v"})


def test_shards_that_are_split() -> None:
    """The new ones begin when all old ones have come to their end."""
    stream = Stream()
    new = ("-40", "40-80", "80-c0", "c0-")
    where = dict.fromkeys(new, 3)
    both = {LEFT: 9, RIGHT: 9}
    ends = {shard: made.journal(10, shard, (LEFT, RIGHT), where, both) for shard in (LEFT, RIGHT)}
    assert stream.feed(ends[LEFT]) == []
    assert stream.assembler.unfit, "new shards may have changes already"
    assert stream.assembler.positions["shop", LEFT] == made.position(LEFT, 9), "else nobody would tell again"
    late = committed(10, field_event(shard=RIGHT), row(None, ONE, RIGHT), shard=RIGHT, others={LEFT: 10})
    assert stream.feed(late) == whole(10, change(None, ONE), shard=RIGHT)
    (found,) = stream.feed(made.journal(11, RIGHT, (LEFT, RIGHT), where, {LEFT: 10}))
    assert isinstance(found, Gap) and "split" in found.reason and not stream.assembler.unfit
    assert stream.assembler.positions == {("shop", shard): made.position(shard, 3) for shard in new}
    assert found.position == GtidSet.parse(",".join(f"{SERVERS[shard]}:1-3" for shard in new)), "the old ones are gone"
    given = stream.feed(committed(4, field_event(shard="-40"), row(None, TWO, "-40"), shard="-40", others=where))
    assert given == whole(4, change(None, TWO), shard="-40")


def test_a_reshard_that_is_cut_off_is_told_again() -> None:
    stream = Stream()
    where, both = {"-40": 3, "40-80": 4}, {LEFT: 9, RIGHT: 9}
    left, right = (made.journal(10, shard, (LEFT, RIGHT), where, both) for shard in (LEFT, RIGHT))
    assert stream.feed(left) == []
    stream.assembler.reset()
    assert not stream.assembler.unfit
    assert stream.feed(right) == [], "it waits for the one that told before"
    (found,) = stream.feed(left)
    assert isinstance(found, Gap) and set(stream.assembler.positions) == {("shop", "-40"), ("shop", "40-80")}


def test_tables_that_are_moved() -> None:
    """The shards go on, and none of the other keyspace is followed."""
    stream = Stream()
    (found,) = stream.feed(made.tables_journal(10, LEFT, ("t",)))
    assert found == Ddl(gtid(10), "tables were moved to another keyspace", ONLY_T, schema=True)
    assert set(stream.assembler.positions) == {("shop", LEFT), ("shop", RIGHT)}
    assert stream.feed(committed(11, field_event(), row(None, ONE))) == whole(11, change(None, ONE))


def test_shards_that_nobody_told_of() -> None:
    """All is asked anew: what they have changed before is not known. Those that are not named are no more."""
    stream = Stream()
    first = committed(4, field_event(shard="-40"), row(None, ONE, "-40"), shard="-40", others={"40-80": 3, RIGHT: 9})
    (found,) = stream.feed(first)
    assert isinstance(found, Gap) and "other shards" in found.reason
    wanted = {"-40": 4, "40-80": 3, RIGHT: 9}
    assert found.position == GtidSet.parse(",".join(f"{SERVERS[shard]}:1-{n}" for shard, n in wanted.items()))
    assert stream.assembler.positions == {("shop", shard): made.position(shard, n) for shard, n in wanted.items()}
    given = stream.feed(committed(5, row(None, TWO, "-40"), shard="-40", others=wanted))
    assert given == whole(5, change(None, TWO), shard="-40")
    stream.assembler.reset()
    given = stream.feed(committed(4, field_event(shard="40-80"), shard="40-80", others=wanted | {"-40": 5}))
    assert given == [Progress(gtid(4, "40-80"))]


def test_how_far_the_shards_are_behind() -> None:
    """The one that is most counts, whichever has told last. Heartbeats say that there is nothing else."""
    stream = Stream()
    stream.assembler.received_at = made.COMMITTED_AT + 60.0
    stream.feed(committed(10))
    late = committed(10, shard=RIGHT)
    late[-1].timestamp += 58
    stream.feed(late)
    assert stream.assembler.behind == 60.0
    stream.feed([HEARTBEAT])
    assert stream.assembler.behind == 0.0
    stream.assembler.received_at = made.COMMITTED_AT - 5.0
    stream.feed(committed(11))
    assert stream.assembler.behind == 0.0, "its clock is ahead of ours"


def test_other_shards_are_taken_for_so_at_the_end_of_their_transaction() -> None:
    """A connection that is lost before goes on with those that were followed."""
    stream = Stream()
    now = {"-40": 3, "40-80": 3, RIGHT: 9}
    first = committed(4, field_event(shard="-40"), row(None, ONE, "-40"), shard="-40", others=now)
    assert stream.feed(first[:-1]) == []
    stream.assembler.reset()
    assert stream.assembler.positions == {("shop", shard): made.position(shard, 9) for shard in (LEFT, RIGHT)}
    assert stream.feed(committed(10, shard=RIGHT, others={LEFT: 9})) == [Progress(gtid(10, RIGHT))]
    (found,) = stream.feed(first)
    assert isinstance(found, Gap) and set(stream.assembler.positions) == {("shop", shard) for shard in now}


def test_a_new_shard_whose_position_is_not_told_is_no_stream_to_go_on_with() -> None:
    first = committed(4, shard="-40", others={"40-80": "current", RIGHT: 9})
    with pytest.raises(ValueError):
        Stream().feed(first)


def test_nothing_is_given_before_all_shards_have_told_where_they_are() -> None:
    stream = Stream((LEFT,))
    assert not stream.assembler.complete
    assert stream.feed(committed(10, field_event(), row(None, ONE))) == []
    stream.assembler.reset()
    assert stream.assembler.positions == {}, "a request with one of them would never have the other"
    begun = [*made.told_where(LEFT, 10), *committed(11, field_event(), row(None, ONE))]
    assert stream.feed(begun) == []
    assert stream.feed(made.told_where(RIGHT, 5, {LEFT: 11})) == [] and stream.assembler.complete
    assert stream.position.freeze() == GtidSet.parse(f"{SERVERS[LEFT]}:1-11,{SERVERS[RIGHT]}:1-5")
    assert stream.feed(committed(12, row(None, TWO))) == whole(12, change(None, TWO))


def test_a_position_that_goes_back() -> None:
    """Its server's history lacks what was given: nothing that follows can be trusted."""
    stream = Stream()
    stream.feed(committed(10))
    with pytest.raises(StreamBroken, match="shop/-80 has gone back"):
        stream.feed(committed(8))


def test_a_position_that_has_more_than_came() -> None:
    stream = Stream()
    events = committed(11, field_event(), row(None, ONE))
    (found,) = stream.feed(events)
    assert isinstance(found, Gap) and found.position == stream.position.freeze() and gtid(10) in found.position
    assert stream.feed(committed(12, row(None, TWO))) == whole(12, change(None, TWO))


def test_a_commit_whose_position_is_not_told() -> None:
    stream = Stream()
    begin, *rest = committed(10, field_event(), row(None, ONE))
    without = [begin, *rest[:-2], rest[-1]]
    assert stream.feed(without) == whole(10, change(None, ONE))
    assert stream.assembler.positions["shop", LEFT] == made.position(LEFT, 9)
    stream.assembler.reset()
    assert stream.feed(without) == [], "it comes again, and was given"
    assert stream.feed(committed(11, row(None, TWO))) == whole(11, change(None, TWO))


def test_a_vtgate_that_does_not_tell_gtids() -> None:
    """Before v23. The position has one more than before."""
    stream = Stream()

    def untold(events: list[pb.VEvent]) -> list[pb.VEvent]:
        for one in events:
            one.event_gtid = ""
        return events

    events = untold(committed(10, field_event(), row(None, ONE)))
    assert stream.feed(events) == whole(10, change(None, ONE))
    assert stream.feed(events) == []
    (found,) = stream.feed(untold(committed(12, row(None, TWO))))
    assert isinstance(found, Gap)
    begin, rows, _, commit = untold(committed(13, row(None, TWO)))
    (found,) = stream.feed([begin, rows, commit])
    assert isinstance(found, Ddl) and found.gtid is None and found.tables == ONLY_T


def test_a_row_whose_columns_were_not_told() -> None:
    stream = Stream()
    (found,) = stream.feed(committed(10, row(None, ONE)))
    assert isinstance(found, Ddl) and found.tables == ONLY_T and "columns were not told" in found.statement


def test_a_row_that_cannot_be_decoded_leaves_the_plans_as_they_are() -> None:
    stream = Stream()
    (found,) = stream.feed(committed(10, field_event(), row(None, ("1", "x", "no number"))))
    assert isinstance(found, Ddl) and not found.schema and found.tables == ONLY_T


def test_a_column_whose_collation_is_another_one_on_one_shard() -> None:
    """Its bytes are other characters, or compare otherwise."""
    stream = Stream()
    for number, charset, decoded in ((10, 255, True), (11, 8, False), (12, 45, False), (13, 0, True)):
        given = stream.feed(committed(number, field_event(charsets=(63, charset, 63)), row(None, ONE)))
        if decoded:
            assert given == whole(number, change(None, ONE))
        else:
            (found,) = given
            assert isinstance(found, Ddl) and found.schema and "utf8mb4_0900_ai_ci in the schema" in found.statement


def test_the_database_has_another_name_on_the_servers() -> None:
    stream = Stream()
    (found,) = stream.feed(made.ddl(10, "alter table `vt_shop`.`t` add column z int", LEFT))
    assert isinstance(found, Ddl) and found.tables == ONLY_T


def test_an_event_of_an_unknown_type_is_not_passed_over() -> None:
    with pytest.raises(StreamBroken, match="unknown type 99"):
        Stream().feed([event(99)])


def test_tables_may_be_named_with_their_keyspace() -> None:
    stream = Stream(prefixed=True)
    named = committed(10, field_event(table="shop.t"), row(None, ONE, table="shop.t"))
    assert stream.feed(named) == whole(10, change(None, ONE))


def test_changes_that_are_no_rows_are_not_passed_over() -> None:
    with pytest.raises(StreamBroken, match="binlog_format"):
        Stream().feed([event(pb.BEGIN, number=10), event(pb.INSERT, number=10)])


def test_a_shard_whose_server_is_exchanged() -> None:
    """Its replica goes on with the same history, and numbers what it commits as its own."""
    stream, replica = Stream(), "9d2c7f10-ea19-11f1-a6e4-02fc00000009"

    def of_replica(number: int) -> list[pb.VEvent]:
        events = committed(number)
        for one in events:
            if one.type != pb.VGTID:
                one.event_gtid = f"{replica}:{number}"
            for told in one.vgtid.shard_gtids:
                if told.shard == LEFT:
                    told.gtid = f"MySQL56/{SERVERS[LEFT]}:1-10,{replica}:1-{number}"
        return events

    stream.feed(committed(10))
    before = stream.position.freeze()
    assert stream.feed(of_replica(1)) == [Restarted(before), Progress(Gtid(replica, 1))]
    assert stream.feed(of_replica(2)) == [Progress(Gtid(replica, 2))]
    assert stream.feed(committed(10, shard=RIGHT, others={LEFT: f"MySQL56/{SERVERS[LEFT]}:1-10,{replica}:1-2"})) == [
        Progress(gtid(10, RIGHT))
    ]


def test_a_shard_that_was_late_and_is_silent_since() -> None:
    """What others send meanwhile says nothing of it, and it nothing of them."""
    stream = Stream()
    stream.assembler.received_at = made.COMMITTED_AT + 60.0
    stream.feed(committed(10, shard=RIGHT))
    assert stream.assembler.behind == 60.0
    for number in range(10, 20):
        stream.assembler.received_at += 1.0
        for one in (events := committed(number)):
            one.timestamp = int(stream.assembler.received_at)
        stream.feed(events)
    assert stream.assembler.behind == 0.0
