"""The parts of a compressed client that need no session: frames as they come, and what nobody waits for any more."""

from __future__ import annotations

import asyncio
import gc
import random
import zlib
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.mysql.wire.compressed_client import AT_ONCE, CompressedClient
from proxy.mysql.wire.compression import HEADER, Compression
from proxy.mysql.wire.held_frames import SMALL, HeldFrames


def frame(body: bytes, number: int, announced: int = 0) -> bytes:
    return len(body).to_bytes(3, "little") + bytes((number,)) + announced.to_bytes(3, "little") + body


@pytest.mark.parametrize("piece", [1, 7, 100, SMALL, 1 << 20])
def test_frames_come_whole_however_their_bytes_arrive(piece: int) -> None:
    rng = random.Random(piece)
    bodies = [rng.randbytes(size) for size in (0, 1, 50, SMALL, SMALL + 1, 3, 200, 0, 9)]
    data = b"".join(frame(body, number & 0xFF, 5) for number, body in enumerate(bodies))
    held, found = HeldFrames(), list[bytes]()
    for at in range(0, len(data), piece):
        held.feed(data[at : at + piece])
        while (header := held.header()) is not None and held.size >= HEADER + header[0]:
            assert header[1:] == (len(found), 5)
            found.append(bytes(held.take(header[0])))
    assert found == bodies and held.size == 0


def test_a_frame_that_cannot_be_inflated_of_a_client_that_has_left_is_nobodys_error() -> None:
    """It was, where the client left while a thread was at work: the loop told of an error that nobody had asked for."""
    told: list[dict[str, Any]] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context))
        session = SimpleNamespace(busy=False, closed=False, next_number=None)
        below = SimpleNamespace(is_closing=lambda: False, pause_reading=lambda: None, resume_reading=lambda: None)
        client = CompressedClient(cast(Any, below), Compression(zstd=False, level=0), cast(Any, session))
        client.protocol = cast(Any, SimpleNamespace(connection_lost=lambda error: None))
        client.data_received(frame(zlib.compress(b"\0" * 300)[:-3], 0, AT_ONCE + 1))
        assert client._inflating
        client.connection_lost(None)
        while client._inflating:
            await asyncio.sleep(0)
        gc.collect()

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert told == []
