"""`make hammer-vitess`, a short lap of it: shards are split, tablets and vtgate restarted, while everything reads and
writes."""

from __future__ import annotations

import os

import pytest

from integration.clients.tools import NotObtainable
from integration.vitess.hammer import hammer

pytestmark = pytest.mark.timeout(1800)  # it may build Vitess first


def test_nothing_is_found_while_shards_are_split_and_merged() -> None:
    try:
        scene = hammer(0, 7, brief=True)
    except NotObtainable as error:
        assert not os.environ.get("REQUIRE_VITESS"), error
        pytest.skip(f"without Vitess: {error}")
    shown = "\n".join([*scene.log, *(f"{count} {name}" for name, count in scene.tally.items()), *scene.findings[:5]])
    assert not scene.findings, shown
    assert scene.tally["versions committed"] > 100 and scene.tally["compared at rest"] > 200, shown
    assert scene.tally["by gRPC: hit"] > 20 and scene.tally["in sessions"] > 100, shown
