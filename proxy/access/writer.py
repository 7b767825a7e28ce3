"""The process that writes the access log (`bulk/access_file.py`), as the proxy sees it. If it fails, serving goes on:
lost rows are counted, and the loss is logged once."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from time import monotonic

import structlog

from bulk.access_rows import AccessSettings
from proxy.settings.machine import APP_DIR

log = structlog.get_logger("upwell.access_log")

TAKEN_WITHIN = 10.0  # seconds in which it must take what it is sent, and end
AGAIN_AFTER = 30.0  # seconds from one start to the next


class AccessWriter:
    """Invariant: `counters` has all rows but `_under_way`, those that the process has and has not told of."""

    def __init__(self, settings: AccessSettings, name: str) -> None:
        self.counters: Counter[str] = Counter()
        self._settings = settings
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._started_at = float("-inf")
        self._under_way = 0
        self._troubled = False  # which the log has said

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    async def start(self) -> None:
        """Starts the process, where there is none and the last start was long ago."""
        if self._writer is not None or monotonic() - self._started_at < AGAIN_AFTER:
            return
        self._started_at = monotonic()
        await self._end_process()  # of an earlier one
        ours, theirs = socket.socketpair()
        try:
            self._process = await asyncio.to_thread(self._spawn, theirs)
            reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        except OSError as error:
            ours.close()
            self._trouble(f"its process cannot be started: {error}")
            return
        self._reading = asyncio.get_running_loop().create_task(self._read(reader))

    def _spawn(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        settings = self._settings
        paths = [str(APP_DIR), *filter(None, [os.environ.get("PYTHONPATH")])]
        with theirs:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "bulk.access_file", str(settings.folder), str(settings.limit),
                 str(settings.rotate), self._name],
                stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C is for the proxy alone
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )  # fmt: skip

    async def send(self, lines: bytes, rows: int) -> None:
        """So many rows; they are lost where they are not taken in time."""
        await self.start()
        if self._writer is None:
            self.lose(rows)
            return
        self._under_way += rows
        self._writer.write(lines)
        try:
            async with asyncio.timeout(TAKEN_WITHIN):
                await self._writer.drain()
        except (TimeoutError, OSError) as error:
            self._lost("it does not take them" if isinstance(error, TimeoutError) else "its process has ended")

    def lose(self, rows: int) -> None:
        self.counters["access_log_dropped"] += rows

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """What it tells, until it has ended."""
        said = ""
        with suppress(OSError, ValueError):  # a line without end
            while line := await reader.readline():
                text = line.decode(errors="replace").strip()
                try:
                    self._told(json.loads(text))
                except (ValueError, TypeError, AttributeError):  # Python's own complaint
                    said = text or said
        self._lost(f"its process has ended{': ' if said else ''}{said[:300]}")

    def _told(self, what: dict[str, object]) -> None:
        match what:
            case {"rows": int(rows)}:
                self._under_way -= rows
                self.counters["access_log_rows"] += rows
                if self._troubled:
                    self._troubled = False
                    log.info("access_log_written_again", folder=str(self._settings.folder))
            case {"lost": int(rows), "why": str(why)}:
                self._under_way -= rows
                self.lose(rows)
                self._trouble(why)

    def _trouble(self, why: str) -> None:
        if not self._troubled:
            self._troubled = True
            log.warning("access_log_not_written", why=why, folder=str(self._settings.folder))

    def _lost(self, why: str) -> None:
        """The process is gone, or is of no use."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        writer.transport.abort()
        self._give_up()
        self._trouble(why)

    async def close(self) -> None:
        """Has it write what it has, and end."""
        reading = self._reading
        writer, self._writer = self._writer, None
        if writer is not None and reading is not None:
            with suppress(OSError):
                writer.write_eof()
            await asyncio.wait([reading], timeout=TAKEN_WITHIN)
            writer.transport.abort()
        if self._under_way:
            self._trouble(f"its process has not ended within {TAKEN_WITHIN:.0f} s")
            self._give_up()
        if reading is not None and not reading.done():
            reading.cancel()
            await asyncio.wait([reading])
        await self._end_process()

    def _give_up(self) -> None:
        self.lose(self._under_way)
        self._under_way = 0

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, 1.0)
            process.kill()
            await asyncio.to_thread(process.wait)
