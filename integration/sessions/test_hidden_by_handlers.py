"""A temporary table hides a cached one also while MySQL cannot be asked about it: a HANDLER has it open."""

from __future__ import annotations

from pathlib import Path

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import beside_database
from integration.support.raw_client import RawClient
from integration.support.same_bytes import same
from integration.support.served import read_until_hit
from integration.transactions.test_begun_by_hits import KINDS

TABLES = ("CREATE TABLE item (id INT PRIMARY KEY, n INT)", "INSERT INTO item VALUES (1, 10), (2, 20)")
READ = "SELECT id, n FROM item WHERE id = 1"


def test_a_temporary_table_that_a_handler_has_open(mysql: Server, tmp_path: Path) -> None:
    with beside_database(mysql, "hidden_by_handlers", tmp_path, *TABLES) as beside:
        with beside.client() as client:
            client.query("CREATE CACHE FROM SELECT id, n FROM item WHERE id = ?")

        def script(client: RawClient) -> None:
            if client.socket.getpeername()[1] == beside.port:
                read_until_hit(beside, client, client.query, READ)
            client.transcript.clear()
            client.query("CREATE TEMPORARY TABLE item SELECT 1 AS id, 99 AS n")
            client.query("HANDLER item OPEN")
            client.query(READ)
            client.query("HANDLER item CLOSE")
            client.query(READ)
            client.query("DROP TEMPORARY TABLE item")
            client.query(READ)

        same(beside, script, KINDS)
