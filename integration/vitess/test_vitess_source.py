"""The stream of a keyspace, followed from a real vtgate: through cut connections and vtgate's restart, and what is said
where there is none to follow."""

from __future__ import annotations

import asyncio
import random
from contextlib import closing

import pytest

from dataflow.messages import Ddl, Gap, StreamEvent, Transaction
from integration.support.grpc_app import run
from integration.vitess.cluster import Cluster
from integration.vitess.shop import ITEM, SHARDED, executed, write
from sqltypes.errors import ConfigError, SourceDown, UpwellError
from sqltypes.expression import Row, Value
from tests.support.waiting import until
from vstream.source import ChangeSource
from vstream.vitess.stream import VitessStream

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it


class Held:
    """What the stream has told of `item`, which is empty at first."""

    def __init__(self) -> None:
        self.rows: dict[Value, Row] = {}

    def __call__(self, event: StreamEvent) -> None:
        assert not isinstance(event, Gap | Ddl), event
        if isinstance(event, Transaction):
            for change in event.changes:
                for before, after in change.pairs:
                    if before is not None:
                        assert self.rows.pop(before[0]) == before
                    if after is not None:
                        self.rows[after[0]] = after


def test_writes_go_on_through_what_happens_to_the_stream(vitess: Cluster) -> None:
    rng, held = random.Random(5), Held()
    vitess.execute(SHARDED, "DELETE FROM item")

    def some_writes() -> None:
        with closing(vitess.connect(SHARDED)) as connection, connection.cursor() as cursor:
            for number in range(100):
                write(cursor, rng, number)

    async def scenario() -> None:
        stream = VitessStream(f"127.0.0.1:{vitess.grpc}", SHARDED)
        as_any_other: ChangeSource = stream
        assert as_any_other.skew == 0.0
        assert stream.history == ""
        start = await stream.start(held)
        assert start == stream.position and stream.connected and stream.history == f"keyspace {SHARDED}"
        stream.want(ITEM, frozenset({"id", "n", "name"}))
        for interrupted in (False, True, True, False):
            await asyncio.to_thread(some_writes)
            if interrupted:
                before = stream.pauses.count
                stream.reconnect("a test")
                await until(lambda before=before: stream.pauses.count > before)  # type: ignore[misc]
        await asyncio.to_thread(vitess.restart_vtgate)
        await asyncio.to_thread(some_writes)
        goal = await asyncio.to_thread(executed, vitess, SHARDED)
        await until(lambda: goal.issubset(stream.position), 60)
        await until(lambda: stream.lag() == 0.0 and stream.age() < 3)  # vtgate's heartbeat says that nothing comes
        rows = await asyncio.to_thread(vitess.execute, SHARDED, "SELECT id, n, name FROM item")
        assert held.rows == {row[0]: row for row in rows} and len(rows) > 5
        await stream.close()

    run(scenario)


@pytest.mark.parametrize(
    ("port", "keyspace", "error", "said"),
    [
        ("nobody's", SHARDED, SourceDown, "vtgate's gRPC is not at"),
        ("sql", SHARDED, SourceDown, "vtgate's gRPC is not at"),
        ("grpc", "nosuch", ConfigError, "vtgate gives no stream of keyspace 'nosuch'"),
    ],
)
def test_where_there_is_nothing_to_follow(
    vitess: Cluster, port: str, keyspace: str, error: type[UpwellError], said: str
) -> None:
    number = {"nobody's": 1, "sql": vitess.sql, "grpc": vitess.grpc}[port]

    async def scenario() -> None:
        with pytest.raises(error, match=said):
            await VitessStream(f"127.0.0.1:{number}", keyspace).start(lambda event: None)

    run(scenario)
