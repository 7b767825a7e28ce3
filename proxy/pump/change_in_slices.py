"""A transaction that is much work is worked out in slices; then it takes effect in one step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

from dataflow.guard import Guard
from dataflow.messages import Gap, StreamEvent
from proxy.loop.slices import SLICE

STEPS = 4  # from one look at the clock to the next


def nothing() -> None:
    """Nobody waits."""


class ChangeInSlices:
    """`event`: the transaction under way, for which the stream is to wait; None: there is none. `failed`: what came of
    one that took effect between two events.

    `on_end`: is called when there is none any more.

    Invariants: 1. While one is under way, a step of the loop is on its way for it.
    """

    def __init__(self, guard: Guard, process: Callable[[StreamEvent], None]) -> None:
        self.event: StreamEvent | None = None
        self.failed: Exception | None = None
        self.on_end: Callable[[], None] = nothing
        self._guard = guard
        self._process = process
        self._loop = asyncio.get_running_loop()

    def begin(self, event: StreamEvent) -> None:
        """Requires: none is under way, and the engine has begun with it."""
        self.event = event
        self._loop.call_soon(self._go_on)

    def end_before(self, event: StreamEvent) -> None:
        """Ends the transaction under way, if the event has its place behind it. Raises what came of one before."""
        failed, self.failed = self.failed, None
        if failed is not None and not isinstance(event, Gap):
            raise failed
        if isinstance(event, Gap):
            self.event = None
            self.on_end()
        elif getattr(event, "gtid", None) is not None:
            self._end()

    def _go_on(self) -> None:
        """A slice; that it takes effect is a step of its own."""
        event = self.event
        if event is None:
            return
        until = perf_counter() + SLICE
        while not self._guard.prepare(STEPS):
            if perf_counter() >= until:
                self._loop.call_soon(self._go_on)
                return
        self._loop.call_soon(self._end_ready, event)

    def _end_ready(self, event: StreamEvent) -> None:
        """The transaction is ready; it may have ended since. What is raised is the stream's: it is told with the next
        event, and begins anew."""
        if self.event is event:
            try:
                self._end()
            except Exception as error:  # noqa: BLE001 - an edge: the loop would pass it over
                self.failed = error

    def _end(self) -> None:
        event, self.event = self.event, None
        if event is not None:
            try:
                self._process(event)
            finally:
                self.on_end()
