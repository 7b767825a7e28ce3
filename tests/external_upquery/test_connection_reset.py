"""A connection that is reset right behind an answer, or its first bytes, and one whose answer cannot be decoded: who
waits is told."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest
import uvloop
from pymysql.constants import FIELD_TYPE

from external_upquery.connection import Connection
from external_upquery.login import Login
from external_upquery.protocol import Answer, ResultSet, query
from sqltypes.errors import Fault, SourceDown, UpwellError
from tests.support import mysql_packets as server
from tests.support.waiting import until

INT = server.column("n", FIELD_TYPE.LONG)
COLUMN_COUNT = b"\x01\x00\x00\x01\x01"  # the first packet of a result set of one column
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def connected() -> tuple[Connection, socket.socket]:
    """A connection, and its other end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    near.setblocking(False)
    return Connection(Login(near, 1, "9.7.0", True), asyncio.get_running_loop()), far


def reset(far: socket.socket, answer: bytes) -> None:
    """Both arrive before the loop looks: it then announces the socket once, and never again."""
    far.sendall(answer)
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    far.close()


def ended(answer: bytes) -> UpwellError:
    """What a run ends with whose answer is these bytes, and a reset."""

    async def scenario() -> UpwellError:
        loop = asyncio.get_running_loop()
        connection, far = connected()
        outcome: asyncio.Future[UpwellError] = loop.create_future()

        def finished(result: object) -> None:
            assert isinstance(result, UpwellError)
            outcome.set_result(result)

        connection.run(query("SELECT 1"), 1, finished)
        reset(far, answer)
        return await asyncio.wait_for(outcome, 60)

    return uvloop.run(scenario())


def test_reset_behind_half_an_answer_ends_the_run() -> None:
    assert isinstance(ended(COLUMN_COUNT), SourceDown)


@pytest.mark.parametrize("rows", [1, 5000])
def test_reset_behind_a_whole_answer_is_seen_while_nobody_asks(rows: int) -> None:
    """Else the pool would lend it, and the next read would fail."""

    async def scenario() -> list[Answer]:
        connection, far = connected()
        outcome: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()

        def finished(result: list[Answer] | UpwellError) -> None:
            assert isinstance(result, list)
            outcome.set_result(result)

        connection.run(query("SELECT 1"), 1, finished)
        reset(far, server.result_set([INT], [(b"7",)] * rows))
        answers = await asyncio.wait_for(outcome, 60)
        await until(lambda: not connection.alive)
        return answers

    (answer,) = uvloop.run(scenario())
    assert isinstance(answer, ResultSet) and answer.rows == [(7,)] * rows


def test_a_decimal_that_is_none_ends_the_run() -> None:
    """MySQL announces DECIMAL for IF(x, 0, bit) and sends the bit's bytes. The connection is of no use then, and
    who waits has MySQL answer: the source is not down."""
    names = b"\3def" + b"\0" * 3 + b"\1x" + b"\0"
    definition = names + b"\x0c" + struct.pack("<HIBHBH", 63, 20, 0xF6, 0, 0, 0)
    packets = (definition, b"\1\1", b"\xfe\0\0\2\0\0\0")
    rest = b"".join(len(body).to_bytes(3, "little") + bytes((number,)) + body for number, body in enumerate(packets, 2))
    error = ended(COLUMN_COUNT + rest)
    assert isinstance(error, Fault) and "cannot be decoded" in str(error)
