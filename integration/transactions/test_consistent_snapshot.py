"""START TRANSACTION WITH CONSISTENT SNAPSHOT: what it reads is of the state in which it began, as at MySQL."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.settings.test_settings_that_change_answers import KINDS, both, do, shown
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import bound
from integration.support.served import last_served, read_until_hit
from proxy.mysql.reads.gate import OPEN

TABLES = ("CREATE TABLE item (id INT PRIMARY KEY, n INT)", "INSERT INTO item VALUES (1, 10), (2, 20)")
BY_ID = "SELECT n FROM item WHERE id = ?"
READ = "SELECT n FROM item WHERE id = 1"
ONE = bound((8,), [struct.pack("<q", 1)])
BEGINS = (
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "start transaction read only, with consistent snapshot",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ WRITE",
)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = f"t{os.getpid()}_snapshot"
    mysql.execute(f"CREATE DATABASE {database}", f"USE {database}", *TABLES)
    with proxy_in_thread(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            assert client.query(f"CREATE CACHE FROM {BY_ID}")[4] == 0
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE `{database}`")


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("autocommit", [1, 0])
@pytest.mark.parametrize("begin", BEGINS)
@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "READ COMMITTED"])
def test_reads_are_of_the_state_in_which_it_began(
    beside: Beside, isolation: str, begin: str, autocommit: int, kind: str
) -> None:
    """In READ COMMITTED MySQL passes over the words, and hits are those of any such transaction."""

    def alike() -> None:
        answers = [shown(client, client.query(READ)) for client in pair]
        answers += [shown(client, client.execute(id_, ONE)) for client, id_ in zip(pair, ids, strict=True)]
        assert answers[0] == answers[1] and answers[2] == answers[3]

    with both(beside, kind) as pair:
        ids = [client.prepare(BY_ID).id for client in pair]
        read_until_hit(beside, pair[1], pair[1].query, READ)
        read_until_hit(beside, pair[1], pair[1].execute, ids[1], ONE)
        pair[0].execute(ids[0], ONE)
        do(pair, f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}", f"SET autocommit = {autocommit}")
        for _ in range(2):
            do(pair, begin)
            change(beside)
            for _ in range(3):
                alike()
                if isolation == "REPEATABLE READ":
                    assert last_served(beside, pair[1]) == f"passed {OPEN}"
            if isolation == "READ COMMITTED":
                read_until_hit(beside, pair[1], pair[1].query, READ)
            change(beside)
            alike()
            do(pair, "COMMIT")
            alike()
            do(pair, "COMMIT")


def change(beside: Beside) -> None:
    beside.mysql.execute(f"USE {beside.proxy.database}", "UPDATE item SET n = n + 1 WHERE id = 1")
    beside.caught_up()
