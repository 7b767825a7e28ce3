"""VStream events -> whole transactions. Pure: no I/O, no clock.

vtgate gives the changes of all shards as one stream. A shard's transaction may come in several responses; between its
events there are none of another shard's transactions, but heartbeats. Each shard's MySQL has a UUID of its own, so the
position is the union of the shards' GTID sets, and each transaction is one GTID of it.

 event     | what is made of it
-----------+-----------------------------------------------------------------------------------------------------------
 BEGIN     | what of a transaction of this shard has come before is dropped: vtgate has begun it anew
 FIELD     | the table's columns, as this shard has them from now on
 ROW       | rows of a wanted table are kept, decoded, until the end
 VGTID     | the shard's position behind what ends next
 COMMIT    | `Transaction`, `Ddl` where rows cannot be trusted, else `Progress`
 DDL       | `Ddl`; each shard tells of it, when it has come there
 OTHER     | `Progress`
 JOURNAL   | the shards are split or merged, or tables move: `Gap`
 HEARTBEAT | vtgate is there

Invariants:
1. A transaction is given to the sink when its end has been read, and never again: what is inside the position is
   passed over.
2. The position contains a GTID before the sink is given its message, and only then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from dataflow.messages import Ddl, Gap, Pair, Progress, TableChanges, Transaction
from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet
from sqltypes.schema import Table
from vstream import vitess_pb2 as pb
from vstream.broken import MALFORMED, StreamBroken
from vstream.ddl import ALL, classify
from vstream.decode import MOST_COUNTED
from vstream.source import Sink
from vstream.vitess_rows import RowDecoder, decoder

_log = structlog.get_logger(__name__)

Shard = tuple[str, str]  # keyspace, shard
ENDS = frozenset({pb.COMMIT, pb.DDL, pb.OTHER})
FORM = {pb.INSERT, pb.REPLACE, pb.UPDATE, pb.DELETE, pb.SET}  # of a binlog that is not of rows
PARTIAL = "only what has changed of its rows is in the stream; binlog_row_image must be FULL"
PARTIAL_JSON = "partial JSON updates; binlog_row_value_options must be empty"
REWANTED = "received while what is wanted of it changed"
TOO_LARGE = "rows not kept: the transaction is too large"


@dataclass(slots=True)
class _Shard:
    """`fields`: of each table, as told last. `position`: behind the last transaction that has ended, "" before the
    first. The others are of the transaction that is half received; `told`: the position behind it."""

    fields: dict[str, pb.FieldEvent] = field(default_factory=dict)
    decoders: dict[str, RowDecoder | str] = field(default_factory=dict)  # or why there is none
    position: str = ""
    told: str = ""
    open: bool = False
    changes: list[TableChanges] = field(default_factory=list)
    untrusted: dict[str, str] = field(default_factory=dict)
    size: int = 0

    def drop(self) -> None:
        self.told, self.open, self.changes, self.untrusted, self.size = "", False, [], {}, 0


class VitessAssembler:
    """Takes events in order (`feed`), gives messages to the sink."""

    def __init__(
        self,
        keyspace: str,
        position: MutableGtidSet,
        sink: Sink,
        max_weight: int = 64 << 20,
        *,
        prefixed: bool = False,
    ) -> None:
        """`max_weight`: bytes of values above which a transaction is not kept but its tables are emptied. `prefixed`:
        tables are named with their keyspace, as by vtgates before v23."""
        self.keyspace = keyspace
        self._prefix = "" if prefixed else f"{keyspace}."
        self.position = position
        self.sink = sink
        self.heard: Callable[[], None] = lambda: None
        self.writes: Counter[str] = Counter()  # pieces of rows that came, by the table's qualified name
        self.committed_at = 0.0  # of the last transaction that was given, seconds since 1970
        self._max_weight = max_weight
        self._shards: dict[Shard, _Shard] = {}
        self._wanted: dict[str, tuple[Table, frozenset[int]]] = {}

    @property
    def positions(self) -> dict[Shard, str]:
        """Where each shard's stream is: what a new one goes on from, in Vitess' own form."""
        return {shard: state.position for shard, state in self._shards.items() if state.position}

    def want(self, table: Table, columns: frozenset[str]) -> None:
        """Raises KeyError for a column that the table has not."""
        positions = frozenset(table.column(name).position for name in columns)
        if self._wanted.get(table.qualified) != (table, positions):
            self._wanted[table.qualified] = table, positions
            self._rewanted(table.qualified)

    def unwant(self, qualified: str) -> None:
        if self._wanted.pop(qualified, None) is not None:
            self._rewanted(qualified)

    def _rewanted(self, qualified: str) -> None:
        """What is half received was decoded as it was wanted before."""
        for state in self._shards.values():
            state.decoders.pop(qualified, None)
            if state.open:
                state.untrusted[qualified] = REWANTED

    def reset(self) -> None:
        """The connection is lost: what is half received is dropped, and tables are told anew."""
        for state in self._shards.values():
            state.drop()
            state.fields.clear()
            state.decoders.clear()

    def forget(self) -> None:
        """The stream is begun anew, where all shards are then."""
        self._shards.clear()

    # -- events -------------------------------------------------------------------------------------------------------

    def feed(self, event: pb.VEvent) -> None:
        """Raises StreamBroken, and what the sink raises."""
        kind = event.type
        if kind == pb.HEARTBEAT:
            self.heard()
            return
        state = self._shards.setdefault((event.keyspace, event.shard), _Shard())
        if kind == pb.ROW:
            self._on_row(state, event)
        elif kind == pb.BEGIN:
            state.drop()
            state.open = True
        elif kind == pb.FIELD:
            name = self._prefix + event.field_event.table_name
            state.fields[name] = event.field_event
            state.decoders.pop(name, None)
        elif kind == pb.VGTID:
            self._on_vgtid(state, event)
        elif kind in ENDS:
            self._on_end(state, event)
        elif kind == pb.ROLLBACK:
            state.drop()
        elif kind == pb.JOURNAL:
            self._on_journal(event.journal)
        elif kind in FORM:
            raise StreamBroken("rows are not in the stream as rows; binlog_format must be ROW", None, kind)

    def _on_vgtid(self, state: _Shard, event: pb.VEvent) -> None:
        for told in event.vgtid.shard_gtids:
            if (told.keyspace, told.shard) == (event.keyspace, event.shard):
                state.told = told.gtid

    def _on_row(self, state: _Shard, event: pb.VEvent) -> None:
        rows = event.row_event
        name = self._prefix + rows.table_name
        if len(self.writes) >= MOST_COUNTED and name not in self.writes:
            self.writes.clear()  # most are no more
        self.writes[name] += 1
        if name not in self._wanted or name in state.untrusted:
            return
        decode = state.decoders.get(name)
        if decode is None:
            decode = state.decoders[name] = self._decoder(state, name)
        if isinstance(decode, str):
            state.untrusted[name] = decode
            return
        pairs: list[Pair] = []
        for change in rows.row_changes:
            if change.HasField("data_columns") or change.HasField("json_partial_values"):
                state.untrusted[name] = PARTIAL_JSON if change.HasField("json_partial_values") else PARTIAL
                return
            state.size += len(change.before.values) + len(change.after.values)
            if state.size > self._max_weight:
                state.untrusted[name], state.changes = TOO_LARGE, []
                return
            try:
                before = decode(change.before) if change.HasField("before") else None
                after = decode(change.after) if change.HasField("after") else None
            except MALFORMED as error:
                state.untrusted[name] = f"a row that cannot be decoded: {error}"
                return
            pairs.append((before, after))
        if state.changes and state.changes[-1].table == name:
            state.changes[-1].pairs += pairs
        else:
            state.changes.append(TableChanges(name, pairs))

    def _decoder(self, state: _Shard, name: str) -> RowDecoder | str:
        table, positions = self._wanted[name]
        fields = state.fields.get(name)
        if fields is None:
            return "its columns were not told"
        try:
            return decoder(table, positions, fields.fields, listed=fields.enum_set_string_values)
        except ValueError as error:
            _log.warning("rows of a table are not decoded", table=name, reason=str(error))
            return str(error)

    # -- the end of a transaction -------------------------------------------------------------------------------------

    def _on_end(self, state: _Shard, event: pb.VEvent) -> None:
        changes, untrusted, size, told = state.changes, state.untrusted, state.size, state.told
        state.drop()
        known, state.position = state.position != "", told or state.position
        if not event.event_gtid:  # where a stream begins, and a COMMIT behind which nothing has moved
            if told:
                self.position.update(GtidSet.parse(told))
            return
        gtid = Gtid.parse(event.event_gtid)
        if gtid in self.position:
            return
        self.position.add(gtid)
        if not known:
            self.position.update(GtidSet.parse(told))
            self.sink(Gap(f"shard {event.keyspace}/{event.shard} was not followed before", self.position.freeze()))
            return
        self.committed_at = float(event.timestamp)
        if event.type == pb.DDL:
            self._give_ddl(gtid, event.statement)
        elif untrusted:
            reasons = "; ".join(f"{name}: {why}" for name, why in sorted(untrusted.items()))
            touched = frozenset(untrusted) | {one.table for one in changes}
            outdated = not {REWANTED, TOO_LARGE}.issuperset(untrusted.values())
            self.sink(Ddl(gtid, f"rows not decoded: {reasons}", touched, schema=outdated))
        elif changes:
            self.sink(Transaction(gtid, changes, self.committed_at, size))
        else:
            self.sink(Progress(gtid))

    def _give_ddl(self, gtid: Gtid, text: str) -> None:
        statement = classify(text, self.keyspace, None)
        tables = statement.tables
        if tables is not None and f"{self.keyspace}.{ALL}" in tables:
            tables = None
        self.sink(Ddl(gtid, text, tables, statement.schema))

    def _on_journal(self, journal: pb.Journal) -> None:
        """What the old shards have filled is of histories that end."""
        for told in journal.shard_gtids:
            new = self._shards.setdefault((told.keyspace, told.shard), _Shard())
            new.position = told.gtid
            self.position.update(GtidSet.parse(told.gtid))
        old = [(one.keyspace, one.shard) for one in journal.participants]
        for shard in old:
            self._shards.pop(shard, None)
        what = "shards were split or merged" if journal.migration_type == pb.SHARDS else "tables were moved"
        names = ", ".join("/".join(shard) for shard in old)
        self.sink(Gap(f"{what}: {names} end here", self.position.freeze()))
