"""The overview of a proxy beside a keyspace has the position of each shard."""

from __future__ import annotations

from pathlib import Path

from integration.scripted_vtgate.scripted_vitess import ShardServers, scripted_vitess
from integration.support.grpc_app import run
from tests.support.http_calls import call
from tests.support.vitess_events import LEFT, RIGHT


def test_the_overview_has_the_position_of_each_shard(shard_servers: ShardServers, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scripted_vitess(*shard_servers[:2], tmp_path) as vitess:
            before = (await call(vitess.app.http_port, "GET", "/v1/overview"))[1]["source"]["shards"]
            assert before.keys() == {LEFT, RIGHT} and all(before.values())
            await vitess.write(LEFT, "UPDATE item SET n = 7")
            await vitess.caught_up()
            after = (await vitess.app.router.overviews.look()).source.shards
            assert after[LEFT] != before[LEFT] and after[RIGHT] == before[RIGHT]

    run(scenario)
