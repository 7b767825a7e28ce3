"""`upwell serve` as a child process: started, found ready, stopped."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import HTTPError
from urllib.request import urlopen

from upwell.client import Client
from upwell.errors import UpwellError

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.02
USUAL = {"grpc": 50051, "http": 8080, "mysql": 3307}
LISTENING = re.compile(r'\b(grpc|http|mysql)"?[=:] ?"?127\.0\.0\.1:(\d+)')
TAKEN = "cannot listen for"


class ProxyFailed(Exception):
    """The proxy did not start or has ended; the message holds the end of its log."""


def is_free(port: int) -> bool:
    """Whether nobody listens there now."""
    with socket.socket() as probe:
        # As servers do: a port whose last connections are still in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class ProxyProcess:
    """A running proxy.

    Invariants: 1. `stop` has been called, or the child runs or has ended by itself. 2. `grpc_port`, `http_port` and
    `mysql_port` are 0 until it listens: it takes what is free where a usual port is not, and tells which.
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
        root: Path = ROOT,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Starts it: `folder` takes the log, and the state unless that shall be kept where `serve` keeps it. Ports: 0
        is any; None the usual one, or any if that is taken. `root`: the sources that `python` runs; `environment`: set
        for it besides ours."""
        self.grpc_port = self.http_port = self.mysql_port = 0
        self.moved = ""  # where a usual port is taken: what was taken instead, as a sentence
        self.log = folder / "upwell.log"
        self._upstream = upstream
        self._root, self._python, self._environment = root, python, environment or {}
        self._options = [*([f"--state-dir={folder / 'state'}"] if private_state else []), *options]
        wanted = {"grpc": grpc_port, "http": http_port, "mysql": mysql_port}
        self._usual = {name: USUAL[name] if port is None else port for name, port in wanted.items()}
        self._process = self._start({name: port if is_free(port) else 0 for name, port in self._usual.items()})

    def _start(self, ports: Mapping[str, int]) -> subprocess.Popen[bytes]:
        self._tried = ports
        self.started = time.monotonic()
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            return subprocess.Popen(
                [
                    *(self._python, "-m", "upwell", "serve"),
                    *(f"--{name}-listen=127.0.0.1:{port}" for name, port in ports.items()),
                    *self._options,
                ],
                cwd=self._root,  # its sources are found here first
                # The address is not on the command line, which everybody on the machine can read.
                env={**os.environ, **self._environment, "UPWELL_UPSTREAM": self._upstream},
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
                why = self._not_ready()
                if not why:
                    return client
            except UpwellError as error:
                why = str(error)
            if self._ended_or_late():
                client.close()
                raise self.failure(f"the proxy is not ready: {why}")
            pause.wait(POLL_SECONDS)

    def _not_ready(self) -> str:
        """What /readyz says, "" where it is ready: caches of an earlier run are planned while it listens."""
        try:
            urlopen(f"http://127.0.0.1:{self.http_port}/readyz", timeout=2).close()
        except HTTPError as error:
            with error:
                return error.read().decode(errors="replace").strip()
        except OSError as error:
            return str(error)
        return ""

    def _wait_listening(self) -> None:
        """Until its log tells the ports. A port that was free when it was looked at may be taken since: then any
        others do."""
        pause = threading.Event()
        while not (ports := self._told_ports()):
            if self._process.poll() is not None and any(self._tried.values()) and TAKEN in self._log_text():
                self._process = self._start(dict.fromkeys(self._tried, 0))
            elif self._ended_or_late():
                raise self.failure("the proxy does not listen")
            pause.wait(POLL_SECONDS)
        self.grpc_port, self.http_port, self.mysql_port = (ports[name] for name in self._usual)
        others = ((port, ports[name]) for name, port in self._usual.items() if port not in (0, ports[name]))
        self.moved = ", ".join(f"port {usual} is taken, so {got}" for usual, got in others)

    def _told_ports(self) -> dict[str, int]:
        for line in self._log_text().splitlines():
            if "listening" in line:
                found = {name: int(port) for name, port in LISTENING.findall(line)}
                if found.keys() == self._usual.keys():
                    return found
        return {}

    def _log_text(self) -> str:
        """Of this start."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

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

    def again(self) -> None:
        """Another process, on the same ports and the same state. Requires: this one has ended. Raises ProxyFailed."""
        self._process = self._start({"grpc": self.grpc_port, "http": self.http_port, "mysql": self.mysql_port})
        self.wait_ready().close()

    def succeed(self) -> subprocess.Popen[bytes]:
        """Another process takes over, and is this one from now on. The one before, which ends by itself. Raises
        ProxyFailed where it is not taken over, and goes on."""
        before = self._process
        self._process = self._start({"grpc": self.grpc_port, "http": self.http_port, "mysql": self.mysql_port})
        pause = threading.Event()
        while "taken_over" not in self._log_text():
            if self._ended_or_late():
                failed = self.failure("the proxy does not take over")
                self.stop()
                self._process = before
                raise failed
            pause.wait(POLL_SECONDS)
        return before

    def kill(self) -> None:
        """SIGKILL, and its end."""
        self._process.kill()
        self._process.wait()

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
