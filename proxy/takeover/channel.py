"""A connection between two proxies: messages, and with them open files. A packet of the kernel's is a message."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import termios
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from proxy.loop.readable import readable
from proxy.takeover.protocol import LARGEST, Malformed, Message, decoded

SOCKET = "handover.sock"
MOST_FILES = 32  # that come with one message
CREDENTIALS = struct.Struct("3i")


class Channel:
    """`sock`: connected, SOCK_SEQPACKET. Files that came with a message and are not taken are closed with it."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._last = b""
        self.files: list[int] = []

    @property
    def peer(self) -> tuple[int, int]:
        """Process and user at the other end."""
        data = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        process, user, _ = CREDENTIALS.unpack(data)
        return process, user

    async def read(self) -> Message | None:
        """The next message; None: the other end has closed, or is no more. Files that come with it are in `files`.
        Raises Malformed."""
        while True:
            try:
                data, files, flags, _ = socket.recv_fds(self._socket, LARGEST, MOST_FILES, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                await readable(self._socket)
                continue
            except ConnectionResetError:  # it has closed, and not read all: what it had said comes behind that
                continue
            except OSError:
                return None
            self.files += files
            if not data:
                return None
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise Malformed(f"it is longer than {LARGEST} bytes")
            return decoded(data)

    def tell(self, message: bytes, files: Sequence[int] = ()) -> bool:
        """Sends at once. Whether the other end can still read it."""
        try:
            if files:
                socket.send_fds(self._socket, [message], list(files))
            else:
                self._socket.send(message)
        except OSError:  # it is gone, or has not read for long
            return False
        self._last = message
        return True

    def tell_again(self, message: bytes) -> None:
        """As `tell`. One that was said last, and that the other end has still to read, is not said twice: so whoever
        does not read for long keeps room for other words."""
        if message != self._last or not self._unread:
            self.tell(message)

    @property
    def _unread(self) -> bool:
        """Whether the other end has still to read of what was said."""
        (size,) = struct.unpack("i", fcntl.ioctl(self._socket, termios.TIOCOUTQ, bytes(4)))
        return bool(size)

    def hear_no_more(self) -> None:
        """The other end can say nothing from now on. What it has said by now can still be read."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)

    def end(self) -> None:
        """Both ends read that it is over, behind what was said before."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for file in self.files:
            os.close(file)
        self.files = []
        self._socket.close()


def listening(folder: Path) -> socket.socket:
    """A socket in the folder, for this user alone. Raises OSError. Requires: the folder is this process's own."""
    with suppress(FileNotFoundError):
        (folder / SOCKET).unlink()  # of one that was killed, or has handed over
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        _at(folder, sock.bind)
        (folder / SOCKET).chmod(0o600)  # before anybody can connect
        sock.listen(8)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def connected(folder: Path) -> Channel:
    """To the proxy that owns the folder. Raises OSError where none listens there."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        _at(folder, sock.connect)
    except OSError:
        sock.close()
        raise
    return Channel(sock)


def _at(folder: Path, do: Callable[[str], None]) -> None:
    """A path of more than 107 bytes is none for a socket: so it goes by the open folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        do(f"/proc/self/fd/{descriptor}/{SOCKET}")
    finally:
        os.close(descriptor)


def network() -> str:
    """The namespace of this process's network; "" where the kernel does not tell."""
    try:
        return os.readlink("/proc/self/ns/net")
    except OSError:
        return ""
