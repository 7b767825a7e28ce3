"""Events -> whole transactions. Pure: no I/O, no clock but the one that is handed in.

Each transaction of the binlog becomes one message: `Transaction` if it changes a wanted table, else `Progress`; `Ddl`
if it is one, or if rows of a wanted table cannot be trusted; `Gap` if nothing is known of what it changed. Rows of a
prepared XA transaction wait for its XA COMMIT, under whose GTID they become visible.

Invariants:
1. A transaction is given to the sink when its end has been read, and never again: what is inside the position is
   passed over.
2. The position contains a GTID before the sink is given its message, and only then.
3. An event that is not understood raises `StreamBroken`; nothing is skipped silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import structlog

from dataflow.messages import Ddl, Gap, Pair, Progress, StreamEvent, TableChanges, Transaction
from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet
from sqltypes.schema import Table
from vstream.binlog import events as ev
from vstream.binlog.announced_tables import Announced
from vstream.binlog.decode import MappedTable, TableDecoders
from vstream.binlog.inflate import Inflating
from vstream.binlog.rows import RowsDecoder
from vstream.binlog.short_transactions import whole_transaction
from vstream.binlog.untrusted import Odd, Prepared, told
from vstream.ddl import ALL, Kind, Statement, classify
from vstream.errors import MALFORMED, HistoryLost, StreamBroken
from vstream.late_values import AT_ONCE, finish
from vstream.source import Sink

_log = structlog.get_logger(__name__)

Handler = Callable[[bytes, int, int], None]
Tell = Callable[[Odd, Gtid, list[TableChanges], Sequence[MappedTable], float, int], StreamEvent]

UNFOLLOWED = (
    "rows that foreign keys change are not in the binlog: InnoDB has followed them, as it does before MySQL 9.6, with"
    " innodb_native_foreign_keys=ON, and in a session begun anew (COM_RESET_CONNECTION or COM_CHANGE_USER)"
)
HANDED_ON = 1 << 16
LARGE_ROW = "a row of many MB"
UNDECODED = "a row that cannot be decoded"
NOT_ALL = "rows that MySQL has announced are not in its binlog"
_DUMMY_TABLE = b"\xff\xff\xff\x00\x00\x00"  # ends a statement that changed no row of a logged table


class Assembler:
    """Takes events in order (`feed`), gives messages to the sink."""

    def __init__(self, tables: TableDecoders, position: MutableGtidSet, sink: Sink, max_weight: int = 64 << 20) -> None:
        """`max_weight`: bytes of row images above which a transaction is not kept but its tables are emptied."""
        self.tables = tables
        self.position = position
        self.sink = sink
        self.tolerated: set[int] = set()  # event types that are passed over with a Gap each time
        self.heard: Callable[[], None] = lambda: None
        self.tell: Tell = told  # makes the message of a transaction that has more than trusted rows
        # For who needs no transaction at once: is given changes before their transaction's end, from `HANDED_ON` bytes
        # on; the message at its end has the others. (Those of an XA transaction wait for its XA COMMIT.)
        self.partly: Callable[[Gtid, float, list[TableChanges]], None] | None = None
        self.committed_at = 0.0  # of the last transaction given
        # The last transaction given, with its GTID event, which tells of its length and when it was committed. As long
        # as the history is the same one, it is sent with the same event again.
        self.last: tuple[Gtid, bytes] | None = None
        self.expected: tuple[Gtid, bytes] | None = None  # the source was asked for `last` again
        # The binlog file that is read, with the second in which it was begun, and the one with which this connection
        # is to begin, where there is no `last` to compare.
        self.file = b""
        self.expected_file = b""
        self._max_weight = max_weight
        self._checksum_size = 0
        self._sources: dict[bytes, str] = {}
        self._prepared: dict[bytes, Prepared] = {}
        self._gtid: Gtid | None = None
        self._skip = False
        self._block = False  # inside BEGIN or XA START: the transaction ends with an event of its own
        self._xa = False  # inside XA START
        self._accounts = False  # the statement may have changed who may read what
        self._stamp = 0.0
        self._told = b""  # the GTID event
        self._named = b""  # the binlog file that comes next
        self._weight = 0
        self._changes: list[TableChanges] = []
        self._seen: list[MappedTable] = []
        self._announced = Announced()  # by the statement of which rows are to come
        self._odd: Odd | None = None
        self._inflating: Inflating | None = None
        self._late: Iterator[None] | None = None  # the steps in which the rows that were read last are finished
        self._handlers = self._handler_table()
        if tables.definitions is not None:
            tables.definitions.passed = self._has_passed

    def _handler_table(self) -> list[Handler]:
        def ignore(data: bytes, at: int, end: int) -> None:
            """Carries nothing for a reader of row images."""

        known: dict[int, Handler] = {
            **dict.fromkeys((ev.STOP, ev.PREVIOUS_GTIDS, ev.ROWS_QUERY, ev.IGNORABLE), ignore),
            **dict.fromkeys((ev.TRANSACTION_CONTEXT, ev.VIEW_CHANGE), ignore),
            # The context of a statement, which follows and is dealt with.
            **dict.fromkeys((ev.INTVAR, ev.RAND, ev.USER_VAR), ignore),
            **dict.fromkeys(ev.LOADS, self._on_load),
            **dict.fromkeys((ev.HEARTBEAT, ev.HEARTBEAT_V2), lambda data, at, end: self.heard()),
            ev.QUERY: self._on_query,
            ev.ROTATE: self._on_rotate,
            ev.FORMAT: self._on_format,
            ev.XID: self._on_commit,
            ev.TABLE_MAP: self._on_table_map,
            **dict.fromkeys(ev.ROWS, self._on_rows),
            ev.GTID: self._on_gtid,
            ev.TAGGED_GTID: self._on_tagged_gtid,
            ev.ANONYMOUS_GTID: self._on_anonymous,
            ev.INCIDENT: self._on_incident,
            ev.XA_PREPARE: self._on_xa_prepare,
            ev.PAYLOAD: self._on_payload,
        }
        return [known.get(kind, self._on_unknown) for kind in range(256)]

    # -- from outside -------------------------------------------------------------------------------------------------

    def feed(self, data: bytes, start: int, end: int) -> None:
        """One event, its header at `start`, its checksum before `end`. Requires: not `inflating`.

        Raises StreamBroken or one of MALFORMED; call `reset` then.
        """
        self._handlers[data[start + 4]](data, start + ev.HEADER, end - self._checksum_size)

    def feed_whole(self, data: bytes, start: int, end: int) -> int:
        """A GTID event as for `feed`, in a buffer of packets: if a whole transaction of the commonest shape begins
        with it and nothing about it is odd, reads that, and says where the next packet begins. Else 0: nothing was
        read, `feed` its events. Raises nothing but what the sink raises.
        """
        found = whole_transaction(data, end, self._checksum_size)
        if found is None or self._gtid is not None or self.expected is not None:
            return 0
        map_at, map_end, kind, at, rows_end, after = found
        body = data[map_at:map_end]
        table_id = body[:6]
        mapped = self.tables.by_id.get(table_id)
        if mapped is None or mapped.body != body or mapped.untrusted or data[at : at + 6] != table_id:
            return 0
        if not data[at + 6] & ev.ENDS_STATEMENT:
            return 0
        if kind in mapped.leads and mapped.is_followed(kind, data, at, rows_end):
            return 0
        uuid, number, stamp = ev.read_gtid(data, start + ev.HEADER)
        source = self._sources.get(uuid)
        if source is None:
            return 0
        gtid = tuple.__new__(Gtid, (source, number))  # without a call in Python
        position = self.position
        if gtid in position:
            return 0
        decoders = mapped.decoders
        if decoders is None:
            message: StreamEvent = Progress(gtid)
        else:
            first = mapped.rows_at(data, at, 2 if kind == ev.UPDATE_ROWS else 1)
            size = rows_end - first
            if not first or size > self._max_weight or (decoders.late and size > AT_ONCE):
                return 0
            try:
                pairs = decoders.of[kind](data, first, rows_end)
            except MALFORMED:
                return 0
            message = Transaction(gtid, [TableChanges(mapped.name, pairs)], stamp, size)
        writes = self.tables.writes
        if mapped.name in writes:
            writes[mapped.name] += 1
        else:
            self.tables.note_write(mapped.name)
        position.add(gtid)
        self.committed_at = stamp
        self.last = gtid, data[start + ev.HEADER : end - self._checksum_size]
        self.sink(message)
        return after

    @property
    def inflating(self) -> bool:
        """What was fed is still to be read, a compressed transaction or a large value: call `inflate` before the next
        `feed`."""
        return self._inflating is not None or self._late is not None

    @property
    def gtid(self) -> Gtid | None:
        """The transaction that is being read."""
        return self._gtid

    @property
    def prepared(self) -> GtidSet:
        """The transactions that prepared an XA transaction which has not ended."""
        return GtidSet.of(prepared.gtid for prepared in self._prepared.values())

    @property
    def open_xa(self) -> frozenset[bytes]:
        """Xids of the prepared XA transactions that have not ended, as `normal_xid` writes them."""
        return frozenset(self._prepared)

    def untold(self, xids: Iterable[bytes], *, over: bool) -> None:
        """These may have ended unseen: their tables become holes. `over`: they have, and are forgotten."""
        for prepared in filter(None, map(self._prepared.get, xids)):
            odd = prepared.odd or Odd()
            odd.add_tables(frozenset(mapped.name for mapped in prepared.seen))
            self.sink(Ddl(None, "an XA transaction may have ended", odd.tables, schema=False))
        for xid in xids if over else ():
            self._prepared.pop(xid, None)

    def inflate(self, count: int) -> None:
        """Reads up to `count` events of the compressed transaction, or takes as many steps. Raises as `feed`."""
        for _ in range(count):
            if self._late is not None:
                if next(self._late, self) is self:
                    self._late = None
                continue
            if self._inflating is None:
                return
            event = next(self._inflating.events, None)
            if event is None:
                self._inflating = None
                return
            data, start, end = event
            if end - start < int.from_bytes(data[start + ev.SIZE_AT : start + ev.SIZE_AT + 4], "little"):
                self.feed_cut(data, start, end)
            elif data:
                self._handlers[data[start + 4]](data, start + ev.HEADER, end)

    def reset(self) -> None:
        """The connection is lost: what is half received is dropped, table ids are forgotten. Prepared rows stay."""
        self._drop()
        self._inflating = None
        self._checksum_size = 0
        self.expected = None
        self.expected_file = b""
        self.tables.forget_ids()

    def _drop(self) -> None:
        self._gtid = None
        self._skip = self._block = self._xa = False
        self._changes, self._seen, self._odd, self._weight = [], [], None, 0
        self._late = None
        self._announced.clear()

    def begin_anew(self, position: MutableGtidSet) -> None:
        """Another server or lost history: the stream goes on there. An XA COMMIT that comes now is of an unknown
        xid."""
        self.reset()
        self.position = position
        self.last = None
        self.file = b""
        self.tables.all_redefined()
        self._prepared.clear()

    def want(self, table: Table, columns: frozenset[str]) -> None:
        if self.tables.want(table, columns):
            self._rewanted(table.qualified)

    def unwant(self, qualified: str) -> None:
        self.tables.unwant(qualified)
        self._rewanted(qualified)

    def _rewanted(self, qualified: str) -> None:
        """What is half received or prepared was decoded as it was wanted before."""
        half = [self._note()] if self._gtid is not None else []
        for prepared in self._prepared.values():
            prepared.odd = prepared.odd or Odd()
            half.append(prepared.odd)
        for odd in half:
            odd.rewanted.add(qualified)
            if qualified in self.tables.followers:  # rows of other tables may have changed it
                odd.untrusted[qualified] = "received while what is wanted of it changed"

    def _has_passed(self, gtids: GtidSet) -> bool:
        missing = gtids.difference(self.position.freeze())
        return not missing or (self._gtid is not None and missing == GtidSet.of((self._gtid,)))

    def _note(self) -> Odd:
        if self._odd is None:
            self._odd = Odd()
        return self._odd

    # -- the beginning of a transaction -------------------------------------------------------------------------------

    def _on_gtid(self, data: bytes, at: int, end: int) -> None:
        uuid, number, stamp = ev.read_gtid(data, at)
        source = self._sources.get(uuid)
        if source is None:
            source = self._sources[uuid] = ev.uuid_text(uuid)
        self._begin(Gtid(source, number), stamp, data[at:end])

    def _on_tagged_gtid(self, data: bytes, at: int, end: int) -> None:
        self._begin(*ev.read_tagged_gtid(data, at, end), data[at:end])

    def _begin(self, gtid: Gtid, stamp: float, told: bytes) -> None:
        expected, self.expected = self.expected, None
        if expected is not None and expected != (gtid, told):
            raise HistoryLost(f"{expected[0]}, the last transaction that was read, is not in the binlog as it was")
        if self._gtid is not None:
            raise StreamBroken(f"{gtid} begins before {self._gtid} has ended", self._gtid)
        self._gtid = gtid
        self._stamp = stamp
        self._told = told
        self._skip = gtid in self.position
        if self._skip and self.last is None:  # the source was asked for it, to have one that can be compared later
            self.last = gtid, told

    def _on_anonymous(self, data: bytes, at: int, end: int) -> None:
        raise StreamBroken("a transaction without a GTID; gtid_mode must be ON", None, ev.ANONYMOUS_GTID)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _on_table_map(self, data: bytes, at: int, end: int) -> None:
        if self._skip:
            return
        body = data[at:end]
        mapped = self.tables.by_id.get(body[:6])
        if mapped is None or mapped.body != body:
            mapped = self.tables.map(body)
        if self._announced.rows_end is not None:
            self._end_statement()
        self.tables.note_write(mapped.name)
        self._seen.append(mapped)
        self._announced.tables.append(mapped)

    def _end_statement(self) -> None:
        for mapped in self._announced.end():
            if mapped.decoders is not None or mapped.untrusted:
                self._distrust(mapped, NOT_ALL)

    def feed_cut(self, data: bytes, start: int, end: int) -> None:
        """As `feed`, of an event of rows so large that only its beginning is there: those of its table are not read."""
        self._on_rows(data, start + ev.HEADER, end, whole=False)

    def _on_rows(self, data: bytes, at: int, end: int, *, whole: bool = True) -> None:
        self._announced.rows_end = data[at + 6] & ev.ENDS_STATEMENT
        if self._skip:
            return
        mapped = self.tables.by_id.get(data[at : at + 6])
        if mapped is None:
            if data[at : at + 6] != _DUMMY_TABLE:
                raise StreamBroken("rows of a table that was not announced", self._gtid)
            return
        kind = data[at - ev.HEADER + 4]
        if mapped.is_followed(kind, data, at, end):
            note = self._note()
            (note.deleted if kind == ev.DELETE_ROWS else note.updated).add(mapped.name)
        decoders = mapped.decoders
        if decoders is None:
            if mapped.untrusted:
                self._note().untrusted[mapped.name] = mapped.untrusted
        elif kind == ev.PARTIAL_UPDATE_ROWS:
            self._distrust(mapped, "partial JSON updates; binlog_row_value_options must be empty")
        elif not whole:
            self._note().untrusted[mapped.name] = LARGE_ROW
        else:
            first = mapped.rows_at(data, at, 2 if kind == ev.UPDATE_ROWS else 1)
            self._decode(mapped, decoders.of[kind], data, first, end, late=decoders.late)

    def _decode(
        self, mapped: MappedTable, decode: RowsDecoder, data: bytes, first: int, end: int, *, late: bool
    ) -> None:
        if not first:
            self._distrust(mapped, "rows without all of their columns; binlog_row_image must be FULL")
            return
        self._weight += end - first
        if self._weight > self._max_weight:
            self._changes = []
            self._note().heavy = True
            return
        try:
            pairs = decode(data, first, end)
        except MALFORMED as error:
            self._distrust(mapped, f"{UNDECODED}: {error}")
            return
        changes = self._changes
        if changes and changes[-1].table == mapped.name:
            changes[-1].pairs += pairs
        else:
            changes.append(TableChanges(mapped.name, pairs))
        if late and end - first > AT_ONCE:
            self._late = self._finish(mapped, changes[-1].pairs, len(pairs))
        if self.partly is not None and self._weight >= HANDED_ON and not self._xa and self._gtid is not None:
            self._changes, self._weight = [], 0
            self.partly(self._gtid, self._stamp, changes)

    def _finish(self, mapped: MappedTable, pairs: list[Pair], count: int) -> Iterator[None]:
        """The last ones, so many."""
        try:
            yield from finish(pairs, len(pairs) - count)
        except MALFORMED as error:
            self._distrust(mapped, f"{UNDECODED}: {error}")

    def _distrust(self, mapped: MappedTable, reason: str) -> None:
        self.tables.tell(mapped.name, reason)
        self._note().untrusted[mapped.name] = reason

    def _on_load(self, data: bytes, at: int, end: int) -> None:
        self._lost("rows were loaded by a statement, without row events")

    def _lost(self, reason: str) -> None:
        """Nothing is known of what this transaction changes."""
        if self._gtid is None:
            self.sink(Gap(reason, self.position.freeze()))
        elif not self._skip:
            self._note().gap = reason

    # -- statements ---------------------------------------------------------------------------------------------------

    def _on_query(self, data: bytes, at: int, end: int) -> None:
        if data[end - 6 : end] == b"\0BEGIN":
            self._block = True
            return
        if self._announced.tables:
            self._end_statement()
        database, text, mode = ev.read_query(data, at, end)
        statement = classify(text, database, mode) if text is not None else Statement(Kind.DDL, None)
        if statement.kind is Kind.ROWS:
            databases = ev.updated_databases(data, at)
            if databases is not None:
                statement = Statement(Kind.ROWS, frozenset(f"{name}.{ALL}" for name in databases))
        if self._gtid is None:
            if statement.kind is not Kind.HARMLESS:
                raise StreamBroken(f"a statement outside of any transaction: {text!r:.200}", None, ev.QUERY)
            return
        self._on_statement(statement, text or "a statement in a character set that is not read")

    def _on_statement(self, statement: Statement, text: str) -> None:
        kind = statement.kind
        if kind is Kind.XA:
            assert statement.xa is not None
            self._on_xa(*statement.xa)
            return
        if kind is Kind.BEGIN:
            self._block = True
            return
        self._accounts = statement.accounts
        if kind is Kind.DDL and not self._skip:
            note = self._note()
            note.statement = text
            note.schema |= statement.schema
            note.add_tables(self._members(statement))
        elif kind is Kind.ROWS and not self._skip:
            note = self._note()
            note.written = f"a statement changed rows without row events; binlog_format must be ROW: {text:.200}"
            note.add_tables(self._members(statement))
        elif kind in (Kind.ROLLBACK, Kind.ROLLBACK_TO) and not self._skip:
            for mapped in self._seen:
                self._note().untrusted[mapped.name] = "rows that were rolled back"
        if statement.starts_transaction:
            self._block = True
        elif kind in (Kind.COMMIT, Kind.ROLLBACK) or not self._block:
            self._end()

    def _members(self, statement: Statement) -> frozenset[str] | None:
        """The tables that a statement may have changed; None: any."""
        defines = statement.kind is Kind.DDL and statement.schema
        if statement.tables is None:
            if defines:
                self.tables.all_redefined()
            return None
        return (self.tables.redefined if defines else self.tables.with_members)(statement.tables)

    def _on_xa(self, verb: str, written: bytes) -> None:
        if verb in ("START", "END"):
            self._block = self._xa = True
            return
        xid = ev.normal_xid(written)
        prepared = self._prepared.pop(xid, None)
        if verb == "COMMIT" and not self._skip:
            if prepared is None:
                self._lost(
                    f"an XA transaction was committed whose rows were not seen: {written.decode(errors='replace')}"
                )
            else:
                self._changes, self._seen, self._odd = prepared.changes, prepared.seen, prepared.odd
        self._end()

    def _on_xa_prepare(self, data: bytes, at: int, end: int) -> None:
        one_phase, xid = ev.read_xa_prepare(data, at)
        if self._announced.tables:
            self._end_statement()
        if not one_phase and not self._skip and self._gtid is not None:
            self._prepared[xid] = Prepared(self._gtid, self._changes, self._seen, self._odd)
            self._changes, self._seen, self._odd = [], [], None
        self._end()

    # -- the end of a transaction -------------------------------------------------------------------------------------

    def _on_commit(self, data: bytes, at: int, end: int) -> None:
        self._end()

    def _end(self) -> None:
        gtid = self._gtid
        if gtid is None:
            raise StreamBroken("a transaction ends that never began", None)
        if self._announced.tables:
            self._end_statement()
        changes = self._changes
        odd, seen, skip = self._odd, self._seen, self._skip
        accounts, self._accounts = self._accounts, False
        self._gtid = self._odd = None
        self._skip = self._block = self._xa = False
        self._seen = []
        size, self._weight = self._weight, 0
        if skip:
            return
        self.position.add(gtid)
        self.committed_at = self._stamp
        self.last = gtid, self._told
        if odd is not None:
            self._changes = []
            if children := self.tables.children(odd.deleted, odd.updated):
                odd.written = odd.written or UNFOLLOWED
                odd.add_tables(children)
            freeze = self.position.freeze
            self.sink(Gap(odd.gap, freeze()) if odd.gap else self.tell(odd, gtid, changes, seen, self._stamp, size))
        elif changes:
            self._changes = []
            self.sink(Transaction(gtid, changes, self._stamp, size))
        else:
            self.sink(Progress(gtid, accounts))

    # -- all else -----------------------------------------------------------------------------------------------------

    def _on_payload(self, data: bytes, at: int, end: int) -> None:
        if self._skip:
            self._end()
        else:
            self._inflating = Inflating(data, ev.read_payload(data, at, end), cuts=self.tables.in_steps)

    def _on_rotate(self, data: bytes, at: int, end: int) -> None:
        if self._gtid is not None:  # the server ended in the middle of writing it: it does not exist
            self._drop()
        self._named = data[at + 8 : end]
        self.tables.forget_ids()

    def _on_format(self, data: bytes, at: int, end: int) -> None:
        if self._gtid is not None:
            self._drop()
        whole_end = at - ev.HEADER + int.from_bytes(data[at - 10 : at - 6], "little")
        self._checksum_size = 4 if data[whole_end - 5] == 1 else 0
        self.file = self._named + data[at - ev.HEADER : at - ev.HEADER + 4]
        expected, self.expected_file = self.expected_file, b""
        if expected and expected != self.file:
            raise HistoryLost("the binlog is another file than before, and there is no transaction to compare")

    def _on_incident(self, data: bytes, at: int, end: int) -> None:
        self._lost("an incident event: the source lost changes")
        if self._gtid is not None and not self._block:
            self._end()

    def _on_unknown(self, data: bytes, at: int, end: int) -> None:
        kind = data[at - ev.HEADER + 4]
        if kind not in self.tolerated:
            raise StreamBroken(f"a binlog event of unknown type {kind}", self._gtid, kind)
        self._lost(f"a binlog event of unknown type {kind}")
