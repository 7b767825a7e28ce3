"""What the commands say to a stranger who has got something wrong: one line, and the right exit status."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from examples.lobsters.proxy_process import ROOT
from integration.servers.mysql_server import Server

LISTEN = ("--grpc-listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", "--mysql-listen=127.0.0.1:0")


def upwell(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "upwell", *arguments]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("UPWELL_")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)


def one_line(ran: subprocess.CompletedProcess[str], status: int, *said: str) -> None:
    assert (ran.returncode, ran.stderr.count("\n")) == (status, 1), ran.stderr
    for text in said:
        assert text in ran.stderr
    for noise in ("Traceback", "Errno", "(20", "('", "Packet sequence"):
        assert noise not in ran.stderr.replace("(2003)", "")


@pytest.fixture
def website() -> Iterator[int]:
    """The port of a server that speaks something else."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                with client:
                    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        yield int(listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)


def started_log(mysql: Server, state: Path, files: int, *options: str) -> str:
    """What `serve` says with so many open files, from its start to its end."""
    script = f'ulimit -n {files} && exec "$@"'
    command = ["sh", "-c", script, "sh", sys.executable, "-m", "upwell", "serve", *options]
    environment = {**os.environ, "UPWELL_UPSTREAM": mysql.url, "UPWELL_STATE_DIR": str(state)}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told = ""
    while "listening" not in told:
        told += process.stderr.readline()
    port = told.split("http=127.0.0.1:")[1].split()[0]
    urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30).close()  # it has started
    process.terminate()
    with process.stderr:
        told += process.stderr.read()
    process.wait(60)
    return told


@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_a_source_that_cannot_be_reached(mysql: Server, tmp_path: Path, website: int, command: str) -> None:
    options = (*LISTEN, f"--state-dir={tmp_path}") if command == "serve" else ()

    def tried(url: str) -> subprocess.CompletedProcess[str]:
        return upwell(command, "--upstream", url, *options)

    where = f"127.0.0.1:{mysql.port}"
    one_line(tried(f"mysql://nobody:wrong@{where}"), 3, f"no connection to mysql://nobody@{where}: Access denied")
    one_line(tried("mysql://root@127.0.0.1:1"), 3, "Connection refused")
    one_line(tried(f"mysql://root@127.0.0.1:{website}"), 3, f"what answers there is no MySQL: is {website} its port?")
    one_line(tried(where), 2, "does not begin with mysql://")


def test_a_proxy_that_cannot_be_reached(website: int) -> None:
    ran = upwell("cache", "ls", "--grpc", "127.0.0.1:1", "--timeout", "5")
    one_line(ran, 3, "no proxy answers at 127.0.0.1:1 (Connection refused): is `upwell serve` running")
    ran = upwell("cache", "ls", "--grpc", f"127.0.0.1:{website}", "--timeout", "5")
    one_line(ran, 3, f"what answers at 127.0.0.1:{website} is no gRPC of `upwell serve`")


def test_wrong_usage(mysql: Server, tmp_path: Path) -> None:
    def tried(*options: str) -> subprocess.CompletedProcess[str]:
        return upwell("serve", f"--upstream={mysql.url}", f"--state-dir={tmp_path}", *options)

    one_line(tried("--memory-limit=10"), 2, "--memory-limit is '10': 10 bytes: a size of at least 1MiB")
    one_line(tried("--nonsense"), 2, "No such option '--nonsense'")
    one_line(tried("--config=/nowhere"), 2, "'/nowhere' cannot be read")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        ran = tried(*LISTEN[:2], f"--mysql-listen={where}")
        assert ran.returncode == 2
        assert f"cannot listen for MySQL's protocol on {where}" in ran.stderr.splitlines()[-1]


def test_an_account_that_may_not_read_the_binlog(mysql: Server, tmp_path: Path) -> None:
    mysql.execute("CREATE USER binless@'%' IDENTIFIED BY 'pw'")
    try:
        url = mysql.url.replace("root@", "binless:pw@", 1)
        ran = upwell("serve", f"--upstream={url}", f"--state-dir={tmp_path}", *LISTEN)
        one_line(ran, 2, "'binless'@'%' may not read the binlog (GRANT REPLICATION SLAVE ON *.* TO 'binless'@'%')")
    finally:
        mysql.execute("DROP USER binless@'%'")


def test_the_doctor_on_a_database_that_does_not_exist(mysql: Server) -> None:
    ran = upwell("doctor", f"--upstream={mysql.url.split('?')[0].rstrip('/')}/nothere")
    assert ran.returncode == 1
    assert "error    select: there is no database nothere" in ran.stdout


def test_the_doctor_tells_how_many_clients_find_room(own_mysql: object) -> None:
    assert callable(own_mysql)
    ran = upwell("doctor", f"--upstream={own_mysql('--max-connections=151').url}")
    assert "warning  max_connections: 151 connections at most: 12 for Upwell itself" in ran.stdout
    assert "so 139" in ran.stdout


def test_local_accounts_are_warned_of_where_they_can_be_reached_from_afar(mysql: Server, tmp_path: Path) -> None:
    for listen, warned in (("127.0.0.1", False), ("0.0.0.0", True)):
        options = (f"--mysql-listen={listen}:0", "--grpc-listen=127.0.0.1:0", "--http-listen=127.0.0.1:0")
        assert ("local_accounts" in started_log(mysql, tmp_path, 20_000, *options)) is warned


def test_nobody_is_warned_of_open_files_who_has_not_asked_for_many(mysql: Server, tmp_path: Path) -> None:
    def log(limit: int, *options: str) -> str:
        return started_log(mysql, tmp_path, limit, *LISTEN, *options)

    assert "few_open_files" not in log(4096)
    assert "1000 clients need 2200 open files" in log(1024)
    assert "5000 clients need 10200 open files" in log(4096, "--mysql-connections=5000")
