"""What Python with uvloop can do at all between a client and MySQL: two programs that know no SQL.

`forward`: takes bytes from one socket to the other. What a proxy adds to a statement is measured against it.
`answer`: lets the login and everything else through, but gives every execution of a prepared statement, and every
SELECT in text, the answer that MySQL gave the first of its kind. What a cache adds to an answer is measured against it.

Run as `python -m benchmarks.bare_uvloop forward|answer HOST PORT`: prints its own port, and serves until it is ended.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import uvloop

from proxy.mysql.wire.packets import COM_QUERY, COM_STMT_EXECUTE

ROOT = Path(__file__).parent.parent


class MysqlSide(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, client: ClientSide) -> None:
        self.client = client
        self.data_received = client.transport.write  # type: ignore[method-assign] # no call of ours between

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.client.transport.close()

    def pause_writing(self) -> None:
        self.client.transport.pause_reading()

    def resume_writing(self) -> None:
        self.client.transport.resume_reading()


class ClientSide(asyncio.Protocol):
    """MySQL speaks first: until it is connected to, nothing comes from the client."""

    transport: asyncio.Transport
    server: MysqlSide | None = None

    def __init__(self, host: str, port: int) -> None:
        self.address = host, port

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.connecting = asyncio.create_task(self.connect())

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, self.server = await loop.create_connection(lambda: MysqlSide(self), *self.address)
        except OSError:
            self.transport.abort()
            return
        self.ready(self.server)

    def ready(self, server: MysqlSide) -> None:
        self.data_received = server.transport.write  # type: ignore[method-assign]
        self.transport.set_protocol(self)  # uvloop asked the protocol for its methods when it was set

    def connection_lost(self, exc: Exception | None) -> None:
        self.connecting.cancel()
        if self.server is not None:
            self.server.transport.close()

    def pause_writing(self) -> None:
        assert self.server is not None
        self.server.transport.pause_reading()

    def resume_writing(self) -> None:
        assert self.server is not None
        self.server.transport.resume_reading()


class Answering(ClientSide):
    known: dict[int, bytes] = {}  # noqa: RUF012 - of all connections: by the command, the answer

    def ready(self, server: MysqlSide) -> None:
        self.write, self.ask = self.transport.write, server.transport.write

    def data_received(self, data: bytes) -> None:
        command = data[4] if len(data) > 9 and not data[3] else -1  # the packets of a login are numbered on
        if command == COM_STMT_EXECUTE or (command == COM_QUERY and data[5:11] == b"SELECT"):
            answer = self.known.get(command)
            if answer is not None:
                self.write(answer)
                return
            self.learn(command)
        self.ask(data)

    def learn(self, command: int) -> None:
        """Small answers come in one piece."""
        assert self.server is not None
        server = self.server

        def taken(data: bytes) -> None:
            self.known[command] = data
            server.data_received = self.write  # type: ignore[method-assign]
            server.transport.set_protocol(server)
            self.write(data)

        server.data_received = taken  # type: ignore[method-assign]
        server.transport.set_protocol(server)


KINDS = {"forward": ClientSide, "answer": Answering}


async def serve(kind: str, host: str, port: int) -> None:
    make = KINDS[kind]
    server = await asyncio.get_running_loop().create_server(lambda: make(host, port), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Bare:
    """One of the programs, as a child process; `port` is its own."""

    def __init__(self, kind: str, host: str, port: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.bare_uvloop", kind, host, str(port)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # as the proxy is: the kernel shares processors out by sessions first
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    @property
    def pid(self) -> int:
        return self.process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], sys.argv[2], int(sys.argv[3])))
