"""The suites that drivers are published with have the same outcomes through Upwell as at MySQL, test by test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from integration.clients.tools import NotObtainable
from integration.driver_suites.run import ROUNDS, compared, places, required
from integration.driver_suites.suites import BY_NAME, PLAIN, Place, Suite
from integration.servers.mysql_server import Server


@pytest.fixture(scope="module")
def both(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Place]]:
    with places(mysql, tmp_path_factory.mktemp("upwell"), f"t{os.getpid()}") as found:
        yield found


@pytest.mark.timeout(900)  # on first use Go compiles its library
@pytest.mark.parametrize("suite", [*PLAIN, BY_NAME["pymysql-warmed"]], ids=lambda suite: suite.name)
def test_suite_has_the_outcomes_that_it_has_directly(suite: Suite, mysql: Server, both: tuple[Place, Place]) -> None:
    """Without the tests that count milliseconds, or take long. Of those whose reads are hits, one, once."""
    try:
        seen = compared(suite, mysql, *both, whole=False, rounds=1 if suite.warm else ROUNDS)
    except NotObtainable as reason:
        assert not required(suite), reason
        pytest.skip(f"the suite of {suite.name} cannot be had here: {reason}")
    assert not seen.lacks(suite), seen.directly
    different = [str(one) for found in seen.different for one in found]
    assert not different, "\n".join(different)
