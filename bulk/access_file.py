"""The process that writes the access log. It is apart because loading pyarrow and waiting for the disk would hold up
the proxy.

    python -m bulk.access_file FOLDER LIMIT SECONDS NAME

Rows come as lines of JSON from standard input. A file is complete after SECONDS, at ROTATE_BYTES, and when the input
ends, as it does however the proxy ends. Each file is written under another name and renamed, so it is never seen half
written. Then the oldest files are deleted until the folder holds at most LIMIT bytes; several proxies may share it. For
each file the process prints a line of JSON: how many rows it has, or how many are lost and why.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, time
from typing import Any

import pyarrow
import pyarrow.parquet

from bulk.access_rows import COLUMNS, PATTERN, VERSION, VERSION_KEY, WRITING
from bulk.priority import stand_back
from bulk.without_pandas import hide_pandas

ROTATE_BYTES = 16 << 20  # of text
AT_ONCE = 4096  # rows that are text until they are columns
LEFT_ALONE = 3600.0  # seconds after which a file that somebody was writing is nobody's any more
_TYPES = {
    "timestamp": pyarrow.timestamp("us", tz="UTC"),
    "string": pyarrow.string(),
    "double": pyarrow.float64(),
    "int": pyarrow.int32(),
}
SCHEMA = pyarrow.schema(
    [(name, _TYPES[type_]) for name, type_ in COLUMNS.items()], metadata={VERSION_KEY: str(VERSION)}
)


class Writer:
    """`say` is told of each file. `name`: of the proxy, the second column of every row."""

    def __init__(self, folder: Path, limit: int, seconds: float, name: str, say: Callable[[dict[str, Any]], None]):
        self._folder = folder
        self._limit = limit
        self._seconds = seconds
        self._name = name
        self._say = say
        self._most = min(ROTATE_BYTES, limit // 4)
        self._lines: list[bytes] = []
        self._batches: list[pyarrow.RecordBatch] = []
        self._bytes = self._rows = self._files = 0
        self._since = 0.0

    def begin(self) -> None:
        """Says whether the folder can be written to."""
        try:
            self._prepare()
            probe = self._beside()
            os.close(_open(probe))
            probe.unlink()
        except OSError as error:
            self._say({"lost": 0, "why": reason_of(error)})

    def add(self, line: bytes) -> None:
        if not self._rows:
            self._since = monotonic()
        self._lines.append(line)
        self._rows += 1
        self._bytes += len(line)
        if len(self._lines) >= AT_ONCE:
            self._to_columns()
        if self._bytes >= self._most:
            self.write()

    @property
    def due_in(self) -> float | None:
        """Seconds until a file is complete; None: nothing waits."""
        return None if not self._rows else max(0.0, self._since + self._seconds - monotonic())

    def write(self) -> None:
        """Makes a file of what is held."""
        if not self._rows:
            return
        rows = self._rows
        try:
            self._to_columns()
            path = self._write(pyarrow.Table.from_batches(self._batches, SCHEMA))
            self._say({"rows": rows, "file": path.name})
        except Exception as error:  # noqa: BLE001 - the edge of a file: the proxy is told, and the next one is tried
            self._say({"lost": rows, "why": reason_of(error)})
        self._lines, self._batches = [], []
        self._bytes = self._rows = 0

    def _to_columns(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            rows = json.loads(b"[" + b",".join(lines) + b"]")
            named = [(row[0], self._name, *row[1:]) for row in rows]
            columns = [
                pyarrow.array(values, type_)
                for values, type_ in zip(zip(*named, strict=True), SCHEMA.types, strict=True)
            ]
            self._batches.append(pyarrow.RecordBatch.from_arrays(columns, schema=SCHEMA))

    def _write(self, table: pyarrow.Table) -> Path:
        self._prepare()
        beside = self._beside()
        try:
            with open(_open(beside), "wb") as file:
                pyarrow.parquet.write_table(table, file, compression="zstd", write_page_checksum=True)
                file.flush()
                os.fsync(file.fileno())
            self._make_room(beside.stat().st_size)
            self._files += 1
            now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
            name = re.sub(r"[^\w.-]+", "-", self._name)[:100]
            return beside.replace(self._folder / f"access-{now}-{name}-{os.getpid()}-{self._files}.parquet")
        except BaseException:
            beside.unlink(missing_ok=True)
            raise

    def _prepare(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in self._folder.glob(WRITING):
            if _size_and_time(path)[1] < time() - LEFT_ALONE:
                path.unlink(missing_ok=True)

    def _beside(self) -> Path:
        return self._folder / WRITING.replace("*", f"{os.uname().nodename}-{os.getpid()}")

    def _make_room(self, size: int) -> None:
        """The oldest files go, until one of this size fits."""
        found = [(path, *_size_and_time(path)) for path in sorted(self._folder.glob(PATTERN))]
        total = sum(size for _, size, _ in found) + size
        for path, size_there, _ in found:
            if total <= self._limit:
                return
            path.unlink(missing_ok=True)
            total -= size_there


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)


def _size_and_time(path: Path) -> tuple[int, float]:
    try:
        found = path.stat()
    except FileNotFoundError:  # another proxy has made room
        return 0, 0.0
    return found.st_size, found.st_mtime


def reason_of(error: BaseException) -> str:
    """A line."""
    text = str(error).strip() or repr(error)
    return text.splitlines()[0]


def serve(writer: Writer, source: int) -> None:
    """Until nobody writes to the source any more."""
    left = b""
    while True:
        ready, _, _ = select.select([source], [], [], writer.due_in)
        if not ready:
            writer.write()
            continue
        data = os.read(source, 1 << 16)
        if not data:
            break
        *lines, left = (left + data).split(b"\n")
        for line in lines:
            writer.add(line)
        if writer.due_in == 0.0:
            writer.write()
    writer.write()  # a line without an end is none


def main() -> int:
    hide_pandas()
    _, folder, limit, seconds, name = sys.argv
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the end is that of the proxy, whose last rows are still to come
    stand_back()

    def say(what: dict[str, Any]) -> None:
        with suppress(OSError):  # the proxy is gone
            print(json.dumps(what), flush=True)

    writer = Writer(Path(folder), int(limit), float(seconds), name, say)
    writer.begin()
    serve(writer, sys.stdin.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
