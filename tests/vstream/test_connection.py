"""A login whose connection is killed in the middle of an answer is one to try again."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from sqltypes.errors import SourceDown, SourceError
from vstream.connection import Account, log_in

KILLED = b"\xff" + struct.pack("<H", 1317) + b"#70100Query execution was interrupted"
GREETING = (
    b"\x0a9.7.0\0" + struct.pack("<I", 7) + b"a" * 8 + b"\0" + struct.pack("<HBHHB", 0xA685, 255, 2, 0x0088, 21)
    + b"\0" * 10 + b"b" * 12 + b"\0mysql_native_password\0"
)  # fmt: skip
OK = b"\0\0\0\2\0\0\0"
COLUMN = b"\3def\0\0\0\1x\0\x0c\xff\0\4\0\0\0\xfd\0\0\0\0\0"
# What the server sends for the first question, before the connection ends.
CUT_OFF = {
    "an error behind the columns": [b"\1", COLUMN, KILLED],
    "an error in the place of a column": [b"\2", COLUMN, KILLED],
    "the end behind the columns": [b"\1", COLUMN],
    "an error": [KILLED],
    "nothing": [],
}


def packet(number: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "little") + bytes((number,)) + body


def serve(listener: socket.socket, answer: list[bytes]) -> None:
    client, _ = listener.accept()
    with client:
        client.sendall(packet(0, GREETING))
        client.recv(4096)
        client.sendall(packet(2, OK))
        while (question := client.recv(4096)) and b"server_uuid" not in question:
            client.sendall(packet(1, OK))
        client.sendall(b"".join(packet(1 + at, body) for at, body in enumerate(answer)))


@pytest.mark.parametrize("answer", CUT_OFF.values(), ids=CUT_OFF)
def test_an_answer_that_is_cut_off_is_a_source_that_is_away(answer: list[bytes]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener, answer))
        server.start()
        with pytest.raises((SourceDown, SourceError)):
            log_in(Account("127.0.0.1", listener.getsockname()[1], "proxy"))
        server.join()
