"""The terminal's Ctrl-C for this process alone.

`make` that meets Ctrl-C itself ends with an error, however well its command has ended. So the command takes the
foreground of the terminal as a shell's job does, and gives it back at its end.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STANDARD_INPUT = 0


@contextmanager
def in_the_foreground() -> Iterator[None]:
    """Ctrl-C reaches this process and not what has started it. Nothing changes where there is no terminal."""
    before = foreground()
    if before is None or before != os.getpgrp() or os.getpgrp() == os.getpid():
        yield  # no terminal, in the background, or a job of its own
        return
    # Who is not in the foreground yet, or not any more, would be stopped for this. And a stop by Ctrl-Z would reach
    # nobody who could continue us.
    for ignored in (signal.SIGTTOU, signal.SIGTSTP):
        signal.signal(ignored, signal.SIG_IGN)
    os.setpgid(0, 0)
    os.tcsetpgrp(STANDARD_INPUT, os.getpgrp())
    try:
        yield
    finally:
        with suppress(OSError):  # the terminal is gone
            os.tcsetpgrp(STANDARD_INPUT, before)


def foreground() -> int | None:
    """The process group that the terminal's keys are for; None without a terminal."""
    try:
        return os.tcgetpgrp(STANDARD_INPUT)
    except OSError:
        return None
