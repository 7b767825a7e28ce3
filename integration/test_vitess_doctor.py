"""`upwell doctor` and the start before a real vtgate, and before what is none: one sentence of what was seen, and what
is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from external_upquery.upstream import parse_upstream
from integration.grpc_app import run
from integration.mysql_server import Server
from integration.vitess.cluster import Cluster
from integration.vitess.proxy import VitessProxy, address, proxy_before
from integration.vitess.shop import PLAIN, SHARDED
from proxy.app import running
from proxy.config import load_config
from proxy.vitess_doctor import check
from sqltypes.errors import ConfigError, SourceDown
from sqltypes.source_checks import Severity
from upwell.errors import UnsupportedQuery

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it


@pytest.mark.parametrize("keyspace", [SHARDED, PLAIN])
def test_a_good_keyspace_has_no_finding(vitess: Cluster, keyspace: str) -> None:
    found = check(parse_upstream(address(vitess, keyspace)))
    assert {one.severity for one in found} == {Severity.OK}, found
    assert [one.name for one in found][:2] == ["vtgate", "keyspace"] and found[-1].name == "stream"
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
