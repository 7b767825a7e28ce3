"""A MySQL's process, where it runs on this machine: how much of the processor it has used."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

NAMES = ("mysqld", "mariadbd", "ld-linux", "ld-musl")  # how its process is called; the last two where a loader runs it
SAME_START = 5.0  # seconds that two clocks may differ by
PROC = Path("/proc")

Ask = Callable[[str], tuple[object, ...] | None]


def server_pid(ask: Ask) -> int | None:
    """The server's process, None where it is on another machine or is not to be seen. `ask` gives a statement's first
    row, None where it is refused or has none.

    A server tells a thread's number as its own machine or container has it. So the process of that number here must
    have a server's name, and have begun when the server says it did.
    """
    thread = ask("SELECT thread_os_id FROM performance_schema.threads WHERE processlist_id = CONNECTION_ID()")
    uptime = ask("SELECT variable_value FROM performance_schema.global_status WHERE variable_name = 'Uptime'")
    if thread is None or uptime is None:
        return None
    try:
        status = (PROC / str(thread[0]) / "status").read_text().splitlines()
        pid = next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))
        fields = (PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
        named = (PROC / str(pid) / "comm").read_text().startswith(NAMES)
        return pid if named and abs(age - int(str(uptime[0]))) < SAME_START + 0.1 * age else None
    except (OSError, ValueError, StopIteration):
        return None


def processor_seconds(pid: int) -> float:
    """User and system time of all threads of a process, ended ones included. Raises OSError if it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # the kernel's number for "processor clock of that process"
    except OSError:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle_seconds() -> float:
    """For how long processors of this machine had nothing to do since it started, all added; 0 where nobody tells."""
    try:
        fields = (PROC / "stat").read_text().split("\n", 1)[0].split()
        return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
