"""Waits for a socket, for who then reads or accepts in one step."""

from __future__ import annotations

import asyncio
import socket


async def readable(sock: socket.socket) -> None:
    """Returns when there is something to be read or accepted. A caller that is cancelled has lost nothing of it."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        if not waiting.done():
            waiting.set_result(None)

    loop.add_reader(sock.fileno(), ready)
    try:
        await waiting
    finally:
        loop.remove_reader(sock.fileno())
