"""A real MySQL for every test in this folder.

`mysql` is shared by the whole run: tests work in a `database` of their own and change no global setting.
`asker` has sessions at MySQL and through a proxy, shared by the tests of a file.
`own_mysql` lends servers to one test, to be restarted, killed or started with other flags (`servers/server_pool.py`).

Fixtures of one folder are in its own `conftest.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from integration.oracle.asker import Asker, asker_beside
from integration.servers.private_mysql import Server, find_mysql
from integration.servers.server_pool import ServerPool

OwnMySQL = Callable[..., Server]
# Tests write little: most of what a start writes is the redo log. They kill servers, but not the machine: what was
# written needs no disk, and no second copy.
SMALL = ("--loose-innodb-redo-log-capacity=32M", "--innodb-flush-method=nosync", "--innodb-doublewrite=OFF")


def quiet(line: str) -> None:
    """Where the server comes from matters only when none is found, and then the error tells it."""


@pytest.fixture(scope="session")
def mysql() -> Iterator[Server]:
    """One server for the whole run: a private one, or that of UPSTREAM_TEST (its other databases are left alone)."""
    with find_mysql(os.environ.get("UPSTREAM_TEST"), SMALL, quiet) as server:
        yield server


@pytest.fixture(scope="session")
def server_pool() -> Iterator[ServerPool]:
    """Private servers, each lent to one test after another."""
    with closing(ServerPool(lambda flags: find_mysql(None, (*SMALL, *flags), quiet))) as pool:
        yield pool


@pytest.fixture
def own_mysql(server_pool: ServerPool) -> Iterator[OwnMySQL]:
    """`own_mysql("--some-flag=value", ...)` is a private server with these flags, as at birth."""
    with ExitStack() as lent:

        def lend(*flags: str) -> Server:
            server = server_pool.lend(flags)
            lent.callback(server_pool.take_back, server)
            return server

        yield lend


@pytest.fixture(scope="module")
def shard_servers(server_pool: ServerPool) -> Iterator[tuple[Server, Server, Server]]:
    """Three private servers of a file's own: each test makes shards of them, with a history that begins anew."""
    with ExitStack() as lent:
        found = [server_pool.lend() for _ in range(3)]
        for server in found:
            lent.callback(server_pool.take_back, server)
        yield found[0], found[1], found[2]


@pytest.fixture
def database(mysql: Server, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an empty database, dropped after the test."""
    name = f"t{os.getpid()}_" + re.sub(r"\W+", "_", request.node.name)[:48]
    mysql.execute(f"DROP DATABASE IF EXISTS `{name}`", f"CREATE DATABASE `{name}`")
    yield name
    mysql.execute(f"DROP DATABASE `{name}`")


@pytest.fixture(scope="module")
def asker(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    """`asker.begin(statements)` makes a test's database, empty but for what these make; no cache is left of others."""
    with asker_beside(mysql, f"t{os.getpid()}_asked", tmp_path_factory.mktemp("state")) as found:
        yield found
