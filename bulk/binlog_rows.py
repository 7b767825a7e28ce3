"""The work of one Spark task of a change stream: the rows of the transactions between two positions.

After a lost connection the task starts again at the last whole transaction, and skips rows that it has given already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from bulk.account import account_of
from bulk.binlog_columns import Images, images_of, schema_of, texts_of
from bulk.binlog_follow import PATIENCE, PAUSE, Follower, Stopped, pause
from bulk.binlog_position import Position
from dataflow.messages import TableChanges
from external_upquery.address import Upstream
from gtid_tracker.gtid import Gtid
from sqltypes.errors import SourceDown
from sqltypes.expression import Row
from sqltypes.schema import Table
from vstream.binlog.dump import DumpLost

AT_ONCE = 5_000  # rows in a batch of Arrow's
AT_ONCE_BYTES = 4 << 20  # of the binlog for one
SILENT = 120.0  # seconds without a transaction of a batch that is known to be there
QUIET = 65_536  # bytes that heartbeats do not make in that time


@dataclass(frozen=True, slots=True)
class Piece:
    """What one task reads: whole transactions, those after `start` up to `end`."""

    upstream: Upstream
    start: Position
    end: Position
    tables: tuple[Table, ...]
    typed: bool
    dates: str


@dataclass(slots=True)
class _Rows:
    """Rows that were read, column by column."""

    gtids: list[str] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)  # microseconds
    transactions: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    before: list[Any] = field(default_factory=list)
    after: list[Any] = field(default_factory=list)


class PieceReader:
    def __init__(
        self,
        piece: Piece,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = pause,
    ) -> None:
        self._piece = piece
        self._clock, self._pause = clock, pause
        self._schema = to_arrow_schema(schema_of(piece.tables, piece.typed, piece.dates), timezone="UTC")
        self._images: Images | None = images_of(piece.tables[0], piece.dates) if piece.typed else None
        self._texts = {} if piece.typed else {table.qualified: texts_of(table) for table in piece.tables}
        self._names = {table.qualified: (table.schema, table.name) for table in piece.tables}
        self._rows = _Rows()
        self._gtid: Gtid | None = None  # whose rows come now
        self._count = 0  # of its rows that were given
        self._again = False  # the connection has given none yet
        self._passed_over: tuple[Gtid | None, int] = None, 0  # those that were given on a connection before

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Raises Stopped, SourceError or ConfigError."""
        reached = self._piece.start
        failing_since: float | None = None  # without a row that is new
        while not self._piece.end.gtids.issubset(reached.gtids):
            follower: Follower | None = None
            try:
                follower = self._follow(reached)
                self._again = True
                yield from self._read(follower)
                reached = follower.position
            except (DumpLost, SourceDown) as error:
                before, seen = reached, self._passed_over
                reached = follower.position if follower is not None else reached
                if self._gtid != seen[0] or self._count > seen[1]:
                    self._passed_over = self._gtid, self._count
                if failing_since is None or reached.gtids != before.gtids or self._passed_over != seen:
                    failing_since = self._clock()
                if self._clock() - failing_since > PATIENCE:
                    raise Stopped(f"the server has been away for {PATIENCE:g} s: {error}") from None
                self._pause(PAUSE)
            finally:
                if follower is not None:
                    follower.close()
        if self._rows.gtids:
            yield self._taken()

    def _follow(self, reached: Position) -> Follower:
        piece = self._piece
        return Follower(
            account_of(piece.upstream), reached, piece.tables, self._on_changes, self._on_emptied, piece.end.gtids
        )

    def _read(self, follower: Follower) -> Iterator[pa.RecordBatch]:
        end = self._piece.end.gtids
        heard, taken, given = self._clock(), 0, 0
        while not follower.reached.covers(end):
            follower.step(1.0)
            rows = self._rows
            if len(rows.gtids) >= AT_ONCE or (rows.gtids and follower.taken - given > AT_ONCE_BYTES):
                given = follower.taken
                yield self._taken()
            if follower.taken - taken > QUIET:
                heard, taken = self._clock(), follower.taken
            elif self._clock() - heard > SILENT:
                missing = str(end.difference(follower.reached.freeze())).replace("\n", "")
                raise Stopped(f"transactions that the server has executed are in none of its binlogs: {missing}")

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _on_changes(self, gtid: Gtid, number: int, committed_at: float, changes: Sequence[TableChanges]) -> None:
        for change in changes:
            for before, after in change.pairs:
                operation = "insert" if before is None else "delete" if after is None else "update"
                self._put(gtid, number, committed_at, change.table, operation, before, after)

    def _on_emptied(self, gtid: Gtid, number: int, committed_at: float, table: str) -> None:
        self._put(gtid, number, committed_at, table, "truncate", None, None)

    def _put(
        self,
        gtid: Gtid,
        number: int,
        committed_at: float,
        table: str,
        operation: str,
        before: Row | None,
        after: Row | None,
    ) -> None:
        if gtid != self._gtid or self._again:
            self._gtid, self._count, self._again = gtid, 0, False
        self._count += 1
        if self._passed_over[0] == gtid and self._count <= self._passed_over[1]:
            return
        rows = self._rows
        rows.gtids.append(str(gtid))
        rows.committed.append(round(committed_at * 1e6))
        rows.transactions.append(number)
        rows.numbers.append(self._count)
        rows.tables.append(table)
        rows.operations.append(operation)
        texts = self._texts.get(table)
        rows.before.append(before if texts is None or before is None else texts(before))
        rows.after.append(after if texts is None or after is None else texts(after))

    def _taken(self) -> pa.RecordBatch:
        rows, self._rows = self._rows, _Rows()
        names = [self._names[table] for table in rows.tables]
        columns: list[Any] = [
            rows.gtids,
            rows.committed,
            rows.transactions,
            rows.numbers,
            [schema for schema, _ in names],
            [name for _, name in names],
            rows.operations,
        ]
        arrays = [pa.array(column, f.type) for column, f in zip(columns, self._schema, strict=False)]
        for image, wanted in zip((rows.before, rows.after), list(self._schema)[len(columns) :], strict=True):
            arrays.append(self._images.array(image) if self._images is not None else pa.array(image, wanted.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
