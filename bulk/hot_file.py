"""The file of hot keys, written and read by a process of its own: the proxy's loop waits for neither.

    python -m bulk.hot_file write FILE    lines of JSON from standard input: [cache, sql, database, key]
    python -m bulk.hot_file read FILE     the same lines to standard output

`key` is text: the parameters as JSON, those that JSON has no form for as {"type": text} (`upwell/key_text.py`). The
file has these lines, compressed by zstd, between a line that names the format and one with their number. It is replaced
whole, and only its owner may read it: keys are data.

Earlier versions wrote Parquet (FILE ends with .parquet), which pyarrow reads.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import zstandard

FORMAT = {"upwell hot keys": 1}
COLUMNS = ("cache", "sql", "database", "key")
LEVEL = 3


def write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = path.with_suffix(f".{os.getpid()}.new")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
            with compressor.stream_writer(file, closefd=False) as lines:
                for line in _written():
                    lines.write(line)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _written() -> Iterator[bytes]:
    """The lines of the file. Raises ValueError for one that is none."""
    yield json.dumps(FORMAT).encode() + b"\n"
    count = 0
    for count, line in enumerate(sys.stdin.buffer, 1):
        if len(json.loads(line)) != len(COLUMNS):
            raise ValueError(f"line {count} has not {len(COLUMNS)} parts")
        yield line
    yield json.dumps({"lines": count}).encode() + b"\n"


def read(path: Path) -> None:
    """Raises ValueError for a file that is another one, or is cut off; what was printed until then counts not."""
    if path.suffix == ".parquet":
        _read_parquet(path)
        return
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as plain:
        lines = io.BufferedReader(plain)
        if lines.readline() != json.dumps(FORMAT).encode() + b"\n":
            raise ValueError("it is no file of hot keys, or of another version")
        count, last = 0, b""
        for line in lines:
            if last:
                sys.stdout.buffer.write(last)
                count += 1
            last = line
        if last != json.dumps({"lines": count}).encode() + b"\n":
            raise ValueError("it is cut off")


def _read_parquet(path: Path) -> None:
    import pyarrow.parquet

    from bulk.without_pandas import hide_pandas

    hide_pandas()
    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(10_000, columns=list(COLUMNS)):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                print(json.dumps(row))


def main() -> int:
    _, what, path = sys.argv
    try:
        {"write": write, "read": read}[what](Path(path))
    except Exception as error:  # noqa: BLE001 - the edge of the process: the proxy is told
        print(str(error).splitlines()[0] if str(error) else repr(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
