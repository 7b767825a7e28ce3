"""A second opinion on the binlog, for the start-up check. Our own reader and mysql-replication, which share no code,
read the newest transactions and must agree.

For each transaction it compares the rows by table and kind, and their whole numbers, decimals and texts, if the library
reads these right: it does not know signs without `binlog_row_metadata=FULL`. The library skips compressed transactions
and cannot begin after tagged GTIDs. Then nothing is compared, and the finding says why.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import GtidEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from bulk.account import account_of
from dataflow.messages import Pair, StreamEvent, Transaction
from external_upquery.address import Upstream
from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet
from sqltypes.source_checks import Finding, Severity
from vstream.binlog.assemble import Assembler
from vstream.binlog.connection import Account, Session, log_in
from vstream.binlog.decode import MappedTable, TableDecoders
from vstream.binlog.dump import DumpLost
from vstream.binlog.layout import BLOB, LONG, LONGLONG, NEWDECIMAL, SHORT, TINY, VARCHAR, parse_table_map
from vstream.binlog.pulled import PulledDump
from vstream.binlog.rows import make_decoders
from vstream.errors import StreamBroken

NAME = "second_opinion"
NEWEST = 50  # transactions
PATIENCE = 10.0  # seconds for each reader
HEARTBEAT = 1.0  # seconds
TEXT_SETS = ("utf8mb4", "utf8mb3", "ascii", "latin1")
NUMBERS = frozenset({TINY, SHORT, LONG, LONGLONG})
Rows = list[tuple[object, ...]]
Read = dict[str, dict[str, Rows]]
"""By GTID, by table and kind, the compared values of the images: of an update those before, then those after."""


def check(upstream: Upstream) -> Finding:
    """The finding. Blocks for some seconds at most. Raises SourceDown, SourceError, ConfigError."""
    account = account_of(upstream)
    session = log_in(account)
    try:
        if session.no_right:
            return _not_compared("the binlog may not be read")
        asked = _newest(session)
        if not asked:
            return _not_compared("there are no transactions of its own in its binlog, but for the first")
        if session.executed.tagged:
            return _not_compared("there are tagged GTIDs, which mysql-replication does not know")
        columns = _Columns(named=session.names.severity is Severity.OK)
        ours = _by_us(session, columns, asked)
    except (StreamBroken, DumpLost) as error:
        return Finding(NAME, Severity.WARNING, f"the newest transactions cannot be read: {error}", "a report of that")
    finally:
        session.close()
    try:
        theirs = _by_the_library(account, columns, session.executed.difference(asked), asked)
    except Exception as error:  # noqa: BLE001 - an edge: whatever the library cannot read
        return _not_compared(f"mysql-replication cannot read them: {error!r:.200}")
    return _judged(ours, theirs)


def _not_compared(why: str) -> Finding:
    return Finding(NAME, Severity.OK, f"not compared with another reader of binlogs: {why}")


def _newest(session: Session) -> GtidSet:
    """The server's last transactions, as far as its binlog has them."""
    newest = session.newest
    if newest is None:
        return GtidSet.empty()
    first = max(2, newest.number - NEWEST + 1)  # the library cannot be asked for all
    wanted = GtidSet.of(Gtid(newest.source, number) for number in range(first, newest.number + 1))
    return wanted.intersection(session.executed).difference(session.purged)


def _judged(ours: Read, theirs: Read) -> Finding:
    both = ours.keys() & theirs.keys()
    for gtid in sorted(both, key=Gtid.parse):
        if ours[gtid] != theirs[gtid]:
            what = next(
                name
                for name in sorted(ours[gtid].keys() | theirs[gtid].keys())
                if ours[gtid].get(name) != theirs[gtid].get(name)
            )
            seen = f"{gtid}: {what} are read otherwise by mysql-replication"
            needed = "a report of that: one of the two readers is wrong"
            return Finding(NAME, Severity.WARNING, seen, needed)
    if not both:
        return _not_compared("mysql-replication has read none of the newest, as it passes over compressed transactions")
    rows = sum(len(found) for gtid in both for found in ours[gtid].values())
    return Finding(NAME, Severity.OK, f"{len(both)} transactions with {rows} rows are read alike by mysql-replication")


@dataclass
class _Columns:
    """Which columns of a table can be compared, by position. `named`: the binlog tells signs to the library."""

    named: bool
    of: dict[str, dict[int, int]] = field(default_factory=dict)  # by table, the position's type
    widths: dict[str, int] = field(default_factory=dict)

    def learn(self, mapped: MappedTable, charsets: Mapping[int, str]) -> None:
        layout = parse_table_map(mapped.body)
        texts = self.named
        self.widths[mapped.name] = len(layout.columns)
        self.of[mapped.name] = {
            position: column.kind
            for position, column in enumerate(layout.columns)
            if (column.kind in NUMBERS and self.named)
            or column.kind == NEWDECIMAL
            or (texts and column.kind in (VARCHAR, BLOB) and charsets.get(column.collation) in TEXT_SETS)
        }

    def picked(self, table: str, values: Sequence[object]) -> tuple[object, ...]:
        known = self.of.get(table, {})
        return tuple(_plain(value) for position, value in enumerate(values) if position in known)


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Decimal) else value


def _by_us(session: Session, columns: _Columns, asked: GtidSet) -> Read:
    """Raises StreamBroken, DumpLost, SourceDown, SourceError."""
    read: Read = {}

    def sink(event: StreamEvent) -> None:
        if isinstance(event, Transaction):
            found = read.setdefault(str(event.gtid), {})
            for changes in event.changes:
                _add(found, columns, changes.table, changes.pairs)

    def prepare(mapped: MappedTable) -> None:
        """Each table is decoded as the binlog describes it."""
        columns.learn(mapped, session.charsets)
        positions = frozenset(columns.of[mapped.name])
        mapped.decoders = make_decoders(parse_table_map(mapped.body), positions, session.charsets)
        mapped.expect_full(columns.widths[mapped.name])

    position = MutableGtidSet(session.executed.difference(asked))
    assembler = Assembler(TableDecoders(prepare=prepare), position, sink)
    session.request_dump(position.freeze(), random.randrange(1, 1 << 32), HEARTBEAT)
    dump, ends = PulledDump(session, assembler, HEARTBEAT), time.monotonic() + PATIENCE
    while not asked.issubset(assembler.position.freeze()) and time.monotonic() < ends:
        dump.step(HEARTBEAT)
    return {gtid: found for gtid, found in read.items() if Gtid.parse(gtid) in asked}


def _add(found: dict[str, Rows], columns: _Columns, table: str, pairs: Iterable[Pair]) -> None:
    for before, after in pairs:
        kind = "inserted" if before is None else "deleted" if after is None else "updated"
        rows = found.setdefault(f"{kind} rows of {table}", [])
        rows.extend(columns.picked(table, image) for image in (before, after) if image is not None)


def _by_the_library(account: Account, columns: _Columns, after: GtidSet, asked: GtidSet) -> Read:
    """Raises whatever the library raises."""
    reader = BinLogStreamReader(
        {
            "host": account.host,
            "port": account.port,
            "user": account.user,
            "password": account.password,
            "connect_timeout": account.connect_timeout,
            "read_timeout": PATIENCE,
            **account.options,
        },
        server_id=random.randrange(1, 1 << 32),
        auto_position=str(after).replace("\n", ""),
        only_events=[GtidEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        blocking=False,
        enable_logging=False,
        ignore_decode_errors=not columns.named,  # without collations it takes bytes for texts; these are not compared
    )
    try:
        return dict(_read_by(reader, columns, asked))
    finally:
        reader.close()


def _read_by(reader: Iterable[Any], columns: _Columns, asked: GtidSet) -> Iterator[tuple[str, dict[str, Rows]]]:
    gtid, found = "", dict[str, Rows]()
    for event in reader:
        if isinstance(event, GtidEvent):
            if found and Gtid.parse(gtid) in asked:
                yield gtid, found
            gtid, found = str(event.gtid).lower(), {}
            continue
        table = f"{event.schema}.{event.table}"
        for row in event.rows:
            pair: Pair
            if isinstance(event, UpdateRowsEvent):
                pair = _values(row["before_values"]), _values(row["after_values"])
            elif isinstance(event, WriteRowsEvent):
                pair = None, _values(row["values"])
            else:
                pair = _values(row["values"]), None
            _add(found, columns, table, [pair])
    if found and Gtid.parse(gtid) in asked:
        yield gtid, found


def _values(row: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(row.values())
