"""What the access log says, for the page at `/`: a process of its own reads the files (`bulk/access_charts.py`) when
somebody asks, one at a time. Its answer is kept for a minute."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from proxy.port.overview import NotTold
from proxy.settings.machine import APP_DIR

KEPT = 60.0  # seconds: a file is complete each five minutes
PATIENCE = 60.0  # seconds that the process may take
LONGEST = 400  # letters of a reason


class AccessCharts:
    """`share`: the part of the reads that is logged."""

    def __init__(self, folder: Path, share: Callable[[], float], clock: Callable[[], float] = monotonic) -> None:
        self._folder, self._share, self._clock = folder, share, clock
        self._kept: dict[float, tuple[float, bytes]] = {}  # by hours: until when, and the JSON
        self._turn = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    @property
    def share(self) -> float:
        return self._share()

    async def look(self, hours: float) -> bytes:
        """JSON, of the last so many hours, one of ACCESS_HOURS. Raises NotTold."""
        async with self._turn:  # who comes meanwhile finds the answer
            until, body = self._kept.get(hours, (0.0, b""))
            if not body or until < self._clock():
                body = await asyncio.to_thread(self._made, hours)
                self._kept[hours] = self._clock() + KEPT, body
            return body

    def _made(self, hours: float) -> bytes:
        """In a thread: the fork of a large process would hold up the loop."""
        paths = [str(APP_DIR), *filter(None, [os.environ.get("PYTHONPATH")])]
        if self._closed:
            raise NotTold("the proxy is stopping")
        try:
            with subprocess.Popen(
                [sys.executable, "-P", "-m", "bulk.access_charts", str(self._folder), str(hours)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            ) as process:  # fmt: skip
                self._process = process
                try:
                    told, said = process.communicate(timeout=PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise NotTold(f"to read the access log took longer than {PATIENCE:.0f} s") from None
                finally:
                    self._process = None
        except OSError as error:
            raise NotTold(f"the process that reads the access log cannot be started: {error}") from None
        if process.returncode:
            lines = said.decode(errors="replace").strip().splitlines() or [f"it ended with {process.returncode}"]
            raise NotTold(f"the access log cannot be read: {lines[-1][:LONGEST]}")
        return told

    def close(self) -> None:
        """Nobody waits for the process any more."""
        self._closed = True
        if (process := self._process) is not None:
            process.kill()
