"""Events of a VStream, as vtgate makes them. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqltypes.schema import Column, SqlType, Table
from vstream import vitess_pb2 as pb

KEYSPACE = "shop"
LEFT, RIGHT = "-80", "80-"
SERVERS = {
    LEFT: "3aff29c1-ea19-11f1-a6e4-02fc00000001",
    RIGHT: "3c52d3d8-ea19-11f1-8b70-02fc00000001",
    **{
        name: f"7e57d004-2b97-0e7a-b45f-0000000000{number:02d}"
        for number, name in enumerate(("-40", "40-80", "80-c0", "c0-"))
    },
}
COMMITTED_AT = 1_700_000_000
COLLATION = "utf8mb4_0900_ai_ci"
T = Table(
    KEYSPACE,
    "t",
    (
        Column("id", SqlType("bigint"), False, 0),
        Column("name", SqlType("varchar", length=20, collation=COLLATION), True, 1),
        Column("n", SqlType("int"), True, 2),
    ),
    ("id",),
)
FIELDS = (("id", "bigint"), ("name", "varchar(20)"), ("n", "int"))
Values = tuple[str | None, ...]
HEARTBEAT = pb.VEvent(type=pb.HEARTBEAT)


def event(kind: pb.VEventType.ValueType | int, shard: str = LEFT, number: int = 0, **fields: object) -> pb.VEvent:
    """`number`: of the transaction that it is in."""
    found = pb.VEvent(type=kind, keyspace=KEYSPACE, shard=shard, timestamp=COMMITTED_AT, **fields)  # type: ignore[arg-type]
    if number:
        found.event_gtid = f"{SERVERS[shard]}:{number}"
    return found


def position(shard: str, upto: int) -> str:
    """Behind that transaction."""
    return f"MySQL56/{SERVERS[shard]}:1-{upto}"


def shard_gtid(shard: str, gtid: str | int) -> pb.ShardGtid:
    return pb.ShardGtid(keyspace=KEYSPACE, shard=shard, gtid=position(shard, gtid) if isinstance(gtid, int) else gtid)


def vgtid(shard: str, upto: int, others: Mapping[str, str | int] | None = None) -> pb.VEvent:
    """All shards are named; only the event's own has moved. `others`: where those are; not given: both have not told
    yet."""
    known: dict[str, str | int] = dict(others) if others is not None else {LEFT: "current", RIGHT: "current"}
    known[shard] = upto
    return event(pb.VGTID, shard, vgtid=pb.VGtid(shard_gtids=[shard_gtid(*one) for one in known.items()]))


def field_event(
    columns: Sequence[tuple[str, str]] = FIELDS, shard: str = LEFT, table: str = "t", charsets: Sequence[int] = ()
) -> pb.VEvent:
    fields = [pb.Field(name=name, column_type=type_) for name, type_ in columns]
    for field, number in zip(fields, charsets, strict=False):
        field.charset = number
    told = pb.FieldEvent(table_name=table, fields=fields, enum_set_string_values=True)
    return event(pb.FIELD, shard, field_event=told)


def row_of(values: Values) -> pb.Row:
    texts = [None if value is None else value.encode() for value in values]
    lengths = [-1 if text is None else len(text) for text in texts]
    return pb.Row(lengths=lengths, values=b"".join(text for text in texts if text is not None))


def row_change(before: Values | None, after: Values | None) -> pb.RowChange:
    return pb.RowChange(
        before=None if before is None else row_of(before), after=None if after is None else row_of(after)
    )


def rows(
    changes: Iterable[tuple[Values | None, Values | None]], shard: str = LEFT, number: int = 0, table: str = "t"
) -> pb.VEvent:
    made = [row_change(before, after) for before, after in changes]
    told = pb.RowEvent(table_name=table, row_changes=made, keyspace=KEYSPACE, shard=shard)
    return event(pb.ROW, shard, number, row_event=told)


def row(before: Values | None, after: Values | None, shard: str = LEFT, number: int = 0, table: str = "t") -> pb.VEvent:
    return rows([(before, after)], shard, number, table)


def committed(
    number: int, *inside: pb.VEvent, shard: str = LEFT, others: Mapping[str, str | int] | None = None
) -> list[pb.VEvent]:
    """A whole transaction. `others`: as `vgtid` has it."""
    begin, commit = event(pb.BEGIN, shard, number), event(pb.COMMIT, shard, number)
    return [begin, *inside, vgtid(shard, number, others), commit]


def told_where(shard: str, upto: int, others: Mapping[str, str | int] | None = None) -> list[pb.VEvent]:
    """What a shard says first, where it is asked for its current position."""
    return [vgtid(shard, upto, others), event(pb.OTHER, shard)]


def ddl(number: int, statement: str, shard: str, others: Mapping[str, str | int] | None = None) -> list[pb.VEvent]:
    return [vgtid(shard, number, others), event(pb.DDL, shard, number, statement=statement)]


def journal(
    number: int,
    shard: str,
    old: Sequence[str],
    new: Mapping[str, int],
    others: Mapping[str, str | int] | None = None,
) -> list[pb.VEvent]:
    """The shards `old` end, and `new` begin at these positions: told by each old one."""
    told = pb.Journal(
        id=7,
        migration_type=pb.SHARDS,
        shard_gtids=[shard_gtid(*one) for one in new.items()],
        participants=[pb.KeyspaceShard(keyspace=KEYSPACE, shard=one) for one in old],
    )
    return committed(number, event(pb.JOURNAL, shard, number, journal=told), shard=shard, others=others)


def tables_journal(
    number: int, shard: str, tables: Sequence[str], others: Mapping[str, str | int] | None = None
) -> list[pb.VEvent]:
    """Tables have moved to another keyspace."""
    told = pb.Journal(
        id=8,
        migration_type=pb.TABLES,
        tables=tables,
        shard_gtids=[pb.ShardGtid(keyspace="elsewhere", shard="0", gtid="MySQL56/" + SERVERS["c0-"] + ":1-4")],
        participants=[pb.KeyspaceShard(keyspace=KEYSPACE, shard=one) for one in (LEFT, RIGHT)],
    )
    return committed(number, event(pb.JOURNAL, shard, number, journal=told), shard=shard, others=others)


def response(*events: pb.VEvent) -> pb.VStreamResponse:
    return pb.VStreamResponse(events=events)
