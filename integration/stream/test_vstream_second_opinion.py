"""The same transactions read by mysql-replication: an independent reader agrees, for types that it decodes right."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from decimal import Decimal

import pytest
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from dataflow.messages import Pair
from gtid_tracker.gtid import GtidSet
from integration.servers.private_mysql import Server
from integration.stream.stream_support import follow

OwnMySQL = Callable[..., Server]

_COLUMNS = (
    "id INT PRIMARY KEY, a BIGINT, b BIGINT UNSIGNED, c MEDIUMINT, d SMALLINT UNSIGNED, e VARCHAR(40), f DECIMAL(20,6),"
    " g DATETIME(6), h TEXT, i VARBINARY(20), j DOUBLE, k VARCHAR(10) CHARACTER SET latin1"
)


def _row(chance: random.Random, number: int) -> str:
    day = f"{chance.randint(1000, 9999)}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}"
    cells = [
        str(chance.randint(-(2**63), 2**63 - 1)),
        str(chance.randint(0, 2**64 - 1)),
        str(chance.randint(-(2**23), 2**23 - 1)),
        str(chance.randint(0, 65535)),
        f"'{chance.choice('aé漢😀') * chance.randint(0, 40)}'",
        str(Decimal(chance.randint(-(10**20) + 1, 10**20 - 1)) / 10**6),
        f"'{day} 12:34:56.{chance.randint(0, 999999):06d}'",
        f"REPEAT('x', {chance.randint(0, 2000)})",
        f"x'{chance.randbytes(chance.randint(1, 20)).hex()}'",  # an empty one is str to the library
        repr(chance.random() * 1e10),
        "'é€'",
    ]
    return f"({number}, {', '.join('NULL' if chance.random() < 0.2 else cell for cell in cells)})"


def _canonical(values: dict[str, object] | None) -> tuple[object, ...] | None:
    if values is None:
        return None
    return tuple(f"{v:%Y-%m-%d %H:%M:%S.%f}" if hasattr(v, "strftime") else v for v in values.values())


def _by_the_library(mysql: Server, database: str, after: GtidSet) -> list[tuple[object, object]]:
    reader = BinLogStreamReader(
        {"host": mysql.host, "port": mysql.port, "user": mysql.user, "password": mysql.password or ""},
        server_id=random.randint(2**30, 2**31),
        auto_position=str(after).replace("\n", ""),
        only_schemas=[database],
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        blocking=False,
    )
    pairs: list[tuple[object, object]] = []
    for found in reader:
        for row in found.rows:
            if isinstance(found, UpdateRowsEvent):
                pairs.append((_canonical(row["before_values"]), _canonical(row["after_values"])))
            elif isinstance(found, WriteRowsEvent):
                pairs.append((None, _canonical(row["values"])))
            else:
                pairs.append((_canonical(row["values"]), None))
    reader.close()
    return pairs


# The library itself calls the driver in a way that the driver means to drop.
@pytest.mark.filterwarnings("ignore:'db' is deprecated:DeprecationWarning")
def test_an_independent_reader_agrees(own_mysql: OwnMySQL) -> None:
    # A server of its own: the library cannot start from a position in which there are tags.
    mysql, database = own_mysql(), "d"

    async def body() -> tuple[list[Pair], GtidSet]:
        async with follow(mysql) as stream:
            stream.want(database, "t")
            start = stream.source.position
            chance = random.Random(7)
            rows = [_row(chance, number) for number in range(300)]
            await stream.execute(
                "SET sql_mode = ''",
                f"INSERT INTO `{database}`.t VALUES {', '.join(rows[:200])}",
                *(f"INSERT INTO `{database}`.t VALUES {row}" for row in rows[200:]),
                f"UPDATE `{database}`.t SET d = 1, e = 'changed' WHERE id % 3 = 0",
                f"DELETE FROM `{database}`.t WHERE id % 5 = 0",
            )
            await stream.caught_up()
            return stream.events.pairs(f"{database}.t"), start

    mysql.execute(f"CREATE DATABASE `{database}`", f"CREATE TABLE `{database}`.t ({_COLUMNS})")
    ours, start = asyncio.run(body())
    assert len(ours) == 460
    assert _by_the_library(mysql, database, start) == ours
