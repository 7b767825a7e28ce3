"""The process that drives Spark (`bulk/sidecar.py`), as the proxy sees it. It starts at its first use, asks for MySQL's
answers, and ends after a while without use. Without it everything else goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import structlog

from bulk.frames import HEAD, Answered, Ask, Cancel, Ended, Open, Opened, Piece, Refused, packed, unpacked
from bulk.questions import Login, Question
from bulk.session import SparkSettings, why_unavailable
from external_upquery.address import Upstream
from external_upquery.login import PIN_SESSION, arguments
from proxy.settings.machine import APP_DIR
from sqltypes.errors import SparkUnavailable

log = structlog.get_logger("upwell.spark")

REAPED = 5.0  # seconds
START_SECONDS = 120.0  # 5 on a quiet machine; 20 were seen on a busy one
IDLE_SECONDS = 300.0
OFF = "it is switched off (--spark-master off)"


def login_of(upstream: Upstream) -> Login:
    """How executors reach MySQL."""
    return Login(arguments(upstream), upstream.tls, upstream.ca, upstream.cert, upstream.key, PIN_SESSION)


class SparkProcess:
    """At most one process at a time. `log_file`: for its output, and that of the Java process below it.

    Invariants: 1. every job of `_jobs` was sent to the process that runs now.
    """

    def __init__(self, settings: SparkSettings, log_file: Path) -> None:
        self.settings = settings
        self._log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._jobs: dict[int, asyncio.Queue[Answered | Ended]] = {}
        self._numbers = count(1)
        self._starting = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None
        self.told = ""  # which Spark it is
        self.slots = settings.slots

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def unavailable(self) -> str:
        """Why there can be none on this machine, as far as shows without starting it; "" if nothing shows."""
        return OFF if self.settings.master == "off" else why_unavailable(self.settings)

    async def start(self) -> None:
        """Starts the process and its session, where they do not run. Raises SparkUnavailable."""
        async with self._starting:
            if self._writer is None:
                if why := self.unavailable():
                    raise SparkUnavailable(why)
                await self._start()

    async def _start(self) -> None:
        await self._end_process()  # of an earlier one
        ours, theirs = socket.socketpair()
        try:
            self._process = await asyncio.to_thread(self._spawn, theirs)
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except OSError as error:
            ours.close()
            raise SparkUnavailable(f"its process cannot be started: {error}") from error
        try:
            async with asyncio.timeout(START_SECONDS):
                writer.write(packed(Open(self.settings)))
                answer = await _receive(reader)
        except TimeoutError:
            answer = Refused(f"no session began within {START_SECONDS:.0f} s")
        if not isinstance(answer, Opened):
            writer.transport.abort()
            if answer is None:
                await self._reaped()
            why = answer.why if isinstance(answer, Refused) else f"its process has ended{self._how()}"
            await self._end_process()
            log.warning("spark_unavailable", why=why)
            raise SparkUnavailable(why)
        self._writer, self.told = writer, answer.told
        if not self.settings.is_local:
            self.slots = max(self.slots, answer.slots)
        self._reading = asyncio.get_running_loop().create_task(self._read(reader))
        log.info("spark_started", what=answer.told, pid=self._process.pid if self._process else 0)

    def _spawn(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        self._log_file.parent.mkdir(parents=True, exist_ok=True)
        paths = [str(APP_DIR), *filter(None, [os.environ.get("PYTHONPATH")])]
        with theirs, self._log_file.open("wb") as log_file:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "bulk.sidecar", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                process_group=0,  # a Ctrl-C is for the proxy alone
                cwd=self._log_file.parent,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while isinstance(message := await _receive(reader), Answered | Ended):
                if (job := self._jobs.get(message.job)) is not None:
                    job.put_nowait(message)
            await self._reaped()
        finally:
            self._lost()

    def _lost(self) -> None:
        """The process is gone, and the jobs with it."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.transport.abort()
            why = f"Spark's process has ended{self._how()}"
            if self._jobs:
                log.warning("spark_lost", why=why)
            for number, job in self._jobs.items():
                job.put_nowait(Ended(number, why))
        self._jobs = {}

    async def ask(self, login: Login, slices: Sequence[Sequence[Question]]) -> AsyncGenerator[list[Piece], None]:
        """Yields pieces of MySQL's answers as they come. Each element of `slices` is one task's. A caller that stops
        listening cancels the job. Raises SparkUnavailable: then no more answers come."""
        await self.start()
        assert self._writer is not None
        number = next(self._numbers)
        job: asyncio.Queue[Answered | Ended] = asyncio.Queue()
        self._jobs[number] = job
        self._stay()
        ended = False
        try:
            self._writer.write(packed(Ask(number, login, tuple(map(tuple, slices)))))
            while isinstance(message := await job.get(), Answered):
                yield message.pieces
            ended = True
            if message.problem:
                raise SparkUnavailable(message.problem)
        finally:
            if self._jobs.pop(number, None) is not None and not ended and self._writer is not None:
                self._writer.write(packed(Cancel(number)))
            self._stay()

    def _stay(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not self._jobs and self._writer is not None:
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._leave)

    def _leave(self) -> None:
        if not self._jobs:
            self._lost()

    async def close(self) -> None:
        """Ends the process, and waits until it is gone."""
        if self._idle is not None:
            self._idle.cancel()
        self._lost()
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading
        await self._end_process()

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()  # the Java below it ends with it
            await asyncio.to_thread(process.wait)

    async def _reaped(self) -> None:
        """The process has closed its connection: waits until it is known how it has ended, for a moment."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, REAPED)

    def _how(self) -> str:
        """How the process has ended, if that is known: by a signal, or with its last words."""
        status = None if self._process is None else self._process.poll()
        if status is not None and status < 0:
            return f": it was ended by {signal.Signals(-status).name} ({self._log_file} has what it said before)"
        return self._last_line()

    def _last_line(self) -> str:
        with suppress(OSError):
            said = self._log_file.read_text(errors="replace")[-4000:].splitlines()
            lines = [line for line in said if line.strip() and not line.startswith("WARNING:")]  # Java's, of each start
            return f": {lines[-1].strip()[:300]} (all of it in {self._log_file})" if lines else ""
        return ""

    def check_invariants(self) -> None:
        assert not self._jobs or self._writer is not None, "a job of a process that is gone"


async def _receive(reader: asyncio.StreamReader) -> object:
    """The next message, None at the end."""
    try:
        head = await reader.readexactly(HEAD)
        return unpacked(await reader.readexactly(int.from_bytes(head, "big")))
    except (OSError, EOFError):  # IncompleteReadError is an EOFError
        return None
