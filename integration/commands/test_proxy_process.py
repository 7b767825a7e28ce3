"""The sample's proxy process finds ports, also where a usual one is taken at the last moment."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from examples.lobsters import proxy_process
from examples.lobsters.proxy_process import ProxyProcess
from integration.servers.mysql_server import Server


def taken_port(stack: ExitStack) -> int:
    return int(stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1])


@pytest.mark.parametrize("lost", [False, True], ids=["seen to be taken", "taken since it was looked at"])
def test_ports_that_are_taken_are_replaced(
    mysql: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    with ExitStack() as stack:
        taken = {name: taken_port(stack) for name in ("grpc", "http", "mysql")}
        monkeypatch.setattr(proxy_process, "USUAL", taken)
        if lost:
            monkeypatch.setattr(proxy_process, "is_free", lambda port: True)
        proxy = stack.enter_context(ProxyProcess(mysql.url, tmp_path))
        proxy.wait_ready().close()
        found = {"grpc": proxy.grpc_port, "http": proxy.http_port, "mysql": proxy.mysql_port}
        assert all(port and port not in taken.values() for port in found.values())
        assert proxy.moved == ", ".join(f"port {taken[name]} is taken, so {port}" for name, port in found.items())
        with socket.create_connection(("127.0.0.1", proxy.mysql_port)) as client:
            assert client.recv(5)[4:] == b"\x0a"


def test_any_port_will_do(mysql: Server, tmp_path: Path) -> None:
    with ProxyProcess(mysql.url, tmp_path, grpc_port=0, http_port=0, mysql_port=0) as proxy:
        proxy.wait_ready().close()
        assert proxy.moved == ""
        socket.create_connection(("127.0.0.1", proxy.http_port)).close()
