"""A MySQL of which every packet is written down, for what the MySQL at hand does not do. Blocking, in a thread."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import struct
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from proxy.mysql.wire.packets import ok_payload, packet

NONCE = b"0123456789abcdefghij"
CAPABILITIES = 0xDFFFFFFF
NO_TLS = CAPABILITIES & ~(1 << 11)


def greeting(capabilities: int = NO_TLS, plugin: bytes = b"caching_sha2_password", version: bytes = b"9.7.0") -> bytes:
    return b"".join(
        (
            b"\x0a" + version + b"\0",
            struct.pack("<I", 77),
            NONCE[:8] + b"\0",
            struct.pack("<HBHHB", capabilities & 0xFFFF, 255, 2, capabilities >> 16, 21),
            bytes(10),
            NONCE[8:] + b"\0",
            plugin + b"\0",
        )
    )


def handshake_response(
    user: bytes = b"ann",
    answer: bytes = b"",
    plugin: bytes = b"caching_sha2_password",
    capabilities: int = 1 << 9 | 1 << 15 | 1 << 19,
) -> bytes:
    head = struct.pack("<IIB23x", capabilities, 1 << 24, 255)
    return head + user + b"\0" + bytes((len(answer),)) + answer + plugin + b"\0"


def native_scramble(password: bytes, nonce: bytes) -> bytes:
    """What a client of mysql_native_password answers."""
    first = hashlib.sha1(password).digest()
    second = hashlib.sha1(nonce + hashlib.sha1(first).digest()).digest()
    return bytes(one ^ other for one, other in zip(first, second, strict=True))


class Wire:
    """Packets on a blocking socket, with sequence numbers checked as MySQL checks them."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sequence = 0
        sock.settimeout(60)

    def send(self, *payloads: bytes) -> None:
        for payload in payloads:
            self.sock.sendall(packet(payload, self.sequence))
            self.sequence += 1

    def receive(self) -> bytes:
        """The next payload; raises EOFError where the other side has closed."""
        header = self._exactly(4)
        assert header[3] == self.sequence, (header[3], self.sequence)
        self.sequence += 1
        return self._exactly(int.from_bytes(header[:3], "little"))

    def command(self, payload: bytes) -> bytes:
        self.sequence = 0
        self.send(payload)
        return self.receive()

    def answer_commands(self) -> None:
        """OK to every command, until the other side leaves."""
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                self.sequence = 0
                if self.receive() == b"\x01":
                    return
                self.send(ok_payload(2))

    def is_closed(self, *, discard: bool = False) -> bool:
        """Waits until the other side has closed; False if it says something first, unless that is to be discarded."""
        with contextlib.suppress(ConnectionError):
            while self.sock.recv(4096):
                if not discard:
                    return False
        return True

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.sock.recv(size - len(data))
            if not piece:
                raise EOFError(f"closed after {len(data)} of {size} bytes")
            data += piece
        return data


Script = Callable[[Wire], None]


@dataclass
class ScriptedMySQL:
    """`host`:`port` plays `script` to each connection and closes it. Wrong assertions of a script fail the test."""

    script: Script
    port: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}"

    def play(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            wire = Wire(sock)
            try:
                self.script(wire)
            except (AssertionError, EOFError, OSError):
                self.failures.append(traceback.format_exc())
            wire.sock.close()


@contextlib.contextmanager
def scripted_mysql(script: Script) -> Iterator[ScriptedMySQL]:
    server = ScriptedMySQL(script)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.port = listener.getsockname()[1]
        thread = threading.Thread(target=server.play, args=(listener,))
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(60)
    assert not server.failures, "".join(server.failures)


def wire_to(port: int) -> Wire:
    return Wire(socket.create_connection(("127.0.0.1", port)))
