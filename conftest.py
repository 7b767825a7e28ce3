"""How `make test` spreads the tests over the cores (`pytest -n`).

A piece of work is a file: what its fixtures start, a proxy or a server, is started once. The files in `SPREAD` have
long tests that share nothing: there each test is a piece. All files in `LOADS` are one piece together: two loads at
once would starve each other. Long pieces begin first, so that the cores end together.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

SPREAD = frozenset({"tests/simulation/test_mutants.py"})
LOADS = frozenset({"integration/test_hammer.py", "integration/test_hammer_mutants.py", "integration/test_outages.py"})
# Seconds of processor time that a piece takes, where it is long. `make test` prints the slowest tests.
SECONDS = {
    "integration/test_clients.py": 140,
    "loads": 130,
    "integration/test_surprising_parameters.py": 80,
    "integration/test_lost_history.py": 60,  # much of it waiting
    "integration/test_oracle.py": 40,
    "integration/test_make_run.py": 30,
    "integration/test_concurrent_reads.py": 20,
    "integration/test_differential.py": 20,
    "integration/test_ahead_of_position.py": 15,
    "integration/test_canonical_values.py": 15,
    "integration/test_check_sample.py": 15,
    "integration/test_collations_mysql.py": 15,
    "integration/test_doctor.py": 15,
    "integration/test_grpc_door.py": 15,
    "integration/test_index_comparisons.py": 10,
    "integration/test_server_pool.py": 15,
    "tests/proxy/mysql/test_texts.py": 15,
    "tests/simulation/test_simulation.py": 15,
}


def pytest_configure(config: pytest.Config) -> None:
    """Cases that hypothesis draws are the same each time, unless a seed is given; a busy machine may take long."""
    settings.register_profile("upwell", deadline=None, derandomize=config.getoption("--hypothesis-seed") is None)
    settings.load_profile("upwell")


def piece_of(nodeid: str) -> str:
    """The piece of work that a test belongs to: each is done by one process."""
    file = nodeid.partition("::")[0]
    if file in LOADS:
        return "loads"
    return nodeid if file in SPREAD else file


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long pieces first, in a worker; without workers the order stays."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: -SECONDS.get(piece_of(item.nodeid), 1))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hands out pieces in the order of the tests."""
    from xdist.scheduler import LoadScopeScheduling

    class Pieces(LoadScopeScheduling):  # type: ignore[misc]  # the package has no types
        def _split_scope(self, nodeid: str) -> str:
            return piece_of(nodeid)

    config.option.loadscopereorder = False
    return Pieces(config, log)
