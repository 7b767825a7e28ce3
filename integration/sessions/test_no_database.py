"""Sessions that have selected no database: a text that names the database of each table has the caches of the database
that the upstream names, and its hits are MySQL's bytes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from integration.protocol.test_hits_same_bytes import comparable
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import proxy_in_thread
from integration.support.served import Reads, last_served, read_until_hit


def upstream(mysql: Server, database: str) -> str:
    """It names the database."""
    where, mark, socket_file = mysql.url.partition("?")
    return f"{where}/{database}{mark}{socket_file}"


def test_texts_that_name_the_database_are_hits(mysql: Server, database: str, tmp_path: Path) -> None:
    mysql.execute(
        f"USE `{database}`", "CREATE TABLE item (id INT PRIMARY KEY, n INT)", "INSERT INTO item VALUES (1, 10), (2, 20)"
    )
    named = f"SELECT i.id, j.n FROM `{database}`.item i JOIN {database}.item AS j ON j.id = i.id WHERE i.id = 1"
    bare = f"SELECT i.id, j.n FROM `{database}`.item i JOIN item AS j ON j.id = i.id WHERE i.id = 1"
    with proxy_in_thread(mysql, database, tmp_path, upstream=upstream(mysql, database)) as beside:
        with closing(beside.client()) as client:
            client.query(f"CREATE CACHE FROM {named}")
            client.query(f"CREATE CACHE FROM {bare}")
        with closing(beside.client(database="")) as client, closing(beside.direct(database="")) as direct:
            hit = read_until_hit(beside, client, client.query, named)[-1]
            assert comparable(client, hit) == comparable(direct, direct.query(named))
            assert client.query(bare) == direct.query(bare)  # MySQL's error: no database is selected
            assert last_served(beside, client).startswith("passed")
        with closing(beside.client()) as client:
            read_until_hit(beside, client, client.query, bare)


@pytest.mark.parametrize("text", ["SELECT id FROM item WHERE id = 1", "SELECT 1 AS one"])
def test_others_are_mysqls(mysql: Server, database: str, tmp_path: Path, text: str) -> None:
    mysql.execute(f"USE `{database}`", "CREATE TABLE item (id INT PRIMARY KEY, n INT)")
    with (
        proxy_in_thread(mysql, database, tmp_path, upstream=upstream(mysql, database)) as beside,
        closing(beside.client(database="")) as client,
        closing(beside.direct(database="")) as direct,
    ):
        reads = Reads("passed")
        assert comparable(client, client.query(text)) == comparable(direct, direct.query(text))
        assert reads.done(last_served(beside, client)) or text.endswith("one")
