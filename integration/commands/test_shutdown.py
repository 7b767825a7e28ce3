"""How the process ends: with status 0, no traceback, whoever is connected; /readyz says so before its port closes."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pymysql
import pytest

from examples.lobsters.proxy_process import ProxyProcess
from integration.servers.mysql_server import Server


@pytest.fixture
def proxy(mysql: Server, tmp_path: Path) -> Iterator[ProxyProcess]:
    """A proxy that minds SIGHUP, also where the tests run under nohup: what is ignored is inherited."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        process = ProxyProcess(mysql.url, tmp_path, grpc_port=0, http_port=0, mysql_port=0)
    finally:
        signal.signal(signal.SIGHUP, before)
    with process:
        process.wait_ready().close()
        yield process


def page(proxy: ProxyProcess, path: str, **headers: str) -> tuple[int, str]:
    request = Request(f"http://127.0.0.1:{proxy.http_port}{path}", headers=headers)
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


@contextmanager
def idle(ports: Mapping[int, bytes]) -> Iterator[None]:
    """A connection to each port, on which so much is said."""
    with ExitStack() as stack:
        for port, said in ports.items():
            stack.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(said)
        yield


def ends_well(proxy: ProxyProcess, end: signal.Signals) -> None:
    os.kill(proxy.pid, end)
    assert proxy.wait(60) == 0
    assert "Traceback" not in proxy.log.read_text()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT], ids=lambda end: str(end.name))
@pytest.mark.parametrize("said", [b"", b"GET /metr"], ids=["silent", "in the middle of a request"])
def test_idle_connections_do_not_disturb_the_end(proxy: ProxyProcess, end: signal.Signals, said: bytes) -> None:
    with idle({proxy.http_port: said, proxy.mysql_port: b""}):
        ends_well(proxy, end)


def test_a_silent_connection_for_grpc_does_not_disturb_the_end(proxy: ProxyProcess) -> None:
    """gRPC waits for what it may say, for as long as running calls get."""
    with idle({proxy.http_port: b"", proxy.mysql_port: b"", proxy.grpc_port: b""}):
        ends_well(proxy, signal.SIGTERM)


def test_silent_connections_keep_nobody_from_the_pages(proxy: ProxyProcess) -> None:
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", proxy.http_port)))
        for path in ("/healthz", "/readyz", "/metrics"):
            assert page(proxy, path)[0] == 200
    assert "connection_failed" not in proxy.log.read_text(), "to make room is no failure"


def test_readyz_says_503_until_the_last_answer_is_given(mysql: Server, proxy: ProxyProcess) -> None:
    name = f"upwell_{proxy.pid}"

    def wait() -> None:
        connection = pymysql.connect(host="127.0.0.1", port=proxy.mysql_port, user="root")
        with closing(connection), connection.cursor() as cursor:
            cursor.execute(f"SELECT GET_LOCK('{name}', 600)")

    session = threading.Thread(target=wait)
    with closing(mysql.connect()) as holding, holding.cursor() as cursor:
        cursor.execute(f"SELECT GET_LOCK('{name}', 0)")
        session.start()
        waits = f"SELECT 1 FROM information_schema.processlist WHERE state = 'User lock' AND info LIKE '%{name}%'"
        while not mysql.execute(waits):
            pass
        os.kill(proxy.pid, signal.SIGTERM)
        while (found := page(proxy, "/readyz"))[0] == 200:
            pass
        assert found == (503, "not ready: it is stopping\n")
        assert page(proxy, "/healthz")[0] == 200
    session.join()
    assert proxy.wait(60) == 0


def test_the_end_is_put_off_for_balancers_that_ask_now_and_then(mysql: Server, tmp_path: Path) -> None:
    options = ("--shutdown-delay=6s",)
    with ProxyProcess(mysql.url, tmp_path, options=options, grpc_port=0, http_port=0, mysql_port=0) as proxy:
        proxy.wait_ready().close()
        os.kill(proxy.pid, signal.SIGTERM)
        while (found := page(proxy, "/readyz"))[0] == 200:
            pass
        assert found[0] == 503
        pymysql.connect(host="127.0.0.1", port=proxy.mysql_port, user="root").close()  # it serves all the same
        assert proxy.wait(60) == 0


def test_a_page_of_another_site_reads_nothing_here(proxy: ProxyProcess) -> None:
    """DNS rebinding: a browser is told that the other site's name is 127.0.0.1, and asks with that name."""
    for path in ("/", "/metrics"):
        for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example"):
            assert page(proxy, path, Host=host)[0] == 421
        for host in ("localhost", f"localhost:{proxy.http_port}", "127.0.0.1", "[::1]:8080"):
            assert page(proxy, path, Host=host)[0] == 200
    assert page(proxy, "/healthz", Host="pod.example")[0] == 200
