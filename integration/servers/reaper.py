"""Outlives the process that started a private MySQL just long enough to clean up after it.

Called as `reaper.py FOLDER [COMMAND ...]` with a pipe as standard input. The starter holds the other end: the pipe ends
when the starter ends, however that happens (a return, an exception, SIGTERM, SIGKILL); a byte in it means the same, for
a starter whose children inherited the pipe. Then every process whose command line names a file in FOLDER is killed (its
data is thrown away, so there is nothing to shut down), COMMAND is run if there is one (it removes a container), and
FOLDER is removed.

Runs on the standard library alone and must not import anything of the project.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path


def processes_in(folder: str) -> list[int]:
    """Ids of the processes with an argument `--option=FOLDER/...`: FOLDER is that server's alone."""
    found = []
    needle = f"={folder}/".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended, or belongs to somebody else
            if needle in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def end(pid: int) -> None:
    """Kill, and return when it is gone: files that it still writes would survive the removal of their folder."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        select.select([handle], [], [])
        os.close(handle)


def main() -> None:
    folder, command = sys.argv[1], sys.argv[2:]
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the pipe alone decides
        signal.signal(ignored, signal.SIG_IGN)
    sys.stdin.buffer.read(1)
    for pid in processes_in(folder):
        end(pid)
    if command:
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
