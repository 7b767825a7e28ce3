"""A real MySQL for every test in this folder.

`mysql` is shared by the whole run: tests work in a `database` of their own and change no global setting.
`own_mysql` makes servers for one test, to be restarted, killed or started with other flags.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from integration.private_mysql import Server, find_mysql

OwnMySQL = Callable[..., Server]


def quiet(line: str) -> None:
    """Where the server comes from matters only when none is found, and then the error tells it."""


@pytest.fixture(scope="session")
def mysql() -> Iterator[Server]:
    """One server for the whole run: a private one, or that of UPSTREAM_TEST (its other databases are left alone)."""
    with find_mysql(os.environ.get("UPSTREAM_TEST"), report=quiet) as server:
        yield server


@pytest.fixture
def own_mysql() -> Iterator[OwnMySQL]:
    """`own_mysql("--some-flag=value", ...)` is a fresh private server with these flags, removed after the test."""
    with ExitStack() as servers:
        yield lambda *flags: servers.enter_context(find_mysql(extra_flags=flags, report=quiet))


@pytest.fixture
def database(mysql: Server, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an empty database, dropped after the test."""
    name = f"t{os.getpid()}_" + re.sub(r"\W+", "_", request.node.name)[:48]
    mysql.execute(f"DROP DATABASE IF EXISTS `{name}`", f"CREATE DATABASE `{name}`")
    yield name
    mysql.execute(f"DROP DATABASE `{name}`")
