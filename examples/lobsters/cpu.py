"""CPU time that other processes used.

The figures are those of /proc/PID/stat, read from the same counter through the process's CPU clock, which has
nanoseconds where /proc has ticks of 10 ms. A connection's thread in MySQL is told apart by /proc/TID/schedstat.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from examples.lobsters.load import Connection


def process_seconds(pid: int) -> float:
    """User and system time of all threads of a process, ended ones included. Raises OSError if it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # the kernel's number for "CPU clock of that process"
    except OSError:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_rss(pid: int) -> int:
    """Bytes: the most that was ever resident (VmHWM)."""
    return _status_bytes(pid, "VmHWM")


def rss(pid: int) -> int:
    """Bytes that are resident now."""
    return _status_bytes(pid, "VmRSS")


def _status_bytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/{pid}/status has no {name}")


class ConnectionClock:
    """CPU time of the thread that serves one connection of a MySQL on this machine.

    What MySQL does elsewhere for a query (read-ahead, purge) is not in it: the comparison favours MySQL.
    """

    def __init__(self, connection: Connection) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT thread_os_id FROM performance_schema.threads WHERE processlist_id = CONNECTION_ID()")
            row = cursor.fetchone()
        thread = row[0] if row else None
        self._path = Path(f"/proc/{thread}/schedstat")
        self.works = thread is not None and self._is_of_mysqld(int(thread))

    def seconds(self) -> float:
        """Requires: `works`."""
        return int(self._path.read_text().split()[0]) / 1e9

    def _is_of_mysqld(self, thread: int) -> bool:
        """A server in a container or on another machine has numbers that mean nothing here."""
        try:
            name = os.readlink(f"/proc/{thread}/exe")
            return ("mysqld" in name or "ld-linux" in name) and self._path.exists()
        except OSError:
            return False
