"""A server that speaks MySQL's protocol until it is asked a question, and then ends in the middle of the answer."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

KILLED = b"\xff" + struct.pack("<H", 1317) + b"#70100Query execution was interrupted"
GREETING = (
    b"\x0a9.7.0\0" + struct.pack("<I", 7) + b"a" * 8 + b"\0" + struct.pack("<HBHHB", 0xA685, 255, 2, 0x0088, 21)
    + b"\0" * 10 + b"b" * 12 + b"\0mysql_native_password\0"
)  # fmt: skip
OK = b"\0\0\0\2\0\0\0"
COLUMN = b"\3def\0\0\0\1x\0\x0c\xff\0\4\0\0\0\xfd\0\0\0\0\0"
# What the server sends for the question, before the connection ends.
CUT_OFF = {
    "an error behind the columns": [b"\1", COLUMN, KILLED],
    "an error in the place of a column": [b"\2", COLUMN, KILLED],
    "the end behind the columns": [b"\1", COLUMN],
    "an error": [KILLED],
    "nothing": [],
}


def packet(number: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "little") + bytes((number,)) + body


@contextmanager
def server_that_ends(question: bytes, answer: list[bytes], logins: int = 1) -> Iterator[int]:
    """Its port. It lets so many in, says OK to all before the `question` (a part of its text), and sends `answer`."""

    def serve(listener: socket.socket) -> None:
        for _ in range(logins):
            client, _ = listener.accept()
            with client:
                client.sendall(packet(0, GREETING))
                client.recv(4096)
                client.sendall(packet(2, OK))
                while (asked := client.recv(4096)) and question not in asked:
                    client.sendall(packet(1, OK))
                client.sendall(b"".join(packet(1 + at, body) for at, body in enumerate(answer)))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        yield listener.getsockname()[1]
        server.join()
