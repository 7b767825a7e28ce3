"""As much of the `docker` command as `integration/servers/docker_mysql.py` uses, where no daemon runs.

A container is a folder under `STAND_IN_STATE` with a real `mysqld`. What cannot be tried this way is Docker itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from pathlib import Path

from integration.servers import debian_mysql
from integration.servers.mysql_server import CannotStart, PrivateMySQL
from integration.servers.private_mysql import mysqld_on_path


class Container:
    """One container: `pid` and `arguments` are files in its folder."""

    def __init__(self, name: str) -> None:
        self.folder = Path(os.environ["STAND_IN_STATE"]) / name

    @property
    def pid(self) -> int:
        """0 where it does not run, as `docker inspect` says it."""
        pid = int((self.folder / "pid").read_text() or 0)
        command = Path(f"/proc/{pid}/cmdline")
        return pid if command.exists() and str(self.folder).encode() in command.read_bytes() else 0

    def server(self) -> PrivateMySQL:
        port, *flags = (self.folder / "arguments").read_text().splitlines()
        try:
            installation = mysqld_on_path()
        except CannotStart:
            installation = debian_mysql.find(lambda line: None)
        return PrivateMySQL("127.0.0.1", int(port), folder=self.folder, installation=installation, flags=tuple(flags))

    def create(self, port: str, flags: list[str]) -> None:
        self.folder.mkdir(parents=True)
        (self.folder / "arguments").write_text("\n".join([port, *flags]))
        self.server().initialize()
        self.start()

    def start(self) -> None:
        server = self.server()
        # A container has process numbers of its own; here the killed server keeps its until init has waited for it.
        (self.folder / "mysql.sock.lock").unlink(missing_ok=True)
        server.launch()
        assert server.process is not None
        (self.folder / "pid").write_text(str(server.process.pid))

    def end(self, by: signal.Signals | None) -> None:
        """Send the signal, if one is given, and return when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            if not (pid := self.pid):
                return
            handle = os.pidfd_open(pid)
            if by is not None:
                os.kill(pid, by)
            select.select([handle], [], [])


def option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def main(arguments: list[str]) -> int:
    match arguments:
        case ["version", *_]:
            print("28.0.0")
        case ["image", "ls", "-q", _]:
            print("0123456789ab")
        case ["run", "-d", *rest]:
            flags = rest[rest.index("mysql:lts") + 1 :]
            Container(option(rest, "--name")).create(option(rest, "-p").split(":")[1], flags)
        case ["start", name]:
            Container(name).start()
        case ["stop", "-t", _, name]:
            Container(name).end(signal.SIGTERM)
        case ["kill", "-s", "KILL", name] | ["rm", "-fv", name]:
            Container(name).end(signal.SIGKILL)
        case ["wait", name]:
            Container(name).end(by=None)
        case ["inspect", "-f", "{{.State.Pid}}", name]:
            print(Container(name).pid)
        case ["logs", "--tail", _, name]:
            print((Container(name).folder / "log").read_text())
        case _:
            print(f"unknown command: {arguments}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
