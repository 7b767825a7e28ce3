"""A MySQL that something can be tried on: one that exists already, or one of our own whose data is thrown away.

`ExistingServer` is somebody else's: it is never started, stopped or restarted. `PrivateMySQL` runs a `mysqld` and
removes everything of it at the end, also when the process that started it is killed (`integration/servers/reaper.py`).
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pymysql

START_TIMEOUT = 120.0  # seconds; on a machine that is busy with other tests a first start takes 10
STOP_TIMEOUT = 60.0
POLL = 0.05
PORTS = (20_000, 32_000)

# What every private server runs with. A flag given later wins over the same flag given earlier.
BASE_FLAGS = (
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--binlog-row-image=FULL",
    "--binlog-row-metadata=FULL",
    "--max-connections=500",
    "--local-infile=ON",
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-buffer-pool-size=512M",
    "--loose-innodb-redo-log-capacity=256M",
    "--mysqlx=OFF",
    "--event-scheduler=OFF",  # it takes a whole processor while a shutdown waits for those who follow the binlog
)


# Flags that count when the data directory is made, and must be the same ever after.
AT_BIRTH = ("--lower-case-table-names", "--innodb-page-size", "--innodb-data-file-path")

# The connections of others, by id.
OTHERS = "SELECT id FROM performance_schema.processlist WHERE id <> CONNECTION_ID() AND command <> 'Daemon'"
FOLLOWS = "command LIKE 'Binlog Dump%'"


class CannotStart(Exception):
    """This way to a MySQL does not work here. The message is the reason, one line, ready to be shown."""


class NotHere(CannotStart):
    """This machine has nothing of the kind, so that is no fault."""


@dataclass
class Server(ABC):
    """A MySQL that accepts connections at `host`:`port` (or at `unix_socket`)."""

    host: str
    port: int
    user: str = "root"
    password: str = ""
    database: str | None = None
    unix_socket: str | None = None
    private = False  # whether it is ours: may be filled, restarted and killed

    @property
    def url(self) -> str:
        """`mysql://user:password@host:port[/database]`, percent-encoded, as `upwell serve --upstream` takes it."""
        password = f":{quote(self.password, safe='')}" if self.password else ""
        database = f"/{quote(self.database, safe='')}" if self.database else ""
        socket_file = f"?unix_socket={quote(self.unix_socket, safe='')}" if self.unix_socket else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"mysql://{quote(self.user, safe='')}{password}@{host}:{self.port}{database}{socket_file}"

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """The process id of `mysqld` on this machine, where it is known."""

    @abstractmethod
    def start(self) -> None:
        """Start it again after `halt` or `kill`, on the same port with the same data; returns when it answers."""

    @abstractmethod
    def halt(self) -> None:
        """Shut it down cleanly, keeping its data."""

    @abstractmethod
    def kill(self) -> None:
        """End it as a crash does (SIGKILL), keeping its data."""

    @abstractmethod
    def stop(self) -> None:
        """End it for good and remove everything of it. Calling it twice is allowed."""

    def restart(self) -> None:
        """A clean shutdown and a start on the same port."""
        self.halt()
        self.start()

    def connect(self, **options: Any) -> pymysql.Connection[Any]:
        """A new PyMySQL connection, with autocommit unless `options` say otherwise. To a private server without TLS: to
        load the machine's certificates for it takes 40 ms."""
        settings: dict[str, Any] = {"autocommit": True, "charset": "utf8mb4"}
        if self.private and not any(name.startswith("ssl") for name in options):
            settings["ssl_disabled"] = True
        settings |= {"host": self.host, "port": self.port, "user": self.user, "password": self.password}
        if self.unix_socket:
            settings["unix_socket"] = self.unix_socket
        if self.database:
            settings["database"] = self.database
        settings |= options
        return pymysql.connect(**settings)

    def execute(self, *statements: str) -> tuple[tuple[Any, ...], ...]:
        """Run statements on a connection of their own; the rows of the last one."""
        rows: Sequence[tuple[Any, ...]] = ()
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = cursor.fetchall()
        return tuple(rows)

    def version(self) -> str:
        return str(self.execute("SELECT VERSION()")[0][0])

    def answers(self) -> bool:
        """Whether a client gets in right now."""
        try:
            self.connect(connect_timeout=5).close()
        except (pymysql.err.OperationalError, OSError):
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class ExistingServer(Server):
    """Somebody's MySQL, named by a URL. Nothing here starts or ends it."""

    @classmethod
    def from_url(cls, url: str) -> ExistingServer:
        """Raises `CannotStart` where the URL is not `mysql://user[:password]@host[:port][/database][?unix_socket=PATH]`."""
        try:
            parts = urlsplit(url)
            port = parts.port or 3306
        except ValueError as error:
            raise CannotStart(f"{url!r} is not a MySQL address: {error}") from None
        if parts.scheme != "mysql":
            raise CannotStart(f"{url!r} is not a MySQL address: write mysql://user:password@host:port[/database]")
        return cls(
            host=parts.hostname or "127.0.0.1",
            port=port,
            user=unquote(parts.username or "root"),
            password=unquote(parts.password or ""),
            database=unquote(parts.path.lstrip("/")) or None,
            unix_socket=parse_qs(parts.query).get("unix_socket", [None])[0],
        )

    @property
    def pid(self) -> int | None:
        return None

    def start(self) -> None:
        raise CannotStart(f"{self.host}:{self.port} is not ours to start")

    def halt(self) -> None:
        raise CannotStart(f"{self.host}:{self.port} is not ours to shut down")

    def kill(self) -> None:
        raise CannotStart(f"{self.host}:{self.port} is not ours to kill")

    def stop(self) -> None:
        """Nothing to stop: it was there before."""


@dataclass(frozen=True)
class Installation:
    """How to run one `mysqld`: the command, and the flags that it needs where it lies."""

    command: tuple[str, ...]
    flags: tuple[str, ...] = ()
    name: str = "mysqld"
    template: Path | None = (
        None  # a data directory that no server has run on yet: copying it is quicker than making one
    )


@dataclass
class PrivateMySQL(Server):
    """Our own `mysqld`. `PrivateMySQL.begin` makes one; root has no password and it listens on loopback only.

    Invariants:
    1. The reaper runs from before the first `mysqld` until `stop`.
    2. `process` is the only `mysqld` on the folder, or has ended.
    """

    folder: Path = Path()
    installation: Installation = Installation(())
    flags: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    reaper: subprocess.Popen[bytes] | None = None
    private = True
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def begin(cls, installation: Installation, extra_flags: Sequence[str] = ()) -> PrivateMySQL:
        """A fresh server that answers. Raises `CannotStart` with its log's reason; nothing is left behind then."""
        folder = Path(tempfile.mkdtemp(prefix="upwell-mysql-"))
        server = cls(
            host="127.0.0.1",
            port=free_port(),
            folder=folder,
            installation=installation,
            flags=tuple(extra_flags),
            reaper=start_reaper(folder),
        )
        try:
            server.initialize()
            server._start_on_a_free_port()
        except BaseException:
            server.stop()
            raise
        return server

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None and self.process.poll() is None else None

    @property
    def log(self) -> str:
        """What this server wrote to its error log so far."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "log").read_text(errors="replace")
        return ""

    def initialize(self) -> None:
        """Make the data directory. Requires: there is none yet."""
        at_birth = [flag for flag in self.flags if flag.startswith(AT_BIRTH)]
        if self.installation.template is not None and not at_birth:
            shutil.copytree(self.installation.template, self.folder / "data")
            return
        process = self._spawn([*self._command(), "--initialize-insecure", *at_birth])
        if process.wait() != 0:
            raise CannotStart(f"{self.installation.name} could not make a data directory: {self._reason()}")

    def launch(self) -> None:
        """Run `mysqld`, without waiting until it answers. Requires: a data directory, and no `mysqld` on it."""
        assert self.pid is None, self.pid
        command = [
            *self._command(),
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.folder}/mysql.sock",
            f"--pid-file={self.folder}/mysqld.pid",
            f"--server-id={int.from_bytes(os.urandom(3), 'big') + 1}",
            *BASE_FLAGS,
            *self.flags,
        ]
        self.process = self._spawn(command)

    def start(self) -> None:
        self.launch()
        assert self.process is not None
        deadline = time.monotonic() + START_TIMEOUT
        while not (self.answers() and self.process.poll() is None):
            if ended_within(self.process, POLL):
                raise CannotStart(f"{self.installation.name} did not start: {self._reason()}")
            if time.monotonic() > deadline:
                self.kill()
                raise CannotStart(
                    f"{self.installation.name} did not answer within {START_TIMEOUT:.0f} s: {self._reason()}"
                )

    def halt(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()

    def halt_at_once(self) -> None:
        """As `halt`, but every connection is ended first, those that follow the binlog as the last. By itself a
        shutdown leaves these eight seconds more, and waits two seconds for the others."""
        assert self.process is not None
        with self.connect() as connection, connection.cursor() as cursor:
            end(cursor, "command NOT LIKE 'Binlog Dump%'")
            with contextlib.suppress(pymysql.err.MySQLError):  # until the server ends this connection, too
                end(cursor, FOLLOWS)
                self.process.terminate()
        self.halt()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        with self.lock:
            self.kill()  # its data is removed next: a clean shutdown would write pages for nobody
            reaper, self.reaper = self.reaper, None
            if reaper is not None:
                reaper.communicate(b"end")  # returns when the folder is gone

    def _start_on_a_free_port(self) -> None:
        for _ in range(5):
            try:
                return self.start()
            except CannotStart:
                if "port" not in self._reason() or "in use" not in self.log:
                    raise
                self.port = free_port()  # somebody took it since we looked
        raise CannotStart(f"{self.installation.name} found no free port in five tries")

    def _command(self) -> list[str]:
        command = [
            *self.installation.command,
            "--no-defaults",
            f"--datadir={self.folder}/data",
            *self.installation.flags,
        ]
        if os.geteuid() == 0:
            command.append("--user=root")  # refuses to run as root otherwise
        return command

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        try:
            with (self.folder / "log").open("ab") as log:
                return subprocess.Popen(
                    command,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C in the terminal is for us; we decide when MySQL ends
                )
        except OSError as error:
            raise CannotStart(f"{self.installation.name} cannot be run: {error.strerror}") from None

    def _reason(self) -> str:
        lines = [line.strip() for line in self.log.splitlines() if line.strip()]
        errors = [line for line in lines if "[ERROR]" in line]
        useful = [line for line in errors if "Aborting" not in line and "failed. " not in line[-40:]] or errors or lines
        return useful[0] if useful else "it wrote nothing to its log"


def end(cursor: pymysql.cursors.Cursor, which: str) -> None:
    """Kills the other connections for which the condition holds."""
    cursor.execute(f"{OTHERS} AND {which}")
    for (number,) in cursor.fetchall():
        with contextlib.suppress(pymysql.err.OperationalError):  # it has ended meanwhile
            cursor.execute(f"KILL {number}")


def free_port() -> int:
    """A TCP port on loopback that nobody listens on at this moment. None of those that the system gives to outgoing
    connections: such a one would have it when a server that was shut down comes back."""
    for _ in range(100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            port = random.SystemRandom().randrange(*PORTS)
            probe.bind(("127.0.0.1", port))
            return port
    raise CannotStart("no free port was found in a hundred tries")


def start_reaper(folder: Path, *command: str) -> subprocess.Popen[bytes]:
    """See `integration/servers/reaper.py`. It ends when its standard input is closed."""
    return subprocess.Popen(
        [sys.executable, "-I", str(Path(__file__).with_name("reaper.py")), str(folder), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )


def ended_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Waits for at most `seconds`; whether the process has ended."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
