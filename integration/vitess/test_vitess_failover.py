"""A shard's primary ends, comes back, or is exchanged for a replica, and the stream of the keyspace goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from integration.servers.mysql_server import Server
from integration.servers.private_mysql import PrivateMySQL
from integration.support.grpc_app import run
from integration.vitess.cluster import Cluster, Replica, catch_up
from integration.vitess.following import Replayed, all_rows, caught_up, following, some_more
from integration.vitess.shop import SHARDED, Writer, executed
from tests.support.waiting import until
from vstream.vitess.stream import VitessStream

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it
SHARD = "-80"


async def has_told_all(cluster: Cluster, stream: VitessStream, replayed: Replayed) -> None:
    """Nothing is missing, nothing came twice, and the stream knows that it has all."""
    await caught_up(cluster, stream)
    rows = await asyncio.to_thread(all_rows, cluster)
    assert replayed.rows == {row[0]: row for row in rows} and len(rows) > 5
    await until(lambda: stream.lag() == 0.0 and stream.age() < 5)


def exchanged(cluster: Cluster, replica: Replica) -> None:
    """As planned: nothing is written meanwhile, and nothing is lost."""
    old = cluster.mysqls[SHARDED, SHARD]
    old.execute("SET GLOBAL super_read_only = 1")
    catch_up(replica.mysql, old)
    cluster.promote(SHARDED, SHARD, replica)


def died(cluster: Cluster) -> Server:
    """Its tablet and its MySQL at once."""
    cluster.kill_tablet(SHARDED, SHARD)
    mysql = cluster.mysqls[SHARDED, SHARD]
    mysql.kill()
    return mysql


def restarted_tablet(cluster: Cluster) -> None:
    cluster.kill_tablet(SHARDED, SHARD)
    cluster.start_tablet(SHARDED, SHARD)


def restarted_mysql(cluster: Cluster) -> None:
    mysql = cluster.mysqls[SHARDED, SHARD]
    assert isinstance(mysql, PrivateMySQL)
    mysql.kill()
    mysql.start()
    cluster.until("vtgate", lambda: bool(cluster.shown("SELECT COUNT(*) FROM item", SHARDED)))


def exchanged_as_planned(cluster: Cluster) -> None:
    exchanged(cluster, cluster.add_replica(SHARDED, SHARD))


def exchanged_after_death(cluster: Cluster) -> None:
    """The replica has got all before."""
    replica = cluster.add_replica(SHARDED, SHARD)
    old = cluster.mysqls[SHARDED, SHARD]
    old.execute("SET GLOBAL super_read_only = 1")
    catch_up(replica.mysql, old)
    died(cluster)
    cluster.promote(SHARDED, SHARD, replica)


@pytest.mark.parametrize(
    "happens",
    [restarted_tablet, restarted_mysql, exchanged_as_planned, exchanged_after_death],
    ids=lambda it: it.__name__,
)
def test_nothing_is_lost_and_nothing_comes_twice(own_vitess: Cluster, happens: Callable[[Cluster], None]) -> None:
    replayed = Replayed()

    async def scenario() -> None:
        async with following(own_vitess, replayed) as stream:
            replayed.begin_from(await asyncio.to_thread(all_rows, own_vitess))
            with Writer(own_vitess, 1) as writer:
                await some_more(writer)
                await asyncio.to_thread(happens, own_vitess)
                await some_more(writer)
            await has_told_all(own_vitess, stream, replayed)
            assert not replayed.gaps

    run(scenario)


def test_a_replica_that_lacks_the_last_transactions_takes_over(own_vitess: Cluster) -> None:
    """What was streamed is no more: everything becomes a hole, and the numbers that were lost may be given again."""
    replayed = Replayed()

    async def scenario() -> None:
        async with following(own_vitess, replayed) as stream:
            replayed.begin_from(await asyncio.to_thread(all_rows, own_vitess))
            replica = await asyncio.to_thread(own_vitess.add_replica, SHARDED, SHARD)
            replica.mysql.execute("STOP REPLICA IO_THREAD")
            with Writer(own_vitess, 2) as writer:
                await some_more(writer)
            await caught_up(own_vitess, stream)
            await asyncio.to_thread(died, own_vitess)
            before = stream.position
            await asyncio.to_thread(own_vitess.promote, SHARDED, SHARD, replica)
            lost = before.difference(await asyncio.to_thread(executed, own_vitess, SHARDED))
            assert lost.count() > 5
            await until(lambda: len(replayed.gaps) == 2)  # when it is found out, and when the stream has begun anew
            assert stream.connected and "have lost what they had told" in replayed.gaps[0].reason
            assert not replayed.gaps[1].position.intersection(lost) and replayed.gaps[1].position == stream.position
            replayed.begin_from(await asyncio.to_thread(all_rows, own_vitess))
            with Writer(own_vitess, 3) as writer:
                await some_more(writer)
            await has_told_all(own_vitess, stream, replayed)
            assert not replayed.gaps

    run(scenario)
