"""Whether a source is there that has closed a connection: what no MySQL can be made to do at will. How MySQL itself
ends sessions, and shuts down, is in `integration/protocol/test_killed_sessions.py` and
`integration/outages/test_mysql_outages.py`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from external_upquery.address import Upstream
from external_upquery.admission import Admission
from tests.support.waiting import turns

SECONDS = 0.2  # until a source that says nothing is asked otherwise
SHUTS_DOWN = b"\xff" + (1053).to_bytes(2, "little") + b"Server shutdown in progress"
IS_FULL = b"\xff" + (1040).to_bytes(2, "little") + b"Too many connections"


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """It takes connections, and says nothing until a test does."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield listening


def upstream(port: int) -> Upstream:
    return Upstream("127.0.0.1", port, "root", "")


async def otherwise() -> bool:
    return True


async def never() -> bool:
    raise AssertionError("asked otherwise, though the source has said something")


def test_nobody_listens() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
    assert not asyncio.run(Admission(upstream(port), never).lives())


def test_it_says_nothing_in_time(silent: socket.socket) -> None:
    assert asyncio.run(Admission(upstream(silent.getsockname()[1]), otherwise, SECONDS).lives())


@pytest.mark.parametrize("words, lives", [(SHUTS_DOWN, False), (IS_FULL, True)], ids=["shuts down", "is full"])
def test_it_refuses(silent: socket.socket, words: bytes, lives: bool) -> None:
    async def scenario() -> bool:
        asked = asyncio.create_task(Admission(upstream(silent.getsockname()[1]), never).lives())
        connection, _ = await asyncio.to_thread(silent.accept)
        connection.sendall(len(words).to_bytes(3, "little") + b"\0" + words)
        connection.close()
        return await asked

    assert asyncio.run(scenario()) is lives


def test_those_that_ask_meanwhile_share_one_login_that_begins_behind_them(silent: socket.socket) -> None:
    """The first one's login may have begun before what the others ask about."""

    async def scenario() -> None:
        admission = Admission(upstream(silent.getsockname()[1]), never)
        asked = [asyncio.create_task(admission.lives())]
        first, _ = await asyncio.to_thread(silent.accept)
        asked += [asyncio.create_task(admission.lives()) for _ in range(50)]
        await turns()  # all of them ask
        for connection, words in ((first, IS_FULL), (None, SHUTS_DOWN)):
            connection = connection or (await asyncio.to_thread(silent.accept))[0]
            connection.sendall(len(words).to_bytes(3, "little") + b"\0" + words)
            connection.close()
        assert await asyncio.gather(*asked) == [True] + [False] * 50
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()

    asyncio.run(scenario())
