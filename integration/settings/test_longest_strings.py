"""Strings longer than the max_allowed_packet of who reads are NULL at MySQL. A session has that value from its login
on, and so have the sessions that fill caches."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.conftest import OwnMySQL
from integration.oracle.answers import parse
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit

TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20), l TEXT, j JSON)",
    "INSERT INTO t VALUES (1, 'abc', REPEAT('x', 3000), JSON_ARRAY(REPEAT('y', 3000), REPEAT('z', 3000)))",
)
QUERIES = (
    "SELECT LENGTH(REPEAT(a, 5000)) AS n FROM t WHERE id = {}",
    "SELECT LENGTH(CONCAT(a, SPACE(9000))) AS n FROM t WHERE id = {}",
    "SELECT id FROM t WHERE id = {} AND LPAD(a, 9000, 'x') IS NOT NULL",
    "SELECT CONCAT(l, a, l) AS c FROM t WHERE id = {}",
    "SELECT COUNT(DISTINCT CONCAT(l, a, l)) AS c FROM t WHERE id = {}",
    "SELECT j FROM t WHERE id = {}",
    "SELECT l, a FROM t WHERE id = {}",  # no string is made
)
READS = tuple(sql.format(1) for sql in QUERIES)
LAST = READS[-1]


def answer(client: RawClient, sql: str) -> object:
    found = parse(client.query(sql), binary=False)
    return (found.errno, found.message) if found.errno else (found.columns, found.rows)


def equal(beside: Beside, *, hits: bool) -> None:
    """New sessions are answered as at MySQL. `hits`: what makes strings, too, is a hit."""
    with beside.client() as through, beside.direct() as direct:
        for sql in READS:
            if hits or sql == LAST:
                read_until_hit(beside, through, through.query, sql)
            for _ in range(2):
                assert answer(through, sql) == answer(direct, sql), sql
            if not hits and sql != LAST:
                assert "max_allowed_packet" in last_served(beside, through), sql


@pytest.mark.parametrize(("flag", "hits"), [("67108864", True), ("16777216", True), ("65536", False)])
def test_each_session_has_its_own_limit(own_mysql: OwnMySQL, tmp_path: Path, flag: str, hits: bool) -> None:
    """Sessions of the server's limit have hits, and those that logged in under another one have MySQL's answers."""
    mysql = own_mysql(f"--max-allowed-packet={flag}")
    # With one connection, none that fills caches is opened under the other limit: nobody would have such hits then.
    with beside_database(mysql, "longest", tmp_path, *TABLES, upquery_connections="1") as beside:
        with beside.client() as maker:
            for sql in QUERIES:
                made = parse(maker.query(f"CREATE CACHE FROM {sql.format('?')}"), binary=False)
                assert not made.errno, made.message
        equal(beside, hits=hits)
        mysql.execute("SET GLOBAL max_allowed_packet = 4096")
        equal(beside, hits=False)
        mysql.execute(f"SET GLOBAL max_allowed_packet = {flag}")
        equal(beside, hits=hits)


def test_where_fills_differ_nobody_has_such_hits(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    """What was filled by one session of Upwell's may be another string than what the next one would have filled."""
    mysql = own_mysql()
    with beside_database(mysql, "longest", tmp_path, *TABLES) as beside:
        with beside.client() as maker:
            for sql in QUERIES:
                maker.query(f"CREATE CACHE FROM {sql.format('?')}")
        equal(beside, hits=True)
        packet = beside.proxy.app.packet
        beside.call(lambda: packet.note(4096))  # as one more connection would
        equal(beside, hits=False)
