"""The gRPC listener: where it listens, TLS, limits, health and reflection around `proxy/grpc/service.py`.

Health (grpc.health.v1) says SERVING, for the whole and for `upwell.v1.Upwell`, only while the system says that it is
ready. Health and reflection need no token: balancers ask for the one, and the other tells what is public anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from proxy.grpc.service import SERVICE, UpwellService
from proxy.grpc.shared_port import SharedPort, check_free, in_use
from proxy.grpc.traced import TracedService
from proxy.port.api import System
from proxy.settings.quantities import DEFAULT_MESSAGE_LIMIT
from sqltypes.errors import ConfigError
from upwell.token_file import remove_token, token_path, write_token

log = structlog.get_logger("upwell.grpc")

SETTLED = 0.5  # seconds in which connections are accepted that were on their way when another process took the port
LOOK = 0.05
HEALTH_SECONDS = 0.5
"""How often readiness is looked at for health watchers."""


@dataclass(frozen=True, slots=True)
class GrpcOptions:
    """`certificate` and `key` in PEM, both or none. `message_limit` in bytes. `port` 0: any free one.

    `token_folders`: the state directories below which clients of the same user find the token (`upwell/token_file.py`).
    `own_sql`: whether callers may send SQL of their own, and not only read caches by name. `traced`: spans are made.
    `shares`: another proxy listens there, and will hand over: until `begin` no call comes.
    """

    host: str = "127.0.0.1"
    port: int = 50051
    certificate: bytes | None = None
    key: bytes | None = None
    token: str | None = None
    token_folders: tuple[Path, ...] = ()
    own_sql: bool = True
    traced: bool = False
    shares: bool = False
    message_limit: int = DEFAULT_MESSAGE_LIMIT


def channel_options(message_limit: int) -> list[tuple[str, int]]:
    # gRPC's own limit stands above ours: a request between the two is refused by the service with a reason and a
    # sentence, and only what is far above is cut off by the transport. Who takes over binds the port beside the one
    # that still serves; that nobody else does, `check_free` sees to.
    transport_limit = min(4 * message_limit, (1 << 31) - 1)
    return [
        ("grpc.max_receive_message_length", transport_limit),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 1),
        ("grpc.max_concurrent_streams", 10_000),
    ]


class GrpcListener:
    """The server from `start` to `stop`. Made and used on the running event loop."""

    def __init__(self, system: System, options: GrpcOptions) -> None:
        self._system = system
        self._options = options
        self._server = grpc.aio.server(options=channel_options(options.message_limit))
        kind = TracedService if options.traced else UpwellService
        self.service = kind(system, options.message_limit, options.token, own_sql=options.own_sql)
        self._server.add_generic_rpc_handlers((self.service.handlers(),))
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]  # the stubs lack the module
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        self._watching: asyncio.Task[None] | None = None
        self._token_files: list[Path] = []
        self._shared: SharedPort | None = None  # once it listens
        self.port = 0
        self._presented: grpc.ServerCertificateConfiguration | None = None  # read for each handshake

    async def start(self) -> int:
        """Listens; the port. Raises ConfigError where it cannot."""
        options = self._options
        if not options.shares:
            check_free(options.host, options.port)
        host = f"[{options.host}]" if ":" in options.host else options.host
        address = f"{host}:{options.port}"
        try:
            if options.certificate is not None and options.key is not None:
                first = self.present(options.certificate, options.key)
                credentials = grpc.dynamic_ssl_server_credentials(first, lambda: self._presented or first, False)
                port = self._server.add_secure_port(address, credentials)
            else:
                port = self._server.add_insecure_port(address)
        except RuntimeError:
            raise ConfigError(in_use(address)) from None
        self.port = port
        if not options.shares:
            self.begin()
        await self._show_health()
        await self._server.start()
        self._shared = SharedPort(port)
        self._watching = asyncio.create_task(self._watch_health())
        return port

    def begin(self) -> None:
        """Clients find this proxy's token."""
        self._write_token_files(self.port)

    @property
    def token(self) -> str | None:
        """What callers must send."""
        return self._options.token

    def steer(self, to: int) -> None:
        """New connections come to the FIRST process that listens at the port, or to the SECOND."""
        if self._shared is not None and not self._shared.steer(to):
            log.warning("grpc_port_shared", why="this kernel gives new connections to both proxies for a moment")

    async def leave(self, grace: float, released: Callable[[], object]) -> None:
        """Another process has the port by now: ends as `stop`, without the loss of a connection. `released`: is called
        when nothing listens here any more. The token is the other's."""
        self._token_files = []
        deadline = monotonic() + SETTLED
        while self._shared is not None and (self._shared.queued or monotonic() < deadline):
            await asyncio.sleep(LOOK)
        stopping = asyncio.create_task(self.stop(grace))
        try:
            while not stopping.done() and self._shared is not None and self._shared.listens:
                await asyncio.sleep(LOOK)
            released()
            await asyncio.shield(stopping)
        finally:
            stopping.cancel()

    def present(self, certificate: bytes, key: bytes) -> grpc.ServerCertificateConfiguration:
        """Whoever connects from now on is shown this certificate. Requires: both fit (`checked_pem`)."""
        self._presented = presented = grpc.ssl_server_certificate_configuration([(key, certificate)])
        return presented

    async def stop(self, grace: float) -> None:
        """Takes no new calls, lets running ones finish for `grace` seconds, then ends them."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)
        for path in self._token_files:
            remove_token(path, str(self._options.token))

    def _write_token_files(self, port: int) -> None:
        """For the clients of this user. One place that can be written to is enough; without any nobody can call."""
        why = ""
        for path in (token_path(folder, port) for folder in self._options.token_folders):
            try:
                write_token(path, str(self._options.token))
                self._token_files.append(path)
            except OSError as error:
                why = why or f"{str(path)!r} cannot be written: {error.strerror}"
        if self._token_files:  # only a listener on loopback has such
            self.service.token_is_in = f"{self._token_files[0]}, which the proxy's user can read"
        if why and not self._token_files:
            log.warning("grpc_token_file", why=f"{why}; nobody can call gRPC: give --grpc-token-file or --state-dir")

    async def _show_health(self) -> None:
        statuses = health_pb2.HealthCheckResponse
        status = statuses.NOT_SERVING if self._system.not_ready() else statuses.SERVING
        for name in ("", SERVICE):
            await self._health.set(name, status)

    async def _watch_health(self) -> None:
        while True:
            await asyncio.sleep(HEALTH_SECONDS)
            await self._show_health()
