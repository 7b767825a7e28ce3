"""Which code makes plans: a plan that another version made is not taken up, however its text and tables are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

from proxy.settings.machine import APP_DIR

FOLDERS = ("planner", "sqltypes", "proxy/planning", "proxy/catalog", "proxy/cache")
SUFFIXES = (".py", ".so")


@cache
def code_identity() -> str:
    """Of the parser's version and of the planner's files, by their names, sizes and times. Reads some folders."""
    found = blake2b(version("sqlglot").encode(), digest_size=16)
    for folder in FOLDERS:
        for name, size, changed in sorted(_files(Path(APP_DIR) / folder)):
            found.update(f"{folder}/{name} {size} {changed}\n".encode())
    return found.hexdigest()


def _files(folder: Path) -> Iterator[tuple[str, int, int]]:
    for below, _, names in os.walk(folder):
        for name in names:
            if name.endswith(SUFFIXES):
                path = Path(below, name)
                stat = path.stat()
                yield str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns
