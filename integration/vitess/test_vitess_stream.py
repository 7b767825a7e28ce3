"""A real VStream, read by our own messages: its rows are those of SELECT."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from time import monotonic
from typing import Any

import grpc
import pytest

from dataflow.messages import Ddl, Gap, StreamEvent, Transaction
from gtid_tracker.gtid import GtidSet, MutableGtidSet
from integration.stream.stream_support import reflect, selected
from integration.vitess.cluster import Cluster
from integration.vitess.shop import ITEM, PLAIN, SHARDED, executed, write
from sqltypes.expression import Row, Value
from sqltypes.schema import Table
from tests.support.type_cases import SQL_MODE, TYPE_CASES
from vstream import vitess_pb2 as pb
from vstream.vitess.assemble import VitessAssembler

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it


LIMIT = 60.0  # seconds


class Reading:
    """Reads a keyspace's stream in a thread, into an assembler. What ends it is in `failed`."""

    def __init__(self, cluster: Cluster, keyspace: str, tables: list[str], sink: Callable[[StreamEvent], None]) -> None:
        self.position = MutableGtidSet()
        self.assembler = VitessAssembler(keyspace, self.position, sink)
        self.failed = ""
        self.begun = threading.Event()
        self._fed = threading.Event()
        self._cluster, self._keyspace = cluster, keyspace
        self._rules = [pb.Rule(match=table, filter=f"SELECT * FROM `{table}`") for table in tables]
        self._shards = len(cluster.shards[keyspace])
        self._ending = False
        self._call: Any = None
        self._thread = threading.Thread(target=self._run, name="vstream")

    def _run(self) -> None:
        address = f"127.0.0.1:{self._cluster.grpc}"
        with grpc.insecure_channel(address, [("grpc.max_receive_message_length", -1)]) as channel:
            call = channel.unary_stream(
                "/vtgateservice.Vitess/VStream",
                request_serializer=pb.VStreamRequest.SerializeToString,
                response_deserializer=pb.VStreamResponse.FromString,
            )
            start = [pb.ShardGtid(keyspace=self._keyspace, gtid="current")]
            while not self._ending:
                self._call = call(
                    pb.VStreamRequest(
                        tablet_type=pb.PRIMARY,
                        vgtid=pb.VGtid(shard_gtids=start),
                        filter=pb.Filter(rules=self._rules),
                        flags=pb.VStreamFlags(heartbeat_interval=1, exclude_keyspace_from_table_name=True),
                    )
                )
                self._read()
                self.assembler.reset()
                start = [
                    pb.ShardGtid(keyspace=keyspace, shard=shard, gtid=gtid)
                    for (keyspace, shard), gtid in self.assembler.positions.items()
                ]

    def _read(self) -> None:
        assert self._call is not None
        try:
            for response in self._call:
                for event in response.events:
                    self.assembler.feed(event)
                self._fed.set()
                if len(self.assembler.positions) == self._shards:
                    self.begun.set()
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.CANCELLED:
                self.failed, self._ending = str(error), True
                self.begun.set()

    def cut(self) -> None:
        """It goes on from where it was."""
        assert self._call is not None
        self._call.cancel()

    def until(self, executed: GtidSet) -> None:
        limit = monotonic() + LIMIT
        while not executed.issubset(self.position.freeze()):
            assert not self.failed and monotonic() < limit, self.failed
            self._fed.wait(0.1)
            self._fed.clear()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        self._thread.start()
        try:
            assert self.begun.wait(30) and not self.failed, self.failed
            yield
        finally:
            self._ending = True
            self.cut()
            self._thread.join()


def typed(rows: list[Row]) -> list[list[tuple[str, Value]]]:
    """With the types, and decimals with their digits."""
    return [
        [(type(one).__name__, str(one) if isinstance(one, Decimal | float) else one) for one in row] for row in rows
    ]


def test_values_of_all_types(vitess: Cluster) -> None:
    mysql = vitess.mysqls[PLAIN, "0"]
    schema = vitess.database(PLAIN)
    names = [f"c{number}" for number in range(len(TYPE_CASES))]
    mysql.execute(
        f"USE `{schema}`",
        *(
            f"CREATE TABLE {name} (id INT AUTO_INCREMENT PRIMARY KEY, v {case.ddl} NULL, tail INT)"
            for name, case in zip(names, TYPE_CASES, strict=True)
        ),
    )
    given: dict[str, list[Row]] = {f"{PLAIN}.{name}": [] for name in names}
    emptied: dict[str, int] = {}

    def sink(event: StreamEvent) -> None:
        assert not isinstance(event, Gap), event
        if isinstance(event, Transaction):
            for change in event.changes:
                given[change.table] += [after for _, after in change.pairs if after is not None]
        elif isinstance(event, Ddl):
            assert event.tables is not None
            for table in event.tables:
                emptied[table] = emptied.get(table, 0) + 1

    reading = Reading(vitess, PLAIN, names, sink)
    tables = {}
    for name in names:
        found = reflect(mysql, schema, name)
        tables[name] = Table(PLAIN, name, found.columns, found.primary_key)
        reading.assembler.want(tables[name], frozenset({"id", "v", "tail"}))
    with reading.under_way():
        for name, case in zip(names, TYPE_CASES, strict=True):
            inserts = [f"INSERT INTO {name} (v, tail) VALUES (({value}), 7)" for value in case.literals]
            mysql.execute(
                f"USE `{schema}`", f"SET sql_mode = '{SQL_MODE}'", *inserts, f"INSERT INTO {name} () VALUES ()"
            )
        reading.until(executed(vitess, PLAIN))
    for name, case in zip(names, TYPE_CASES, strict=True):
        wanted = typed(selected(mysql, reflect(mysql, schema, name)))
        found_rows = typed(given[f"{PLAIN}.{name}"])
        if case.ddl == "JSON":  # what may be a TIME, and is an empty string here, is not given
            assert emptied[f"{PLAIN}.{name}"] == len(wanted) - len(found_rows) < len(wanted) / 2
            assert [row for row in found_rows if row not in wanted] == [], case.ddl
        else:
            assert found_rows == wanted, case.ddl


@pytest.mark.parametrize("seed", [1, 2])
def test_random_transactions_on_two_shards_while_the_stream_is_cut(vitess: Cluster, seed: int) -> None:
    rng = random.Random(seed)
    vitess.execute(SHARDED, "DELETE FROM item")
    held: dict[Value, Row] = {}

    def sink(event: StreamEvent) -> None:
        assert not isinstance(event, Gap | Ddl), event
        if isinstance(event, Transaction):
            for change in event.changes:
                for before, after in change.pairs:
                    if before is not None:
                        assert held.pop(before[0]) == before
                    if after is not None:
                        held[after[0]] = after

    reading = Reading(vitess, SHARDED, ["item"], sink)
    reading.assembler.want(ITEM, frozenset({"id", "n", "name"}))
    with reading.under_way(), closing(vitess.connect(SHARDED)) as connection, connection.cursor() as cursor:
        for number in range(300):
            write(cursor, rng, number)
            if rng.random() < 0.05:
                reading.cut()
        reading.until(executed(vitess, SHARDED))
        cursor.execute("SELECT * FROM item")
        assert held == {row[0]: row for row in cursor.fetchall()} and len(held) > 5
