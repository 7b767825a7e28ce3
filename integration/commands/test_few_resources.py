"""A log that nobody reads, and few open files: nobody hangs."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.raw_client import RawClient

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 60.0  # seconds
FILES = 256


@dataclass(frozen=True, slots=True)
class Ports:
    http: str
    mysql: int

    def ready(self) -> int:
        with urllib.request.urlopen(f"http://{self.http}/readyz", timeout=PATIENCE) as answer:
            return int(answer.status)


@contextmanager
def unread(mysql: Server, state: Path, files: int | None = None) -> Iterator[Ports]:
    """`upwell serve`, of whose log nobody reads more than where it listens. `files`: that it may open."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    command = [
        sys.executable,
        "-m",
        "upwell",
        "serve",
        "--grpc-listen=127.0.0.1:0",
        "--http-listen=127.0.0.1:0",
        "--mysql-listen=127.0.0.1:0",
        f"--state-dir={state}",
        "--log-json",
        f"--upstream={mysql.url}",
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, stderr=writing,
        preexec_fn=None if files is None else lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)),
    )  # fmt: skip
    os.close(writing)
    try:
        line = b""
        while b'"listening"' not in line:
            line = b""
            while not line.endswith(b"\n"):
                byte = os.read(reading, 1)
                assert byte, "it has ended"
                line += byte
        told = json.loads(line)
        yield Ports(told["http"], int(told["mysql"].rpartition(":")[2]))
        process.terminate()
        assert process.wait(PATIENCE) == 0, "the end does not wait for who does not read either"
    finally:
        process.kill()
        process.wait()
        os.close(reading)


def test_bad_handshakes_into_a_log_that_nobody_reads_stop_nothing(mysql: Server, database: str, tmp_path: Path) -> None:
    with unread(mysql, tmp_path) as ports:
        for number in range(450):
            with socket.create_connection(("127.0.0.1", ports.mysql), PATIENCE) as client:
                assert client.recv(4), number  # the greeting: the loop goes on
                client.sendall(b"\x03\x00\x00\x01bad")
                while client.recv(4096):
                    pass
        assert ports.ready() == 200
        with RawClient("127.0.0.1", ports.mysql, database=database) as client:
            assert b"7" in client.query("SELECT 7")


def test_with_few_open_files_whoever_is_too_many_is_told(mysql: Server, database: str, tmp_path: Path) -> None:
    with unread(mysql, tmp_path, FILES) as ports, ExitStack() as stack:
        clients, refused = [], 0
        for _ in range(FILES):
            try:
                clients.append(stack.enter_context(RawClient("127.0.0.1", ports.mysql, database=database)))
            except ConnectionRefusedError as error:
                assert error.args[0] == b"\xff" + (1040).to_bytes(2, "little") + b"Too many connections"
                refused += 1
        assert clients and refused, (len(clients), refused)
        assert ports.ready() == 200
        for client in clients:
            assert b"7" in client.query("SELECT 7")


@pytest.mark.parametrize("files", [230])
def test_where_sockets_of_others_take_the_files_clients_are_told(
    mysql: Server, database: str, tmp_path: Path, files: int
) -> None:
    """Connections to the gRPC and HTTP listeners count, too: the files end before the clients' places do."""
    with unread(mysql, tmp_path, files) as ports, ExitStack() as stack:
        told = 0
        for _ in range(files):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", ports.mysql), PATIENCE))
            head = client.recv(5)
            assert len(head) == 5, "a greeting, or an error"
            told += head[4] == 0xFF
        assert told
