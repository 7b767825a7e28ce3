"""A program in a real terminal: tmux, that of PATH or Debian's, unpacked into the user's cache directory."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration.clients.tools import NotObtainable, debian, loaded
from tests.support.waiting import until

PROMPT = "ready:"
BETWEEN = 0.1  # seconds between two looks


@functools.cache
def tmux() -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The start of its command lines, and variables that it needs."""
    if program := shutil.which("tmux"):
        return (program,), {}
    try:
        root = debian("tmux", beside=("ncurses-base",))
        return (*loaded(root), str(root / "usr/bin/tmux")), {"TERMINFO_DIRS": str(root / "lib/terminfo")}
    except NotObtainable as reason:
        pytest.skip(f"no terminal: {reason}")


class Terminal:
    """A shell in a terminal. `close` ends both, and what runs there."""

    def __init__(self, folder: Path, columns: int = 100, rows: int = 30) -> None:
        self._program, variables = tmux()
        self._socket = folder / "tmux"
        # These would tell programs a size that is not the terminal's.
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self._environment = {**inherited, **variables, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
        self._run("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "sh")
        self.run(f"PS1={PROMPT}")
        self.until(lambda text: text.rstrip().endswith(PROMPT) and not text.rstrip().endswith(f"={PROMPT}"))

    def _run(self, *arguments: str) -> str:
        command = [*self._program, "-u", "-S", str(self._socket), *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def run(self, line: str) -> None:
        """Types a command line."""
        self._run("send-keys", "-l", line)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        """By tmux's names: `q`, `Enter`, `C-c`."""
        self._run("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self._run("resize-window", "-x", str(columns), "-y", str(rows))

    @property
    def lines(self) -> list[str]:
        """What the screen shows."""
        return [line.rstrip() for line in self._run("capture-pane", "-p").splitlines()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def is_plain(self) -> bool:
        """Whether no program has the screen for itself, and none takes the mouse."""
        return self._run("display-message", "-p", "#{alternate_on}#{mouse_any_flag}").strip() == "00"

    @property
    def program(self) -> int:
        """The process that the shell has begun."""
        shell = self._run("display-message", "-p", "#{pane_pid}").strip()
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def until(self, condition: Callable[[str], bool]) -> str:
        """Waits until the screen's text is so; the text."""
        text = ""

        def holds() -> bool:
            nonlocal text
            text = self.text
            return condition(text)

        try:
            asyncio.run(until(holds, between=BETWEEN))
        except TimeoutError:
            raise AssertionError(text) from None
        return text

    def close(self) -> None:
        self._run("kill-server")


@contextmanager
def terminal(folder: Path, columns: int = 100, rows: int = 30) -> Iterator[Terminal]:
    made = Terminal(folder, columns, rows)
    try:
        yield made
    finally:
        made.close()
