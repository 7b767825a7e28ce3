"""A small file that holds the last state it was told of, whole. A thread waits for the disk."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import structlog

from proxy.state_dir.whole_file import write_whole
from proxy.state_dir.writing import Writing

log = structlog.get_logger("upwell.state")


class WrittenBehind:
    """What a crash loses in between must cost no wrong answer.

    Invariants:
    1. After `written`, the file holds the document that was put last, where it can be written, and this process may.
    2. One thread writes, and of several documents the last one: an older state never replaces a newer one.
    """

    def __init__(self, path: Path, writing: Writing | None = None) -> None:
        self.path = path
        self._writing = writing or Writing()
        self._writer = ThreadPoolExecutor(1, f"upwell-{path.stem}")  # its work is done before the process ends
        self._lock = threading.Lock()  # of `_unwritten`
        self._unwritten: object = None

    def put(self, document: object) -> None:
        """Writes the document soon. Requires: nobody changes it any more."""
        with self._lock:
            self._unwritten = document
        if self._writing.why_not:
            self._writing.later(self._soon)
        else:
            self._soon()

    def _soon(self) -> None:
        try:
            self._writer.submit(self._write_last)
        except RuntimeError:  # closed
            self._write_last()

    def written(self) -> None:
        """Waits until the file holds what was put. Not for the event loop."""
        with suppress(RuntimeError):  # closed: all is written
            self._writer.submit(self._write_last).result()

    def close(self) -> None:
        """As `written`, and ends the thread; later documents are written at once."""
        self._writer.shutdown()
        self._write_last()

    def _write_last(self) -> None:
        """In the writer's thread, while there is one."""
        with self._lock:
            if self._writing.why_not:
                return
            document, self._unwritten = self._unwritten, None
        if document is None:
            return
        try:
            write_whole(self.path, document)
        except OSError as error:
            log.error("state_not_written", file=str(self.path), why=error.strerror)
