"""`upwell doctor` and the start before a real vtgate, and before what is none: one sentence of what was seen, and what
is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from external_upquery.address import parse_upstream
from integration.servers.mysql_server import Server
from integration.support.grpc_app import run
from integration.vitess.cluster import Cluster
from integration.vitess.proxy import VitessProxy, address, proxy_before
from integration.vitess.shop import PLAIN, SHARDED, SHARDS, TABLES, VSCHEMA
from proxy.app import running
from proxy.settings.config import load_config
from proxy.source.vitess_doctor import check
from sqltypes.errors import ConfigError, SourceDown
from sqltypes.source_checks import Severity
from upwell.errors import UnsupportedQuery

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it


@pytest.mark.parametrize("keyspace", [SHARDED, PLAIN])
def test_a_good_keyspace_has_no_finding(vitess: Cluster, keyspace: str) -> None:
    found = check(parse_upstream(address(vitess, keyspace)))
    mine = [one for one in found if one.name != "views"]  # other tests of this Vitess make some
    assert {one.severity for one in mine} == {Severity.OK}, found
    assert [one.name for one in found][:3] == ["vtgate", "keyspaces", "keyspace"] and found[-1].name == "stream"
    shards = [one.name for one in found if one.name.startswith("shard")]
    assert shards == (["shard -80", "shard 80-"] if keyspace == SHARDED else ["shard 0"])


def test_a_table_that_the_vschema_lacks(vitess: Cluster, tmp_path: Path) -> None:
    for shard in ("-80", "80-"):
        vitess.execute("", f"USE `{SHARDED}:{shard}`", "CREATE TABLE unlisted (id BIGINT PRIMARY KEY)")

    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path) as proxy:
            with pytest.raises(UnsupportedQuery, match="unlisted"):
                await proxy.client.create_cache("SELECT id FROM unlisted WHERE id = ?")
            await others_are_answered(proxy)

    try:
        (found,) = [one for one in check(parse_upstream(address(vitess, SHARDED))) if one.severity is not Severity.OK]
        assert found.severity is Severity.WARNING and "unlisted" in found.seen and "column_vindexes" in found.needed
        run(scenario)
    finally:
        for shard in ("-80", "80-"):
            vitess.execute("", f"USE `{SHARDED}:{shard}`", "DROP TABLE unlisted")


def test_each_table_that_cannot_be_cached_is_named_with_the_reason(vitess: Cluster) -> None:
    """Those that are distributed by texts can be, and are named, too."""
    tables = {
        **TABLES,
        "country": {"type": "reference"},
        "found": {"column_vindexes": [{"column": "id", "name": "looked_up"}]},
        "person": {"column_vindexes": [{"column": "uuid", "name": "loose"}]},
    }
    lookup = {"type": "consistent_lookup_unique", "params": {"table": f"{PLAIN}.l", "from": "id", "to": "keyspace_id"}}
    vindexes = {**VSCHEMA["vindexes"], "loose": {"type": "unicode_loose_xxhash"}, "looked_up": lookup}  # type: ignore[dict-item]
    vitess.execute(PLAIN, "CREATE TABLE l (id BIGINT PRIMARY KEY, keyspace_id VARBINARY(20))")
    vitess.apply_vschema(SHARDED, {**VSCHEMA, "vindexes": vindexes, "tables": tables})
    columns = "(id BIGINT PRIMARY KEY, uuid VARCHAR(36))"
    try:
        for shard in SHARDS:
            made = [f"CREATE TABLE {name} {columns}" for name in ("country", "found", "person")]
            vitess.execute("", f"USE `{SHARDED}:{shard}`", *made, "CREATE VIEW seen AS SELECT 1 AS one")
        found = {one.name: one for one in check(parse_upstream(address(vitess, SHARDED)))}
        assert "each shard has its rows" in found["table country"].seen
        assert "looked_up of type consistent_lookup_unique" in found["table found"].seen
        assert {one.severity for name, one in found.items() if name.startswith("table ")} == {Severity.WARNING}
        assert "person" in found["texts"].seen and "seen" in found["views"].seen
        assert found["tables"].seen == "2 of 4 tables can be cached"
    finally:
        vitess.apply_vschema(SHARDED, VSCHEMA)
        for shard in SHARDS:
            vitess.execute("", f"USE `{SHARDED}:{shard}`", "DROP TABLE country, found, person", "DROP VIEW seen")
        vitess.execute(PLAIN, "DROP TABLE l")


def test_what_is_said_of_other_keyspaces(vitess: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At the start, by doctor, and as the reason of a query."""
    vitess.execute(PLAIN, "CREATE TABLE other (id BIGINT PRIMARY KEY)")

    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path) as proxy:
            joined = "SELECT i.id FROM item i JOIN plain.other o ON o.id = i.n WHERE i.id = ?"
            for sql in ("SELECT id FROM plain.other WHERE id = ?", joined):
                with pytest.raises(UnsupportedQuery, match=r"table plain\.other is of another keyspace: .* shop alone"):
                    await proxy.client.create_cache(sql)
            assert not tuple(await proxy.client.query("SELECT id FROM plain.other WHERE id = ?", (1,)))

    try:
        run(scenario)
        assert "other_keyspaces" in (said := capsys.readouterr().out) and "plain" in said
        (found,) = [one for one in check(parse_upstream(address(vitess, SHARDED))) if one.name == "keyspaces"]
        assert "plain" in found.seen and found.severity is Severity.OK
    finally:
        vitess.execute(PLAIN, "DROP TABLE other")


async def others_are_answered(proxy: VitessProxy) -> None:
    await proxy.client.create_cache("SELECT id, n FROM item WHERE id = ?", name="other")
    await proxy.client.cache("other").get(1)
    assert (await proxy.client.cache("other").get(1)).served == "hit"


def test_what_cannot_be_cached(vitess: Cluster, mysql: Server, tmp_path: Path) -> None:
    sql, grpc = f"127.0.0.1:{vitess.sql}", f"127.0.0.1:{vitess.grpc}"
    wrong = {
        f"vitess://root@{sql}/nowhere?grpc={grpc}": (ConfigError, "no keyspace 'nowhere'", "keyspace"),
        f"vitess://root@{sql}/{SHARDED}?grpc={sql}": (SourceDown, "--grpc-port", "stream"),
        f"vitess://root@{sql}/{SHARDED}?grpc=127.0.0.1:1": (SourceDown, "--grpc-port", "stream"),
        f"vitess://root@127.0.0.1:1/{SHARDED}?grpc={grpc}": (SourceDown, "no connection to", ""),
        f"vitess://root@{mysql.host}:{mysql.port}/mysql?grpc={grpc}": (ConfigError, "no vtgate", "vtgate"),
    }
    for url, (error, said, finding) in wrong.items():

        async def scenario(url: str = url) -> None:
            async with running(load_config({"upstream": url, "state-dir": str(tmp_path)}, {}, tmp_path)):
                raise AssertionError("it runs")

        with pytest.raises(error) as raised:
            run(scenario)
        assert said in raised.value.message and "\n" not in raised.value.message, url
        if finding:
            found = [one for one in check(parse_upstream(url)) if one.severity is Severity.ERROR]
            assert [one.name for one in found] == [finding] and found[0].needed, url
        else:
            with pytest.raises(SourceDown):
                check(parse_upstream(url))
