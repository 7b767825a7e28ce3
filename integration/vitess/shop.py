"""What the tests have in their Vitess, a keyspace of one shard and one of two with a table of items, and who writes."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Self

import pymysql

from gtid_tracker.gtid import GtidSet
from integration.vitess.built import programs
from integration.vitess.cluster import Cluster, running
from sqltypes.schema import Column, SqlType, Table

SHARDS = ("-80", "80-")
PLAIN, SHARDED = "plain", "shop"
TABLES = {"item": {"column_vindexes": [{"column": "id", "name": "hash"}]}}
VSCHEMA = {"sharded": True, "vindexes": {"hash": {"type": "xxhash"}}, "tables": TABLES}
ITEM = Table(
    SHARDED,
    "item",
    (
        Column("id", SqlType("bigint"), False, 0),
        Column("n", SqlType("int"), True, 1),
        Column("name", SqlType("varchar", length=20, collation="utf8mb4_0900_ai_ci"), True, 2),
    ),
    ("id",),
)
WRITES = (
    "INSERT INTO item (id, n, name) VALUES ({id}, {n}, 'é{n}') ON DUPLICATE KEY UPDATE n = n + 1",
    "UPDATE item SET n = {n} WHERE id = {id}",
    "DELETE FROM item WHERE id = {id}",
    "UPDATE item SET name = 'x{n}' WHERE n % 3 = {n} % 3",
)


@contextmanager
def vitess_with_shop() -> Iterator[Cluster]:
    """`item` is empty. Raises NotObtainable where Vitess cannot be built."""
    with running(programs(), {PLAIN: ("0",), SHARDED: SHARDS}) as cluster:
        cluster.apply_vschema(SHARDED, VSCHEMA)
        cluster.execute(SHARDED, "CREATE TABLE item (id BIGINT PRIMARY KEY, n INT, name VARCHAR(20))")
        yield cluster


def executed(cluster: Cluster, keyspace: str, *shards: str) -> GtidSet:
    """By these shards, or all that there are."""
    found = GtidSet.empty()
    for (of, shard), mysql in cluster.mysqls.items():
        if of == keyspace and (shard in shards or not shards):
            found = found.union(GtidSet.parse(mysql.execute("SELECT @@GLOBAL.gtid_executed")[0][0]))
    return found


class Writer(threading.Thread):
    """Writes through vtgate while the context is open, and goes on where it is refused or loses its connection."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(name="writer", daemon=True)
        self.written = 0
        self._cluster, self._rng, self._ended = cluster, random.Random(seed), threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            with suppress(pymysql.err.MySQLError, OSError), closing(self._cluster.connect(SHARDED)) as connection:
                self._write(connection.cursor())

    def _write(self, cursor: pymysql.cursors.Cursor) -> None:
        while not self._ended.is_set():
            self.written += write(cursor, self._rng, self.written)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self.join()


def write(cursor: pymysql.cursors.Cursor, rng: random.Random, number: int) -> bool:
    """Whether it was done."""
    together = rng.random() < 0.3
    try:
        if together:
            cursor.execute("BEGIN")
        for _ in range(rng.randrange(1, 5)):
            cursor.execute(rng.choice(WRITES).format(id=rng.randrange(60), n=number))
        if together:
            cursor.execute(rng.choice(("COMMIT", "COMMIT", "ROLLBACK")))
    except pymysql.err.MySQLError:  # what is sent to several shards may be refused
        cursor.execute("ROLLBACK")
        return False
    return True
