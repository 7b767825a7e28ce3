"""`mysql` and `mysqldump` at the program's address. Their command lines come in CLIENT_MYSQL and CLIENT_MYSQLDUMP."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from integration.clients.canonical import address

ADDRESS = address()
TIMEOUT = 120.0
# What differs from run to run in what they print: times, ids of connections, temporary names.
TIMES = re.compile(r" \((?:\d+ \w+ )*\d+\.\d+ sec\)|(?<=Connection id: ) *\d+")


@contextlib.contextmanager
def with_password(user: str, password: str) -> Iterator[str]:
    """An option that gives the password: on a command line it would be visible, and `mysql` would say so."""
    with tempfile.NamedTemporaryFile("w", suffix=".cnf") as options:
        escaped = password.replace("\\", "\\\\").replace('"', '\\"')
        options.write(f'[client]\nuser={user}\npassword="{escaped}"\n')
        options.flush()
        yield f"--defaults-file={options.name}"


def command(program: str, options_file: str, *options: str) -> list[str]:
    where = (f"--host={ADDRESS.host}", f"--port={ADDRESS.port}", "--protocol=TCP")
    return [*shlex.split(os.environ[f"CLIENT_{program.upper()}"]), options_file, *where, *options]


def run(
    program: str,
    *options: str,
    script: str | bytes = b"",
    user: str = ADDRESS.user,
    password: str = ADDRESS.password,
) -> subprocess.CompletedProcess[bytes]:
    with with_password(user, password) as options_file:
        return subprocess.run(
            command(program, options_file, *options),
            input=script.encode() if isinstance(script, str) else script,
            capture_output=True,
            check=False,
            timeout=TIMEOUT,
            cwd=Path(tempfile.gettempdir()),
            env={"LC_ALL": "C.UTF-8", "PATH": os.environ.get("PATH", os.defpath), "HOME": tempfile.gettempdir()},
        )


def mysql(script: str, *options: str, database: str = ADDRESS.database, **special: str) -> dict[str, object]:
    """What `mysql` prints and how it ends, less what differs from run to run."""
    done = run("mysql", *options, database, script=script, **special)
    return {"exit": done.returncode, "out": lines_of(done.stdout), "errors": lines_of(done.stderr)}


def lines_of(printed: bytes) -> list[str]:
    return TIMES.sub("", printed.decode(errors="backslashreplace")).splitlines()
