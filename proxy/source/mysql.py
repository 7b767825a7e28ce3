"""One MySQL server as a source: its binlog, upqueries on connections of our own, its information_schema."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from bulk.account import account_of
from external_upquery.address import Upstream
from external_upquery.executor import Executor
from external_upquery.mysql.doctor import UNKNOWN_DATABASE
from external_upquery.mysql.other_session import OtherSession
from external_upquery.mysql.schema_source import Name, SchemaSource
from external_upquery.pool import Packet
from gtid_tracker.gtid import GtidSet
from proxy.source import reset_watch, xa_watch
from proxy.source.kept_schema import KeptSchema
from proxy.source.reset_watch import ResetWatch
from proxy.source.xa_watch import PreparedWatch
from sqltypes.errors import ConfigError, SourceDown, SourceError
from sqltypes.schema import SchemaSnapshot
from vstream.binlog.source import BinlogSource
from vstream.history import Followed
from vstream.source import Busy, Resume, ShardAt, Sink

FIRST_PAUSE, LAST_PAUSE = 0.002, 10.0  # seconds between two looks whether a DDL statement is executed


class SchemaBehind:
    """The server's schema after every DDL statement that the stream has brought. The stream may tell of a statement a
    moment before it is executed."""

    def __init__(self, schema: SchemaSource, stream: BinlogSource, upqueries: Executor) -> None:
        self._schema, self._stream, self._upqueries = schema, stream, upqueries

    async def snapshot(self, names: Iterable[Name]) -> SchemaSnapshot:
        """As `Schema.snapshot`."""
        pause = FIRST_PAUSE
        while self._stream.defining:
            executed = await self._upqueries.executed()
            self._stream.defining = self._stream.defining.difference(executed)
            if not self._stream.defining:
                break
            if pause > LAST_PAUSE:
                raise SourceDown(f"the source has not executed {self._stream.defining} yet, which its binlog has")
            await asyncio.sleep(pause)
            pause *= 2
        return await self._schema.snapshot(names)

    def close(self) -> None:
        self._schema.close()


class MysqlSource:
    """Lives on one event loop: make it there."""

    session_trackers = True
    bare_names = None
    shards_of = find_shards = None  # there are none

    @property
    def shards_at(self) -> Mapping[str, ShardAt]:
        return {}

    def __init__(self, upstream: Upstream, connections: int, packet: Packet | None = None) -> None:
        """`connections`: for upqueries; one more follows the binlog. `packet`: of those."""
        self.upstream = upstream
        self.stream = BinlogSource(account_of(upstream), ask=self._possible)
        self.upqueries = Executor(upstream, connections=connections, packet=packet)
        self.other_session = OtherSession(upstream)
        self.schema = SchemaBehind(SchemaSource(upstream), self.stream, self.upqueries)
        self.kept_schema = KeptSchema(self.schema)
        self.prepared = PreparedWatch(lambda: xa_watch.ask(self.upqueries), self.stream)
        self.resets = ResetWatch(lambda: reset_watch.ask(self.upqueries), self.stream)

    @property
    def followed(self) -> Followed | None:
        return self.stream.followed if self.prepared.knows_of_none else None

    async def look_for_open(self) -> None:
        await self.prepared.look()

    async def _possible(self) -> GtidSet:
        """What the server owns and has executed: all that anybody may have seen of it. Raises UpwellError."""
        _, owned, executed, _ = await self.upqueries.history()
        return executed.union(owned)

    async def start(self, sink: Sink, busy: Busy, resume: Resume | None = None) -> str:
        version = await self.upqueries.start()
        await self._look_for_database()
        await self.stream.start(sink, busy=busy, resume=resume)
        return version

    async def _look_for_database(self) -> None:
        """Raises ConfigError if MySQL says that the upstream's database does not exist. (An account that may not see it
        is told that instead.)"""
        database = self.upstream.database
        try:
            if database:
                await self.upqueries.query(f"SHOW TABLES FROM `{database.replace('`', '``')}` LIKE ''")
        except SourceError as error:
            if error.errno == UNKNOWN_DATABASE:
                raise ConfigError(
                    f"--upstream: the server has no database {database!r} ({self.upstream.address}): "
                    "one that exists, or none, is accepted"
                ) from None

    def tick(self) -> None:
        self.prepared.tick()
        self.resets.tick()

    async def stop(self, patience: float) -> None:
        await self.prepared.close()
        await self.resets.close()
        await self.stream.close()
        await self.other_session.close()
        await self.upqueries.stop(patience)
        await asyncio.to_thread(self.schema.close)
