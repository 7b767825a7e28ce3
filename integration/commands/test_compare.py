"""`make compare` from end to end: a commit's tree beside the working tree, and each path is what it is called."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.compare.base import NoBase, resolved
from benchmarks.compare.paths import wanted

ROOT = Path(__file__).resolve().parent.parent.parent


def compare(base: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The program that `make compare` starts."""
    command = [sys.executable, "-m", "benchmarks.compare", "--base", base, *options]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {"UPSTREAM": ""}, capture_output=True, text=True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("only", ["", "changes-1-30-1,changes-10-100-1000"], ids=["", "some of changes-all"])
def test_every_path_is_measured_on_both_sides_and_is_what_it_is_called(only: str) -> None:
    """Reads that are no hits, misses or passed on as they are called end it with a status of its own."""
    try:
        commit = resolved("HEAD", ROOT)
    except NoBase as error:
        pytest.skip(str(error))
    done = compare("HEAD", "--pairs=2", "--starts=1", f"--only={only}")
    assert done.returncode in (0, 1), done.stdout + done.stderr  # 1: two pairs say nothing of a ratio
    rows = [re.split(r"\s*│\s*", line.strip("│ \n")) for line in done.stdout.splitlines() if line.startswith("│")]
    assert [row[0] for row in rows] == [path.name for path in wanted(only)]
    assert all(float(row[1].replace(",", "")) > 0 and float(row[2].replace(",", "")) > 0 for row in rows)
    assert {row[-1] for row in rows} == {"2"}
    assert commit[:7] in done.stdout and "spread: " in done.stdout


def test_an_unknown_base_is_refused_before_anything_is_started() -> None:
    done = compare("no-such-commit")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "no commit is called 'no-such-commit' here: name one that `git log` shows, or fetch the history it is in\n"
    )
