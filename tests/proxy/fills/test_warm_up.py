"""Keys written down for the next start: a file that is none is no file."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
import zstandard

from proxy.fills.warm_up import READ_AT_ONCE, _run
from proxy.settings.machine import APP_DIR


def test_a_file_is_written_and_read(tmp_path: Path) -> None:
    long = b"7" * READ_AT_ONCE  # of which a line is read in parts
    lines = [
        b'["c", "SELECT \\u00e9", "d", "[1]"]',
        b'["c", "SELECT 2", "", "[\\"x\\"]"]',
        b'["c", "s", "d", "[' + long + b']"]',
    ]
    path = tmp_path / "below" / "keys.zst"

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


def lines_of(path: Path) -> tuple[str | None, list[bytes]]:
    """What is wrong with a file, and what it has."""
    printed: list[bytes] = []
    return asyncio.run(_run("read", path, [], printed.append)), printed


def written(path: Path, count: int) -> bytes:
    """The bytes of a file of so many keys."""
    parts = [b'["c", "s", "d", "[%d]"]\n' % number for number in range(count)]
    assert asyncio.run(_run("write", path, parts)) is None
    return path.read_bytes()


def test_what_is_no_such_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no keys")
    (tmp_path / "other").write_bytes(zstandard.compress(b'{"upwell hot keys": 99}\n'))
    for name in ("text", "other", "missing"):
        problem, printed = lines_of(tmp_path / name)
        assert problem and "\n" not in problem and not printed
    assert asyncio.run(_run("write", tmp_path / "text" / "below", [b'["c", "s", "d", "[]"]\n']))


@pytest.mark.parametrize("count", [0, 1, 3000])
def test_a_file_that_is_cut_off_or_damaged_anywhere_is_said(tmp_path: Path, count: int) -> None:
    path = tmp_path / "keys.zst"
    whole = written(path, count)
    assert lines_of(path) == (None, [b'["c", "s", "d", "[%d]"]' % number for number in range(count)])
    for length in (0, 5, len(whole) // 2, len(whole) - 12):
        path.write_bytes(whole[:length])
        assert lines_of(path)[0], length
    path.write_bytes(whole[: len(whole) // 2] + bytes((whole[len(whole) // 2] ^ 1,)) + whole[len(whole) // 2 + 1 :])
    assert lines_of(path)[0]


def test_neither_writing_nor_reading_needs_what_the_server_has_not(tmp_path: Path) -> None:
    without = "import sys; sys.modules['pyarrow'] = sys.modules['pandas'] = None; from bulk.hot_file import main; "
    line = '["c", "s", "d", "[1]"]\n'
    path = str(tmp_path / "keys.zst")
    for what, given, told in (("write", line, ""), ("read", "", line)):
        done = subprocess.run(
            [sys.executable, "-c", without + "sys.exit(main())", what, path],
            input=given, cwd=APP_DIR, text=True, check=True, capture_output=True,
        )  # fmt: skip
        assert done.stdout == told


def test_a_file_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    names = ("cache", "sql", "database", "key")
    table = arrow.table({name: [f"{name} 1", f"{name} 2"] for name in names})
    parquet.write_table(table, tmp_path / "keys.parquet", compression="zstd")
    assert lines_of(tmp_path / "keys.parquet") == (
        None,
        [b'["cache %d", "sql %d", "database %d", "key %d"]' % ((number,) * 4) for number in (1, 2)],
    )


def test_a_full_disk_leaves_the_file_of_before(tmp_path: Path) -> None:
    """The limit of a file's size stands in for the disk: both are an error of the write."""
    path = tmp_path / "hot.zst"
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


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_process_that_has_ended_when_it_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    """The proxy stops just then: that is no error."""

    async def scenario() -> None:
        made: list[asyncio.subprocess.Process] = []
        begin = asyncio.create_subprocess_exec

        async def noted(*words: str, **options: Any) -> asyncio.subprocess.Process:
            made.append(await begin(*words, **options))
            return made[0]

        async def given_up(*_: object) -> None:
            await made[0].wait()
            raise asyncio.CancelledError

        monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
        monkeypatch.setattr("proxy.fills.warm_up._take_lines", given_up)
        with pytest.raises(asyncio.CancelledError):
            await _run("read", tmp_path / "none", [])

    run(scenario())
