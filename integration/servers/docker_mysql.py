"""MySQL's own container image, where a Docker daemon answers."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from integration.servers.mysql_server import (
    BASE_FLAGS,
    POLL,
    START_TIMEOUT,
    CannotStart,
    NotHere,
    Server,
    ended_within,
    free_port,
    start_reaper,
)

IMAGE = "mysql:lts"
PULL_TIMEOUT = 900.0
TAKEN = ("port is already allocated", "address already in use")  # what Docker says of a port
ANSWER_TIMEOUT = 60.0  # seconds for a command; a busy machine takes 20 to begin a container


@dataclass
class DockerMySQL(Server):
    """A container of `mysql:lts` that listens on loopback; root has no password. Removed at the end, however we end."""

    name: str = ""
    reaper: subprocess.Popen[bytes] | None = None
    private = True
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def begin(cls, extra_flags: Sequence[str], report: Callable[[str], None]) -> DockerMySQL:
        """A fresh container that answers. Raises `CannotStart` with Docker's message; nothing is left behind then."""
        folder = Path(tempfile.mkdtemp(prefix="upwell-docker-"))
        name = folder.name
        server = cls(
            host="127.0.0.1", port=free_port(), name=name, reaper=start_reaper(folder, "docker", "rm", "-fv", name)
        )
        try:
            if not docker("image", "ls", "-q", IMAGE).strip():
                report(f"pulling the image {IMAGE}; this happens once")
                docker("pull", "-q", IMAGE, timeout=PULL_TIMEOUT)
            server._run_on_a_free_port(extra_flags)
            server._wait_until_it_answers()
        except BaseException:
            server.stop()
            raise
        return server

    def _run_on_a_free_port(self, flags: Sequence[str]) -> None:
        for tries_left in reversed(range(5)):
            try:
                docker(
                    *("run", "-d", "--name", self.name, "-p", f"127.0.0.1:{self.port}:3306"),
                    *("-e", "MYSQL_ALLOW_EMPTY_PASSWORD=yes", "-e", "MYSQL_ROOT_HOST=%", IMAGE),
                    *("--server-id=1", *BASE_FLAGS, *flags),
                )
            except CannotStart as error:
                if not tries_left or not any(words in str(error) for words in TAKEN):
                    raise
                docker("rm", "-fv", self.name)  # made, and not started
                self.port = free_port()  # somebody took it since we looked
            else:
                return

    @property
    def pid(self) -> int | None:
        printed = docker("inspect", "-f", "{{.State.Pid}}", self.name).strip()
        return int(printed) or None

    def start(self) -> None:
        docker("start", self.name)
        self._wait_until_it_answers()

    def halt(self) -> None:
        docker("stop", "-t", "60", self.name, timeout=90.0)

    def kill(self) -> None:
        docker("kill", "-s", "KILL", self.name)
        docker("wait", self.name)

    def stop(self) -> None:
        with self.lock:
            reaper, self.reaper = self.reaper, None
            if reaper is not None:
                reaper.communicate(b"end")  # returns when the container is gone

    def _wait_until_it_answers(self) -> None:
        # The image's first start runs a server without networking, so who gets in over TCP has the real one.
        deadline = time.monotonic() + START_TIMEOUT
        ending = subprocess.Popen(["docker", "wait", self.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not self.answers():
                if ended_within(ending, POLL * 4):
                    raise CannotStart(f"the container of {IMAGE} ended: {self._last_line()}")
                if time.monotonic() > deadline:
                    raise CannotStart(
                        f"the container of {IMAGE} did not answer in {START_TIMEOUT:.0f} s: {self._last_line()}"
                    )
        finally:
            ending.kill()
            ending.wait()

    def _last_line(self) -> str:
        done = subprocess.run(
            ["docker", "logs", "--tail", "20", self.name], capture_output=True, text=True, check=False
        )
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line for line in lines if "ERROR" in line]
        return (errors or lines or ["it wrote nothing"])[0]


def begin(extra_flags: Sequence[str], report: Callable[[str], None]) -> DockerMySQL:
    """Raises `NotHere` where there is no docker command, or no daemon behind it."""
    if shutil.which("docker") is None:
        raise NotHere("there is no docker command")
    try:
        docker("version", "--format", "{{.Server.Version}}", timeout=ANSWER_TIMEOUT)
    except CannotStart as error:
        raise NotHere(str(error)) from None
    return DockerMySQL.begin(extra_flags, report)


def docker(*arguments: str, timeout: float = 120.0) -> str:
    """Runs the docker command; what it printed. Raises `CannotStart` with the last line of what it complained about."""
    try:
        done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise CannotStart(f"docker {arguments[0]} did not finish within {timeout:.0f} s") from None
    except OSError as error:
        raise CannotStart(f"docker cannot be run: {error.strerror}") from None
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise CannotStart(lines[-1] if lines else f"docker {arguments[0]} ended with status {done.returncode}")
    return done.stdout
