"""VStream events -> whole transactions. Pure: no I/O, no clock.

vtgate gives the changes of all shards as one stream. A shard's transaction may come in several responses; between its
events there are none of another shard's transactions, but heartbeats. Each shard's MySQL has a UUID of its own, so the
position is the union of the shards' GTID sets, and each transaction is one GTID of it.

 event     | what is made of it
-----------+-----------------------------------------------------------------------------------------------------------
 BEGIN     | what of a transaction of this shard has come before is dropped: vtgate has begun it anew
 FIELD     | the table's columns, as this shard has them from now on
 ROW       | rows of a wanted table are kept, decoded, until the end
 VGTID     | the shard's position behind what ends next, and which shards there are
 COMMIT    | `Transaction`, `Ddl` where rows cannot be trusted, else `Progress`
 DDL       | `Ddl`; each shard tells of it, when it has come there
 OTHER     | `Progress`
 of others | `Restarted` before what another server than the last one has committed: what that had shown may be lost
 JOURNAL   | tables move: `Ddl`. Shards are split or merged: once each old one has said so, `Gap`; the new ones follow
 HEARTBEAT | no shard has anything else

Invariants:
1. A transaction is given to the sink when its end has been read, and never again: what is inside the position is
   passed over.
2. The position contains a GTID before the sink is given its message, and only then.
3. Nothing is given before all shards have told where they are (`complete`): the stream begins there.
4. When a shard has told its position, the stream's contains that: what should have come and has not is a `Gap`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import structlog

from dataflow.messages import Ddl, Gap, Pair, Progress, Restarted, Transaction
from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet
from sqltypes.schema import Table
from vstream import vitess_pb2 as pb
from vstream.binlog.decode import MOST_COUNTED
from vstream.ddl import ALL, classify
from vstream.errors import MALFORMED, StreamBroken
from vstream.late_values import finish
from vstream.source import Sink
from vstream.vitess.rows import ColumnTold, RowDecoder, decoder
from vstream.vitess.shard import PARTIAL, PARTIAL_JSON, REWANTED, TOO_LARGE, Received, Shard, ShardState, TableTold
from vstream.vitess.wire import Field, fields, without

_log = structlog.get_logger(__name__)

ENDS = frozenset({pb.COMMIT, pb.DDL, pb.OTHER})
FORM = {pb.INSERT, pb.REPLACE, pb.UPDATE, pb.DELETE, pb.SET}  # of a binlog that is not of rows
NO_ROWS = {pb.GTID, pb.VERSION, pb.SAVEPOINT, pb.PREVIOUS_GTIDS, pb.ROWS_QUERY, pb.LASTPK, pb.COPY_COMPLETED}
BESIDE = frozenset({pb.BEGIN, pb.FIELD, pb.VGTID})  # what is done at once, and gives nobody anything
EVENTS = 1  # the field of VStreamResponse
ROW_EVENT = 5  # the field of VEvent
TABLE_NAME, ROW_CHANGES = 1, 2  # the fields of RowEvent
AT_ONCE = 1 << 15  # bytes that are parsed in one step: a fifth of a millisecond
VALUES_A_STEP = 1000
LARGEST_ROW = 2 << 20  # bytes of its values: one that is larger is not held anywhere
LARGEST = 2 * LARGEST_ROW + (1 << 16)  # bytes of a changed row, before and after, that is parsed
LARGE_ROW = "a row of many MB"
UNDECODED = "a row that cannot be decoded"

FADES = 5.0
"""Seconds after a shard's last transaction in which it counts as late as that was: of one that is silent the stream
does not know whether it is late. What it has executed is asked elsewhere."""


class VitessAssembler:
    """Takes events in order (`feed`, `steps`), gives messages to the sink."""

    def __init__(
        self,
        keyspace: str,
        position: MutableGtidSet,
        sink: Sink,
        max_weight: int = 64 << 20,
        *,
        prefixed: bool = False,
        begun: Callable[[], None] = lambda: None,
    ) -> None:
        """`max_weight`: bytes of rows above which a transaction is not kept but its tables are emptied. `prefixed`:
        tables are named with their keyspace, as by vtgates before v23. `begun`: is told when all shards have told where
        they are, and none had before."""
        self.keyspace = keyspace
        self._prefix = "" if prefixed else f"{keyspace}."
        self.position = position
        self.sink = sink
        self._begun = begun
        self.writes: Counter[str] = Counter()  # pieces of rows that came, by the table's qualified name
        self.received_at = 0.0  # what is fed now, seconds since 1970, by the clock of who feeds
        self.complete = False  # all shards have told where they are
        self._max_weight = max_weight
        self._shards: dict[Shard, ShardState] = {}
        self._named: list[Shard] = []  # by the last VGTID, in its order
        self._others: list[tuple[Shard, str]] = []  # where the transaction that is half received names others: those
        self._wanted: dict[str, tuple[Table, frozenset[int]]] = {}
        self._with_json: set[str] = set()  # of the wanted tables: those of which a column that is JSON is
        self._told: dict[TableTold, TableTold] = {}  # the shards have most in common

    @property
    def positions(self) -> dict[Shard, str]:
        """Where each shard's stream is: what a new one goes on from, in Vitess' own form."""
        return {shard: state.position for shard, state in self._shards.items() if state.position}

    @property
    def behind(self) -> float:
        """The largest delay of any shard: seconds from the commit of its last transaction to its receipt. vtgate sends
        heartbeats when no shard has anything else: then no shard is known to be behind."""
        return max(map(self._behind, self._shards.values()), default=0.0)

    def _behind(self, state: ShardState) -> float:
        return state.behind if state.behind_at > self.received_at - FADES else 0.0

    @property
    def late(self) -> dict[Shard, tuple[float, float]]:
        """By shard, of those that have told where they are: `behind`, and when its last transaction was received."""
        return {shard: (self._behind(one), one.behind_at) for shard, one in self._shards.items() if one.position}

    @property
    def unfit(self) -> str:
        """Why changes may be missing that are committed already."""
        waiting = any(state.journaled for state in self._shards.values())
        return "shards are being split or merged, and not all of the old ones have come to their end" if waiting else ""

    @property
    def wanted(self) -> tuple[str, ...]:
        return tuple(self._wanted)

    def want(self, table: Table, columns: frozenset[str]) -> None:
        """Raises KeyError for a column that the table has not."""
        positions = frozenset(table.column(name).position for name in columns)
        if self._wanted.get(table.qualified) != (table, positions):
            self._wanted[table.qualified] = table, positions
            self._with_json.discard(table.qualified)
            if any(column.type.name == "json" for column in table.columns if column.position in positions):
                self._with_json.add(table.qualified)
            self._rewanted(table.qualified)

    def unwant(self, qualified: str) -> None:
        if self._wanted.pop(qualified, None) is not None:
            self._rewanted(qualified)

    def _rewanted(self, qualified: str) -> None:
        """What is half received was decoded as it was wanted before."""
        for state in self._shards.values():
            state.decoders.pop(qualified, None)
            if state.open:
                state.received.untrusted[qualified] = REWANTED

    def reset(self) -> None:
        """The connection is lost: half-received transactions are dropped, and tables will be told again. If not all
        shards have told their positions, none counts."""
        self._others = []
        if not self.complete:
            self.forget()
        self._name(self._named)
        for state in self._shards.values():
            state.reset()

    def forget(self) -> None:
        """The stream is begun anew, where all shards are then."""
        self._shards.clear()
        self._named.clear()
        self.complete = False

    # -- events -------------------------------------------------------------------------------------------------------

    def steps(self, data: bytes) -> Iterator[None]:
        """A whole response, in short steps. Raises as `feed`, one of MALFORMED, and protobuf's DecodeError."""
        if len(data) <= AT_ONCE:
            for event in pb.VStreamResponse.FromString(data).events:
                if event.type not in BESIDE:
                    yield from self._event_steps(event)
                else:
                    self.feed(event)
            return
        for field in fields(data, 0, len(data)):
            if field.number != EVENTS:
                continue
            if field.end - field.start <= AT_ONCE:
                yield from self._event_steps(pb.VEvent.FromString(data[field.start : field.end]))
            else:
                yield from self._large(data, field)

    def _event_steps(self, event: pb.VEvent) -> Iterator[None]:
        if event.type == pb.ROW:
            yield from self._on_rows(event, event.row_event.table_name, event.row_event.row_changes)
        else:
            self.feed(event)
        yield

    def _large(self, data: bytes, event: Field) -> Iterator[None]:
        """One that is not small: of rows, one after the other is read. The name of their table stands before them."""
        rest, rows = without(data, event.start, event.end, ROW_EVENT)
        found = pb.VEvent.FromString(rest)
        if found.type != pb.ROW or len(rows) != 1:
            self.feed(pb.VEvent.FromString(data[event.start : event.end]))
            return
        parts = fields(data, rows[0].start, rows[0].end)
        first = next(parts, None)
        if first is None or first.number != TABLE_NAME:
            raise ValueError("rows of a table that is not named before them")
        name = data[first.start : first.end].decode()
        yield from self._on_rows(found, name, _changes(data, parts))

    def feed(self, event: pb.VEvent) -> None:
        """Raises StreamBroken, and what the sink raises."""
        kind = event.type
        if kind == pb.HEARTBEAT:
            for state in self._shards.values():
                state.behind = 0.0
            return
        state = self._state(event)
        if kind == pb.ROW:
            for _ in self._on_rows(event, event.row_event.table_name, event.row_event.row_changes):
                pass
        elif kind == pb.BEGIN:
            state.drop()
            state.open = True
        elif kind == pb.FIELD:
            self._on_field(state, event.field_event)
        elif kind == pb.VGTID:
            self._on_vgtid(state, event)
        elif kind in ENDS:
            self._on_end(state, event)
        elif kind == pb.ROLLBACK:
            state.drop()
        elif kind == pb.JOURNAL:
            state.received.journal = event.journal
        elif kind not in NO_ROWS:
            form = "rows are not in the stream as rows; binlog_format must be ROW"
            raise StreamBroken(form if kind in FORM else f"an event of unknown type {kind}", None, kind)

    def _state(self, event: pb.VEvent) -> ShardState:
        shard = event.keyspace, event.shard
        state = self._shards.get(shard)
        if state is None:
            state = self._shards[shard] = ShardState(shard)
        return state

    def _on_field(self, state: ShardState, told: pb.FieldEvent) -> None:
        """Nothing of the event is kept: it would keep the whole response."""
        name = self._prefix + told.table_name
        columns = tuple(ColumnTold(one.name, one.column_type, one.charset) for one in told.fields)
        found: TableTold = columns, told.enum_set_string_values
        state.tables[name] = self._told.setdefault(found, found)
        state.decoders.pop(name, None)
        if len(self._told) > MOST_COUNTED:  # most are no more
            self._told.clear()

    # -- where the shards are -----------------------------------------------------------------------------------------

    def _on_vgtid(self, state: ShardState, event: pb.VEvent) -> None:
        told = event.vgtid.shard_gtids
        named = [(one.keyspace, one.shard) for one in told]
        if state.shard not in named:
            raise StreamBroken(f"a position of {'/'.join(state.shard)} without itself", None, pb.VGTID)
        state.received.told = told[named.index(state.shard)].gtid
        if named == self._named:
            return
        if self.complete and set(named) != set(self._named):
            self._others = [(shard, one.gtid) for shard, one in zip(named, told, strict=True)]
        else:
            self._name(named)

    def _name(self, named: list[Shard]) -> None:
        """These are all shards."""
        self._named = named
        self._shards = {shard: self._shards.get(shard) or ShardState(shard) for shard in named}

    def _regroup(self, ended: ShardState, told: list[tuple[Shard, str]]) -> None:
        """The shards have changed, and no journal said so: nothing that is held is kept current. `ended`: the shard
        whose transaction told of them."""
        before, now = set(self._named), [shard for shard, _ in told]
        self._name(now)
        for shard, gtid in told:
            if shard not in before and shard != ended.shard:
                self._shards[shard].begin_at(gtid)
        if not all(self._shards[shard].position for shard in now):
            raise StreamBroken(f"there are other shards than before, and {ended.name} has told so", None, pb.VGTID)
        self._join()
        names = ", ".join(sorted("/".join(shard) for shard in now))
        self.sink(Gap(f"there are other shards than before: {names}", self.position.freeze()))

    def _join(self) -> None:
        """The stream is where its shards are. Requires: all have told."""
        position = GtidSet.empty()
        for shard in self._named:
            position = position.union(self._shards[shard].executed)
        self.position.replace(position)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _on_rows(self, event: pb.VEvent, table: str, changes: Iterable[pb.RowChange | None]) -> Iterator[None]:
        """None: a row that is too large to be read. What is wanted may change between two steps."""
        state = self._state(event)
        name = self._prefix + table
        if len(self.writes) >= MOST_COUNTED and name not in self.writes:
            self.writes.clear()  # most are no more
        self.writes[name] += 1
        if name not in self._wanted or name in state.received.untrusted:
            return
        if state.received.heavy:
            state.received.untrusted[name] = TOO_LARGE
            return
        decode = state.decoders.get(name)
        if decode is None:
            decode = state.decoders[name] = self._decoder(state, name)
        if isinstance(decode, str):
            state.received.untrusted[name], state.received.outdated = decode, True
            return
        rest = iter(changes)
        wanted, _ = self._wanted[name]
        late = name in self._with_json
        while some := list(islice(rest, max(1, VALUES_A_STEP // len(wanted.columns)))):
            if name in state.received.untrusted:
                return
            pairs = state.received.pairs(name)
            start = len(pairs)
            self._take(state, name, decode, some, pairs)
            yield
            if late and name not in state.received.untrusted:
                yield from self._finish(state, name, pairs, start)

    def _finish(self, state: ShardState, name: str, pairs: list[Pair], start: int) -> Iterator[None]:
        try:
            yield from finish(pairs, start)
        except MALFORMED as error:
            state.received.untrusted[name] = f"{UNDECODED}: {error}"

    def _take(
        self,
        state: ShardState,
        name: str,
        decode: RowDecoder,
        changes: Sequence[pb.RowChange | None],
        pairs: list[Pair],
    ) -> None:
        for change in changes:
            if change is None:
                state.received.untrusted[name] = LARGE_ROW
                return
            if change.HasField("data_columns") or change.HasField("json_partial_values"):
                state.received.untrusted[name] = PARTIAL_JSON if change.HasField("json_partial_values") else PARTIAL
                return
            had, has = change.before, change.after
            size = len(had.values) + len(has.values)
            if size > LARGEST_ROW and max(len(had.values), len(has.values)) > LARGEST_ROW:
                state.received.untrusted[name] = LARGE_ROW
                return
            if state.received.weigh(size) > self._max_weight:
                state.received.give_up(name)
                return
            try:
                before = decode(had) if change.HasField("before") else None
                after = decode(has) if change.HasField("after") else None
            except MALFORMED as error:
                state.received.untrusted[name] = f"{UNDECODED}: {error}"
                return
            pairs.append((before, after))

    def _decoder(self, state: ShardState, name: str) -> RowDecoder | str:
        table, positions = self._wanted[name]
        told = state.tables.get(name)
        if told is None:
            return "its columns were not told"
        columns, listed = told
        try:
            return decoder(table, positions, columns, listed=listed)
        except ValueError as error:
            _log.warning("rows of a table are not decoded", table=name, reason=str(error))
            return str(error)

    # -- the end of a transaction -------------------------------------------------------------------------------------

    def _on_end(self, state: ShardState, event: pb.VEvent) -> None:
        received = state.take()
        others, self._others = self._others, []
        gtid = Gtid.parse(event.event_gtid) if event.event_gtid else None
        if received.journal is not None and received.journal.migration_type == pb.SHARDS and self.complete:
            self._on_journal(state, received.journal)
            return
        if not state.advance(received.told, gtid):
            raise StreamBroken(f"{state.name} has gone back to {received.told[:100]}", gtid, event.type)
        if not self.complete:
            self._on_told()
        elif others:
            self._regroup(state, others)
        else:
            self._on_transaction(state, received, event, gtid)

    def _on_told(self) -> None:
        if self._named and all(self._shards[shard].position for shard in self._named):
            self.complete = True
            self._join()
            self._begun()

    def _on_transaction(self, state: ShardState, received: Received, event: pb.VEvent, gtid: Gtid | None) -> None:
        if gtid is None:  # a vtgate before v23, or one where nothing has moved
            new = state.executed.difference(self.position.freeze())
            if not new:
                if received.tables and not received.told:
                    self.sink(Ddl(None, "a transaction without a position", received.tables, schema=False))
                return
            gtid = new.last()
        if gtid in self.position:
            return
        if state.is_anothers(gtid):  # what the one before had shown, and has not come, may be lost
            self.sink(Restarted(self.position.freeze()))
        self.position.add(gtid)
        if not self.position.covers(state.executed):
            self.position.update(state.executed)
            reason = f"{state.name} has transactions in its position that were not in the stream"
            self.sink(Gap(reason, self.position.freeze()))
            return
        if event.timestamp:
            state.behind, state.behind_at = max(0.0, self.received_at - event.timestamp), self.received_at
        self._give(gtid, received, event)

    def _give(self, gtid: Gtid, received: Received, event: pb.VEvent) -> None:
        if event.type == pb.DDL:
            self._give_ddl(gtid, event.statement)
        elif received.journal is not None:
            moved = frozenset(f"{self.keyspace}.{name}" for name in received.journal.tables)
            self.sink(Ddl(gtid, "tables were moved to another keyspace", moved or None))
        elif received.untrusted:
            said = f"rows not decoded: {received.reasons}"
            self.sink(Ddl(gtid, said, received.tables, schema=received.outdated))
        elif received.changes:
            self.sink(Transaction(gtid, received.changes, float(event.timestamp), received.size))
        else:
            self.sink(Progress(gtid))

    def _give_ddl(self, gtid: Gtid, text: str) -> None:
        """The keyspace is one database, whose name on its servers is another one."""
        statement = classify(text, self.keyspace, None)
        tables = statement.tables
        if tables is not None:
            tables = frozenset(f"{self.keyspace}.{name.partition('.')[2]}" for name in tables)
            if f"{self.keyspace}.{ALL}" in tables:
                tables = None
        self.sink(Ddl(gtid, text, tables, statement.schema))

    def _on_journal(self, state: ShardState, journal: pb.Journal) -> None:
        """An old shard has ended. Its position stays before that: if the stream starts again before all old shards have
        ended, vtgate needs the journals of all of them once more."""
        state.journaled = True
        old = [shard for one in journal.participants if (shard := (one.keyspace, one.shard)) in self._named]
        if not all(self._shards[shard].journaled for shard in old):
            return
        if not journal.shard_gtids or state.shard not in old:
            raise StreamBroken("shards end, and there are no new ones", None, pb.JOURNAL)
        for shard in old:
            del self._shards[shard]
            self._named.remove(shard)
        for one in journal.shard_gtids:
            shard = one.keyspace, one.shard
            self._shards[shard] = ShardState(shard)
            self._shards[shard].begin_at(one.gtid)
            self._named.append(shard)
        self._join()
        names = ", ".join("/".join(shard) for shard in old)
        self.sink(Gap(f"shards were split or merged: {names} end here", self.position.freeze()))


def _changes(data: bytes, found: Iterable[Field]) -> Iterator[pb.RowChange | None]:
    """None: one that is too large."""
    for field in found:
        if field.number != ROW_CHANGES:
            continue
        if field.end - field.start > LARGEST:
            yield None
        else:
            yield pb.RowChange.FromString(data[field.start : field.end])
