"""A keyspace of Vitess as a source: its VStream, upqueries and schema through vtgate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path

import grpc
import structlog

from dataflow.fills.shards import Shards
from dataflow.messages import Ddl, Keyed
from external_upquery.address import Upstream
from external_upquery.executor import Executor
from external_upquery.pool import Packet
from external_upquery.vitess.dialect import VtgateDialect
from external_upquery.vitess.release import ASK as RELEASE
from external_upquery.vitess.release import release_of
from external_upquery.vitess.schema import Distributed, VitessSchema
from external_upquery.vitess.shard_lookup import Finding
from external_upquery.vitess.shard_of_key import Key
from planner.text.bare_names import BareNames
from proxy.source.route_watch import RoutesWatch
from sqltypes.errors import ConfigError, SourceError
from vstream.source import Busy, Resume, ShardAt, Sink
from vstream.vitess.stream import VitessStream

log = structlog.get_logger("upwell")

NO_KEYSPACE = 1049  # vtgate's error


class VitessSource:
    """Lives on one event loop: make it there."""

    session_trackers = False
    kept_schema = None  # how a table is routed is watched for those that are wanted
    followed = None  # a GTID set does not tell which shard has what
    other_session = None  # vtgate lets few variables be set, and asks the tablets about them in a transaction

    def __init__(self, upstream: Upstream, connections: int, packet: Packet | None = None) -> None:
        """`connections`: for upqueries. `packet`: of those. Raises ConfigError."""
        account = upstream.user, upstream.password
        self.upstream = upstream
        self.bare_names = BareNames()
        self.stream = VitessStream(upstream.grpc, upstream.database, account=account, tls=grpc_credentials(upstream))
        dialect = VtgateDialect(
            upstream.database, lambda: self.stream.shards, lambda: self.stream.position, time.monotonic
        )
        self._dialect = dialect
        self._watch: RoutesWatch | None = None
        self._sink: Sink | None = None
        self._changed: set[str] = set()  # tables that have another route, about which nobody was told yet
        self.upqueries = Executor(upstream, connections=connections, dialect=dialect, packet=packet)
        self._finding = Finding(self._place)
        self.schema = VitessSchema(upstream, lambda: self.stream.shards, self._distributed, lambda: dialect.routes.away)

    @property
    def shards_at(self) -> Mapping[str, ShardAt]:
        return self.stream.at

    def shards_of(self, rows: Keyed) -> Shards:
        return self._dialect.places.of_keyed(rows)

    def find_shards(self, rows: Keyed) -> Awaitable[None] | None:
        unknown = self._dialect.unknown(rows)
        return self._finding.find(unknown, rows) if unknown else None

    async def _place(self, keys: Sequence[Key], of: Sequence[Keyed]) -> None:
        asked = self._dialect.placing(keys, of)
        asked.told(await self.upqueries.ask((asked.packets,), count=asked.count))

    def _distributed(self, table: str, told: Distributed) -> None:
        self._dialect.places.distributed(f"{self.upstream.database}.{table}", told.vindex)
        if self._dialect.routes.reflected(table, told.route, refused=told.refused):
            self._astray(frozenset({table}))

    async def look_for_open(self) -> None:
        """As `Source.look_for_open`."""

    async def start(self, sink: Sink, busy: Busy, resume: Resume | None = None) -> str:
        routes, ask = self._dialect.routes, self.upqueries.ask
        self._watch = RoutesWatch(
            self.upstream.database,
            routes,
            ask,
            lambda: self.stream.wanted,
            lambda: self.stream.shards,
            sink,
            bare_names=self.bare_names,
        )
        self._dialect.on_astray = self._astray
        self._sink = sink
        try:
            version = await self.upqueries.start()
        except SourceError as error:
            if error.errno != NO_KEYSPACE:
                raise
            raise ConfigError(
                f"vtgate has no keyspace {self.upstream.database!r} ({error.message}): one is wanted that SHOW VSCHEMA"
                " KEYSPACES names"
            ) from error
        rows = await self.upqueries.question(RELEASE)
        release_of(str(rows[0][0]))
        await self._tell_others()
        await self.stream.start(sink, busy=busy)
        return version

    async def _tell_others(self) -> None:
        rows = await self.upqueries.question("SHOW VSCHEMA KEYSPACES")
        others = sorted({str(row[0]) for row in rows} - {self.upstream.database})
        if others:
            then = "their queries are passed through, and so are joins with them: an Upwell follows one keyspace"
            log.info("other_keyspaces", followed=self.upstream.database, others=", ".join(others), then=then)

    def _astray(self, tables: frozenset[str]) -> None:
        """An upquery's answer, or reflection, has found another route than the known one. The watch may have missed
        what came by it: all of these tables become holes, at once. (Not within the delivery of an answer.)"""
        if self._watch is not None:
            self._watch.soon()
        if tables and not self._changed:
            asyncio.get_running_loop().call_soon(self._tell_changed)
        self._changed |= tables

    def _tell_changed(self) -> None:
        names = sorted(f"{self.upstream.database}.{table}" for table in self._changed)
        self._changed.clear()
        if self._sink is not None:
            text = f"vtgate's routing has changed, as was found before the watch has asked: {', '.join(names)}"
            self._sink(Ddl(None, text, frozenset(names)))

    def tick(self) -> None:
        if self._watch is not None:
            self._watch.tick()

    async def stop(self, patience: float) -> None:
        if self._watch is not None:
            await self._watch.close()
        await self._finding.close()
        await self.stream.close()
        await self.upqueries.stop(patience)
        await asyncio.to_thread(self.schema.close)


def grpc_credentials(upstream: Upstream) -> grpc.ChannelCredentials | None:
    """None for plain text, where TLS is not asked for: gRPC cannot find out whether a server has it. It always checks
    the certificate. Raises ConfigError."""
    if upstream.tls not in ("required", "verify"):
        return None
    try:
        ca, cert, key = (
            Path(path).read_bytes() if path else None
            for path in (upstream.ca, upstream.cert, upstream.key or upstream.cert)
        )
    except OSError as error:
        raise ConfigError(f"the upstream's TLS files cannot be used: {error}") from error
    return grpc.ssl_channel_credentials(ca, key, cert)
