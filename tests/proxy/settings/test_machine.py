import resource
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.settings.machine import too_few_files

ROOT = Path(__file__).parents[3]
RAISED = """
import resource
from proxy.settings.machine import raise_open_files
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
print(raise_open_files() == hard == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 128)
"""


def run(*arguments: str, files: int | None = None) -> subprocess.CompletedProcess[str]:
    limited = [] if files is None else ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh"]
    command = [*limited, sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT)


def test_soft_limit_of_open_files_rises_to_the_hard_one() -> None:
    assert run("-c", RAISED).stdout == "True\n"


@pytest.mark.parametrize(
    ("limit", "connections", "room"), [(20_000, 10_000, 9_900), (20_199, 10_000, 9_999), (100, 1, 0)]
)
def test_too_few_files_are_told_with_how_many_clients_they_suffice_for(limit: int, connections: int, room: int) -> None:
    complaint = too_few_files(limit, connections)
    assert str(2 * connections + 200) in complaint
    assert f"enough for {room} clients" in complaint


@pytest.mark.parametrize("limit", [20_200, 1 << 20, resource.RLIM_INFINITY])
def test_files_that_suffice_are_no_reason_to_complain(limit: int) -> None:
    assert too_few_files(limit, 10_000) == ""
