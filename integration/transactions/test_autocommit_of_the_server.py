"""Sessions of a server whose new sessions have autocommit off: behind COM_CHANGE_USER MySQL's flags do not tell it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.sessions.session_commands import answer, payload
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient
from integration.support.served import read_until_hit
from proxy.mysql.wire.packets import packet

READ = "SELECT id, n FROM item WHERE id = 1"
OTHER = "SELECT id, n FROM item WHERE id = 2"


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = f"t{os.getpid()}_new"
    tables = ("CREATE TABLE item (id INT PRIMARY KEY, n INT)", "INSERT INTO item VALUES (1, 10), (2, 20)")
    mysql.execute(f"CREATE DATABASE {database}", f"USE {database}", *tables)
    with proxy_in_thread(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            assert client.query("CREATE CACHE FROM SELECT id, n FROM item WHERE id = ?")[4] == 0
            for text in (READ, OTHER):
                read_until_hit(found, client, client.query, text)
        ((kept,),) = mysql.execute("SELECT @@GLOBAL.autocommit")
        mysql.execute("SET GLOBAL autocommit = 0")
        try:
            yield found
        finally:
            mysql.execute(f"SET GLOBAL autocommit = {kept}")
        found.at_rest()
    mysql.execute(f"DROP DATABASE `{database}`")


def command(client: RawClient, database: str, step: str) -> bytes | None:
    client.write(packet(payload(client, database, step, lambda: client.prepare("")), 0))
    return answer(client, step)


def script(beside: Beside, make: Callable[[], RawClient], begun: str, settled: str) -> list[bytes]:
    """Reads with another session's change between; from time to time it commits."""
    found, database = [], beside.proxy.database
    with make() as client:
        if begun:
            assert command(client, database, begun) is not None
        if settled:
            found.append(client.query(settled))
        for value in (11, 12):
            beside.mysql.execute(f"UPDATE {database}.item SET n = {value - 1}", "COMMIT")
            beside.caught_up()
            found.append(client.query(READ))
            beside.mysql.execute(f"UPDATE {database}.item SET n = {value}", "COMMIT")
            beside.caught_up()
            found += [client.query(READ), client.query(OTHER), client.query("COMMIT"), client.query(OTHER)]
            client.query("COMMIT")
    return found


@pytest.mark.parametrize("settled", ["", "SET autocommit = 0", "SET autocommit = 1", "SET time_zone = '+00:00'"])
@pytest.mark.parametrize("begun", ["", "!change root", "!reset"])
def test_reads_are_of_one_transaction(beside: Beside, begun: str, settled: str) -> None:
    def told(make: Callable[[], RawClient]) -> list[bytes]:
        return script(beside, make, begun, settled)

    assert told(beside.client) == told(beside.direct)
