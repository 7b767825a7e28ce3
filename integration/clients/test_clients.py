"""Real clients do their common work through Upwell and directly, with equal outcome; their repeated reads are hits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from integration.clients import world
from integration.clients.addresses import Address, names
from integration.clients.outcome import CLIENTS, Client, Line, run, share_of_hits, steps_of
from integration.clients.tools import NotObtainable
from integration.servers.mysql_server import ExistingServer, Server


@dataclass(frozen=True, slots=True)
class Ways:
    """The same users and databases at both addresses."""

    server: Server
    direct: Address
    through: Address

    def upwell(self) -> Server:
        """The proxy, as its administrator sees it who uses the data."""
        account = {"user": self.server.user, "password": self.server.password}
        return ExistingServer(self.through.host, self.through.port, database=self.through.data, **account)

    def fresh(self) -> None:
        """An empty database to work in, and users whom MySQL has not seen log in."""
        world.make_users_and_work(self.server, self.direct)


@pytest.fixture(scope="module")
def ways(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    direct = Address(host=mysql.host, port=mysql.port, **names(str(os.getpid())))
    world.make_data(mysql, direct.data)
    with world.upwell_beside(mysql, tmp_path_factory.mktemp("upwell")) as port:
        both = Ways(mysql, direct, replace(direct, host="127.0.0.1", port=port))
        both.fresh()
        yield both
    world.remove_users_and_work(mysql, direct)
    mysql.execute(f"DROP DATABASE `{direct.data}`")


def lines_or_skip(client: Client, program: tuple[str, ...], address: Address) -> list[Line]:
    try:
        return run(client, program, address)
    except NotObtainable as reason:
        pytest.skip(f"{client.name} cannot be had here: {reason}")


READERS = [client for client in CLIENTS if client.reads]

# What is the same whatever the client, and known beforehand: both ways could otherwise be wrong alike.
ANSWERS: dict[str, tuple[object, ...]] = {
    "connect_with_a_wrong_password": (1045, "Access denied for user"),
    "errors": (1062, "Duplicate entry '1' for key 'taken.PRIMARY'", 1064, 1146, 1142),
    "a_script_with_errors": ("ERROR 1062 (23000)", "ERROR 1064 (42000)", "ERROR 1146 (42S02)", "ERROR 1142 (42000)"),
    "warnings": ("Data truncated for column 'name' at row 1",),
    "a_script_with_warnings": ("Data truncated for column 'name' at row 1",),
    "connect_with_compression": ("100000", "number 99999"),
    "kill_query": ("Query execution was interrupted",),
    "ended_by_wait_timeout": ("'then': True",),
}


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_common_work_through_upwell_has_the_outcome_that_it_has_directly(client: Client, ways: Ways) -> None:
    ways.fresh()
    directly = steps_of(lines_or_skip(client, client.work, ways.direct))
    ways.fresh()
    through = steps_of(run(client, client.work, ways.through))
    assert list(directly) == list(through)
    different = {step: (directly[step], through[step]) for step in directly if directly[step] != through[step]}
    assert not different
    for step in ANSWERS.keys() & through.keys():
        for answer in ANSWERS[step]:
            assert str(answer) in str(through[step]), (step, answer)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as listed": lambda query: query,
    "a placeholder for each value": lambda query: query.replace("IN (?)", "IN (?, ?, ?)"),
}
"""How a cache's maker writes its query, from what SHOW PROXIED QUERIES lists."""


@pytest.mark.parametrize("client", READERS, ids=lambda client: client.name)
def test_repeated_reads_give_the_rows_that_they_give_directly_and_are_hits(client: Client, ways: Ways) -> None:
    """Of a client with its own defaults, and of caches that hold nothing before it asks."""
    directly = lines_or_skip(client, client.reads, ways.direct)
    upwell = ways.upwell()
    for spelled in SPELLINGS.values():
        upwell.execute(*[f"DROP CACHE `{name}`" for name, *_ in upwell.execute("SHOW CACHES")])
        through = run(client, client.reads, ways.through)
        assert directly == through
        assert len(through) >= 5
        assert all(line["rounds"] == 50 and line["rows"] for line in through)
        listed = upwell.execute("SHOW PROXIED QUERIES")
        wanted = ways.through.data, "yes"
        cacheable = [query for query, database, _, _, _, answer, *_ in listed if (database, answer) == wanted]
        upwell.execute(*[f"CREATE CACHE FROM {spelled(query)}" for query in cacheable])
        lines = run(client, (*client.reads, "--explain"), ways.through)
        # A document has the collation of its session. Some clients set another one than the server's: MySQL answers
        # them.
        share, reasons = share_of_hits([line for line in lines if not str(line["read"]).startswith("documents")])
        assert share >= 0.9, reasons
