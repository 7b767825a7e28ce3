"""A keyspace of Vitess as a source: its VStream, upqueries and schema through vtgate."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import grpc

from dataflow.messages import Keyed
from dataflow.shards import Shards
from external_upquery.executor import Executor
from external_upquery.upstream import Upstream
from external_upquery.vitess_schema import VitessSchema
from external_upquery.vtgate_dialect import VtgateDialect
from external_upquery.vtgate_release import ASK as RELEASE
from external_upquery.vtgate_release import release_of
from proxy.vtgate_watch import RoutesWatch
from sqltypes.errors import ConfigError, SourceError
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
        self._places = dialect.places
        self._routes: RoutesWatch | None = None
        self.upqueries = Executor(upstream, connections=connections, dialect=dialect)
        self.schema = VitessSchema(upstream, lambda: self.stream.shards, dialect.places.distributed)

    def shards_of(self, rows: Keyed) -> Shards:
        return self._places.of_keyed(rows)

    async def start(self, sink: Sink) -> str:
        self._routes = RoutesWatch(self.upstream.database, self.upqueries.query, self._asked_about, sink)
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

    def _asked_about(self) -> list[str]:
        """The tables that are cached, and those that would be if vtgate answered them from this keyspace."""
        return [*self.stream.wanted, *list(self.schema.elsewhere)]

    def tick(self) -> None:
        if self._routes is not None:
            self._routes.tick()

    async def stop(self, patience: float) -> None:
        if self._routes is not None:
            await self._routes.close()
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
