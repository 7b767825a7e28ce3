"""The change stream as a source of Spark's Structured Streaming: what `upwell/spark.py` does, in the application's
packages.

The driver's part (`Reader`) finds where batches begin and end; a task (`rows_of`) reads one. Both follow the binlog
by `bulk/binlog_follow.py`, which decodes with `vstream/`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from bulk.account import account_of
from bulk.binlog_columns import DATES, schema_of
from bulk.binlog_follow import Stopped
from bulk.binlog_position import Position
from bulk.binlog_rows import Piece, PieceReader
from bulk.binlog_scout import Scout
from external_upquery.address import Upstream, parse_upstream
from external_upquery.mysql.schema_source import SchemaSource
from gtid_tracker.gtid import GtidSet
from sqltypes.errors import ConfigError
from sqltypes.schema import Table
from vstream.binlog.connection import log_in

DEFAULT_BYTES = 64 << 20
EARLIEST, LATEST = "earliest", "latest"
SECRETS = ("password", "user", "host", "port", "upstream", "url")
OPTIONS = ("table", "tables", "startingPosition", "maxTransactionsPerTrigger", "maxBytesPerTrigger", "dates")


@dataclass(frozen=True, slots=True)
class Settings:
    """`tables`: (database, name). `transactions`, `size`: limits of a batch."""

    upstream: Upstream
    tables: tuple[tuple[str, str], ...]
    typed: bool
    starting: str
    transactions: int | None
    size: int
    dates: str


def settings_of(upstream: str, options: Mapping[str, str]) -> Settings:
    """Raises ConfigError."""
    given = {name.lower(): value for name, value in options.items()}
    if shown := [name for name in SECRETS if name in given]:
        raise ConfigError(
            f"the option {shown[0]!r} would be seen in Spark's plans and pages: the address and the account belong into"
            " upwell.spark.register(spark, upstream='mysql://user:password@host:port'), or into the environment"
            " variable UPWELL_UPSTREAM"
        )
    known = {name.lower() for name in OPTIONS}
    if unknown := sorted(set(given) - known):
        raise ConfigError(f"the option {unknown[0]!r} is not known: expected one of {', '.join(OPTIONS)}")
    if ("table" in given) == ("tables" in given):
        raise ConfigError("expected the option 'table' (database.name) or the option 'tables' (several, by commas)")
    named = given.get("tables", "").split(",") if "tables" in given else [given["table"]]
    dates = given.get("dates", DATES[0])
    if dates not in DATES:
        raise ConfigError(f"the option 'dates' is {dates!r}: expected one of {', '.join(DATES)}")
    limit = _number(given, "maxTransactionsPerTrigger")
    return Settings(
        parse_upstream(upstream),
        tuple(_name(name) for name in named),
        "table" in given,
        given.get("startingposition", LATEST),
        limit,
        _number(given, "maxBytesPerTrigger") or DEFAULT_BYTES,
        dates,
    )


def _name(text: str) -> tuple[str, str]:
    database, dot, name = text.strip().partition(".")
    if not database or not dot or not name:
        raise ConfigError(f"{text.strip()!r} is no table: expected database.name")
    return database, name


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"the option {name!r} is {text!r}: expected a whole number from 1 on")
    return int(text)


def reflect(settings: Settings) -> tuple[Table, ...]:
    """The tables as they are now. Raises Stopped for one whose changes are not all in the binlog."""
    source = SchemaSource(settings.upstream)
    try:
        found = source.snapshot_now(settings.tables)
    finally:
        source.close()
    tables = []
    for name in settings.tables:
        key = (name[0].lower(), name[1].lower()) if found.lower_case_table_names else name
        table = found.relations.get(key)
        if not isinstance(table, Table):
            raise ConfigError(f"there is no table {name[0]}.{name[1]}, or the account may not read it")
        if table.cascade_child:
            raise Stopped(
                f"{table.qualified} is changed by foreign keys of other tables (ON DELETE or ON UPDATE CASCADE or SET"
                " NULL), and this server does not write such changes into its binlog"
            )
        tables.append(table)
    return tuple(tables)


def schema(upstream: str, options: Mapping[str, str]) -> StructType:
    settings = settings_of(upstream, options)
    return schema_of(reflect(settings), settings.typed, settings.dates)


class Reader:
    """The driver's part, on one thread. Offsets are those of `Position`."""

    def __init__(self, upstream: str, options: Mapping[str, str], schema: StructType) -> None:
        self._settings = settings_of(upstream, options)
        self._tables = reflect(self._settings)
        if schema_of(self._tables, self._settings.typed, self._settings.dates) != schema:
            raise Stopped("the table was changed while the query was made, or .schema(...) was given: load it again")
        self._scout = Scout(self._settings.upstream, self._tables)
        self._target: GtidSet | None = None

    def initial(self) -> dict[str, Any]:
        """Where a new query begins."""
        starting = self._settings.starting
        session = log_in(account_of(self._settings.upstream))
        session.close()
        if starting.lower() in (EARLIEST, LATEST):
            gtids = session.purged if starting.lower() == EARLIEST else session.executed
        else:
            try:
                gtids = GtidSet.parse(starting)
            except ValueError as error:
                raise ConfigError(
                    f"the option 'startingPosition' is {starting!r}: expected 'earliest', 'latest' or a set of GTIDs"
                    f" ({error})"
                ) from None
        return Position(gtids).as_offset()

    def aim(self) -> None:
        """For the trigger `availableNow`: batches end at what is committed now."""
        self._target = self._scout.executed()[0]

    def latest(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        settings, begin = self._settings, Position.from_offset(start)
        unlimited = isinstance(limit, ReadAllAvailable)
        end = self._scout.latest(
            begin,
            None if unlimited else settings.transactions,
            None if unlimited else settings.size,
            self._target,
        )
        return start if end is begin else end.as_offset()

    def pieces(self, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
        """What tasks read, for `rows_of`; bytes, so that no page and no log of Spark's shows the account."""
        first, last = Position.from_offset(start), Position.from_offset(end)
        if first.gtids == last.gtids:
            return []
        settings = self._settings
        piece = Piece(settings.upstream, first, last, self._tables, settings.typed, settings.dates)
        return [pickle.dumps(piece)]

    def close(self) -> None:
        self._scout.close()


def rows_of(piece: bytes) -> Iterator[pa.RecordBatch]:
    return PieceReader(pickle.loads(piece)).batches()
