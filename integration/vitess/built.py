"""Vitess' programs and a topology server, built once into the user's cache directory by Go's own command.

    python -m integration.vitess.built      (`make vitess`): builds them, which takes some minutes

What is built, and of which version, `go.mod` and `go.sum` here say.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from integration.clients.tools import NotObtainable, folder_of, kept

HERE = Path(__file__).parent
MODULE = ("go.mod", "go.sum", "tools.go")
VITESS = tuple(f"vitess.io/vitess/go/cmd/{name}" for name in ("vtctld", "vtctldclient", "vtgate", "vttablet"))
ETCD = "go.etcd.io/etcd/server/v3"  # its program is called `server`
UNDEBUGGED = ("-ldflags=-s -w", "-gcflags=all=-dwarf=false")
"""What a debugger needs is left out: that takes a fifth of the time."""
TIMEOUT = 3600.0  # seconds


def programs() -> Path:
    """The folder with them. Raises NotObtainable where they cannot be built here."""
    if shutil.which("go") is None:
        raise NotObtainable("there is no go on PATH")
    return kept("vitess", _key(), _build)


def are_built() -> bool:
    """Whether `programs` need not build them."""
    try:
        return folder_of("vitess", _key()).is_dir()
    except NotObtainable:
        return False


def _key() -> bytes:
    return b"".join((HERE / name).read_bytes() for name in MODULE)


def _build(folder: Path) -> None:
    """Nothing is asked of a module's version control; only what go.sum has is taken."""
    command = ("go", "build", "-mod=readonly", "-buildvcs=false", "-trimpath", *UNDEBUGGED, "-o", f"{folder}/", ETCD)
    try:
        done = subprocess.run(
            (*command, *VITESS),
            cwd=HERE,
            env={**os.environ, "GOFLAGS": "", "GOTOOLCHAIN": "local"},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotObtainable(f"go build: {error}") from error
    if done.returncode:
        raise NotObtainable(f"go build: {done.stderr[-2000:]}")


def main() -> int:
    try:
        print(programs())
    except NotObtainable as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
