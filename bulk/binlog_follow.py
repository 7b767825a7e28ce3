"""One connection that follows the binlog from a `Position`, for Spark: transaction by transaction, in binlog order.

It stops rather than leave a change out or give a wrong value; `Stopped` says why, and what to do.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence

from bulk.binlog_position import Position
from dataflow.messages import Gap, Progress, StreamEvent, TableChanges, Transaction
from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet
from sqltypes.errors import UpwellError
from sqltypes.schema import Table
from sqltypes.source_checks import Severity
from vstream.binlog.assemble import Assembler
from vstream.binlog.connection import Account, Session, log_in
from vstream.binlog.decode import MappedTable, TableDecoders
from vstream.binlog.dump import DumpLost
from vstream.binlog.pulled import PulledDump
from vstream.binlog.source import HISTORY_LOST, NO_RIGHT
from vstream.binlog.untrusted import Odd, why
from vstream.ddl import keeps_rows
from vstream.errors import StreamBroken

HEARTBEAT = 1.0  # seconds
PATIENCE = 60.0  # seconds for which a server that is away is tried again
PAUSE = 0.5  # seconds between two tries
LARGEST_HELD = 1 << 30  # bytes of the rows of a prepared XA transaction
ANEW = (
    "begin anew: a new query with a checkpoint of its own, from startingPosition 'earliest', or from a snapshot of the"
    " table and the position at which it was begun"
)

Give = Callable[[Gtid, int, float, Sequence[TableChanges]], None]
"""(GTID, the transaction's number, when it was committed, changes): called several times for a large transaction."""


class Stopped(UpwellError):
    """The stream cannot go on. The message says what was seen, and what to do."""

    reason = "stream_stopped"


class Follower:
    """Invariants: 1. `reached` grows by whole transactions, in binlog order, and only by those of `upto`."""

    def __init__(
        self,
        account: Account,
        start: Position,
        tables: Iterable[Table] = (),
        give: Give | None = None,
        emptied: Callable[[Gtid, int, float, str], None] | None = None,
        upto: GtidSet | None = None,
    ) -> None:
        """Logs in and asks for what follows `start`. `give` gets the changes of `tables`; without it no value is
        decoded. `emptied` is called at a TRUNCATE TABLE. `upto`: the only transactions to read; None: all.

        Raises Stopped, SourceDown (try again), SourceError or ConfigError.
        """
        self._start, self._upto, self._give, self._emptied = start, upto, give, emptied
        self._tables = frozenset(table.qualified for table in tables)
        self.reached = MutableGtidSet(start.gtids)
        self.transactions = start.transactions
        self.bytes = 0  # of the transactions that were passed, as the binlog has them
        self._last, self._committed = start.last, start.committed
        session = log_in(account)
        try:
            self._server = session.server_uuid
            again = start.prepared.union(_sought(session, start))
            self._missing = again.intersection(start.prepared)
            self._assembler = self._assemble(session, start.gtids.difference(again), tables)
            session.request_dump(start.gtids.difference(again), random.randrange(1, 1 << 32), HEARTBEAT)
        except BaseException:
            session.close()
            raise
        self._dump = PulledDump(session, self._assembler, HEARTBEAT)

    def _assemble(self, session: Session, position: GtidSet, tables: Iterable[Table]) -> Assembler:
        decoders = TableDecoders()
        decoders.charsets = session.charsets
        reached = MutableGtidSet(position)
        assembler = Assembler(decoders, reached, self._on_event, LARGEST_HELD, tell=self._on_odd, partly=self._on_part)
        for table in tables:
            assembler.want(table, frozenset(column.name for column in table.columns if self._give is not None))
        return assembler

    @property
    def position(self) -> Position:
        prepared = self._missing.union(GtidSet.of(one.gtid for one in self._assembler.prepared.values()))
        return Position(self.reached.freeze(), prepared, self.transactions, self._last, self._committed, self._server)

    @property
    def taken(self) -> int:
        """Bytes that were read."""
        return self._dump.taken

    def step(self, seconds: float) -> bool:
        """Reads on, at most to the end of a transaction; False if nothing came within so many seconds. Raises Stopped,
        or DumpLost where the connection is lost and it may be tried again."""
        try:
            return self._dump.step(seconds)
        except DumpLost as lost:
            if lost.errno == HISTORY_LOST:
                raise Stopped(f"the server refuses to go on from here: {lost}; {ANEW}") from None
            if lost.errno in NO_RIGHT:
                raise Stopped(f"the server ended the stream: {lost} ({lost.errno})") from None
            raise
        except StreamBroken as broken:
            raise Stopped(f"the binlog is not understood: {broken}{_at(broken.gtid)}") from None

    def close(self) -> None:
        self._dump.close()

    # -- what the assembler tells -------------------------------------------------------------------------------------

    def _is_new(self, gtid: Gtid) -> bool:
        return gtid not in self._start.gtids and (self._upto is None or gtid in self._upto)

    def _on_event(self, event: StreamEvent) -> None:
        if isinstance(event, Gap):
            raise Stopped(f"{event.reason}; what it changed is not known: {ANEW}")
        assert isinstance(event, Transaction | Progress), event
        gtid = event.gtid
        if not self._is_new(gtid):
            self._recognise(gtid)
            return
        if isinstance(event, Transaction) and self._give is not None:
            self._give(gtid, self.transactions + 1, event.committed_at, event.changes)
        self.reached.add(gtid)
        self.transactions += 1
        self.bytes = self._dump.taken
        self._last, self._committed = str(gtid), _microseconds(self._assembler.committed_at)

    def _recognise(self, gtid: Gtid) -> None:
        """One that was asked for again."""
        self._missing = self._missing.difference(GtidSet.of((gtid,)))
        if str(gtid) == self._start.last and _microseconds(self._assembler.committed_at) != self._start.committed:
            raise Stopped(
                f"the server's history is another one: {gtid}, the last transaction that was read, was committed at"
                f" another time than the one it has now (RESET BINARY LOGS, or another copy of the data); {ANEW}"
            )

    def _on_part(self, gtid: Gtid, committed_at: float, changes: list[TableChanges]) -> None:
        if self._give is not None and self._is_new(gtid):
            self._give(gtid, self.transactions + 1, committed_at, changes)

    def _on_odd(
        self, odd: Odd, gtid: Gtid, changes: list[TableChanges], seen: Sequence[MappedTable], stamp: float, size: int
    ) -> StreamEvent:
        """A transaction that has more than rows which can be trusted."""
        if not self._is_new(gtid):
            return Progress(gtid)
        if odd.untrusted or odd.heavy:
            raise Stopped(f"{why(odd)}{_at(gtid)}. {self._behind(gtid)}")
        if odd.tables is None or self._tables & odd.tables:
            if odd.written:
                raise Stopped(f"{odd.written}{_at(gtid)}. {self._behind(gtid)}")
            if odd.statement:
                self._on_statement(odd, gtid, stamp)
        return Transaction(gtid, changes, stamp, size) if changes else Progress(gtid)

    def _on_statement(self, odd: Odd, gtid: Gtid, stamp: float) -> None:
        if not odd.schema and odd.tables is not None:
            for name in sorted(self._tables & odd.tables):
                if self._emptied is not None:
                    self._emptied(gtid, self.transactions + 1, stamp, name)
        elif self._tables and not keeps_rows(odd.statement):
            raise Stopped(
                f"a statement may have changed the table, or rows of it that are not in the binlog:"
                f" {odd.statement[:200]!r}{_at(gtid)}. {self._behind(gtid)}"
            )

    def _behind(self, gtid: Gtid) -> str:
        """What to do to go on behind this transaction."""
        behind = str(self.reached.freeze().add(gtid)).replace("\n", "")
        return (
            f"To go on behind it, take a snapshot that has it, and begin a query with a checkpoint of its own and"
            f" startingPosition '{behind}'"
        )


def _sought(session: Session, start: Position) -> GtidSet:
    """Looks whether the server's history is that of `start`. The last transaction, to be compared, if it can be."""
    if session.no_right:
        raise Stopped(f"this server's binlog may not be read: {session.no_right}")
    if wrong := [one for one in (*session.findings, session.names) if one.severity is Severity.ERROR]:
        raise Stopped("; ".join(f"{one.seen} ({one.needed}; {'; '.join(one.mend)})" for one in wrong))
    check_history(start, session.executed, session.purged)
    if not start.last:
        return GtidSet.empty()
    last = GtidSet.parse(start.last)
    if not last.issubset(session.purged):
        return last
    if start.server != session.server_uuid:
        raise Stopped(
            f"another server answers ({session.server_uuid} instead of {start.server}), and {start.last}, the last"
            f" transaction that was read, is in none of its binlogs, so that it cannot be compared; {ANEW}"
        )
    return GtidSet.empty()


def check_history(start: Position, executed: GtidSet, purged: GtidSet) -> None:
    """Raises Stopped where the server does not have what follows `start`."""
    if not start.gtids.issubset(executed):
        missing = str(start.gtids.difference(executed)).replace("\n", "")
        raise Stopped(
            f"the server does not have {missing}, which was read: it lost transactions (RESET BINARY LOGS, an older"
            f" copy of its data), or another server answers; {ANEW}"
        )
    lost = purged.difference(start.gtids.difference(start.prepared))
    if lost:
        gone = str(lost).replace("\n", "")
        raise Stopped(
            f"the server has purged binlogs that were not read yet: {gone} is in none any more"
            f" (binlog_expire_logs_seconds, PURGE BINARY LOGS); {ANEW}"
        )


def pause(seconds: float) -> None:
    """Before a server that is away is tried again."""
    threading.Event().wait(seconds)


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


def _at(gtid: Gtid | None) -> str:
    return f" (transaction {gtid})" if gtid is not None else ""
