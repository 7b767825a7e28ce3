"""A keyspace of Vitess as a source: its VStream, upqueries and schema through vtgate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path

import grpc

from dataflow.messages import Keyed
from dataflow.shards import Shards
from external_upquery.executor import Executor
from external_upquery.job import checked, rows_of
from external_upquery.protocol import query
from external_upquery.upstream import Upstream
from external_upquery.vitess_schema import VitessSchema
from external_upquery.vtgate_dialect import VtgateDialect
from external_upquery.vtgate_finding import Finding
from external_upquery.vtgate_release import ASK as RELEASE
from external_upquery.vtgate_release import release_of
from proxy.vtgate_watch import RoutesWatch
from sqltypes.errors import ConfigError, SourceError
from sqltypes.expression import Row
from vstream.source import Sink
from vstream.vitess import VitessStream

NO_KEYSPACE = 1049  # vtgate's error


class VitessSource:
    """Lives on one event loop: make it there."""

    session_trackers = False

    def __init__(self, upstream: Upstream, connections: int) -> None:
        """`connections`: for upqueries. Raises ConfigError."""
        account = upstream.user, upstream.password
        self.upstream = upstream
        self.stream = VitessStream(upstream.grpc, upstream.database, account=account, tls=grpc_credentials(upstream))
        dialect = VtgateDialect(
            upstream.database, lambda: self.stream.shards, lambda: self.stream.position, time.monotonic
        )
        self._dialect = dialect
        self._routes: RoutesWatch | None = None
        self.upqueries = Executor(upstream, connections=connections, dialect=dialect)
        self._finding = Finding(dialect.places, self.upqueries.ask)
        self.schema = VitessSchema(upstream, lambda: self.stream.shards, dialect.places.distributed)

    def shards_of(self, rows: Keyed) -> Shards:
        return self._dialect.places.of_keyed(rows)

    def find_shards(self, rows: Keyed) -> Awaitable[None] | None:
        unknown = self._dialect.unknown(rows)
        return self._finding.find(unknown) if unknown else None

    async def start(self, sink: Sink) -> str:
        self._routes = RoutesWatch(self.upstream.database, self._explained, self._asked_about, sink)
        try:
            version = await self.upqueries.start()
        except SourceError as error:
            if error.errno != NO_KEYSPACE:
                raise
            raise ConfigError(
                f"vtgate has no keyspace {self.upstream.database!r} ({error.message}): one is wanted that SHOW VSCHEMA"
                " KEYSPACES names"
            ) from error
        _, rows = await self.upqueries.query(RELEASE)
        release_of(str(rows[0][0]))
        await self.stream.start(sink)
        return version

    async def _explained(self, sql: str) -> tuple[tuple[()], list[Row]]:
        """No shard is asked for it, and it is no read of a client."""
        return (), rows_of([checked(await self.upqueries.ask((query(sql),)), 0)])

    def _asked_about(self) -> list[str]:
        """The tables that are cached, and those that would be if vtgate answered them from this keyspace."""
        return [*self.stream.wanted, *list(self.schema.elsewhere)]

    def tick(self) -> None:
        if self._routes is not None:
            self._routes.tick()

    async def stop(self, patience: float) -> None:
        if self._routes is not None:
            await self._routes.close()
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
