"""The overview of a proxy beside a keyspace has the position and the lag of each shard."""

from __future__ import annotations

from pathlib import Path
from time import time

from integration.scripted_vtgate.scripted_vitess import ShardServers, scripted_vitess
from integration.support.grpc_app import run
from tests.support.http_calls import call
from tests.support.vitess_events import LEFT, RIGHT


def test_the_overview_has_the_position_of_each_shard(shard_servers: ShardServers, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            began = time()
            before = (await call(vitess.app.http_port, "GET", "/v1/overview"))[1]["source"]["shards"]
            assert before.keys() == {LEFT, RIGHT} and all(shard["position"] for shard in before.values())
            assert [shard["last_at"] for shard in before.values()] == [0, 0] and before[LEFT]["running"] == 0
            await vitess.write(LEFT, "UPDATE item SET n = 7")
            await vitess.caught_up()
            after = (await vitess.app.router.overviews.look()).source.shards
            assert after[LEFT].position != before[LEFT]["position"]
            assert after[RIGHT].position == before[RIGHT]["position"]
            assert after[LEFT].last_at >= began and after[RIGHT].last_at == 0
            assert 0 <= after[LEFT].lag_seconds < 60

    run(scenario)
