"""A real `upwell serve` tells its service manager that it is ready, reloads and stops."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.lobsters.proxy_process import ProxyProcess
from integration.servers.mysql_server import Server


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.bind(str(tmp_path / "notify"))
        own.settimeout(60)
        yield own


def next_told(manager: socket.socket, starts: str) -> dict[str, str]:
    """The next message that begins so; those before it are passed over. Its assignments."""
    while True:
        told = dict(line.split("=", 1) for line in manager.recv(4096).decode().splitlines())
        if next(iter(told)) == starts:
            return told


def test_ready_reload_and_stop_are_told(mysql: Server, manager: socket.socket, tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"}
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # what is ignored is inherited
    try:
        proxy = ProxyProcess(mysql.url, tmp_path, grpc_port=0, http_port=0, mysql_port=0, environment=environment)
    finally:
        signal.signal(signal.SIGHUP, before)
    with proxy:
        assert next_told(manager, "READY") == {"READY": "1"}
        proxy.wait_ready().close()
        status = next_told(manager, "STATUS")["STATUS"]
        assert status == f"serves MySQL's protocol on 127.0.0.1:{proxy.mysql_port}"
        assert next_told(manager, "WATCHDOG") == {"WATCHDOG": "1"}
        os.kill(proxy.pid, signal.SIGHUP)
        assert set(next_told(manager, "RELOADING")) == {"RELOADING", "MONOTONIC_USEC"}
        assert next_told(manager, "READY") == {"READY": "1"}
        os.kill(proxy.pid, signal.SIGTERM)
        assert next_told(manager, "STOPPING") == {"STOPPING": "1"}
        assert proxy.wait(60) == 0


def test_nothing_is_told_by_one_that_cannot_start(manager: socket.socket, tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    address = "mysql://nobody@127.0.0.1:1"  # where nobody listens
    with ProxyProcess(address, tmp_path, grpc_port=0, http_port=0, mysql_port=0, environment=environment) as proxy:
        assert proxy.wait(60) == 3
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(4096)
