"""Asks the source until all wanted tables are known to be as they were reflected (`vstream/binlog/definitions.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from gtid_tracker.gtid import GtidSet
from sqltypes.errors import UpwellError
from vstream.binlog.definitions import Definitions, told

_ASKED_AGAIN = 1.0  # seconds


class Asking:
    """Invariants: 1. It asks while it is open and tables wait, and only then."""

    def __init__(self, ask: Callable[[], Awaitable[GtidSet]] | None) -> None:
        """`ask`: what the source owns and has executed now; None: nobody is asked, and what waits goes on waiting."""
        self.definitions = Definitions(self._on_waiting)
        self._ask = ask
        self._open = False
        self._task: asyncio.Task[None] | None = None

    def check_invariants(self) -> None:
        assert self._open or self._task is None, "it asks, and is closed"

    def start(self, *, named: bool) -> None:
        """Requires: a loop runs. `named`: whether the binlog names columns."""
        self._open = True
        self.definitions.note(named=named)

    @property
    def unsettled(self) -> int:
        """Tables whose rows are not decoded yet: the binlog does not name columns."""
        return 0 if self.definitions.named else len(self.definitions.waiting())

    async def close(self) -> None:
        self._open = False
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _on_waiting(self) -> None:
        if self._ask is not None and self._open and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(self._ask), name="definitions")

    async def _run(self, ask: Callable[[], Awaitable[GtidSet]]) -> None:
        try:
            while asked := self.definitions.waiting():
                with suppress(UpwellError):
                    told(asked, await ask())
                if not self.definitions.unasked:
                    await asyncio.sleep(_ASKED_AGAIN)
        finally:
            self._task = None
