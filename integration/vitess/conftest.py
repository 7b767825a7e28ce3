"""`vitess` is a Vitess of processes, shared by all tests that ask it; `own_vitess` is one of a file's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from integration.clients.tools import NotObtainable
from integration.vitess.cluster import Cluster
from integration.vitess.shop import vitess_with_shop


@contextmanager
def built_vitess() -> Iterator[Cluster]:
    """A Vitess with a keyspace of one shard and one of two (`vitess/shop.py`), where it can be built: the first time
    that takes some minutes (`make vitess`). Where not, its tests are left out, but not with REQUIRE_VITESS."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(vitess_with_shop())
        except NotObtainable as reason:
            assert not os.environ.get("REQUIRE_VITESS"), reason
            pytest.skip(f"without Vitess: {reason}")
        yield found


@pytest.fixture(scope="session")
def vitess() -> Iterator[Cluster]:
    with built_vitess() as found:
        yield found


@pytest.fixture(scope="module")
def own_vitess() -> Iterator[Cluster]:
    """For a file's tests that change what it consists of."""
    with built_vitess() as found:
        yield found
