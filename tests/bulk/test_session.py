"""Settings of Spark, and what is said where it is not there."""

from __future__ import annotations

import importlib.util
import marshal
import subprocess
import sys
from pathlib import Path

import pytest

from bulk.session import SparkSettings, decoder_archive, find_java, open_session, why_unavailable
from bulk.sidecar import AT_ONCE, pieces_of, reason_of


@pytest.mark.parametrize(
    ("master", "slots", "local", "connect"),
    [
        ("local[2,3]", 2, True, False),
        ("local[4]", 4, True, False),
        ("local-cluster[2,3,1024]", 6, True, False),
        ("spark://host:7077", 4, False, False),
        ("sc://host:15002/;token=secret", 4, False, True),
    ],
)
def test_what_a_master_says_of_itself(master: str, slots: int, local: bool, connect: bool) -> None:
    settings = SparkSettings(master)
    assert (settings.slots, settings.is_local, settings.is_connect) == (slots, local, connect)
    assert "secret" not in settings.address


def test_java_is_that_of_java_home_else_of_path(tmp_path: Path) -> None:
    for folder in ("home/bin", "path"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "java").write_text("#!/bin/sh\n")
        (tmp_path / folder / "java").chmod(0o755)
    path = str(tmp_path / "path")
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": path}) == str(tmp_path / "home/bin/java")
    assert find_java({"PATH": path}) == str(tmp_path / "path/java")
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": path}) is None, "Spark would not look elsewhere"
    assert find_java({"PATH": str(tmp_path)}) is None


def test_what_is_missing_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing = {"PATH": str(tmp_path)}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert "openjdk-17-jre-headless" in why_unavailable(SparkSettings(), nothing)
    assert why_unavailable(SparkSettings(java="/somewhere"), nothing) == ""
    assert why_unavailable(SparkSettings("sc://host:15002"), nothing) == "", "the server has the Java"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else object())
    assert why_unavailable(SparkSettings(), nothing).startswith("pyarrow is not installed: run `make spark` in ")


def test_nobody_at_the_master_is_said_at_once() -> None:
    for master in ("spark://127.0.0.1:1", "sc://localhost:1/;token=x", "spark://[::1]:1"):
        with pytest.raises(OSError, match="nobody answers"):
            open_session(SparkSettings(master))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "RuntimeError"),
        ("one line\nand another", "one line"),
        (
            "An exception\nTraceback (most recent call last):\n  File\nValueError: the cause\n  at java",
            "ValueError: the cause",
        ),
    ],
)
def test_one_line_of_what_spark_says(text: str, reason: str) -> None:
    assert reason_of(RuntimeError(text)) == reason


def test_the_decoder_that_executors_get_needs_nothing_else_of_ours(tmp_path: Path) -> None:
    archive = decoder_archive(tmp_path)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from external_upquery.rows_apart import taken_out\n"
        "assert sys.modules['sqltypes'].__file__.startswith(sys.argv[1]), sys.modules['sqltypes']\n"
        "print(taken_out(b'', 1))"
    )
    told = subprocess.run(
        [sys.executable, "-I", "-c", script, str(archive)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert told.stdout == "(b'', [])\n", told.stderr


@pytest.mark.parametrize("size", [0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE])
@pytest.mark.parametrize("parts", [0, 1, 5])
def test_a_large_answer_is_several_pieces(size: int, parts: int) -> None:
    answer = bytes(range(251)) * (size // 251 + 1)
    rows = [(at, bytes((at,)) * (AT_ONCE // 2 + 1)) for at in range(parts)]
    pieces = list(pieces_of(7, answer[:size], marshal.dumps(rows) if rows else None, None, 0))
    assert b"".join(piece.received for piece in pieces) == answer[:size]
    assert [part for piece in pieces for part in piece.packed] == rows
    assert [piece.last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert all(piece.size <= 2 * AT_ONCE and piece.number == 7 and not piece.problem for piece in pieces)
    assert [(one.problem, one.errno, one.last) for one in pieces_of(7, None, None, "no", 3)] == [("no", 3, True)]
