"""The files of the access log: whole or not there, nobody else's, and never more of them than was allowed."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bulk.access_rows import COLUMNS, PATTERN, VERSION, VERSION_KEY, WRITING

pytest.importorskip("pyarrow")

import pyarrow.parquet

from bulk.access_file import LEFT_ALONE, Writer, serve

ROOT = Path(__file__).resolve().parents[2]
ROW = (1_700_000_000_123_456, "story", "SELECT ?", "d", "[7]", "hit", "", 1.5, 100.0, 1)
LIMIT = 1 << 20


def line(*changed: object) -> bytes:
    return json.dumps([*changed, *ROW[len(changed) :]]).encode()


@pytest.fixture
def said() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def writer(tmp_path: Path, said: list[dict[str, Any]]) -> Writer:
    return Writer(tmp_path / "log", LIMIT, 300.0, "host:3307", said.append)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob(PATTERN))


def test_a_file_has_the_rows_its_version_and_no_other_reader(
    writer: Writer, said: list[dict[str, Any]], tmp_path: Path
) -> None:
    writer.begin()
    writer.add(line())
    writer.add(line(1_700_000_001_000_000, None))
    writer.write()
    (path,) = files(tmp_path / "log")
    assert said == [{"rows": 2, "file": path.name}]
    table = pyarrow.parquet.read_table(path)
    assert table.column_names == list(COLUMNS)
    assert table["proxy"].to_pylist() == ["host:3307"] * 2 and table["cache"].to_pylist() == ["story", None]
    assert table["time"].cast("int64").to_pylist() == [1_700_000_000_123_456, 1_700_000_001_000_000]
    assert table.schema.metadata[VERSION_KEY.encode()] == str(VERSION).encode()
    assert path.stat().st_mode & 0o77 == 0 and path.parent.stat().st_mode & 0o77 == 0
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_nothing_is_written_of_no_rows(writer: Writer, said: list[dict[str, Any]], tmp_path: Path) -> None:
    writer.write()
    assert said == [] and writer.due_in is None and not files(tmp_path / "log")


def test_the_oldest_files_go_and_nothing_else(writer: Writer, said: list[dict[str, Any]], tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    other, old = folder / "notes.parquet", folder / "access-20200101T000000.000000Z-other-1-1.parquet"
    other.write_bytes(bytes(2 * LIMIT))
    old.write_bytes(bytes(LIMIT - 100))
    for number in range(30):
        for _ in range(100):
            writer.add(line(number, "story", os.urandom(500).hex()))
        writer.write()
        assert sum(path.stat().st_size for path in files(folder)) <= LIMIT
    assert not old.exists() and other.exists()
    names = [one["file"] for one in said]
    kept = [path.name for path in files(folder)]
    assert 1 < len(kept) < 30 and kept == names[-len(kept) :], "the newest stay"


def test_a_file_is_complete_at_a_part_of_the_limit(writer: Writer, said: list[dict[str, Any]], tmp_path: Path) -> None:
    while not said:
        writer.add(line())
    assert LIMIT // 4 <= said[0]["rows"] * len(line()) < LIMIT // 4 + 1000
    assert writer.due_in is None


def test_time_makes_a_file_complete(tmp_path: Path, said: list[dict[str, Any]]) -> None:
    source, sink = os.pipe()
    writer = Writer(tmp_path, LIMIT, 0.05, "p", said.append)

    def say(what: dict[str, Any]) -> None:
        said.append(what)
        os.close(sink)

    writer._say = say
    os.write(sink, line() + b"\n" + line()[:5])
    serve(writer, source)
    os.close(source)
    assert [one.get("rows") for one in said] == [1]


def test_what_cannot_be_written_is_said_and_the_next_file_is(
    writer: Writer, said: list[dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "log").write_text("a file where the folder should be")
    writer.begin()
    writer.add(line())
    writer.write()
    assert [one["lost"] for one in said] == [0, 1] and all("\n" not in one["why"] for one in said)
    (tmp_path / "log").unlink()
    writer.add(line())
    writer.write()
    assert said[-1]["rows"] == 1 and len(files(tmp_path / "log")) == 1


def test_a_full_disk_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    """A limit of the process for files' sizes fails as a full disk does: in the middle of a write."""
    command = (
        "import json, resource, signal, sys; from pathlib import Path; from bulk.access_file import Writer;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000));"
        "writer = Writer(Path(sys.argv[1]), 1 << 20, 300.0, 'p', lambda what: print(json.dumps(what)));"
        "import os; [writer.add(json.dumps([1, 'c', os.urandom(500).hex(), '', None, 'hit', '', 1, 1, 1]).encode())"
        " for _ in range(50)]; writer.write()"
    )
    done = subprocess.run([sys.executable, "-c", command, str(tmp_path / "log")], cwd=ROOT, capture_output=True,
                          text=True, check=True)  # fmt: skip
    told = json.loads(done.stdout)
    assert told["lost"] == 50 and "large" in told["why"], told
    assert list((tmp_path / "log").iterdir()) == []


def test_what_a_dead_writer_left_goes_after_an_hour(writer: Writer, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    fresh, stale = folder / WRITING.replace("*", "a-1"), folder / WRITING.replace("*", "a-2")
    fresh.touch()
    stale.touch()
    long_ago = stale.stat().st_mtime - LEFT_ALONE - 10
    os.utime(stale, (long_ago, long_ago))
    writer.begin()
    assert fresh.exists() and not stale.exists()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    made = subprocess.Popen(
        [sys.executable, "-P", "-m", "bulk.access_file", str(tmp_path / "log"), str(LIMIT), "300", "host"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    yield made
    made.kill()
    made.wait()
    assert made.stdout is not None and made.stdin is not None
    made.stdout.close()
    made.stdin.close()


def test_the_end_of_the_proxy_is_the_end_of_the_process_and_its_file_is_there(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    assert process.stdin is not None and process.stdout is not None
    big = [line(number, "story", os.urandom(200).hex()) + b"\n" for number in range(1000)]
    process.stdin.write(b"".join(big))
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["rows"], "it has begun: a file was complete by its size"
    process.send_signal(signal.SIGTERM)  # as a service manager does it, to all at once
    process.stdin.write(line() + b"\n")
    process.stdin.close()
    assert process.wait(60) == 0
    assert sum(pyarrow.parquet.read_metadata(path).num_rows for path in files(tmp_path / "log")) == 1001


def test_the_process_that_writes_does_not_load_pandas(tmp_path: Path) -> None:
    """It takes longer to load than all they do; that they could have it is shown, too."""
    at_the_end = "import atexit, sys; atexit.register(lambda: print('pandas' in sys.modules, file=sys.stderr)); "
    log = str(tmp_path / "log")
    runs = {
        "import pyarrow; pyarrow.array(['a'])": ([], ""),
        "from bulk.access_file import main; main()": ([log, str(LIMIT), "300", "host:3307"], line().decode() + "\n"),
    }
    loaded = [
        subprocess.run(
            [sys.executable, "-c", at_the_end + code, *arguments],
            input=given, cwd=ROOT, text=True, check=True, capture_output=True,
        ).stderr.strip()
        for code, (arguments, given) in runs.items()
    ]  # fmt: skip
    assert loaded == [str(importlib.util.find_spec("pandas") is not None), "False"]
    assert sum(pyarrow.parquet.read_metadata(path).num_rows for path in files(tmp_path / "log")) == 1
