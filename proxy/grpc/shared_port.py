"""gRPC's port, while one process takes it over from another.

gRPC binds its port itself, so its socket cannot be given away. Two sockets may share a port (SO_REUSEPORT), if they are
one user's. The kernel then gives each connection to one of them. A program of one instruction at the sockets says to
which: the first one that listened, or the second. When one closes, what it has not accepted is lost: so the program
sends all to the other before.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from sqltypes.errors import ConfigError

SO_ATTACH_REUSEPORT_CBPF = 51
RETURN = 0x06  # BPF_RET | BPF_K
QUEUED = struct.Struct("I")  # in tcp_info of a socket that listens: how many wait to be accepted
QUEUED_AT = 24
FIRST, SECOND = 0, 1


def check_free(host: str, port: int) -> None:
    """Raises ConfigError where somebody listens there. gRPC itself would share the port."""
    if not port:
        return
    with suppress(socket.gaierror):  # gRPC says it
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(address)
                except OSError:
                    raise ConfigError(in_use(f"{host}:{port}")) from None


def in_use(address: str) -> str:
    return f"cannot listen for gRPC on {address}: the port is in use, or the address is another machine's"


class SharedPort:
    """The sockets by which this process listens at a port, of those that were open when this was made: to look through
    all open files takes as long as there are clients."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._files = _listening_at(port, map(int, os.listdir("/proc/self/fd")))

    @property
    def listens(self) -> bool:
        """Whether one of them still does."""
        return bool(_listening_at(self._port, self._files))

    def steer(self, to: int) -> bool:
        """Connections come to the socket that was the FIRST to listen, or the SECOND. Whether the kernel does that."""
        code = ctypes.create_string_buffer(struct.pack("HBBI", RETURN, 0, 0, to))
        program = struct.pack("HP", 1, ctypes.addressof(code))
        try:
            for sock in self._sockets():
                sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, program)
        except OSError:
            return False
        return True

    @property
    def queued(self) -> int:
        """How many connections wait to be accepted."""
        found = 0
        for sock in self._sockets():
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, QUEUED_AT + QUEUED.size)
            found += QUEUED.unpack_from(info, QUEUED_AT)[0]
        return found

    def _sockets(self) -> Iterator[socket.socket]:
        for file in _listening_at(self._port, self._files):
            with _opened(file) as sock:
                yield sock


def _listening_at(port: int, files: Iterable[int]) -> Sequence[int]:
    """Those of the open files that do. Who has closed one may have given its number to another."""
    found = []
    for file in files:
        with suppress(OSError), _opened(file) as sock:
            at_port = sock.family in (socket.AF_INET, socket.AF_INET6) and sock.getsockname()[1] == port
            if at_port and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found.append(file)
    return found


def _opened(file: int) -> socket.socket:
    """Raises OSError where it is no socket."""
    copy = os.dup(file)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
