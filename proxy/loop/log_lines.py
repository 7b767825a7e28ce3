"""Log lines on their way to stderr. A thread writes them, so a pipe that nobody reads stops nobody else.

Waiting lines are bounded. Lines beyond that are dropped and counted; the next line that is written tells how many. Each
event has a rate limit, so that clients without an account cannot fill the log: the next line of that event tells how
many were `left_out`.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

import structlog

MOST_WAITING = 1 << 20  # bytes
LONGEST_LINE = 256 << 10  # bytes: what is longer is cut
FAREWELL = 1.0  # seconds for what still waits at the end
EACH = 100  # lines of one event in a PERIOD
PERIOD = 10.0  # seconds
MOST_EVENTS = 1_000  # names of events that are counted apart


def set_level(level: str) -> None:
    """From which level on lines are logged: debug, info, warning or error."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(level))


class LogLines:
    """A text stream over a file descriptor; no call waits. `told`: the line that says how many were dropped.

    Invariants:
    1. `_size` is the sum of the lengths of `_lines`, and at most MOST_WAITING.
    """

    def __init__(self, descriptor: int, told: Callable[[int], str]) -> None:
        self.dropped = 0  # lines, since the start
        self._descriptor = descriptor
        self._told = told
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._untold = 0
        self._closed = False
        self._writing = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._write_all, name="upwell-log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Takes one line, or several. They are written later, or dropped."""
        data = text.encode("utf-8", "replace")
        if len(data) > LONGEST_LINE:
            data = data[:LONGEST_LINE] + b" ... (cut)\n"
        with self._change:
            if self._closed or self._size + len(data) > MOST_WAITING:
                self.dropped += 1
                self._untold += 1
            else:
                self._lines.append(data)
                self._size += len(data)
                self._change.notify()
        return len(text)

    def flush(self) -> None:
        """Does nothing: the thread writes each line at once."""

    def close(self, patience: float = FAREWELL) -> None:
        """Waits until all lines are written, so many seconds at most."""
        until = monotonic() + patience
        with self._change:
            while (self._lines or self._writing or self._untold) and (left := until - monotonic()) > 0:
                self._change.wait(left)
            self._closed = True
            self._change.notify_all()

    def _write_all(self) -> None:
        while (data := self._taken()) is not None:
            with suppress(OSError):  # nobody will ever read it
                while data:
                    data = data[os.write(self._descriptor, data) :]
            with self._change:
                self._writing = False
                self._change.notify_all()

    def _taken(self) -> bytes | None:
        """Waits for the next line to write; None at the end."""
        with self._change:
            while not self._lines and not self._untold:
                if self._closed:
                    return None
                self._change.wait()
            if self._closed and not self._lines:
                return None
            taken = b"".join(self._lines)
            self._lines.clear()
            self._size = 0
            if self._untold:
                taken += self._told(self._untold).encode()
                self._untold = 0
            self._writing = True
            return taken


@dataclass(slots=True)
class _Period:
    """Of one event."""

    since: float
    lines: int = 0
    left_out: int = 0


class Rate:
    """A processor of structlog: of each event at most EACH lines in PERIOD seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._periods: dict[str, _Period] = {}

    def __call__(self, logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """The event, or DropEvent."""
        now, name = self._clock(), str(event.get("event"))
        period = self._periods.get(name)
        if period is None:
            if len(self._periods) >= MOST_EVENTS:
                self._periods.clear()
            period = self._periods[name] = _Period(now)
        if now - period.since >= PERIOD:
            if period.left_out:
                event["left_out"] = period.left_out
            period.since, period.lines, period.left_out = now, 0, 0
        if period.lines >= EACH:
            period.left_out += 1
            raise structlog.DropEvent
        period.lines += 1
        return event
