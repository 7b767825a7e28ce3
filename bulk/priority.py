"""How a process beside the proxy lets it go first."""

from __future__ import annotations

import os
from contextlib import suppress

NICE = 5


def stand_back() -> None:
    """Lowers this process and its children, so that the process which serves hits is woken first and gets the processor
    first. Linux may weigh processes only within one session, so these processes stay in the proxy's session."""
    os.nice(NICE)
    with suppress(AttributeError, OSError):  # only Linux has it, and a container may forbid it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
