"""The file of hot keys: Parquet, written and read by a process of its own, for to load pyarrow would hold the proxy up.

    python -m bulk.hot_file write FILE    lines of JSON from standard input: [cache, sql, database, key]
    python -m bulk.hot_file read FILE     the same lines to standard output

`key` is text: the parameters as JSON, those that JSON has no form for as {"type": text} (`proxy/warm_up.py`). A file
is replaced whole, and only its owner may read it: keys are data.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet

from bulk.without_pandas import hide_pandas

COLUMNS = ("cache", "sql", "database", "key")
SCHEMA = pyarrow.schema([(name, pyarrow.string()) for name in COLUMNS])


def write(path: Path) -> None:
    rows = [json.loads(line) for line in sys.stdin]
    columns = [pyarrow.array([row[at] for row in rows], pyarrow.string()) for at in range(len(COLUMNS))]
    table = pyarrow.Table.from_arrays(columns, schema=SCHEMA)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = path.with_suffix(f".{os.getpid()}.new")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            pyarrow.parquet.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def read(path: Path) -> None:
    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(10_000, columns=list(COLUMNS)):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                print(json.dumps(row))


def main() -> int:
    hide_pandas()
    _, what, path = sys.argv
    try:
        {"write": write, "read": read}[what](Path(path))
    except Exception as error:  # noqa: BLE001 - the edge of the process: the proxy is told
        print(str(error).splitlines()[0] if str(error) else repr(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
