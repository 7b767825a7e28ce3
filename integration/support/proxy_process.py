"""`upwell serve` as a process of its own beside a real MySQL, whose memory can be measured."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.servers.mysql_server import Server
from integration.support.raw_client import RawClient

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Serving:
    """The process, and the port on which it speaks MySQL's protocol. `grpc`: where it speaks gRPC. `log`: its lines so
    far; all of them once it has ended."""

    process: subprocess.Popen[str]
    port: int
    grpc: str
    database: str
    log: list[str]

    def client(self, **options: Any) -> RawClient:
        return RawClient("127.0.0.1", self.port, **{"database": self.database, **options})

    def memory(self) -> int:
        """Bytes of the process that are in the machine's memory."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the process has ended")

    def clients(self) -> int:
        """How many sockets it has open to clients of MySQL's protocol. What it has open to MySQL is its own."""
        own = f"0100007F:{self.port:04X}"
        lines = Path(f"/proc/{self.process.pid}/net/tcp").read_text().splitlines()[1:]
        inodes = {f"socket:[{fields[9]}]" for fields in map(str.split, lines) if fields[1] == own}
        found = 0
        for entry in Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                found += str(entry.readlink()) in inodes
            except FileNotFoundError:  # closed meanwhile
                continue
        return found - 1  # which listens


@contextmanager
def serving(mysql: Server, database: str, state: Path, *options: str) -> Iterator[Serving]:
    """Fails where it has logged an exception."""
    process = subprocess.Popen(
        [sys.executable, "-m", "upwell", "serve",
         "--grpc-listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", "--mysql-listen=127.0.0.1:0",
         f"--state-dir={state}", "--log-json", f"--upstream={mysql.url}", *options],
        cwd=ROOT, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    log: list[str] = []
    assert process.stderr is not None
    port, grpc = 0, ""
    for line in process.stderr:
        log.append(line)
        if '"event": "listening"' in line:
            told = json.loads(line)
            port, grpc = int(told["mysql"].rpartition(":")[2]), told["grpc"]
            break
    reading = threading.Thread(target=log.extend, args=(process.stderr,), daemon=True)
    reading.start()
    try:
        assert port, log
        yield Serving(process, port, grpc, database, log)
    finally:
        process.terminate()
        process.wait(60)
        reading.join(60)
        process.stderr.close()
    assert not any("Traceback" in line for line in log), "".join(log)
