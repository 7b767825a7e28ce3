"""The process that drives Spark. The proxy starts it when it is first needed, and talks to it by a socket.

    python -m bulk.sidecar FILE_NUMBER

It ends with the socket: whoever started it is gone then. Jobs run one after the other; a message that cancels is read
meanwhile.
"""

from __future__ import annotations

import marshal
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from bulk.frames import Answered, Ask, Cancel, Ended, Open, Opened, Piece, Refused, packed, receive
from bulk.priority import stand_back
from bulk.session import open_session, why_unavailable
from bulk.slice_source import NAME, Slice, source_of
from bulk.workers import Watch, executors_of, within

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = 1 << 20  # bytes of answers in one message
LONGEST = 400  # letters of a reason


class Sidecar:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._jobs: queue.Queue[Ask | None] = queue.Queue()
        self._session: SparkSession | None = None
        self._connect = False  # whether the session is one of Spark Connect
        self._within: float | None = None  # seconds to wait for a worker
        self._cancelled: set[int] = set()

    def serve(self) -> None:
        """Until the proxy is gone."""
        first = receive(self._connection)
        if not isinstance(first, Open) or not self._open(first):
            return
        worker = threading.Thread(target=self._work, daemon=True)
        worker.start()
        while (message := receive(self._connection)) is not None:
            if isinstance(message, Ask):
                self._jobs.put(message)
            elif isinstance(message, Cancel):
                self._cancelled.add(message.job)
                self._interrupt(message.job)

    def _open(self, message: Open) -> bool:
        why = why_unavailable(message.settings)
        if not why:
            try:
                self._session = open_session(message.settings)
                self._connect = message.settings.is_connect
                self._within = within(self._session, message.settings)
                told = f"Spark {self._session.version} at {message.settings.address}"
                self._send(Opened(told, message.settings.slots))
                return True
            except Exception as error:  # noqa: BLE001 - the edge of the process: the proxy is told
                why = f"no session at {message.settings.address}: {reason_of(error)}"
        self._send(Refused(why))
        return False

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            problem = "cancelled"
            if job.job not in self._cancelled:
                try:
                    self._run(job)
                    problem = ""
                except Exception as error:  # noqa: BLE001 - the edge of the process: the proxy is told
                    problem = "cancelled" if job.job in self._cancelled else reason_of(error)
            self._cancelled.discard(job.job)
            self._send(Ended(job.job, problem))

    def _run(self, job: Ask) -> None:
        session = self._session
        assert session is not None
        session.dataSource.register(source_of([Slice(job.login, questions) for questions in job.slices]))
        with self._tagged(session, _tag(job.job)), self._watched(session, job.job):
            table = session.read.format(NAME).load().toArrow()
        some: list[Piece] = []
        size = 0
        for batch in table.to_batches():
            columns: list[list[Any]] = [column.to_pylist() for column in batch.columns]
            for row in zip(*columns, strict=True):
                for piece in pieces_of(*row):
                    some.append(piece)
                    size += piece.size
                    if size >= AT_ONCE:
                        self._send(Answered(job.job, some))
                        some, size = [], 0
        self._send(Answered(job.job, some))

    @contextmanager
    def _tagged(self, session: SparkSession, tag: str) -> Iterator[None]:
        """What the thread begins meanwhile can be interrupted by any other. A session's own tags are a thread's, but
        for Spark Connect, which has no context."""
        context = None if self._connect else session.sparkContext
        add, remove = (
            (session.addTag, session.removeTag) if context is None else (context.addJobTag, context.removeJobTag)
        )
        add(tag)
        try:
            yield
        finally:
            remove(tag)

    def _interrupt(self, job: int) -> None:
        assert self._session is not None
        if self._connect:
            self._session.interruptTag(_tag(job))
        else:
            self._session.sparkContext.cancelJobsWithTag(_tag(job))

    def _watched(self, session: SparkSession, job: int) -> AbstractContextManager[None]:
        if self._within is None:
            return nullcontext()
        watch = Watch(lambda: executors_of(session), lambda: self._interrupt(job), self._within)
        return watch.watching()

    def _send(self, message: object) -> None:
        with self._sending:
            self._connection.sendall(packed(message))


def pieces_of(
    number: int, answer: bytes | None, rows: bytes | None, problem: str | None, errno: int | None
) -> Iterator[Piece]:
    """A row of the data source (`bulk/slice_source.py`) as pieces of about `AT_ONCE` bytes at most."""
    if answer is None:
        yield Piece(number, problem=problem or "there is no answer", errno=errno or 0)
        return
    for at in range(0, len(answer) - AT_ONCE, AT_ONCE):
        yield Piece(number, answer[at : at + AT_ONCE], last=False)
    rest = answer[len(answer) - (len(answer) % AT_ONCE or AT_ONCE) :] if answer else b""
    parts: list[tuple[int, bytes]] = []
    size = len(rest)
    for part in marshal.loads(rows) if rows else ():
        if size >= AT_ONCE:
            yield Piece(number, rest, tuple(parts), last=False)
            rest, parts, size = b"", [], 0
        parts.append(part)
        size += len(part[1])
    yield Piece(number, rest, tuple(parts))


def _tag(job: int) -> str:
    return f"upwell-{job}"


def reason_of(error: Exception) -> str:
    """One line of what Spark says, which may be a page: the last line of a Python traceback, else the first one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    traced = any(line.startswith("Traceback") for line in lines)
    causes = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (causes[-1] if traced and causes else lines[0])[:LONGEST]


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is for the proxy, which ends this
    stand_back()
    connection = socket.socket(fileno=int(sys.argv[1]))
    try:
        Sidecar(connection).serve()
    except OSError:
        pass  # the proxy is gone
    finally:
        sys.stdout.flush()
        os._exit(0)  # Spark's threads would wait for a job; its Java ends with its input


if __name__ == "__main__":
    main()
