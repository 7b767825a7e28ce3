"""The machine's limits: its memory, or a control group's share of it, and open files."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
from pathlib import Path

APP_DIR = Path(__file__).resolve().parents[2]
"""Where the packages are, in a checkout as in an installed `upwell`."""

SHARE = 4
"""The default memory limit is the machine's memory divided by this."""
OTHER_FILES = 200
"""What is open beside the clients' connections: listeners, gRPC's and HTTP's clients, upqueries, the binlog."""


def machine_memory(root: Path = Path("/")) -> int:
    """Bytes that this process may use at most. `root`: where /proc and /sys are looked for."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([whole, *_group_limits(root)])


def default_memory_limit() -> int:
    return machine_memory() // SHARE


def raise_open_files() -> int:
    """Raises the process's limit of open files as far as it may be raised without rights; the limit then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # not all systems take what they call the hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft


def is_open(path: Path) -> bool:
    """Whether every user of this machine may read the file."""
    with contextlib.suppress(OSError):
        return bool(path.stat().st_mode & stat.S_IROTH)
    return False


def clients_within(limit: int) -> int:
    """For how many clients of the MySQL listener so many open files suffice; each has a connection to MySQL."""
    return 1 << 30 if limit == resource.RLIM_INFINITY else max(0, (limit - OTHER_FILES) // 2)


def too_few_files(limit: int, connections: int) -> str:
    """A warning if `limit` open files are too few for so many clients of the MySQL listener; else ""."""
    needed, room = 2 * connections + OTHER_FILES, clients_within(limit)
    if room >= connections:
        return ""
    return (
        f"{connections} clients need {needed} open files and this process may have {limit}, enough for {room} clients:"
        " raise it (ulimit -n, LimitNOFILE=) or lower --mysql-connections"
    )


def _group_limits(root: Path) -> list[int]:
    """The limits of the process's control groups, of both versions; an inner group is bound by the outer ones too."""
    limits = []
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = line.split(":", 2)
        if number == "0":
            base, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            base, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        group = base / path.lstrip("/")
        # Inside a container the path may be the host's: then only the mount's root is there.
        for folder in (group, *group.parents):
            if folder == base or base in folder.parents:
                limits += [int(text) for text in _lines(folder / name) if text.isdecimal()]
    return limits


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().split("\n")[:-1]
    except OSError:  # no such control group on this machine
        return []
