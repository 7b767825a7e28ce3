"""The transaction that is being read: its rows, decoded as they come, and what is odd about it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dataflow.messages import Pair, TableChanges
from gtid_tracker.gtid import Gtid
from vstream.binlog import events as ev
from vstream.binlog.announced_tables import Announced
from vstream.binlog.decode import MappedTable, TableDecoders
from vstream.binlog.rows import RowsDecoder
from vstream.binlog.untrusted import Odd, Prepared
from vstream.errors import MALFORMED, StreamBroken
from vstream.late_values import AT_ONCE, finish

Partly = Callable[[Gtid, float, list[TableChanges]], None]

HANDED_ON = 1 << 16
LARGE_ROW = "a row of many MB"
UNDECODED = "a row that cannot be decoded"
NOT_ALL = "rows that MySQL has announced are not in its binlog"
_DUMMY_TABLE = b"\xff\xff\xff\x00\x00\x00"  # ends a statement that changed no row of a logged table


class OpenTransaction:
    """One after the other: `clear` ends each.

    Invariants:
    1. Between two transactions (`gtid` is None) there are no rows, and nothing is odd.
    2. Of a transaction that is passed over (`skip`) no rows are kept.
    """

    def __init__(self, tables: TableDecoders, max_weight: int, partly: Partly | None) -> None:
        """`max_weight`: bytes of row images above which they are not kept. `partly`: is given changes before the
        transaction's end, from `HANDED_ON` bytes on; those of an XA transaction wait for its XA COMMIT."""
        self.max_weight = max_weight
        self._tables = tables
        self._partly = partly
        self.stamp = 0.0  # when it was committed
        self.told = b""  # its GTID event
        self.late: Iterator[None] | None = None  # the steps in which the rows that were read last are finished
        self.announced = Announced()  # by the statement of which rows are to come
        self.clear()

    def clear(self) -> None:
        self.gtid: Gtid | None = None
        self.skip = False
        self.block = False  # inside BEGIN or XA START: it ends with an event of its own
        self.xa = False  # inside XA START
        self.accounts = False  # a statement may have changed who may read what
        self.weight = 0
        self.changes: list[TableChanges] = []
        self.seen: list[MappedTable] = []  # the tables that it announces
        self.odd: Odd | None = None
        self.late = None
        self.announced.tables, self.announced.rows_end = [], None

    def check_invariants(self) -> None:
        rows = self.changes or self.seen or self.announced.tables
        assert self.gtid is not None or not (rows or self.odd or self.block or self.skip), "between two transactions"
        assert not (self.skip and (rows or self.odd)), f"rows of {self.gtid}, which came before"

    def note(self) -> Odd:
        if self.odd is None:
            self.odd = Odd()
        return self.odd

    def distrust(self, mapped: MappedTable, reason: str) -> None:
        self._tables.tell(mapped.name, reason)
        self.note().untrusted[mapped.name] = reason

    def set_aside(self, gtid: Gtid) -> Prepared:
        """It ends here, and its rows do not become visible with it."""
        prepared = Prepared(gtid, self.changes, self.seen, self.odd)
        self.changes, self.seen, self.odd = [], [], None
        return prepared

    def take_up(self, prepared: Prepared) -> None:
        """These rows become visible with it."""
        self.changes, self.seen, self.odd = prepared.changes, prepared.seen, prepared.odd

    # -- events -------------------------------------------------------------------------------------------------------

    def on_table_map(self, data: bytes, at: int, end: int) -> None:
        if self.skip:
            return
        if self.gtid is None:
            raise StreamBroken("a table is announced outside of any transaction", None)
        tables, announced = self._tables, self.announced
        body = data[at:end]
        mapped = tables.by_id.get(body[:6])
        if mapped is None or mapped.body != body:
            mapped = tables.map(body)
        if announced.rows_end is not None:
            self.end_statement()
        tables.note_write(mapped.name)
        self.seen.append(mapped)
        announced.tables.append(mapped)

    def end_statement(self) -> None:
        for mapped in self.announced.end():
            if mapped.decoders is not None or mapped.untrusted:
                self.distrust(mapped, NOT_ALL)

    def on_rows(self, data: bytes, at: int, end: int, *, whole: bool = True) -> None:
        """`whole` false: only the beginning of a large event is there."""
        if self.skip:
            return
        self.announced.rows_end = data[at + 6] & ev.ENDS_STATEMENT
        mapped = self._tables.by_id.get(data[at : at + 6])
        if mapped is None or self.gtid is None:
            if data[at : at + 6] != _DUMMY_TABLE:
                raise StreamBroken("rows of a table that was not announced", self.gtid)
            return
        kind = data[at - ev.HEADER + 4]
        if mapped.is_followed(kind, data, at, end):
            note = self.note()
            (note.deleted if kind == ev.DELETE_ROWS else note.updated).add(mapped.name)
        decoders = mapped.decoders
        if decoders is None:
            if mapped.untrusted:
                self.note().untrusted[mapped.name] = mapped.untrusted
        elif kind == ev.PARTIAL_UPDATE_ROWS:
            self.distrust(mapped, "partial JSON updates; binlog_row_value_options must be empty")
        elif not whole:
            self.note().untrusted[mapped.name] = LARGE_ROW
        else:
            first = mapped.rows_at(data, at, 2 if kind == ev.UPDATE_ROWS else 1)
            self._decode(self.gtid, mapped, decoders.of[kind], data, first, end, late=decoders.late)

    def _decode(
        self, gtid: Gtid, mapped: MappedTable, decode: RowsDecoder, data: bytes, first: int, end: int, *, late: bool
    ) -> None:
        if not first:
            self.distrust(mapped, "rows without all of their columns; binlog_row_image must be FULL")
            return
        self.weight += end - first
        if self.weight > self.max_weight:
            self.changes = []
            self.note().heavy = True
            return
        try:
            pairs = decode(data, first, end)
        except MALFORMED as error:
            self.distrust(mapped, f"{UNDECODED}: {error}")
            return
        changes = self.changes
        if changes and changes[-1].table == mapped.name:
            changes[-1].pairs += pairs
        else:
            changes.append(TableChanges(mapped.name, pairs))
        if late and end - first > AT_ONCE:
            self.late = self._finish(mapped, changes[-1].pairs, len(pairs))
        if self._partly is not None and self.weight >= HANDED_ON and not self.xa:
            self.changes, self.weight = [], 0
            self._partly(gtid, self.stamp, changes)

    def _finish(self, mapped: MappedTable, pairs: list[Pair], count: int) -> Iterator[None]:
        """The last ones, so many."""
        try:
            yield from finish(pairs, len(pairs) - count)
        except MALFORMED as error:
            self.distrust(mapped, f"{UNDECODED}: {error}")
