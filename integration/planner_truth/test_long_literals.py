"""Texts of caches with literals of some kilobytes: what is known of one is no other's. Each has its own rights and
column definitions, also behind DDL, and behind a cache that was made anew under the same name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import read_until_hit
from proxy.mysql.wire.packets import ERR

LONG = "x" * 7000  # more than a text may have between its literals
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, n INT, name VARCHAR(8000), KEY (name(20)))",
    f"INSERT INTO item VALUES (1, 10, '{LONG}')",
    "CREATE TABLE two (id INT PRIMARY KEY, word VARCHAR(20), name VARCHAR(8000), KEY (name(20)))",
    f"INSERT INTO two VALUES (1, 'hello', '{LONG}')",
)
CACHES = {"of_item": "SELECT n FROM item WHERE name = {}", "of_two": "SELECT word FROM two WHERE name = {}"}
ITEM, TWO = (text.format(f"'{LONG}'") for text in CACHES.values())


@pytest.fixture
def beside(mysql: Server, tmp_path: Path) -> Iterator[Beside]:
    with beside_database(mysql, "long_literals", tmp_path, *TABLES) as found:
        with found.client() as client:
            for name, text in CACHES.items():
                create(client, name, text)
        yield found


def create(client: RawClient, name: str, text: str) -> None:
    assert client.query(f"CREATE CACHE {name} FROM {text.format('?')}")[4] != ERR


def hits_are_mysqls(beside: Beside) -> None:
    """In a session that has known the texts since they were no hits, and in a new one, the texts in turns."""
    with beside.client() as client, beside.direct() as direct:
        for text in (ITEM, TWO):
            read_until_hit(beside, client, client.query, text)
        with beside.client() as other:
            for text in (ITEM, ITEM, TWO, TWO, ITEM, TWO):
                truth = direct.query(text)
                assert other.query(text) == truth and client.query(text) == truth, text[:12]


def test_each_has_its_own_columns(beside: Beside) -> None:
    hits_are_mysqls(beside)
    beside.mysql.execute("ALTER TABLE long_literals.item MODIFY n BIGINT")
    beside.caught_up()
    hits_are_mysqls(beside)


def test_each_has_its_own_rights(beside: Beside) -> None:
    beside.mysql.execute(
        "DROP USER IF EXISTS long_reader",
        "CREATE USER long_reader",
        "GRANT SELECT ON long_literals.item TO long_reader",
    )
    try:
        beside.caught_up()
        with beside.client() as client:
            for text in (ITEM, TWO):
                read_until_hit(beside, client, client.query, text)
        with beside.client(user="long_reader") as client:
            for _ in range(3):
                read_until_hit(beside, client, client.query, ITEM)
            assert client.query(TWO)[4] == ERR, "SELECT on `two` is denied"
    finally:
        beside.mysql.execute("DROP USER long_reader")


def test_a_cache_made_anew_has_hits(beside: Beside) -> None:
    with beside.client() as client:
        read_until_hit(beside, client, client.query, ITEM)
        assert client.query("DROP CACHE of_item")[4] != ERR
        client.query(ITEM)
        create(client, "of_item", CACHES["of_item"])
        read_until_hit(beside, client, client.query, ITEM)
