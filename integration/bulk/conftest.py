"""`filler` is a proxy whose Spark the tests of large fills share."""

from __future__ import annotations

import pytest

from integration.bulk.filler import FILLER, SHARERS
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside


@pytest.fixture
def filler(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Beside:
    return FILLER.beside(mysql, tmp_path_factory.mktemp("state"))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Behind the last test that shares it the proxy ends: it would follow the binlog for nobody."""
    if nextitem is None or nextitem.path.name not in SHARERS:
        FILLER.close()
