"""Spark's own servers on loopback, for tests: a standalone cluster with two workers, and Spark Connect."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from integration.servers.mysql_server import ended_within, free_port

START = 90.0  # seconds
POLL = 0.1


@dataclass
class Running:
    """Processes with their logs in `folder`. `master`: what `--spark-master` is given."""

    master: str
    folder: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def executors(self) -> list[int]:
        """The executors' processes, which the workers have started."""
        own = {worker.pid for worker in self.workers}
        return [pid for pid, parent in _parents() if parent in own and b"ExecutorBackend" in _command_of(pid)]

    def lose_workers(self) -> None:
        """Kills the workers and their executors, which otherwise work on until they notice that they are alone."""
        executors = self.executors()
        for worker in self.workers:
            worker.kill()
        for pid in executors:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def printed(self) -> str:
        """All that its processes have written into files."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and path.suffix not in (".jar", ".py")]
        return "".join(path.read_text(errors="replace") for path in files)


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                yield int(entry.name), int((entry / "stat").read_text().rpartition(")")[2].split()[1])


def _command_of(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def home() -> Path:
    """The folder of PySpark's own Spark."""
    import pyspark

    return Path(pyspark.__file__).parent


def environment(folder: Path) -> dict[str, str]:
    (folder / "conf").mkdir(exist_ok=True)
    return {
        **os.environ,
        "SPARK_HOME": str(home()),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


@contextmanager
def _process(folder: Path, name: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        if not ended_within(process, 20.0):
            process.kill()
            process.wait()


def _until(condition: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START
    while not condition():
        if ended_within(process, POLL) or time.monotonic() > deadline:
            raise AssertionError(f"it did not start: {log.read_text(errors='replace')[-2000:]}")


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


@contextmanager
def standalone(folder: Path) -> Iterator[Running]:
    """A master with two workers, each of one core."""
    spark_class = str(home() / "bin" / "spark-class")
    port, page = free_port(), free_port()
    running = Running(f"spark://127.0.0.1:{port}", folder)
    with ExitStack() as stack:
        master = stack.enter_context(
            _process(
                folder,
                "master",
                spark_class,
                "org.apache.spark.deploy.master.Master",
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                "--webui-port",
                str(page),
            )
        )
        _until(lambda: _answers(port) and _answers(page), master, folder / "master.log")
        for number in range(2):
            running.workers.append(
                stack.enter_context(
                    _process(
                        folder,
                        f"worker{number}",
                        spark_class,
                        "org.apache.spark.deploy.worker.Worker",
                        running.master,
                        "--host",
                        "127.0.0.1",
                        "--cores",
                        "1",
                        "--memory",
                        "1g",
                        "--webui-port",
                        str(free_port()),
                        "--work-dir",
                        str(folder / f"work{number}"),
                    )
                )
            )

        def both() -> bool:
            with (
                contextlib.suppress(OSError),  # its page is not there yet
                urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer,
            ):
                return bool(answer.read().count(b'"ALIVE"') >= 3)  # the master, too
            return False

        _until(both, master, folder / "worker1.log")
        yield running


@contextmanager
def connect_server(folder: Path) -> Iterator[Running]:
    """A server of Spark Connect, which runs its tasks itself."""
    port = free_port()
    running = Running(f"sc://localhost:{port}", folder)
    command = (
        str(home() / "bin" / "spark-submit"), "--master", "local[2,3]",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf", "spark.ui.enabled=false", "--conf", f"spark.local.dir={folder}", "spark-internal",
    )  # fmt: skip
    with _process(folder, "connect", *command) as server:
        _until(lambda: _answers(port), server, folder / "connect.log")
        yield running
