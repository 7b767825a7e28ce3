"""The state of one shard's stream: its position, its tables, and the transaction that is half received. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from dataflow.messages import Pair, TableChanges
from gtid_tracker.gtid import UUID, CachedParser, Gtid, GtidSet
from vstream import vitess_pb2 as pb
from vstream.vitess.rows import ColumnTold, RowDecoder

Shard = tuple[str, str]  # keyspace, shard
TableTold = tuple[tuple[ColumnTold, ...], bool]  # its columns; whether ENUM and SET come as texts

FLAVOR = "MySQL56/"
ROW_COST = 32  # bytes that a row takes beside its values, at least
PARTIAL = "only what has changed of its rows is in the stream; binlog_row_image must be FULL"
PARTIAL_JSON = "partial JSON updates; binlog_row_value_options must be empty"
REWANTED = "received while what is wanted of it changed"
TOO_LARGE = "rows not kept: the transaction is too large"


@dataclass(slots=True)
class Received:
    """The received part of a transaction. `told`: the position after it. `untrusted`: why rows of a table were not
    decoded; `outdated`: for one, because its columns have changed. `heavy`: no more rows are kept."""

    told: str = ""
    changes: list[TableChanges] = field(default_factory=list)
    untrusted: dict[str, str] = field(default_factory=dict)
    outdated: bool = False
    heavy: bool = False
    size: int = 0
    journal: pb.Journal | None = None

    @property
    def tables(self) -> frozenset[str]:
        """Of which it has rows that are wanted."""
        return frozenset(self.untrusted) | {one.table for one in self.changes}

    @property
    def reasons(self) -> str:
        return "; ".join(f"{name}: {why}" for name, why in sorted(self.untrusted.items()))

    def weigh(self, values: int) -> int:
        """Bytes of all rows that came, with one whose values are so many."""
        self.size += values + ROW_COST
        return self.size

    def give_up(self, name: str) -> None:
        """There is no room for the rows of this table, nor for others."""
        for table in (name, *(one.table for one in self.changes)):
            self.untrusted.setdefault(table, TOO_LARGE)
        self.changes, self.heavy = [], True

    def pairs(self, name: str) -> list[Pair]:
        """Where the next rows of the table go."""
        if not self.changes or self.changes[-1].table != name:
            self.changes.append(TableChanges(name, []))
        return self.changes[-1].pairs


class ShardState:
    """`tables`, `decoders`: each table as told last, and how its rows are read, or why they are not. `position`,
    `executed`: after the last complete transaction, "" before the first. `open`: one is half received. `journaled`:
    this shard has ended, and waits for the others that end with it. `behind`: seconds from the last commit to its
    receipt, at `behind_at`. `server`: UUID of the server that made the last transaction, "" if unknown."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.tables: dict[str, TableTold] = {}
        self.decoders: dict[str, RowDecoder | str] = {}
        self.position = ""
        self.executed = GtidSet.empty()
        self.received = Received()
        self.open = False
        self.journaled = False
        self.behind = self.behind_at = 0.0
        self.server = ""
        self._parser = CachedParser()

    @property
    def name(self) -> str:
        return "/".join(self.shard)

    def drop(self) -> None:
        """What of a transaction has come."""
        self.received, self.open = Received(), False

    def take(self) -> Received:
        """It has ended."""
        received = self.received
        self.drop()
        return received

    def reset(self) -> None:
        """The connection is lost: what was told on it is told again."""
        self.drop()
        self.journaled = False
        self.tables.clear()
        self.decoders.clear()

    def begin_at(self, told: str) -> None:
        """Raises ValueError for what is no position."""
        self.position, self.executed = told, self._parser.parse(told.removeprefix(FLAVOR))
        servers = {source[:UUID] for source in self.executed.intervals}
        if not self.server and len(servers) == 1:
            (self.server,) = servers

    def is_anothers(self, gtid: Gtid) -> bool:
        """Whether the shard's transactions may be another server's from this one on: asked once of each."""
        before, self.server = self.server, gtid.source[:UUID]
        return before != self.server

    def advance(self, told: str, gtid: Gtid | None) -> bool:
        """A transaction has ended. `told`: the position after it, "" if it was not told. False if that lacks a part of
        the shard's earlier position. Raises ValueError for a text that is no position."""
        before = self.executed
        if told:
            self.begin_at(told)
        elif gtid is not None and self.position:  # it is asked for again
            self.executed = before.add(gtid)
        return before.issubset(self.executed)
