"""The HTTP listener, from its start to its stop. Starlette routes requests (`proxy/http/pages.py`), uvicorn parses them
(`proxy/http/connection.py`), in the proxy's own loop.

uvicorn's server itself is not used: it would take the process's signals, and print. Both libraries are imported when
the listener starts, so that no other command waits for them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from proxy.grpc.service import UpwellService
from proxy.port.api import System
from proxy.settings.config import Listen
from sqltypes.errors import ConfigError

if TYPE_CHECKING:
    from proxy.http.connection import Connections
    from proxy.http.streams import Streams


class HttpListener:
    """The listener from `start` to `stop`."""

    def __init__(self, system: System, listen: Listen, service: UpwellService) -> None:
        """`service`: of the gRPC listener, whose calls this one has, too."""
        self._system = system
        self._listen = listen
        self._service = service
        self._servers: list[asyncio.Server] = []
        self.connections: Connections | None = None
        self._streams: Streams | None = None
        self._given: Sequence[socket.socket] = ()

    async def start(self, given: Sequence[socket.socket] = ()) -> int:
        """Listens; the port. `given`: sockets that listen already: `accept` must follow. Raises ConfigError where it
        cannot."""
        from proxy.http.connection import Connections
        from proxy.http.kept import KEPT_BYTES, OF_ANSWERS, Kept
        from proxy.http.pages import application, full
        from proxy.http.streams import Streams

        loop = asyncio.get_running_loop()
        self._streams = Streams()
        pages = application(self._system, self._service, self._streams, loopback=self._listen.is_loopback)
        kept = Kept(max(KEPT_BYTES, OF_ANSWERS * self._service.message_limit))
        self.connections = Connections(pages, full, loop, kept)
        if given:
            self._given = given
            of_given: int = given[0].getsockname()[1]
            return of_given
        host, port = self._listen.host, self._listen.port
        try:
            server = await loop.create_server(self.connections.connection, host, port)
        except OSError as error:
            raise ConfigError(f"cannot listen for HTTP on {host}:{port}: {error.strerror}") from None
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    def figures(self) -> dict[str, int]:
        """Counters by name, from the start on."""
        kept = self.connections.kept if self.connections is not None else None
        return {
            "http_clients_left": kept.left if kept is not None else 0,
            "http_answers_refused": kept.refused if kept is not None else 0,
        }

    async def accept(self) -> None:
        """Takes clients at the sockets that were given."""
        assert self.connections is not None
        loop, protocol = asyncio.get_running_loop(), self.connections.connection
        given: Sequence[socket.socket] = self._given
        self._given = ()
        for sock in given:
            self._servers.append(await loop.create_server(protocol, sock=sock))

    @property
    def listening(self) -> Sequence[socket.socket]:
        """The sockets where clients connect."""
        return [*self._given, *chain.from_iterable(server.sockets for server in self._servers)]

    async def stop(self, grace: float) -> None:
        """Takes no new connections, lets answers be taken for `grace` seconds, then ends what is open."""
        if self.connections is None or self._streams is None:
            return
        for sock in self._given:
            sock.close()
        for server in self._servers:
            server.close()
        self._given, self._servers = (), []
        self._streams.stop()
        for connection in list(self.connections.silent):  # who has asked nothing waits for nothing
            connection.transport.abort()
        for connection in list(self.connections.open):
            connection.shutdown()
        tasks = self.connections.state.tasks
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        for connection in list(self.connections.open):
            connection.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)
