"""Prepared IN-lists of clients that begin cold: most reads are hits soon, however the cache was written or made, and
again after what empties it: DDL, a restart."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from integration.conftest import OwnMySQL
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database, proxy_in_thread
from integration.support.raw_client import RawClient, bound, payloads_of
from integration.support.served import last_served, read_until_hit
from proxy.mysql.wire.packets import lenenc

LONGLONG, VAR_STRING = 0x08, 0xFD
CLIENTS, LISTED, KEYS = 8, 10, 2000
READS, LAST = 2000, 200  # reads of all clients together; of the last ones, the share of hits is asked for
QUERY = "SELECT id, title FROM story WHERE id IN ({})"
ASKED = QUERY.format(", ".join("?" * LISTED))
TABLE = (
    "CREATE TABLE story (id INT PRIMARY KEY, title VARCHAR(60) NOT NULL, told DATETIME DEFAULT '2024-01-01')",
    f"SET SESSION cte_max_recursion_depth = {KEYS}",
    "INSERT INTO story (id, title) WITH RECURSIVE i AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM i"
    f" WHERE id < {KEYS}) SELECT id, CONCAT('title ', id) FROM i",
)
WRITTEN = {"placeholders": ASKED, "one placeholder": QUERY.format("?"), "automatic": None}
"""The cache as its maker writes it; None: automatic caching makes it."""
METADATA = ("FULL", "MINIMAL")  # of binlog_row_metadata


@dataclass
class Listing:
    """Clients that ask for lists, and the server's own answers."""

    beside: Beside
    clients: list[RawClient]
    statements: list[int]
    direct: RawClient
    own: int
    rng: random.Random

    def read(self, number: int) -> str:
        """One client's read of a list: how it was served, with the reason where it was passed. It has MySQL's rows."""
        ids = self.rng.sample(range(1, KEYS + 1), LISTED)
        values = bound((LONGLONG,) * LISTED, [struct.pack("<q", one) for one in ids])
        at = number % len(self.clients)
        client = self.clients[at]
        answer = client.execute(self.statements[at], values)
        assert rows_in(answer) == rows_in(self.direct.execute(self.own, values)), ids
        return last_served(self.beside, client)

    def until_cached(self) -> None:
        """Reads until automatic caching has made the cache, which takes no notice of how busy this machine is."""
        self.beside.call(self.beside.proxy.unhurried)
        for number in count():
            self.read(number)
            if b"maintain" in self.clients[0].query("SHOW CACHES"):
                return

    def becomes_warm(self, reads: int = READS) -> None:
        found = [self.read(number) for number in range(reads)]
        hits = sum(served.startswith("hit") for served in found[-LAST:])
        assert hits >= 0.95 * LAST, (Counter(found), Counter(found[-LAST:]))


def rows_in(answer: bytes) -> list[bytes]:
    """The payloads without the last, whose flags tell how MySQL found the rows."""
    return payloads_of(answer)[:-1]


@contextmanager
def listing(beside: Beside, rng: random.Random) -> Iterator[Listing]:
    with ExitStack() as stack:
        clients = [stack.enter_context(beside.client()) for _ in range(CLIENTS)]
        direct = stack.enter_context(beside.direct())
        statements = [client.prepare(ASKED).id for client in clients]
        yield Listing(beside, clients, statements, direct, direct.prepare(ASKED).id, rng)


@pytest.fixture(params=METADATA)
def server(own_mysql: OwnMySQL, request: pytest.FixtureRequest) -> Server:
    return own_mysql(f"--binlog-row-metadata={request.param}")


@pytest.mark.parametrize("written", WRITTEN.values(), ids=list(WRITTEN))
def test_cold_lists_become_hits_and_again_after_ddl_and_a_restart(
    server: Server, database: str, tmp_path: Path, written: str | None
) -> None:
    server.execute(f"CREATE DATABASE {database}", f"USE {database}", *TABLE)
    rng = random.Random(7)
    options = {"check_sample": "0.05", "verify_new_caches": "32", "auto_cache": "off" if written else "on"}
    with proxy_in_thread(server, database, tmp_path, **options) as beside:
        if written:
            with beside.client() as client:
                assert client.query(f"CREATE CACHE FROM {written}")[4] == 0
        with listing(beside, rng) as found:
            if written is None:
                found.until_cached()
            found.becomes_warm()
            server.execute(f"ALTER TABLE {database}.story ADD COLUMN votes INT")
            beside.caught_up()
            found.becomes_warm()
    with proxy_in_thread(server, database, tmp_path, **options) as beside, listing(beside, rng) as found:
        if written is None:
            found.until_cached()
        found.becomes_warm()


SPELLED = {
    "two lists": ("SELECT id FROM story WHERE id IN (?, ?) AND title IN (?, ?, ?)", (3, 4, "title 3", "title 5", "x")),
    "answers of MySQL's": ("SELECT COUNT(DISTINCT title) FROM story WHERE id IN (?, ?, ?)", (3, 4, 5)),
    "a version comment": ("SELECT id FROM story WHERE id = ? /*!80000 AND title <> ? */", (3, "x")),
    "the clock": ("SELECT id FROM story WHERE id IN (?, ?) AND told < NOW() AND id < ?", (3, 4, 9)),
}


@pytest.mark.parametrize(("sql", "given"), SPELLED.values(), ids=list(SPELLED))
def test_a_prepared_read_is_filled_however_its_cache_is_spelled(
    mysql: Server, tmp_path: Path, sql: str, given: tuple[int | str, ...]
) -> None:
    """The next answers of a new cache are compared with what MySQL says to its text with the values in it."""
    with (
        beside_database(mysql, "t_cold_spelled", tmp_path, *TABLE, verify_new_caches="32") as beside,
        beside.client() as client,
        beside.direct() as direct,
    ):
        assert client.query(f"CREATE CACHE FROM {sql}")[4] == 0
        beside.caught_up()
        values = bound(
            tuple(LONGLONG if isinstance(one, int) else VAR_STRING for one in given),
            [struct.pack("<q", one) if isinstance(one, int) else lenenc(one.encode()) for one in given],
        )
        own, statement = direct.prepare(sql).id, client.prepare(sql).id
        expected = sorted(rows_in(direct.execute(own, values)))
        found = read_until_hit(beside, client, client.execute, statement, values)
        assert all(sorted(rows_in(answer)) == expected for answer in found)
