"""Files that are replaced as a whole: a reader sees the old document or the new one."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path


def write_whole(path: Path, document: object) -> None:
    """Replaces a file by this document at once; only its owner may read it. Raises OSError."""
    beside = path.with_suffix(f".{os.getpid()}.new")
    try:
        # Queries may hold what others should not read.
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        _flush_folder(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def _flush_folder(folder: Path) -> None:
    """The rename itself is durable only when the folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
