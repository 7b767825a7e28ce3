"""What a session's database may be before vtgate: a keyspace, one with its kind of tablets, none. Its reads are hits
where vtgate would find the keyspace's tables; and each is vtgate's own answer, byte by byte."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pymysql
import pytest

from integration.protocol.test_hits_same_bytes import comparable
from integration.support.grpc_app import run
from integration.support.raw_client import RawClient, payloads_of
from integration.support.served import Reads
from integration.vitess.cluster import Cluster
from integration.vitess.proxy import VitessProxy, proxy_before
from integration.vitess.shop import PLAIN, SHARDED
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it

READS = {
    "bare": "SELECT id, n, name FROM item WHERE id = {}",
    "named": "SELECT id, n, name FROM shop.item WHERE id = {}",
    "mixed": "SELECT a.id, b.n FROM shop.item a JOIN item b ON b.id = a.id WHERE a.id = {}",
}
KEYS = range(6)


def client(port: int, database: str) -> RawClient:
    return RawClient("127.0.0.1", port, capabilities=CLIENT_DEPRECATE_EOF, database=database)


def served(session: RawClient) -> tuple[str, str]:
    """How the last statement was, and why."""
    row = payloads_of(session.query("EXPLAIN LAST STATEMENT"))[-2]
    found, at = [], 0
    while at < len(row):
        length = 0 if row[at] == 0xFB else row[at]
        found.append(row[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return found[0], found[2]


def same(proxy: VitessProxy, database: str, names: list[str], wanted: str) -> None:
    """Each read is served so, soon."""
    with (
        closing(client(proxy.app.mysql_port, database)) as session,
        closing(client(proxy.cluster.sql, database)) as own,
    ):
        for name in names:
            for key in KEYS:
                text = READS[name].format(key)
                reads = Reads(wanted)
                while True:
                    answer = session.query(text)
                    assert comparable(session, answer) == comparable(own, own.query(text)), (database, text)
                    if reads.done(" ".join(served(session))):
                        break


@pytest.mark.parametrize("database", ["shop@primary", "shop@PRIMARY", "@primary", ""])
def test_reads_are_hits_at(vitess: Cluster, tmp_path: Path, database: str) -> None:
    async def scenario() -> None:
        vitess.execute(SHARDED, "DELETE FROM item")
        vitess.execute(SHARDED, f"INSERT INTO item (id, n) VALUES {', '.join(f'({key}, {key})' for key in KEYS)}")
        async with proxy_before(vitess, SHARDED, tmp_path) as proxy:
            for name, text in READS.items():
                await proxy.client.create_cache(text.format("?"), name=name)
            await asyncio.to_thread(same, proxy, database, list(READS), "hit")
            await asyncio.to_thread(same, proxy, "shop@replica", [], "passed")

    run(scenario)


def test_a_name_that_another_keyspace_gets_too_is_vtgates(vitess: Cluster, tmp_path: Path) -> None:
    """vtgate finds it ambiguous. Where the keyspace is named nothing changes."""

    def ambiguous() -> bool:
        return not vitess.shown("SELECT id FROM item")

    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path) as proxy:
            for name, text in READS.items():
                await proxy.client.create_cache(text.format("?"), name=name)
            await asyncio.to_thread(same, proxy, "@primary", ["bare", "named"], "hit")
            vitess.execute(PLAIN, "CREATE TABLE item (id BIGINT PRIMARY KEY, n INT, name VARCHAR(20))")
            vitess.apply_vschema(PLAIN, {"tables": {"item": {}}})
            try:
                await until(ambiguous, 20)
                await until(lambda: not proxy.app.source.bare_names.found, 20)  # type: ignore[union-attr]
                await asyncio.to_thread(same, proxy, "@primary", ["bare"], "passed")
                await asyncio.to_thread(same, proxy, "@primary", ["named"], "hit")
                await asyncio.to_thread(same, proxy, SHARDED, ["bare"], "hit")
            finally:
                vitess.apply_vschema(PLAIN, {"tables": {}})
                vitess.execute(PLAIN, "DROP TABLE item")

    run(scenario)


def test_a_setting_of_boost_is_ignored(vitess: Cluster, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path) as proxy:
            await asyncio.to_thread(boosts, proxy)

    def boosts(proxy: VitessProxy) -> None:
        with closing(proxy.session()) as session, session.cursor() as cursor:
            cursor.execute("SET @@boost_cached_queries = true")
            assert b"ignored" in cursor._result.message
            cursor.execute("SET SESSION boost_cached_queries = 0")
            with pytest.raises(pymysql.err.MySQLError, match="boost_cached_queries"):
                cursor.execute("SET @@boost_cached_queries = 1, @@time_zone = '+00:00'")

    run(scenario)


def test_a_query_by_the_clock_gets_no_cache_by_itself(vitess: Cluster, tmp_path: Path) -> None:
    text = "SELECT id FROM item WHERE n < 5 AND NOW() > '2020-01-01'"

    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path, auto_cache="on", auto_cache_reads="2") as proxy:
            await asyncio.to_thread(reads, proxy)
            assert not [cache for cache in await proxy.client.caches() if "n < 5" in cache.sql]

    def reads(proxy: VitessProxy) -> None:
        with closing(client(proxy.app.mysql_port, SHARDED)) as session:
            why = ""
            while "clock" not in why:
                session.query(text)
                served_as, why = served(session)
                assert served_as == "passed"

    run(scenario)
