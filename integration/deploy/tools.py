"""Programs that read what `deploy/` has: those on PATH, else fetched once into the user's cache directory.

Each function returns the start of a command line. A machine that can have no such program leaves the test out, with a
line, but not with REQUIRE_DEPLOY.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.clients.tools import NotObtainable, debian, loaded

Command = tuple[str, ...]


def or_left_out(find: Callable[[], Command]) -> Callable[[], Command]:
    @functools.cache
    def found() -> Command:
        try:
            return find()
        except NotObtainable as reason:
            assert not os.environ.get("REQUIRE_DEPLOY"), reason
            pytest.skip(str(reason))

    return found


@or_left_out
def systemd_analyze() -> Command:
    if program := shutil.which("systemd-analyze"):
        return (program,)
    root = debian("systemd")
    loader, option, folders = loaded(root)
    own = ":".join(map(str, root.glob("usr/lib/*/systemd")))  # libraries that only systemd's programs use
    return loader, option, f"{own}:{folders}", str(root / "usr/bin/systemd-analyze")


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """What it printed, and its status."""
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL
    )
