"""IN-lists that are hits: of any length, by text and prepared, the same rows as MySQL's own."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pymysql
import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import bound, payloads_of

ROWS = 300
QUERIES = {
    "id": "SELECT id, name, n FROM item WHERE id IN ({})",
    "group": "SELECT id, g FROM item WHERE g IN ({})",
    "name": "SELECT id, name FROM item WHERE name IN ({})",
    "two": "SELECT id, n FROM item WHERE g IN ({0}) AND id IN ({0}, 7)",
    "count": "SELECT COUNT(*), g FROM item WHERE g IN ({}) GROUP BY g",
    "ordered": "SELECT id, n FROM item WHERE id IN ({}) ORDER BY n DESC, id",
    "limited": "SELECT id, n FROM item WHERE g IN ({}) ORDER BY n, id LIMIT 5",
    "distinct": "SELECT DISTINCT n FROM item WHERE id IN ({})",
    "joined": "SELECT i.id, o.name FROM item i JOIN item o ON o.id = i.n WHERE i.g IN ({})",
}


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = "t_list_hits"
    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {database}")
        cursor.execute(f"USE {database}")
        cursor.execute(
            "CREATE TABLE item (id INT PRIMARY KEY, g INT, name VARCHAR(40), n INT NOT NULL, KEY (g), KEY (name))"
        )
        names = ["Straße", "strasse", "a'b", 'a"b', "x,y", "", "it''s", "back\\slash", "5", None]
        rows = [(at, at % 7 if at % 11 else None, names[at % 10], at * 37 % 100) for at in range(-20, ROWS)]
        cursor.executemany("INSERT INTO item VALUES (%s, %s, %s, %s)", rows)
        connection.commit()
    with proxy_in_thread(mysql, database, tmp_path_factory.mktemp("state")) as beside:
        with beside.client() as client:
            for name, query in QUERIES.items():
                client.query(f"CREATE CACHE {name} FROM {query.replace('({0}, 7)', '({0})').format('?...')}")
        yield beside
    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {database}")


def rows_of(connection: pymysql.connections.Connection, sql: str) -> tuple[tuple[object, ...], ...]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def connected(beside: Beside, port: int) -> pymysql.connections.Connection:
    server = beside.mysql
    return pymysql.connect(
        host="127.0.0.1", port=port, user=server.user, password=server.password, database=beside.proxy.database,
        autocommit=True,
    )  # fmt: skip


def literals(rng: random.Random, name: str) -> list[str]:
    length = rng.choice((1, 2, 3, 10, 16, 17, 100, 400))
    if name == "name":
        return rng.choices(
            ["'Straße'", "'STRASSE'", "'a''b'", "'a\\'b'", "'a\"b'", "'x,y'", "''", "'back\\\\slash'", "'5'", "'zz'"],
            k=length,
        )
    low, high = (-2, 9) if name in ("group", "count", "limited", "joined") else (-30, ROWS + 20)
    return [str(rng.randrange(low, high)) for _ in range(length)]


@pytest.mark.parametrize("name", QUERIES)
def test_lists_in_texts_have_mysqls_rows(beside: Beside, name: str) -> None:
    rng = random.Random(7)
    served = set()
    with connected(beside, beside.port) as ours, connected(beside, beside.mysql.port) as theirs:
        for _ in range(60):
            items = rng.choice((", ", ",")).join(literals(rng, name))
            sql = QUERIES[name].format(items)
            expected = rows_of(theirs, sql)
            for _ in range(3):
                found = rows_of(ours, sql)
                assert (found if "ORDER" in sql else sorted(found)) == (
                    expected if "ORDER" in sql else sorted(expected)
                ), sql
            served.add(rows_of(ours, "EXPLAIN LAST STATEMENT")[0][0])
        with ours.cursor() as cursor:  # what has changed is asked for anew
            cursor.execute("UPDATE item SET n = (n + 1) % 100 WHERE id = 5")
        sql = QUERIES[name].format(", ".join(map(str, range(8))) if name != "name" else "'5', 'x'")
        assert sorted(rows_of(ours, sql)) == sorted(rows_of(theirs, sql))
    assert "hit" in served


@pytest.mark.parametrize("count", [1, 2, 10, 100, 1000])
def test_lists_of_prepared_statements_have_mysqls_rows(beside: Beside, count: int) -> None:
    rng = random.Random(count)
    sql = QUERIES["id"].format(", ".join("?" * count))
    with beside.client() as ours, beside.direct() as theirs:
        one, two = ours.prepare(sql).id, theirs.prepare(sql).id
        for number in range(30):
            values = [struct.pack("<q", rng.randrange(-30, ROWS + 20)) for _ in range(count)]
            nothing = [None if rng.random() < 0.1 else value for value in values] if number % 7 == 3 else values
            parameters = bound((8,) * count, nothing)
            for _ in range(2):
                assert packets(ours.execute(one, parameters)) == packets(theirs.execute(two, parameters))
        assert b"\x03hit" in ours.query("EXPLAIN LAST STATEMENT")


def packets(answer: bytes) -> list[bytes]:
    """The payloads in one order, without the last, whose flags tell how MySQL found the rows."""
    return sorted(payloads_of(answer)[:-1])


def test_a_list_of_thousands_that_is_not_held_is_mysqls_and_then_a_hit(beside: Beside) -> None:
    with beside.client() as client, beside.direct() as direct:
        for _ in range(3):  # how MySQL announces the columns is known
            client.query(QUERIES["id"].format("1, 2"))
        items = ",".join(map(str, range(5000, 8000)))
        sql = QUERIES["id"].format(items)
        assert packets(client.query(sql)) == packets(direct.query(sql))
        assert b"more than 1000 values" in client.query("EXPLAIN LAST STATEMENT")
        for first in range(5000, 8000, 500):
            client.query(QUERIES["id"].format(",".join(map(str, range(first, first + 500)))))
        beside.caught_up()
        for _ in range(50):  # answers are encoded, and compared with MySQL's, before the list is a hit
            assert packets(client.query(sql)) == packets(direct.query(sql))
        assert b"\x03hit" in client.query("EXPLAIN LAST STATEMENT")


def check_numbers(answer: bytes) -> None:
    """That packets are numbered without a gap."""
    at, number = 0, 1
    while at < len(answer):
        assert answer[at + 3] == number & 0xFF
        number += 1
        at += 4 + int.from_bytes(answer[at : at + 3], "little")


@pytest.mark.parametrize("name", ["id", "group"])
def test_packets_are_numbered_through(beside: Beside, name: str) -> None:
    rng = random.Random(3)
    with beside.client() as client:
        for _ in range(30):
            check_numbers(client.query(QUERIES[name].format(",".join(literals(rng, name)))))
