"""Values of all types through the proxy before vtgate: those that an upquery brings, and those that the stream brings,
are what vtgate sends, byte by byte."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from integration.protocol.test_hits_same_bytes import comparable, given
from integration.support.grpc_app import run
from integration.support.raw_client import RawClient
from integration.vitess.cluster import Cluster
from integration.vitess.proxy import proxy_before
from integration.vitess.shop import PLAIN
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF
from tests.support.type_cases import SQL_MODE, TYPE_CASES

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it
READ = "SELECT id, v FROM of_type{number} WHERE id = {key}"
UTC = "SET time_zone = '+00:00'"
BINARY_ROW = 10  # bytes of a row's packet before its value: header, a 0, what is NULL, the id
MOMENTS = ("DATETIME", "TIMESTAMP", "TIME")
PASSED = ("FLOAT", "VECTOR")  # prepared ones, which vtgate sends otherwise than MySQL


def reads(client: RawClient, number: int, keys: range, binary: bool) -> list[object]:
    """Each value, as it is sent."""
    found = []
    for key in keys:
        text = READ.format(number=number, key=key)
        answer = client.execute(client.prepare(text).id, given(client, ())) if binary else client.query(text)
        found.append(shortest(number, comparable(client, answer)) if binary else comparable(client, answer))
    return found


def shortest(number: int, answer: object) -> object:
    """A moment may be sent without its zeros at the end, which MySQL leaves out, and vtgate does not."""
    assert isinstance(answer, tuple)
    head, rows, end = answer
    if TYPE_CASES[number].ddl.startswith(MOMENTS):
        rows = [row[4:BINARY_ROW] + row[BINARY_ROW + 1 :].rstrip(b"\0") for row in rows]
    return head, rows, end


def hits(client: RawClient, number: int, keys: range, binary: bool) -> int:
    """How many of them are given from memory."""
    served = 0
    for key in keys:
        reads(client, number, range(key, key + 1), binary)
        served += b"\x03hit" in client.query("EXPLAIN LAST STATEMENT")
    return served


def test_values_are_those_that_vtgate_sends(vitess: Cluster, tmp_path: Path) -> None:
    mysql, database = vitess.mysqls[PLAIN, "0"], vitess.database(PLAIN)
    tables = [
        f"CREATE TABLE of_type{number} (id INT PRIMARY KEY, v {case.ddl} NULL)"
        for number, case in enumerate(TYPE_CASES)
    ]
    mysql.execute(f"USE `{database}`", *(f"DROP TABLE IF EXISTS of_type{n}" for n in range(len(TYPE_CASES))), *tables)

    def insert(number: int, first: int) -> None:
        values = ", ".join(
            f"({first + at}, ({value}))" for at, value in enumerate((*TYPE_CASES[number].literals, "NULL"))
        )
        mysql.execute(
            f"USE `{database}`", f"SET sql_mode = '{SQL_MODE}'", f"INSERT INTO of_type{number} (id, v) VALUES {values}"
        )

    async def scenario() -> None:
        async with proxy_before(vitess, PLAIN, tmp_path, own_writes_wait="30s", verify_new_caches="off") as proxy:
            for number in range(len(TYPE_CASES)):
                await proxy.client.create_cache(f"SELECT id, v FROM of_type{number} WHERE id = ?")

            def compared(number: int, first: int) -> None:
                keys = range(first, first + len(TYPE_CASES[number].literals) + 1)
                sides = []
                for port in (proxy.cluster.sql, proxy.app.mysql_port):
                    with RawClient("127.0.0.1", port, database=PLAIN, capabilities=CLIENT_DEPRECATE_EOF) as client:
                        client.query(UTC)
                        # Several times: a miss, and what shows how the columns are announced, come before hits.
                        sides.append(
                            [reads(client, number, keys, binary) for binary in (False, True) for _ in range(3)]
                        )
                        if port == proxy.app.mysql_port:
                            ddl = TYPE_CASES[number].ddl
                            held = [hits(client, number, keys, binary) for binary in (False, True)]
                            prepared = 0 if ddl.startswith(PASSED) else len(keys)
                            assert held == [len(keys), prepared], (ddl, first)
                assert sides[0] == sides[1], (ddl, first)

            for number in range(len(TYPE_CASES)):
                await asyncio.to_thread(insert, number, 0)
                await proxy.caught_up()
                await asyncio.to_thread(compared, number, 0)  # what upqueries bring
                await asyncio.to_thread(compared, number, 100)  # held, and empty
                await asyncio.to_thread(insert, number, 100)
                await proxy.caught_up()
                await asyncio.to_thread(compared, number, 100)  # what the stream brings

    run(scenario, 600)
