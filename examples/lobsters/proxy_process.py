"""`upwell serve` as a child process: started, found ready, stopped."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from upwell.client import Client
from upwell.errors import UpwellError

ROOT = Path(__file__).parents[2]
START_SECONDS = 30.0
STOP_SECONDS = 15.0
POLL_SECONDS = 0.02
DEFAULT_GRPC, DEFAULT_HTTP, DEFAULT_MYSQL = 50051, 8080, 3307


class ProxyFailed(Exception):
    """The proxy did not start or has ended; the message holds the end of its log."""


def pick_port(wanted: int) -> int:
    """`wanted` if nobody listens there, else a free one."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            # As servers do: a port whose last connections are still in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ProxyFailed("there is no free TCP port on 127.0.0.1")


class ProxyProcess:
    """A running proxy.

    Invariants: 1. `stop` has been called, or the child runs or has ended by itself.
    """

    def __init__(
        self,
        upstream: str,
        folder: Path,
        *,
        options: Sequence[str] = (),
        private_state: bool = True,
        grpc_port: int | None = None,
        http_port: int | None = None,
        mysql_port: int | None = None,
    ) -> None:
        """Starts it: `folder` takes the log, and the state unless that shall be kept where `serve` keeps it."""
        self.grpc_port = pick_port(DEFAULT_GRPC if grpc_port is None else grpc_port)
        self.http_port = pick_port(DEFAULT_HTTP if http_port is None else http_port)
        self.mysql_port = pick_port(DEFAULT_MYSQL if mysql_port is None else mysql_port)
        wanted = (
            (DEFAULT_GRPC, self.grpc_port),
            (DEFAULT_HTTP, self.http_port),
            (DEFAULT_MYSQL, self.mysql_port),
        )
        # Where a usual port is taken: what was taken instead, as a sentence.
        self.moved = ", ".join(f"port {usual} is taken, so {got}" for usual, got in wanted if usual != got)
        self.log = folder / "upwell.log"
        self.started = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "upwell",
                    "serve",
                    f"--grpc-listen=127.0.0.1:{self.grpc_port}",
                    f"--http-listen=127.0.0.1:{self.http_port}",
                    f"--mysql-listen=127.0.0.1:{self.mysql_port}",
                    *([f"--state-dir={folder / 'state'}"] if private_state else []),
                    *options,
                ],
                cwd=ROOT,
                # Not on the command line, which everybody on the machine can read.
                env={**os.environ, "UPWELL_UPSTREAM": upstream},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the parent, which stops this in its order
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    def wait_ready(self) -> Client:
        """A client of the proxy, which answers. Raises ProxyFailed."""
        self._wait_listening()
        client = Client(self.target)
        pause = threading.Event()
        while True:
            try:
                client.status(timeout=2)
                return client
            except UpwellError as error:
                if self._ended_or_late():
                    client.close()
                    raise self.failure(f"the proxy is not ready: {error}") from error
            pause.wait(POLL_SECONDS)

    def _wait_listening(self) -> None:
        """With a socket: a gRPC channel that is refused lets ever more time pass before it tries again."""
        pause = threading.Event()
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.grpc_port), timeout=2).close()
                return
            except OSError as error:
                if self._ended_or_late():
                    raise self.failure(f"the proxy does not listen: {error}") from error
            pause.wait(POLL_SECONDS)

    def _ended_or_late(self) -> bool:
        return self._process.poll() is not None or time.monotonic() > self.started + START_SECONDS

    def failure(self, what: str) -> ProxyFailed:
        code = self._process.poll()
        ended = "" if code is None else f" (it ended with status {code})"
        lines = self.log.read_text(errors="replace").splitlines()[-8:]
        return ProxyFailed("\n".join([what + ended, *("    " + line for line in lines)]))

    def wait(self, seconds: float | None = None) -> int | None:
        """Its exit status, or None after that time."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> int:
        """SIGTERM, and SIGKILL if that does not do; the exit status."""
        self._process.terminate()
        code = self.wait(STOP_SECONDS)
        if code is None:
            self._process.kill()
            code = self._process.wait()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
