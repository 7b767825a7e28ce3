"""Ctrl-C at `make run`: the command ends well, so make does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# What the command does: it waits for Ctrl-C, and ends with 0.
COMMAND = """
import signal
from examples.lobsters.terminal import foreground, in_the_foreground

def stop(signum, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, stop)
before = foreground()
with in_the_foreground():
    try:
        print("ready", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
assert foreground() == before
print("ended", flush=True)
"""

# A terminal where make runs, and somebody who types Ctrl-C. Prints make's exit status, or what was printed where the
# command had not said that it ends.
TYPIST = """
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp("make", ["make", "-s", "-f", sys.argv[1], "run"])
printed, typed = b"", False
while True:
    try:
        read = os.read(terminal, 1000)
    except OSError:  # the terminal has no user left
        break
    if not read:
        break
    printed += read
    if b"ready" in printed and not typed:
        typed = True
        os.write(terminal, b"\\x03")
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status) if b"ended" in printed else printed)
"""


def test_make_ends_well_where_its_command_does(tmp_path: Path) -> None:
    (tmp_path / "command.py").write_text(COMMAND)
    makefile = tmp_path / "Makefile"
    makefile.write_text(f"run:\n\t@exec env PYTHONPATH={ROOT} {sys.executable} {tmp_path}/command.py\n")
    command = [sys.executable, "-c", TYPIST, str(makefile)]
    for _ in range(3):  # left to make, it is a race: mostly make ends ill, on some machines it hardly does
        typist = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert typist.stdout == "0\n"


def test_without_a_terminal_nothing_changes() -> None:
    asked = "from examples.lobsters.terminal import *\nimport os\nwith in_the_foreground(): print(os.getpgrp())"
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == os.getpgrp()
