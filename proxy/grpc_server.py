"""The gRPC listener: where it listens, TLS, limits, health and reflection around `proxy/grpc_service.py`.

Health (grpc.health.v1) says SERVING, for the whole and for `upwell.v1.Upwell`, only while the system says that it is
ready.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from proxy.api import System
from proxy.grpc_service import SERVICE, UpwellService
from sqltypes.errors import ConfigError

DEFAULT_MESSAGE_LIMIT = 16 << 20
HEALTH_SECONDS = 0.5
"""How often readiness is looked at for health watchers."""


@dataclass(frozen=True, slots=True)
class GrpcOptions:
    """`certificate` and `key` in PEM, both or none. `message_limit` in bytes. `port` 0: any free one."""

    host: str = "127.0.0.1"
    port: int = 50051
    certificate: bytes | None = None
    key: bytes | None = None
    token: str | None = None
    message_limit: int = DEFAULT_MESSAGE_LIMIT


def channel_options(message_limit: int) -> list[tuple[str, int]]:
    # gRPC's own limit stands above ours: a request between the two is refused by the service with a reason and a
    # sentence, and only what is far above is cut off by the transport. Without so_reuseport=0 two proxies on one port
    # would silently share the calls.
    transport_limit = min(4 * message_limit, (1 << 31) - 1)
    return [
        ("grpc.max_receive_message_length", transport_limit),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),
        ("grpc.max_concurrent_streams", 10_000),
    ]


class GrpcListener:
    """The server from `start` to `stop`. Made and used on the running event loop."""

    def __init__(self, system: System, options: GrpcOptions) -> None:
        self._system = system
        self._options = options
        self._server = grpc.aio.server(options=channel_options(options.message_limit))
        self._server.add_generic_rpc_handlers((UpwellService(system, options.message_limit, options.token).handlers(),))
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]  # the stubs lack the module
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Listens; the port. Raises ConfigError where it cannot."""
        options = self._options
        host = f"[{options.host}]" if ":" in options.host else options.host
        address = f"{host}:{options.port}"
        try:
            if options.certificate is not None and options.key is not None:
                credentials = grpc.ssl_server_credentials([(options.key, options.certificate)])
                port = self._server.add_secure_port(address, credentials)
            else:
                port = self._server.add_insecure_port(address)
        except RuntimeError:
            raise ConfigError(
                f"cannot listen for gRPC on {address}: the address is in use or not of this machine"
            ) from None
        await self._show_health()
        await self._server.start()
        self._watching = asyncio.create_task(self._watch_health())
        return port

    async def stop(self, grace: float) -> None:
        """Takes no new calls, lets running ones finish for `grace` seconds, then ends them."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)

    async def _show_health(self) -> None:
        statuses = health_pb2.HealthCheckResponse
        status = statuses.NOT_SERVING if self._system.not_ready() else statuses.SERVING
        for name in ("", SERVICE):
            await self._health.set(name, status)

    async def _watch_health(self) -> None:
        while True:
            await asyncio.sleep(HEALTH_SECONDS)
            await self._show_health()
