"""Finds or brings up a real MySQL. The only door to it for `make run`, `make test` and the benchmarks.

The ways, in order; one that does not work gives its reason and falls to the next:
1. the address that the caller was given (then nothing else is tried: who names a server wants that one);
2. `mysqld` on PATH, if it is MySQL 8.0 or newer (MariaDB speaks of GTIDs in another way);
3. Docker, where a daemon answers;
4. the distribution's packages, unpacked into the user's cache (`integration/servers/debian_mysql.py`).

Run as a program (`python -m integration.servers.private_mysql [--mysqld-flag=value ...]`) it starts one, prints its
address and keeps it until Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

from pymysql.err import MySQLError

from external_upquery.address import parse_upstream
from external_upquery.login import connect
from integration.servers import debian_mysql, docker_mysql
from integration.servers.existing_vitess import ExistingVitess
from integration.servers.mysql_server import CannotStart, ExistingServer, Installation, NotHere, PrivateMySQL, Server
from sqltypes.errors import UpwellError

__all__ = ["CannotStart", "ExistingServer", "NoMySQL", "PrivateMySQL", "Server", "find_mysql", "in_words"]

Report = Callable[[str], None]


class NoMySQL(Exception):
    """None of the ways works. The message names each with its reason and says what to do."""


def find_mysql(upstream: str | None = None, extra_flags: Sequence[str] = (), report: Report = print) -> Server:
    """A MySQL that answers: `upstream` where it is given, else a private one with `extra_flags` for its `mysqld`.

    `report` gets one line per way that fails, and one for the way that worked. Raises `NoMySQL`, which names all.
    """
    if upstream:
        return existing(upstream)
    ways: tuple[tuple[str, Callable[[], Server]], ...] = (
        ("mysqld on PATH", lambda: PrivateMySQL.begin(mysqld_on_path(), extra_flags)),
        ("Docker", lambda: docker_mysql.begin(extra_flags, report)),
        ("the distribution's packages", lambda: PrivateMySQL.begin(debian_mysql.find(report), extra_flags)),
    )
    reasons = []
    for name, begin in ways:
        try:
            server = begin()
        except CannotStart as error:
            reasons.append(f"{name}: {error}")
            if not isinstance(error, NotHere):
                report(f"not from {name}: {error}")
            continue
        report(f"MySQL {server.version()} from {name} on {server.host}:{server.port}")
        return server
    raise NoMySQL(
        "no MySQL to work with.\n"
        + "".join(f"  * {reason}\n" for reason in reasons)
        + "What helps, any of them: give the address of one (make run UPSTREAM=mysql://user:password@host:port),\n"
        "put mysqld of MySQL 8.0 or newer on PATH, start the Docker daemon, or make the package mirror reachable\n"
        "(packages are kept in the user's cache directory, so that is needed once)."
    )


def existing(upstream: str) -> ExistingServer:
    """The server at that address. Raises `NoMySQL` where it is no address, or nobody gets in there."""
    try:
        server = _at(upstream)
        # Upwell's own login says what is wrong, and does not wait for ever.
        connect(parse_upstream(server.url)).close()
        server.version()
    except MySQLError as error:
        raise NoMySQL(f"cannot work with UPSTREAM: {in_words(error)}") from error
    except (CannotStart, OSError, RuntimeError, UpwellError) as error:
        raise NoMySQL(f"cannot work with UPSTREAM: {error}") from error
    return server


def _at(upstream: str) -> ExistingServer:
    """Raises CannotStart, ConfigError."""
    if upstream.startswith("vitess://"):
        return ExistingVitess(parse_upstream(upstream), upstream)
    return ExistingServer.from_url(upstream)


def in_words(error: MySQLError) -> str:
    """MySQL's message and its number, not the driver's tuple."""
    number, *said = error.args or (0,)
    return f"{said[0]} ({number})" if said else str(error)


def mysqld_on_path(path: str | None = None) -> Installation:
    """The machine's own `mysqld`. Raises `NotHere` where there is none, `CannotStart` if it is MariaDB, or too old."""
    # Servers live in sbin folders, which an ordinary user's PATH leaves out on Debian.
    search = (
        path
        if path is not None
        else os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
    )
    program = shutil.which("mysqld", path=search)
    if program is None:
        raise NotHere("there is none")
    try:
        done = subprocess.run(
            [program, "--no-defaults", "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotStart(f"{program} does not tell its version: {error}") from None
    printed = done.stdout + done.stderr
    if "mariadb" in printed.lower():
        raise CannotStart(f"{program} is MariaDB, whose GTIDs are of another kind")
    version = re.search(r"Ver (\d+\.\d+\.\d+)", printed)
    if version is None:
        raise CannotStart(f"{program} does not tell its version")
    if not debian_mysql.is_recent(version[1]):
        raise CannotStart(f"{program} is MySQL {version[1]}; 8.0 or newer is needed")
    return Installation(command=(program,), flags=("--secure-file-priv=NULL",), name=program)


def main() -> int:
    try:
        server = find_mysql(extra_flags=sys.argv[1:], report=lambda line: print(line, file=sys.stderr))
    except NoMySQL as error:
        print(error, file=sys.stderr)
        return 3
    with server:
        print(server.url, flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
    return 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    sys.exit(main())
