"""How a process beside the proxy lets it go first."""

from __future__ import annotations

import os
from contextlib import suppress

NICE = 5


def stand_back() -> None:
    """Who waits for a hit goes first: this process, and those that it starts, wake up behind others, and get less where
    they need the processor. Linux may weigh by this what is of one session only: so such processes are in the
    proxy's."""
    os.nice(NICE)
    with suppress(AttributeError, OSError):  # only Linux has it, and a container may forbid it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
