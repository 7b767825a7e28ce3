"""The files of access logs: which there are, which can be read, and why the others cannot. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.compute
import pyarrow.parquet

from bulk.access_rows import COLUMNS, PATTERN, VERSION, VERSION_KEY


@dataclass(frozen=True, slots=True)
class LogFile:
    """`newest`: the time of its last row, in microseconds since 1970."""

    path: Path
    rows: int
    newest: int


@dataclass(slots=True)
class LogFiles:
    """`skipped`: (a file, why it is not read)."""

    files: list[LogFile] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def newest(self) -> int:
        return max((file.newest for file in self.files), default=0)

    def skip(self, file: LogFile, why: str) -> None:
        self.files.remove(file)
        self.skipped.append((file.path, why))

    def skip_damaged(self) -> bool:
        """Reads all of each file. Whether there was one that cannot be read."""
        before = len(self.skipped)
        for file in list(self.files):
            try:
                read(file.path)
            except (OSError, ValueError) as error:
                self.skip(file, damage(error))
        return len(self.skipped) > before


def find(folders: Iterable[Path]) -> LogFiles:
    """The logs in these folders."""
    found = LogFiles()
    for path in sorted({path.resolve() for folder in folders for path in folder.glob(PATTERN)}):
        try:
            found.files.append(_looked_at(path))
        except FileNotFoundError:
            continue  # the oldest go while we look
        except (OSError, ValueError) as error:
            found.skipped.append((path, damage(error)))
        except _NotRead as why:
            found.skipped.append((path, str(why)))
    return found


class _NotRead(Exception):
    """Why."""


def _looked_at(path: Path) -> LogFile:
    metadata = pyarrow.parquet.read_metadata(path)
    schema = metadata.schema.to_arrow_schema()
    version = (schema.metadata or {}).get(VERSION_KEY.encode(), b"").decode(errors="replace")
    if not version.isdecimal():
        raise _NotRead("it is no access log")
    if int(version) > VERSION:
        raise _NotRead(f"its columns are of version {version}, up to {VERSION} are known here: a newer Upwell reads it")
    if missing := [name for name in COLUMNS if name not in schema.names]:
        raise _NotRead(f"it lacks the column {missing[0]!r}")
    column = schema.get_field_index("time")
    groups = [metadata.row_group(group).column(column).statistics for group in range(metadata.num_row_groups)]
    if all(one is not None and one.has_min_max for one in groups):
        newest = max((one.max_raw for one in groups), default=0)
    else:
        newest = pyarrow.compute.max(read(path, ("time",))["time"].cast("int64")).as_py() or 0
    return LogFile(path, metadata.num_rows, newest)


def read(path: Path, columns: Sequence[str] = tuple(COLUMNS)) -> pyarrow.Table:
    """All rows of a file. Raises OSError, ValueError (Arrow's own is one) where it is damaged."""
    with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read(list(columns))


def damage(error: Exception) -> str:
    text = str(error).strip() or repr(error)
    return f"it cannot be read: {text.splitlines()[0]}"
