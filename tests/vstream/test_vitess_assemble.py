"""VStream events -> messages: what vtgate does always, and what it does rarely."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dataflow.messages import Ddl, Gap, Progress, StreamEvent, TableChanges, Transaction
from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet
from sqltypes.schema import Column, SqlType, Table
from vstream import vitess_pb2 as pb
from vstream.broken import StreamBroken
from vstream.vitess_assemble import VitessAssembler

LEFT, RIGHT = "-80", "80-"
SERVERS = {LEFT: "3aff29c1-ea19-11f1-a6e4-02fc00000001", RIGHT: "3c52d3d8-ea19-11f1-8b70-02fc00000001"}
T = Table(
    "shop",
    "t",
    (
        Column("id", SqlType("bigint"), False, 0),
        Column("name", SqlType("varchar", length=20, collation="utf8mb4_0900_ai_ci"), True, 1),
        Column("n", SqlType("int"), True, 2),
    ),
    ("id",),
)
FIELDS = (("id", "bigint"), ("name", "varchar(20)"), ("n", "int"))
Values = tuple[str | None, ...]


def event(kind: pb.VEventType.ValueType, shard: str = LEFT, number: int = 0, **fields: object) -> pb.VEvent:
    found = pb.VEvent(type=kind, keyspace="shop", shard=shard, timestamp=1_700_000_000, **fields)  # type: ignore[arg-type]
    if number:
        found.event_gtid = f"{SERVERS[shard]}:{number}"
    return found


def vgtid(shard: str, upto: int) -> pb.VEvent:
    """All shards are named; only the event's own has moved."""
    gtids = [
        pb.ShardGtid(keyspace="shop", shard=one, gtid=f"MySQL56/{server}:1-{upto}" if one == shard else "current")
        for one, server in SERVERS.items()
    ]
    return event(pb.VGTID, shard, vgtid=pb.VGtid(shard_gtids=gtids))


def field_event(columns: Sequence[tuple[str, str]] = FIELDS, shard: str = LEFT, table: str = "t") -> pb.VEvent:
    fields = [pb.Field(name=name, column_type=type_) for name, type_ in columns]
    return event(
        pb.FIELD, shard, field_event=pb.FieldEvent(table_name=table, fields=fields, enum_set_string_values=True)
    )


def row_of(values: Values) -> pb.Row:
    texts = [None if value is None else value.encode() for value in values]
    lengths = [-1 if text is None else len(text) for text in texts]
    return pb.Row(lengths=lengths, values=b"".join(text for text in texts if text is not None))


def row(before: Values | None, after: Values | None, shard: str = LEFT, number: int = 0, table: str = "t") -> pb.VEvent:
    change = pb.RowChange(
        before=None if before is None else row_of(before), after=None if after is None else row_of(after)
    )
    return event(
        pb.ROW,
        shard,
        number,
        row_event=pb.RowEvent(table_name=table, row_changes=[change], keyspace="shop", shard=shard),
    )


def committed(number: int, *rows: pb.VEvent, shard: str = LEFT) -> list[pb.VEvent]:
    begin, commit = event(pb.BEGIN, shard, number), event(pb.COMMIT, shard, number)
    return [begin, *rows, vgtid(shard, number), commit]


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
        self.heard = 0
        self.position = MutableGtidSet()
        self.assembler = VitessAssembler("shop", self.position, self.given.append, max_weight, prefixed=prefixed)
        self.assembler.heard = self._hear
        self.assembler.want(T, frozenset({"id", "name", "n"}))
        for shard in shards:
            self.feed([vgtid(shard, 9), event(pb.OTHER, shard)])

    def _hear(self) -> None:
        self.heard += 1

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
    assert stream.position.freeze() == GtidSet.parse(",".join(f"{server}:1-9" for server in SERVERS.values()))
    assert stream.assembler.positions == {("shop", shard): f"MySQL56/{server}:1-9" for shard, server in SERVERS.items()}


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
    heartbeat = pb.VEvent(type=pb.HEARTBEAT)
    events = [each for one in committed(10, field_event(), row(None, ONE)) for each in (one, heartbeat)]
    assert stream.feed(events) == whole(10, change(None, ONE))
    assert stream.heard == len(events) // 2


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
    stream = Stream(max_weight=20)
    rows = [row(None, (str(number), "abcdef", None)) for number in range(5)]
    (found,) = stream.feed(committed(10, field_event(), *rows))
    assert isinstance(found, Ddl) and not found.schema and found.tables == ONLY_T
    assert stream.feed(committed(11, row(None, ONE))) == whole(11, change(None, ONE))


def test_shards_that_are_split() -> None:
    stream = Stream()
    new = "7e57d004-2b97-0e7a-b45f-5387367791cd"
    journal = pb.Journal(
        migration_type=pb.SHARDS,
        shard_gtids=[pb.ShardGtid(keyspace="shop", shard="-40", gtid=f"MySQL56/{new}:1-3")],
        participants=[pb.KeyspaceShard(keyspace="shop", shard=LEFT)],
    )
    stream.feed(committed(10, field_event(), row(None, ONE)))
    (found,) = stream.feed([event(pb.BEGIN), event(pb.JOURNAL, journal=journal)])
    assert isinstance(found, Gap) and "split" in found.reason and GtidSet.parse(f"{new}:1-3").issubset(found.position)
    assert ("shop", LEFT) not in stream.assembler.positions
    assert stream.assembler.positions["shop", "-40"] == f"MySQL56/{new}:1-3"


def test_a_shard_that_nobody_told_of() -> None:
    """All is asked anew: what it has changed before is not known."""
    stream = Stream((LEFT,))
    (found,) = stream.feed(committed(10, field_event(shard=RIGHT), row(None, ONE, RIGHT), shard=RIGHT))
    assert isinstance(found, Gap) and found.position == stream.position.freeze()
    assert GtidSet.parse(f"{SERVERS[RIGHT]}:1-10").issubset(found.position)
    assert stream.feed(committed(11, row(None, TWO, RIGHT), shard=RIGHT)) == whole(11, change(None, TWO), shard=RIGHT)


def test_tables_may_be_named_with_their_keyspace() -> None:
    stream = Stream(prefixed=True)
    named = committed(10, field_event(table="shop.t"), row(None, ONE, table="shop.t"))
    assert stream.feed(named) == whole(10, change(None, ONE))


def test_changes_that_are_no_rows_are_not_passed_over() -> None:
    with pytest.raises(StreamBroken, match="binlog_format"):
        Stream().feed([event(pb.BEGIN, number=10), event(pb.INSERT, number=10)])
