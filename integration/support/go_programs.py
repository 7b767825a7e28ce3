"""Programs that Go's own command builds, once, into the user's cache directory.

What is built, and of which version, the `go.mod` and `go.sum` of a folder here say.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from integration.clients.tools import NotObtainable, folder_of, kept

UNDEBUGGED = ("-ldflags=-s -w", "-gcflags=all=-dwarf=false")
"""What a debugger needs is left out: that takes a fifth of the time."""
TIMEOUT = 3600.0  # seconds


def go_programs(name: str, module: Path, packages: Sequence[str]) -> Path:
    """The folder with the programs of these packages. Raises NotObtainable where they cannot be built here."""
    if shutil.which("go") is None:
        raise NotObtainable("there is no go on PATH")
    return kept(name, _key(module), partial(_build, module, packages))


def are_built(name: str, module: Path) -> bool:
    """Whether `go_programs` need not build them."""
    try:
        return folder_of(name, _key(module)).is_dir()
    except NotObtainable:
        return False


def _key(module: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((*module.glob("go.*"), *module.glob("*.go"))))


def _build(module: Path, packages: Sequence[str], folder: Path) -> None:
    """Nothing is asked of a module's version control; only what go.sum has is taken."""
    try:
        done = subprocess.run(
            (
                "go",
                "build",
                "-mod=readonly",
                "-buildvcs=false",
                "-trimpath",
                *UNDEBUGGED,
                "-o",
                f"{folder}/",
                *packages,
            ),
            cwd=module,
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
