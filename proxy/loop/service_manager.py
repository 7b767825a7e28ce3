"""Tells the service manager how the process is, as sd_notify(3) says: ready, reloading, stopping, alive.

systemd names a Unix datagram socket in NOTIFY_SOCKET. WATCHDOG_USEC says how long it waits for a sign of life before it
ends the process. Without NOTIFY_SOCKET nothing is told.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

EVERY = 1.0  # seconds between two looks at the status
PATIENCE = 1.0  # seconds that a full queue of the service manager may hold up READY and the like


class ServiceManager:
    """`environment` and `process`: of the process that is served, and its id."""

    def __init__(self, environment: Mapping[str, str], process: int) -> None:
        name = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        watched = environment.get("WATCHDOG_PID", str(process)) == str(process)
        micros = environment.get("WATCHDOG_USEC", "")
        self._sign_every = int(micros) / 2e6 if watched and micros.isdecimal() else 0.0  # seconds; 0.0: none is asked

    def tell(self, *lines: str, patience: float = PATIENCE) -> None:
        """Sends assignments such as READY=1 in one message. A manager that has gone, or takes none within `patience`
        seconds, is passed over."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(patience)
            sender.connect(self._address)
            sender.send("\n".join(lines).encode())

    def reloading(self) -> None:
        """READY=1 must follow."""
        self.tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    async def keep_told(self, status: Callable[[], str]) -> None:
        """Until it is cancelled: each new status, and signs that the event loop goes on. `status`: one line."""
        if not self._address:
            return
        told, sign_due = "", 0.0
        while True:
            lines = []
            if (now := status()) != told:
                lines, told = [f"STATUS={now}"], now
            if self._sign_every and time.monotonic() >= sign_due:
                lines.append("WATCHDOG=1")
                sign_due = time.monotonic() + self._sign_every
            if lines:
                self.tell(*lines, patience=0.0)
            await asyncio.sleep(min(EVERY, self._sign_every / 2 or EVERY))
