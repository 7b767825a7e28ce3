"""Two sockets at one port: the kernel gives connections to the one that is named."""

from __future__ import annotations

import socket

import pytest

from proxy.grpc.shared_port import FIRST, SECOND, SharedPort, check_free
from sqltypes.errors import ConfigError


def listening(port: int = 0) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(100)
    return sock


def test_connections_come_to_the_one_that_is_named() -> None:
    with listening() as first:
        port = first.getsockname()[1]
        shared = SharedPort(port)
        assert shared.steer(FIRST)
        with listening(port) as second:
            for to, there, elsewhere in ((FIRST, first, second), (SECOND, second, first)):
                assert shared.steer(to)
                clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
                assert shared.queued == (len(clients) if to == FIRST else 0)
                for _ in clients:
                    there.accept()[0].close()
                elsewhere.setblocking(False)
                with pytest.raises(BlockingIOError):
                    elsewhere.accept()
                elsewhere.setblocking(True)
                for client in clients:
                    client.close()
            assert shared.listens
            first.close()  # all come to the other, whichever was named
            assert not shared.listens, "of those that it was made for"
            assert SharedPort(port).listens
            socket.create_connection(("127.0.0.1", port)).close()
            second.accept()[0].close()
    assert not SharedPort(port).listens


def test_a_port_where_somebody_listens_is_not_free() -> None:
    with listening() as sock:
        port = sock.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen for gRPC on 127.0.0.1:{port}"):
            check_free("127.0.0.1", port)
    check_free("127.0.0.1", port)
    check_free("127.0.0.1", 0)
