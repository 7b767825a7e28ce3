"""Programs that read what `deploy/` has: those on PATH, else fetched once into the user's cache directory.

Each function returns the start of a command line. A machine that can have no such program leaves the test out, with a
line, but not with REQUIRE_DEPLOY.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.clients.tools import PIP_INSTALL, REQUIREMENTS, NotObtainable, checked, debian, kept, loaded, version
from integration.support.go_programs import go_programs

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


def of_prometheus(name: str) -> Command:
    if program := shutil.which(name):
        return (program,)
    return (str(debian("prometheus", ("prometheus",)) / "usr/bin" / name),)


@or_left_out
def prometheus() -> Command:
    return of_prometheus("prometheus")


@or_left_out
def promtool() -> Command:
    return of_prometheus("promtool")


@or_left_out
def helm() -> Command:
    """Built by Go: a minute and a half of a processor, the first time."""
    folder = go_programs("helm", Path(__file__).parent / "helm", ("helm.sh/helm/v3/cmd/helm",))
    return (str(folder / "helm"),)


@or_left_out
def kubernetes_validate() -> Command:
    """Compares manifests with the schemas of Kubernetes' versions, which it brings."""
    lock = REQUIREMENTS / "chart.lock"

    def make(folder: Path) -> None:
        checked(sys.executable, "-m", "venv", str(folder))
        checked(str(folder / "bin/python"), *PIP_INSTALL, "--only-binary", ":all:", "-r", str(lock))

    folder = kept(f"kubernetes-validate{version()}", lock.read_bytes(), make)
    return str(folder / "bin/python"), "-m", "kubernetes_validate"


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """What it printed, and its status."""
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL
    )
