"""A connection that is reset right behind the first bytes of an answer: who waits is told."""

from __future__ import annotations

import asyncio
import socket
import struct

import uvloop

from external_upquery.connection import Connection
from external_upquery.login import Login
from external_upquery.protocol import query
from sqltypes.errors import SourceDown, UpwellError

COLUMN_COUNT = b"\x01\x00\x00\x01\x01"  # the first packet of a result set of one column
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def test_reset_behind_half_an_answer_ends_the_run() -> None:
    async def scenario() -> UpwellError:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            near = socket.create_connection(listening.getsockname())
            far, _ = listening.accept()
        near.setblocking(False)
        connection = Connection(Login(near, 1, "9.7.0", True), loop)
        outcome: asyncio.Future[UpwellError] = loop.create_future()

        def finished(result: object) -> None:
            assert isinstance(result, UpwellError)
            outcome.set_result(result)

        connection.run(query("SELECT 1"), 1, finished)
        # Both arrive before the loop looks: it then announces the socket once, and never again.
        far.sendall(COLUMN_COUNT)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        far.close()
        return await asyncio.wait_for(outcome, 5)

    assert isinstance(uvloop.run(scenario()), SourceDown)
