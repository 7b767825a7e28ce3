"""The connection between the tap and the proxy."""

from __future__ import annotations

import io
import socket
import struct
from collections.abc import Callable

from integration.support.raw_client import Ended, RawClient
from proxy.mysql.wire.packets import ERR, packet

PATIENCE = 45.0  # seconds that a statement may take through the proxy


class Gone(Exception):
    """The proxy (or MySQL) has ended the connection, or does not answer. The message says which."""


def error(number: int, message: str) -> bytes:
    return packet(bytes((ERR,)) + struct.pack("<H", number) + b"#HY000" + message.encode(), 1)


class Upstream(RawClient):
    """A connection on which somebody else has logged in: answers are as they came, files are the client's to send."""

    def __init__(self, host: str, port: int, send_file: Callable[[bytes], None]) -> None:
        self.transcript = []
        self.tracks_transactions = True
        self.files = []
        self.eof = False
        self.attributes = False
        self.capabilities = 0
        self.socket = socket.create_connection((host, port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = io.BufferedReader(socket.SocketIO(self.socket, "r"), 1 << 16)
        self._asked_for_file = send_file
        self.last = b""

    def packet(self) -> bytes:
        try:
            self.last = super().packet()
        except TimeoutError:
            raise Gone("hangs") from None
        except (Ended, OSError, ValueError) as broken:
            raise Gone("ended") from broken
        return self.last

    def write(self, data: bytes) -> None:
        try:
            super().write(data)
        except OSError as broken:
            raise Gone("ended") from broken

    def _masked(self, data: bytes) -> bytes:
        return data

    def _send_file(self, sequence: int) -> None:
        self._asked_for_file(self.last)
