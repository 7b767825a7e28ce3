"""The shards of a scripted vtgate: each a real MySQL of its own, with the history of what was written there, of which a
VStream is made. When a shard's history is told, and how it is cut into responses, the test says.

What a write has changed is found by reading the tables before and behind it, one write at a time: no binlog is read, so
that the judge does not share a decoder with what it judges.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import grpc
import pymysql

from gtid_tracker.gtid import GtidSet
from integration.servers.mysql_server import Server
from tests.support import vitess_events as made
from tests.support.scripted_vtgate import Abort, Step
from tests.support.vitess_events import HEARTBEAT, KEYSPACE, Values, response
from vstream import vitess_pb2 as pb

Found = TypeVar("Found")
Changed = tuple[str, Values | None, Values | None]  # a table's row, before and after
Cut = Callable[[list[pb.VEvent]], list[Step]]
EXECUTED = "SELECT @@GLOBAL.gtid_executed"
CHARSETS = (
    "SELECT c.column_name, c.column_type, COALESCE(k.id, 63) FROM information_schema.columns c"
    " LEFT JOIN information_schema.collations k ON k.collation_name = c.collation_name"
    " WHERE c.table_schema = '{keyspace}' AND c.table_name = '{table}' ORDER BY c.ordinal_position"
)
NO_TABLET = 'no healthy tablet available for \'keyspace:"{keyspace}" shard:"{shard}" tablet_type:PRIMARY\''


def whole(events: list[pb.VEvent]) -> list[Step]:
    return [response(*events)]


@dataclass(frozen=True)
class Committed:
    """A transaction of a shard. `position`: what its server has executed behind it."""

    gtid: str
    position: GtidSet
    changes: Sequence[Changed] = ()
    statement: str = ""  # it is DDL
    journal: pb.Journal | None = None


@dataclass
class Shard:
    """`server`: its primary's, which may become another one. `answering`: who is asked in its place; None: nobody else.
    `told`: of its history no more than so many transactions are told. `cut`: these into responses."""

    name: str
    server: Server
    tables: Sequence[str]
    history: list[Committed] = field(default_factory=list)
    answering: Server | None = None
    told: int | None = None
    cut: Cut = whole
    began: GtidSet = field(default_factory=GtidSet.empty)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.began = self.executed()

    def executed(self) -> GtidSet:
        return GtidSet.parse(self.server.execute(EXECUTED)[0][0])

    @property
    def position(self) -> GtidSet:
        return self.history[-1].position if self.history else self.began

    @property
    def tellable(self) -> int:
        return len(self.history) if self.told is None else min(self.told, len(self.history))

    def write(self, *statements: str) -> None:
        """One transaction."""

        def run() -> None:
            with closing(self.server.connect(autocommit=False, database=KEYSPACE)) as connection:
                for statement in statements:
                    connection.cursor().execute(statement)
                connection.commit()

        self.recorded(run)

    def alter(self, statement: str) -> None:
        """DDL."""
        with self.lock:
            before = self.executed()
            self.server.execute(f"USE {KEYSPACE}", statement)
            self._add(before, (), statement)

    def recorded(self, run: Callable[[], Found]) -> Found:
        """Runs what writes on this shard, at most one transaction."""
        with self.lock:
            before, rows = self.executed(), self._rows()
            found = run()
            self._add(before, list(_changes(rows, self._rows())))
        return found

    def _add(self, before: GtidSet, changes: Sequence[Changed], statement: str = "") -> None:
        after = self.executed()
        new = after.difference(before)
        if not new:
            assert not changes, "rows have changed without a GTID"
            return
        ((server, bounds),) = new.intervals.items()
        assert bounds[1] - bounds[0] == 1, "one transaction at a time"
        self.history.append(Committed(f"{server}:{bounds[0]}", after, changes, statement))

    def _rows(self) -> dict[str, dict[str | None, Values]]:
        """As texts, by the first column."""
        found: dict[str, dict[str | None, Values]] = {}
        with closing(self.server.connect(database=KEYSPACE, conv={})) as connection, connection.cursor() as cursor:
            for table in self.tables:
                cursor.execute(f"SELECT * FROM `{table}`")
                found[table] = {row[0]: row for row in cursor.fetchall()}
        return found

    def fields(self, table: str) -> pb.VEvent:
        told = self.server.execute(CHARSETS.format(keyspace=KEYSPACE, table=table))
        columns = [(name, kind.decode() if isinstance(kind, bytes) else kind) for name, kind, _ in told]
        return made.field_event(columns, self.name, table, [int(number) for _, _, number in told])


def _changes(
    before: Mapping[str, Mapping[str | None, Values]], after: Mapping[str, Mapping[str | None, Values]]
) -> Iterator[Changed]:
    for table, rows in after.items():
        held = before[table]
        for key in held.keys() | rows.keys():
            if held.get(key) != rows.get(key):
                yield table, held.get(key), rows.get(key)


class Keyspace:
    """`shards`: those that serve. `ended`: those that did, whose history is told up to its end."""

    def __init__(self, servers: Mapping[str, Server], tables: Sequence[str]) -> None:
        self.tables = tables
        self.shards = {name: Shard(name, server, tables) for name, server in servers.items()}
        self.ended: dict[str, Shard] = {}
        self.streams = 0  # how often all have been broken off

    def executed(self) -> GtidSet:
        found = GtidSet.empty()
        for shard in self.shards.values():
            found = found.union(shard.executed())
        return found

    def asked(self, *statements: str) -> list[list[tuple[Any, ...]]]:
        """The rows that the shards' servers have of each."""
        found: list[list[tuple[Any, ...]]] = [[] for _ in statements]
        for shard in self.shards.values():
            with closing(shard.server.connect(database=KEYSPACE)) as connection, connection.cursor() as cursor:
                for rows, statement in zip(found, statements, strict=True):
                    cursor.execute(statement)
                    rows += cursor.fetchall()
        return [sorted(rows, key=repr) for rows in found]  # NULL is like no number

    @contextmanager
    def told_late(self, *names: str) -> Iterator[None]:
        """What these shards, or all, commit meanwhile is told afterwards."""
        late = [shard for name, shard in self.shards.items() if name in names or not names]
        for shard in late:
            shard.told = len(shard.history)
        try:
            yield
        finally:
            for shard in late:
                shard.told = None

    def break_streams(self) -> None:
        """Those that are under way end with an error."""
        self.streams += 1

    def fail_over(self, name: str, server: Server) -> None:
        """The shard has another primary from now on. What that lacks is lost."""
        shard = self.shards[name]
        with shard.lock:
            shard.server = server
            executed = shard.executed()
            shard.history = [one for one in shard.history if one.position.issubset(executed)]
            if not shard.history:
                shard.began = executed
        self.break_streams()

    def forget(self, name: str) -> None:
        """The shard's server begins its history anew, with the same rows."""
        shard = self.shards[name]
        with shard.lock:
            shard.server.execute("RESET BINARY LOGS AND GTIDS")
            shard.history, shard.began = [], shard.executed()
        self.break_streams()

    def merge(self, olds: Sequence[str], new: str, server: Server) -> None:
        """The old shards are one from now on, on a server that has their rows. What they told ends with a journal."""
        shard = Shard(new, server, self.tables)
        told = pb.Journal(
            id=7,
            migration_type=pb.SHARDS,
            shard_gtids=[made.shard_gtid(new, _vitess(shard.began))],
            participants=[pb.KeyspaceShard(keyspace=KEYSPACE, shard=one) for one in olds],
        )
        for name in olds:
            old = self.ended[name] = self.shards[name]
            with old.lock:
                before = old.executed()
                old.server.execute(f"CREATE TABLE {KEYSPACE}.resharding_journal (id INT)")  # takes a GTID
                new_gtids = old.executed().difference(before)
                ((uuid, bounds),) = new_gtids.intervals.items()
                old.history.append(Committed(f"{uuid}:{bounds[0]}", old.executed(), journal=told))
        self.shards = {new: shard} | {name: one for name, one in self.shards.items() if name not in olds}

    # -- VStream ------------------------------------------------------------------------------------------------------

    async def stream(self, request: pb.VStreamRequest) -> AsyncIterator[Step]:
        """The answer to a call: what is behind the positions that it names."""
        streams = self.streams
        interval = request.flags.heartbeat_interval or 1
        at: dict[str, int | None] = {}  # how much of its history has been told; None: not even where it is
        for one in request.vgtid.shard_gtids:
            if not one.shard:
                at |= dict.fromkeys(self.shards)
                continue
            shard = self._shard(one.shard)
            if shard is None:
                text = f"shard {one.shard} not found among the serving shards, provided in VGTID"
                yield Abort(grpc.StatusCode.INVALID_ARGUMENT, text)
                return
            has = GtidSet.parse(one.gtid.removeprefix("MySQL56/"))
            if not has.issubset(shard.position):
                yield Abort(grpc.StatusCode.INVALID_ARGUMENT, f"GTIDSet Mismatch: requested {one.gtid}")
                return
            at[one.shard] = sum(committed.position.issubset(has) for committed in shard.history)
        fields: set[tuple[str, str]] = set()
        journals: set[str] = set()
        while True:
            yield partial(self._has_more, at, time.monotonic() + interval, streams)
            if streams != self.streams:
                yield Abort(grpc.StatusCode.UNAVAILABLE, "a tablet is not healthy")
            behind = self._behind(at)
            if not behind:
                yield response(HEARTBEAT)
                continue
            shard, number = behind[0], at[behind[0].name]
            if number is None:
                at[shard.name] = len(shard.history)
                yield response(self._vgtid(shard, shard.position, at), made.event(pb.OTHER, shard.name))
                continue
            committed = shard.history[number]
            at[shard.name] = number + 1
            for step in shard.cut(await asyncio.to_thread(self._events, shard, committed, at, fields)):
                yield step
            if committed.journal is not None:
                journals.add(shard.name)
                olds = {one.shard for one in committed.journal.participants}
                if olds <= journals:
                    at = {name: number for name, number in at.items() if name not in olds}
                    at |= {one.shard: 0 for one in committed.journal.shard_gtids}

    def _has_more(self, at: Mapping[str, int | None], latest: float, streams: int) -> bool:
        return streams != self.streams or bool(self._behind(at)) or time.monotonic() > latest

    def _shard(self, name: str) -> Shard | None:
        return self.shards.get(name) or self.ended.get(name)

    def _behind(self, at: Mapping[str, int | None]) -> list[Shard]:
        found = []
        for name, number in at.items():
            shard = self._shard(name)
            if shard is not None and (number is None or number < shard.tellable):
                found.append(shard)
        return found

    def _vgtid(self, shard: Shard, position: GtidSet, at: Mapping[str, int | None]) -> pb.VEvent:
        told = []
        for name, number in at.items():
            one = self._shard(name)
            assert one is not None
            if one is shard:
                told.append(made.shard_gtid(name, _vitess(position)))
            elif number is None:
                told.append(made.shard_gtid(name, "current"))
            else:
                told.append(made.shard_gtid(name, _vitess(one.history[number - 1].position if number else one.began)))
        return made.event(pb.VGTID, shard.name, vgtid=pb.VGtid(shard_gtids=told))

    def _events(
        self, shard: Shard, committed: Committed, at: Mapping[str, int | None], fields: set[tuple[str, str]]
    ) -> list[pb.VEvent]:
        vgtid = self._vgtid(shard, committed.position, at)
        if committed.statement:
            fields -= {one for one in fields if one[0] == shard.name}
            found = [vgtid, made.event(pb.DDL, shard.name, statement=committed.statement)]
        else:
            inside = []
            for table, before, after in committed.changes:
                if (shard.name, table) not in fields:
                    fields.add((shard.name, table))
                    inside.append(shard.fields(table))
                inside.append(made.row(before, after, shard.name, 0, table))
            if committed.journal is not None:
                inside.append(made.event(pb.JOURNAL, shard.name, journal=committed.journal))
            found = [made.event(pb.BEGIN, shard.name), *inside, vgtid, made.event(pb.COMMIT, shard.name)]
        for event in found:
            event.event_gtid = committed.gtid
            event.timestamp = int(time.time())
        return found


def _vitess(position: GtidSet) -> str:
    return f"MySQL56/{position}"


def hold_rows(server: Server, statements: Sequence[str]) -> None:
    """Makes the keyspace's tables on a shard's server, whose history begins anew."""
    server.execute("RESET BINARY LOGS AND GTIDS")
    server.execute(f"DROP DATABASE IF EXISTS {KEYSPACE}", f"CREATE DATABASE {KEYSPACE}", f"USE {KEYSPACE}", *statements)


def become_replica(replica: Server, of: Shard) -> None:
    """`replica` has what the shard's server has, GTIDs included: it can be its new primary."""
    with of.lock:
        executed = str(of.executed())
        replica.execute("SET sql_log_bin = 0", f"DROP DATABASE IF EXISTS {KEYSPACE}")
        made_by = ["SET sql_log_bin = 0", f"CREATE DATABASE {KEYSPACE}", f"USE {KEYSPACE}"]
        with closing(of.server.connect(database=KEYSPACE)) as connection, connection.cursor() as cursor:
            for table in of.tables:
                cursor.execute(f"SHOW CREATE TABLE `{table}`")
                made_by.append(cursor.fetchall()[0][1])
                cursor.execute(f"SELECT * FROM `{table}`")
                for row in cursor.fetchall():
                    values = ", ".join(str(pymysql.converters.escape_item(value, "utf8mb4")) for value in row)
                    made_by.append(f"INSERT INTO `{table}` VALUES ({values})")
        replica.execute(*made_by)
        replica.execute("RESET BINARY LOGS AND GTIDS", f"SET GLOBAL gtid_purged = '{executed}'")
