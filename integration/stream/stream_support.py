"""For tests of the change stream on a real server: a source that collects, and values as SELECT has them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

from dataflow.messages import Gap, Pair, StreamEvent, Transaction
from external_upquery.address import parse_upstream
from external_upquery.mysql.schema_source import SchemaSource
from gtid_tracker.gtid import GtidSet, parse_owned
from integration.servers.private_mysql import Server
from sqltypes.expression import Row
from sqltypes.schema import Column, SqlType, Table
from tests.support.waiting import until
from vstream.binlog.connection import Account
from vstream.binlog.source import BinlogSource


def reflect(server: Server, database: str, name: str) -> Table:
    """The table as the proxy itself sees it."""
    source = SchemaSource(parse_upstream(server.url))
    try:
        found = source.snapshot_now([(database, name)]).relations[database, name]
    finally:
        source.close()
    assert isinstance(found, Table), found
    return found


class Collected(list[StreamEvent]):
    """A sink that keeps everything, and lets a test wait for what it needs."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def __call__(self, event: StreamEvent) -> None:
        self.append(event)
        self._changed.set()

    async def until(self, condition: Callable[[], bool], seconds: float = 30) -> None:
        """Waits until the condition holds; looked at after each event. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def pairs(self, table: str) -> list[Pair]:
        """The changes of a table (`schema.name`), in order."""
        transactions = [event for event in self if isinstance(event, Transaction)]
        return [p for t in transactions for c in t.changes if c.table == table for p in c.pairs]

    def inserted(self, table: str) -> list[Row | None]:
        return [after for _, after in self.pairs(table)]

    @property
    def gaps(self) -> list[Gap]:
        return [event for event in self if isinstance(event, Gap)]


class Stream:
    """A followed server: the source, what it gave, and the server."""

    def __init__(self, server: Server, source: BinlogSource, events: Collected) -> None:
        self.server = server
        self.source = source
        self.events = events

    async def settled(self) -> None:
        """Until rows of all wanted tables are decoded, also where the binlog does not name columns."""
        await until(lambda: self.source.asking.unsettled == 0)

    def want(self, database: str, name: str) -> Table:
        table = reflect(self.server, database, name)
        self.source.want(table, frozenset(column.name for column in table.columns))
        return table

    async def execute(self, *statements: str) -> None:
        await asyncio.to_thread(self.server.execute, *statements)

    async def caught_up(self) -> None:
        """Until the position contains what the server has executed now."""
        (row,) = await asyncio.to_thread(self.server.execute, "SELECT @@global.gtid_executed")
        executed = GtidSet.parse(str(row[0]))
        await self.events.until(lambda: executed.issubset(self.source.position))


@asynccontextmanager
async def follow(server: Server, position: GtidSet | None = None, **options: Any) -> AsyncIterator[Stream]:
    """A started source on the server, closed at the end."""
    account = Account(server.host, server.port, server.user, server.password or "")

    async def ask() -> GtidSet:
        ((owned,),) = await asyncio.to_thread(server.execute, "SELECT @@global.gtid_owned")
        ((executed,),) = await asyncio.to_thread(server.execute, "SELECT @@global.gtid_executed")
        return parse_owned(str(owned)).union(GtidSet.parse(str(executed)))

    source = BinlogSource(account, heartbeat=0.5, ask=ask, **options)
    events = Collected()
    await source.start(events, position)
    try:
        yield Stream(server, source, events)
    finally:
        await source.close()


def selected(server: Server, table: Table) -> list[Row]:
    """The table's rows in canonical form, by way of SELECT: an independent and simple reading."""
    expressions = ", ".join(_expression(column) for column in table.columns)
    query = f"SELECT {expressions} FROM `{table.schema}`.`{table.name}` ORDER BY 1"
    rows = server.execute("SET time_zone = '+00:00'", query)
    return [tuple(_value(c.type, v) for c, v in zip(table.columns, row, strict=True)) for row in rows]


def _expression(column: Column) -> str:
    name, kind = f"`{column.name}`", column.type.name
    if kind in ("date", "datetime", "timestamp", "time", "decimal", "json"):
        return f"CAST({name} AS CHAR)"
    if kind == "float":
        return f"{name} + 0e0"
    if kind in ("bit", "year"):
        return f"{name} + 0"
    if column.type.is_binary:
        return f"HEX({name})"
    return name


def _value(wanted: SqlType, value: Any) -> Any:
    if value is None:
        return None
    if wanted.is_binary:
        return bytes.fromhex(value)
    if wanted.name == "decimal":
        return Decimal(value)
    if wanted.name == "time":
        hours, minutes, seconds = value.lstrip("-").split(":")
        whole, _, fraction = seconds.partition(".")
        size = (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 1_000_000 + int(f"{fraction:0<6}")
        return -size if value.startswith("-") else size
    return value
