"""Builds the compiled wheel, and runs the tests that reach compiled code on what it brings: `make compiled-check`.

They run in a copy of the tree, beside whose sources the wheel's extensions lie: unit tests of the compiled packages,
the simulation, and some of each kind on a real MySQL. What plants faults in compiled modules is left out there
(`conftest.py`), so mutants are the interpreted tree's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from hatch_build import NOTE
from integration.packaging.wheel_check import WheelIsWrong, build, check_contents, run

ROOT = Path(__file__).resolve().parent.parent.parent
TESTS = (
    "tests/dataflow",
    "tests/gtid_tracker",
    "tests/vstream/binlog",
    "tests/simulation/test_simulation.py",
    "integration/protocol/test_mysql_reads.py",
    "integration/protocol/test_faults.py",
    "integration/stream/test_second_opinion.py",
    "integration/transactions/test_mysql_repeatable_read.py",
)

AGAIN = ("-n", "0", "--last-failed", "--last-failed-no-failures=none")
"""As `.ci/run`: what came too late on two busy cores must pass when it is run again, in one process."""


def copied(root: Path, folder: Path) -> Path:
    """What git knows of the tree, or would add to it."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, folder / name)
    return folder


def compiled_beside(wheel: Path, tree: Path) -> str:
    """Puts the wheel's extensions beside the sources; what `upwell --version` says of them there."""
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            if name.endswith(".so") or name == NOTE:
                place = tree / name.removeprefix("upwell/app/")
                place.write_bytes(packed.read(name))
    return run(sys.executable, "-m", "upwell", "--version", cwd=tree)


def main(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="upwell-compiled-") as folder:
        tree = copied(ROOT, Path(folder) / "tree")
        try:
            wheel = build(Path(folder) / "dist", compiled=True)
            check_contents(wheel)
            told = compiled_beside(wheel, tree)
            if "compiled" not in told or "changed" in told:
                raise WheelIsWrong(f"with the extensions of {wheel.name} `upwell --version` prints {told!r}")
        except WheelIsWrong as error:
            print(f"compiled-check: {error}", file=sys.stderr)
            return 1
        print(told.strip(), flush=True)
        environment = os.environ | {"PYTHONPATH": str(tree)}
        command = [sys.executable, "-m", "pytest", "-q", "--timeout=300", *(arguments or TESTS)]
        for how in (("-n", "auto"), AGAIN):
            tested = subprocess.run([*command, *how], cwd=tree, env=environment, check=False)
            if tested.returncode != pytest.ExitCode.TESTS_FAILED:
                break
        return tested.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
