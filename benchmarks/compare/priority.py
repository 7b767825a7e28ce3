"""Measured processes come first on the machine, and one comparison is measured at a time.

Where other processes want the processors too, each time that they have one costs the measured process what its caches
held: the same work takes up to twice as long, and never the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from integration.servers.debian_mysql import cache_folder, only_one_process

FIRST = os.sched_param(1)
USUAL = os.sched_param(0)


@contextmanager
def before_others(pids: Iterable[int]) -> Iterator[bool]:
    """These processes and this one with all their threads, and what they begin, by SCHED_RR; as before at the end.
    Waits until no other comparison does the same. Gives whether this user may do so."""
    everyone = [*pids, os.getpid()]
    with only_one_process(cache_folder().parent / "compare.lock", lambda line: None):
        allowed = schedule(everyone, os.SCHED_RR, FIRST)
        try:
            yield allowed
        finally:
            if allowed:
                schedule(everyone, os.SCHED_OTHER, USUAL)


def schedule(pids: Iterable[int], policy: int, parameters: os.sched_param) -> bool:
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(ProcessLookupError):  # it has ended meanwhile
                try:
                    os.sched_setscheduler(int(thread.name), policy, parameters)
                except PermissionError:
                    return False
    return True
