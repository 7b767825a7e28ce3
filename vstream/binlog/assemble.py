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

from collections.abc import Callable, Sequence

from dataflow.messages import Gap, Progress, StreamEvent, TableChanges, Transaction
from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet
from sqltypes.schema import Table
from vstream.binlog import events as ev
from vstream.binlog.decode import MappedTable, TableDecoders
from vstream.binlog.inflate import Inflating
from vstream.binlog.open_transaction import OpenTransaction, Partly
from vstream.binlog.resume_point import ResumePoint
from vstream.binlog.short_transactions import whole_transaction
from vstream.binlog.untrusted import Odd, Prepared, told
from vstream.ddl import ALL, Kind, Statement, classify
from vstream.errors import MALFORMED, StreamBroken
from vstream.late_values import AT_ONCE
from vstream.source import Sink

Handler = Callable[[bytes, int, int], None]
Tell = Callable[[Odd, Gtid, list[TableChanges], Sequence[MappedTable], float, int], StreamEvent]

UNFOLLOWED = (
    "rows that foreign keys change are not in the binlog: InnoDB has followed them, as it does before MySQL 9.6, with"
    " innodb_native_foreign_keys=ON, and in a session begun anew (COM_RESET_CONNECTION or COM_CHANGE_USER)"
)
IDLE = float("inf")


class Assembler:
    """Takes events in order (`feed`), gives messages to the sink."""

    def __init__(
        self,
        tables: TableDecoders,
        position: MutableGtidSet,
        sink: Sink,
        max_weight: int = 64 << 20,
        *,
        tell: Tell = told,
        partly: Partly | None = None,
    ) -> None:
        """`max_weight`: bytes of row images above which a transaction is not kept but its tables are emptied.
        `tell`: makes the message of a transaction that has more than trusted rows. `partly`: for a consumer that needs
        no transaction at once; the message at its end has the changes that were not given before."""
        self.tables = tables
        self.position = position
        self.sink = sink
        self.tolerated: set[int] = set()  # event types that are passed over with a Gap each time
        self.committed_at = 0.0  # of the last transaction given; IDLE behind a heartbeat
        self.resume = ResumePoint()
        self.prepared: dict[bytes, Prepared] = {}  # XA transactions that have not ended, by `normal_xid`
        self._tell = tell
        self._transaction = OpenTransaction(tables, max_weight, partly)
        self._checksum_size = 0
        self._inflating: Inflating | None = None
        self._handlers = self._handler_table()
        if tables.definitions is not None:
            tables.definitions.passed = self._has_passed

    def check_invariants(self) -> None:
        self._transaction.check_invariants()
        self.resume.check_invariants()

    def _handler_table(self) -> list[Handler]:
        def idle(data: bytes, at: int, end: int) -> None:
            """The server sends one only when there is nothing else to send."""
            self.committed_at = IDLE

        def ignore(data: bytes, at: int, end: int) -> None:
            """Carries nothing for a reader of row images."""

        known: dict[int, Handler] = {
            **dict.fromkeys((ev.STOP, ev.PREVIOUS_GTIDS, ev.ROWS_QUERY, ev.IGNORABLE), ignore),
            **dict.fromkeys((ev.TRANSACTION_CONTEXT, ev.VIEW_CHANGE), ignore),
            # The context of a statement, which follows and is dealt with.
            **dict.fromkeys((ev.INTVAR, ev.RAND, ev.USER_VAR), ignore),
            **dict.fromkeys(ev.LOADS, self._on_load),
            **dict.fromkeys((ev.HEARTBEAT, ev.HEARTBEAT_V2), idle),
            ev.QUERY: self._on_query,
            ev.ROTATE: self._on_rotate,
            ev.FORMAT: self._on_format,
            ev.XID: self._on_commit,
            ev.TABLE_MAP: self._transaction.on_table_map,
            **dict.fromkeys(ev.ROWS, self._transaction.on_rows),
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
        """A GTID event as for `feed`, in a buffer of packets. If a whole transaction of the commonest shape begins with
        it, and nothing about it is odd, reads it and returns where the next packet begins. Otherwise returns 0 and
        reads nothing: `feed` its events. Raises only the sink's exceptions."""
        found = whole_transaction(data, end, self._checksum_size)
        if found is None or self._transaction.gtid is not None or self.resume.expected is not None:
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
        gtid = tuple.__new__(Gtid, (ev.uuid_text(uuid), number))  # without a call in Python
        decoders = mapped.decoders
        if decoders is None:
            message: StreamEvent = Progress(gtid)
        else:
            front = mapped.full_update if kind == ev.UPDATE_ROWS else mapped.full_images
            first = at + 8 + len(front)
            if data[at + 8 : first] != front:
                first = mapped.rows_at(data, at, 2 if kind == ev.UPDATE_ROWS else 1)
            size = rows_end - first
            if not first or size > self._transaction.max_weight or (decoders.late and size > AT_ONCE):
                return 0
            try:
                pairs = decoders.of[kind](data, first, rows_end)
            except MALFORMED:
                return 0
            message = Transaction(gtid, [TableChanges(mapped.name, pairs)], stamp, size)
        if not self.position.add(gtid):  # it comes again
            return 0
        writes = self.tables.writes
        if mapped.name in writes:
            writes[mapped.name] += 1
        else:
            self.tables.note_write(mapped.name)
        self.committed_at = stamp
        self.resume.last = gtid, data[start + ev.HEADER : end - self._checksum_size]
        self.sink(message)
        return after

    @property
    def inflating(self) -> bool:
        """Fed bytes are still to be read, of a compressed transaction or a large value: call `inflate` before the next
        `feed`."""
        return self._inflating is not None or self._transaction.late is not None

    @property
    def gtid(self) -> Gtid | None:
        """The transaction that is being read."""
        return self._transaction.gtid

    def inflate(self, count: int) -> None:
        """Reads up to `count` events of the compressed transaction, or takes as many steps. Raises as `feed`."""
        for _ in range(count):
            late = self._transaction.late
            if late is not None:
                if next(late, self) is self:
                    self._transaction.late = None
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
        self._transaction.clear()
        self._inflating = None
        self._checksum_size = 0
        self.resume.lose()
        self.tables.forget_ids()

    def begin_anew(self, position: MutableGtidSet) -> None:
        """Another server or lost history: the stream goes on there. An XA COMMIT that comes now is of an unknown
        xid."""
        self.reset()
        self.position = position
        self.resume.forget()
        self.tables.all_redefined()
        self.prepared.clear()

    def want(self, table: Table, columns: frozenset[str]) -> None:
        if self.tables.want(table, columns):
            self._rewanted(table.qualified)

    def unwant(self, qualified: str) -> None:
        self.tables.unwant(qualified)
        self._rewanted(qualified)

    def _rewanted(self, qualified: str) -> None:
        """What is half received or prepared was decoded as it was wanted before."""
        half: list[Prepared | OpenTransaction] = [*self.prepared.values()]
        if self._transaction.gtid is not None:
            half.append(self._transaction)
        for one in half:
            odd = one.odd = one.odd or Odd()
            odd.rewanted.add(qualified)
            if qualified in self.tables.followers:  # rows of other tables may have changed it
                odd.untrusted[qualified] = "received while what is wanted of it changed"

    def _has_passed(self, gtids: GtidSet) -> bool:
        missing = gtids.difference(self.position.freeze())
        gtid = self._transaction.gtid
        return not missing or (gtid is not None and missing == GtidSet.of((gtid,)))

    # -- the beginning of a transaction -------------------------------------------------------------------------------

    def _on_gtid(self, data: bytes, at: int, end: int) -> None:
        uuid, number, stamp = ev.read_gtid(data, at)
        self._begin(Gtid(ev.uuid_text(uuid), number), stamp, data[at:end])

    def _on_tagged_gtid(self, data: bytes, at: int, end: int) -> None:
        self._begin(*ev.read_tagged_gtid(data, at, end), data[at:end])

    def _begin(self, gtid: Gtid, stamp: float, told: bytes) -> None:
        transaction, resume = self._transaction, self.resume
        if resume.expected is not None:
            resume.compare(gtid, told)
        if transaction.gtid is not None:
            raise StreamBroken(f"{gtid} begins before {transaction.gtid} has ended", transaction.gtid)
        transaction.gtid, transaction.stamp, transaction.told = gtid, stamp, told
        transaction.skip = gtid in self.position
        if transaction.skip and resume.last is None:  # the source was asked for it, to have one to compare later
            resume.last = gtid, told

    def _on_anonymous(self, data: bytes, at: int, end: int) -> None:
        raise StreamBroken("a transaction without a GTID; gtid_mode must be ON", None, ev.ANONYMOUS_GTID)

    # -- events that lack something -----------------------------------------------------------------------------------

    def feed_cut(self, data: bytes, start: int, end: int) -> None:
        """As `feed`, of an event of rows so large that only its beginning is there: those of its table are not read."""
        self._transaction.on_rows(data, start + ev.HEADER, end, whole=False)

    def _on_load(self, data: bytes, at: int, end: int) -> None:
        self._lost("rows were loaded by a statement, without row events")

    def _lost(self, reason: str) -> None:
        """Nothing is known of what this transaction changes."""
        if self._transaction.gtid is None:
            self.sink(Gap(reason, self.position.freeze()))
        elif not self._transaction.skip:
            self._transaction.note().gap = reason

    # -- statements ---------------------------------------------------------------------------------------------------

    def _on_query(self, data: bytes, at: int, end: int) -> None:
        transaction = self._transaction
        if data[end - 6 : end] == b"\0BEGIN" and transaction.gtid is not None:
            transaction.block = True
            return
        if transaction.announced.tables:
            transaction.end_statement()
        database, text, mode = ev.read_query(data, at, end)
        statement = classify(text, database, mode) if text is not None else Statement(Kind.DDL, None)
        if statement.kind is Kind.ROWS:
            databases = ev.updated_databases(data, at)
            if databases is not None:
                statement = Statement(Kind.ROWS, frozenset(f"{name}.{ALL}" for name in databases))
        if transaction.gtid is None:
            if statement.kind is not Kind.HARMLESS:
                raise StreamBroken(f"a statement outside of any transaction: {text!r:.200}", None, ev.QUERY)
            return
        self._on_statement(statement, text or "a statement in a character set that is not read")

    def _on_statement(self, statement: Statement, text: str) -> None:
        kind, transaction = statement.kind, self._transaction
        if kind is Kind.XA:
            assert statement.xa is not None
            self._on_xa(*statement.xa)
            return
        if kind is Kind.BEGIN:
            transaction.block = True
            return
        transaction.accounts = statement.accounts
        if kind is Kind.DDL and not transaction.skip:
            note = transaction.note()
            note.statement = text
            note.schema |= statement.schema
            note.add_tables(self._members(statement))
        elif kind is Kind.ROWS and not transaction.skip:
            note = transaction.note()
            note.written = f"a statement changed rows without row events; binlog_format must be ROW: {text:.200}"
            note.add_tables(self._members(statement))
        elif kind in (Kind.ROLLBACK, Kind.ROLLBACK_TO) and not transaction.skip:
            for mapped in transaction.seen:
                transaction.note().untrusted[mapped.name] = "rows that were rolled back"
        if statement.starts_transaction:
            transaction.block = True
        elif kind in (Kind.COMMIT, Kind.ROLLBACK) or not transaction.block:
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
        transaction = self._transaction
        if verb in ("START", "END"):
            transaction.block = transaction.xa = True
            return
        prepared = self.prepared.pop(ev.normal_xid(written), None)
        if verb == "COMMIT" and not transaction.skip:
            if prepared is not None:
                transaction.take_up(prepared)
            else:
                xid = written.decode(errors="replace")
                self._lost(f"an XA transaction was committed whose rows were not seen: {xid}")
        self._end()

    def _on_xa_prepare(self, data: bytes, at: int, end: int) -> None:
        one_phase, xid = ev.read_xa_prepare(data, at)
        transaction = self._transaction
        if transaction.announced.tables:
            transaction.end_statement()
        if not one_phase and not transaction.skip and transaction.gtid is not None:
            self.prepared[xid] = transaction.set_aside(transaction.gtid)
        self._end()

    # -- the end of a transaction -------------------------------------------------------------------------------------

    def _on_commit(self, data: bytes, at: int, end: int) -> None:
        self._end()

    def _end(self) -> None:
        transaction = self._transaction
        gtid = transaction.gtid
        if gtid is None:
            raise StreamBroken("a transaction ends that never began", None)
        if transaction.announced.tables:
            transaction.end_statement()
        changes, seen, odd = transaction.changes, transaction.seen, transaction.odd
        skip, accounts, stamp, size = transaction.skip, transaction.accounts, transaction.stamp, transaction.weight
        transaction.clear()
        if skip:
            return
        self.position.add(gtid)
        self.committed_at = stamp
        self.resume.last = gtid, transaction.told
        if odd is not None:
            if children := self.tables.children(odd.deleted, odd.updated):
                odd.written = odd.written or UNFOLLOWED
                odd.add_tables(children)
            freeze = self.position.freeze
            self.sink(Gap(odd.gap, freeze()) if odd.gap else self._tell(odd, gtid, changes, seen, stamp, size))
        elif changes:
            self.sink(Transaction(gtid, changes, stamp, size))
        else:
            self.sink(Progress(gtid, accounts))

    # -- all else -----------------------------------------------------------------------------------------------------

    def _on_payload(self, data: bytes, at: int, end: int) -> None:
        if self._transaction.skip:
            self._end()
        else:
            self._inflating = Inflating(data, ev.read_payload(data, at, end), cuts=self.tables.in_steps)

    def _on_rotate(self, data: bytes, at: int, end: int) -> None:
        if self._transaction.gtid is not None:  # the server ended in the middle of writing it: it does not exist
            self._transaction.clear()
        self.resume.name(data[at + 8 : end])
        self.tables.forget_ids()

    def _on_format(self, data: bytes, at: int, end: int) -> None:
        if self._transaction.gtid is not None:
            self._transaction.clear()
        whole_end = at - ev.HEADER + int.from_bytes(data[at - 10 : at - 6], "little")
        self._checksum_size = 4 if data[whole_end - 5] == 1 else 0
        self.resume.begin_file(data[at - ev.HEADER : at - ev.HEADER + 4])

    def _on_incident(self, data: bytes, at: int, end: int) -> None:
        self._lost("an incident event: the source lost changes")
        if self._transaction.gtid is not None and not self._transaction.block:
            self._end()

    def _on_unknown(self, data: bytes, at: int, end: int) -> None:
        kind = data[at - ev.HEADER + 4]
        if kind not in self.tolerated:
            raise StreamBroken(f"a binlog event of unknown type {kind}", self._transaction.gtid, kind)
        self._lost(f"a binlog event of unknown type {kind}")
