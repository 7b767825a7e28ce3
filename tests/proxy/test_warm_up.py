"""Keys written down for the next start: a file that is none is no file."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.spark import APP_DIR
from proxy.warm_up import READ_AT_ONCE, _run

pytest.importorskip("pyarrow")


def test_a_file_is_written_and_read(tmp_path: Path) -> None:
    long = b"7" * READ_AT_ONCE  # of which a line is read in parts
    lines = [
        b'["c", "SELECT \\u00e9", "d", "[1]"]',
        b'["c", "SELECT 2", "", "[\\"x\\"]"]',
        b'["c", "s", "d", "[' + long + b']"]',
    ]
    path = tmp_path / "below" / "keys.parquet"

    async def scenario() -> None:
        for _ in range(2):
            parts = [line + b"\n" for line in lines]
            assert await _run("write", path, parts) is None and not parts
        printed: list[bytes] = []
        assert await _run("read", path, [], printed.append) is None
        assert printed == lines

    asyncio.run(scenario())
    assert path.stat().st_mode & 0o77 == 0
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_what_is_no_such_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no Parquet")

    async def scenario() -> None:
        for name in ("text", "missing"):
            printed: list[bytes] = []
            problem = await _run("read", tmp_path / name, [], printed.append)
            assert problem and "\n" not in problem and not printed
        assert await _run("write", tmp_path / "text" / "below", [b'["c", "s", "d", "[]"]\n'])

    asyncio.run(scenario())


def test_a_full_disk_leaves_the_file_of_before(tmp_path: Path) -> None:
    """The limit of a file's size stands in for the disk: both are an error of the write."""
    path = tmp_path / "hot.parquet"
    command = [sys.executable, "-P", "-m", "bulk.hot_file", "write", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(APP_DIR)}
    before = json.dumps(["c", "q", "d", "[1]"]) + "\n"
    subprocess.run(command, input=before, text=True, check=True, env=environment)
    kept = path.read_bytes()
    many = "".join(json.dumps(["c", "q", "d", f"[{number * 7919 % 100_003}]"]) + "\n" for number in range(50_000))

    # Not by what is run between fork and exec: where threads of gRPC's are, that aborts.
    no_room = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, 1 << 14));"
    limited = [sys.executable, "-c", f"{no_room} os.execv(sys.argv[1], sys.argv[1:])", *command]
    done = subprocess.run(limited, input=many, text=True, check=False, env=environment, capture_output=True)
    assert done.returncode == 1 and "File too large" in done.stderr, done
    assert path.read_bytes() == kept and list(tmp_path.iterdir()) == [path]
