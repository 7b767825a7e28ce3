"""The tree of an earlier commit, in a folder of its own, with a Python that has the packages it asks for."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from examples.lobsters.proxy_process import ROOT
from integration.clients.tools import PIP_INSTALL, checked, kept

LOCK = "requirements/server.lock"


class NoBase(Exception):
    """There is no such tree to compare with. The message is a sentence that says why and what helps."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Sources and the Python that runs them. `name`: for the report. `commit`: its whole name, "" for none."""

    name: str
    root: Path
    python: str
    commit: str = ""


WORKING = Tree("the working tree", ROOT, sys.executable)


def base_tree(wanted: str, report: Callable[[str], None], root: Path = ROOT) -> Tree:
    """The commit's tree, kept in the user's cache directory; made there at the first call. `root`: of the checkout.

    Raises NoBase where this is no git checkout or there is no such commit, NotObtainable where the cache directory
    cannot be written to or the commit's packages cannot be had.
    """
    commit = resolved(wanted, root)
    name = git(root, "log", "-1", "--format=%h (%s)", commit).decode().strip()
    folder = kept("compared", commit.encode(), lambda made: unpack(commit, made, root))
    lock = (folder / LOCK).read_bytes()
    if lock == (root / LOCK).read_bytes():
        return Tree(name, folder, sys.executable, commit)
    report(f"{name} asks for other packages: they are installed into an environment of its own (once)")
    key = lock + sys.version.encode()
    environment = kept("compared-packages", key, lambda made: install(folder / LOCK, made))
    return Tree(name, folder, str(environment / "bin/python"), commit)


def resolved(wanted: str, root: Path) -> str:
    """The full name of the commit. Raises NoBase."""
    try:
        top = git(root, "rev-parse", "--show-toplevel").decode().rstrip("\n")
    except NoBase as error:
        raise NoBase(f"{root} is no git checkout, and the base comes from its history: {error}") from None
    if Path(top).resolve() != root.resolve():
        raise NoBase(f"{root} is no git checkout of its own (it lies in {top}), and the base comes from its history")
    try:
        found = git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{wanted}^{{commit}}")
    except NoBase:
        raise NoBase(
            f"no commit is called {wanted!r} here: name one that `git log` shows, or fetch the history it is in"
        ) from None
    return found.decode().strip()


def git(root: Path, *arguments: str) -> bytes:
    """What git prints. Raises NoBase with what it says."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False)
    except OSError as error:
        raise NoBase(f"git cannot be run: {error.strerror}") from None
    if done.returncode:
        raise NoBase(done.stderr.decode(errors="replace").strip())
    return done.stdout


def unpack(commit: str, folder: Path, root: Path) -> None:
    """The commit's files, with bytecode beside them as `make run` makes it."""
    with tarfile.open(fileobj=io.BytesIO(git(root, "archive", commit))) as archive:
        archive.extractall(folder, filter="data")
    packages = sorted(path.parent for path in folder.glob("*/__init__.py"))
    subprocess.run([sys.executable, "-m", "compileall", "-qq", *packages], cwd=folder, check=False)


def install(lock: Path, folder: Path) -> None:
    checked(sys.executable, "-m", "venv", str(folder))
    checked(str(folder / "bin/python"), *PIP_INSTALL, "--require-hashes", "-r", str(lock))
