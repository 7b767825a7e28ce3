"""A statement that fails has written nothing behind the binlog's back, whoever sends it, and however he leaves: what is
held stays. Only a procedure can have switched the binlog off first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit
from proxy.mysql.wire.packets import ERR, packet

TABLES = ("CREATE TABLE item (id INT PRIMARY KEY, n INT)", "INSERT INTO item VALUES (1, 10)")
READ = "SELECT n FROM item WHERE id = 1"
FAILING = (
    "selct 1",
    "selct * from item where id=1",
    "CALL nosuch()",
    "SELECT nofunc(1)",
    "SELECT COUNT (*) FROM nosuch",
    "SHOW TABELS",
    "UPDATE nosuch SET n = 1",
    "EXECUTE nosuch",
)
QUIT = packet(b"\x01", 0)
TIMES = 8


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    with beside_database(mysql, "failing_statements", tmp_path_factory.mktemp("state"), *TABLES) as found:
        with found.client() as client:
            assert client.query("CREATE CACHE FROM SELECT n FROM item WHERE id = ?")[4] != ERR
            read_until_hit(found, client, client.query, READ)
        yield found


def leave(client: RawClient, how: str) -> None:
    if how == "quits and goes":
        client.write(QUIT)
    elif how == "quits":
        client.write(QUIT)
        assert client.at_end()
    elif how == "reads":
        client.query(READ)
    client.close()


@pytest.mark.parametrize("how", ["goes", "quits", "quits and goes", "reads"])
@pytest.mark.parametrize("text", FAILING)
def test_what_is_held_stays(beside: Beside, text: str, how: str) -> None:
    def forgotten() -> int:
        return beside.call(lambda: beside.proxy.app.engine.memory.counters.get("unlogged_writes", 0))

    with beside.client() as client:
        read_until_hit(beside, client, client.query, READ)
    before = forgotten()
    for _ in range(TIMES):
        client = beside.client()
        assert client.query(text)[4] == ERR
        leave(client, how)
    beside.at_rest()
    assert forgotten() == before
    with beside.client() as client:
        client.query(READ)
        assert last_served(beside, client) == "hit"
