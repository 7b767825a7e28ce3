"""MySQL's binlog as a source of Spark's Structured Streaming.

    from upwell.spark import register

    register(spark, "mysql://user:password@db.example:3306")
    changes = spark.readStream.format("upwell_binlog").option("table", "shop.orders").load()

Needs `upwell[server,spark]` here and where Spark's tasks run. docs/bulk.md has the options, the columns, and what is
promised. The address travels with the class, as bytes: an option would be seen in Spark's plans and pages.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT = "upwell_binlog"
_HERE = Path(__file__).resolve().parent
_APP_DIR = _HERE / "app" if (_HERE / "app").is_dir() else _HERE.parent
_LOADING = threading.Lock()


def register(spark: SparkSession, upstream: str | None = None, name: str = FORMAT) -> None:
    """Makes `spark.readStream.format(name)` known to this session.

    `upstream`: mysql://user:password@host:port, as `upwell serve` takes it; None: that of the environment variable
    UPWELL_UPSTREAM, or in the file that UPWELL_UPSTREAM_FILE names. Several servers have a `name` each.
    """
    address = upstream or os.environ.get("UPWELL_UPSTREAM")
    if not address and (path := os.environ.get("UPWELL_UPSTREAM_FILE")):
        address = Path(path).read_text().strip()
    if not address:
        raise ValueError("no upstream: expected mysql://user:password@host:port, or UPWELL_UPSTREAM to be set")
    spark.dataSource.register(_source_of(address, name))


def _source_of(address: str, format_: str) -> type[DataSource]:
    """The class is made here so that it is pickled with its address."""

    class Binlog(DataSource):
        @classmethod
        def name(cls) -> str:
            return format_

        def schema(self) -> StructType:
            found: StructType = _application().schema(address, self.options)
            return found

        def streamReader(self, schema: StructType) -> BinlogReader:
            return BinlogReader(address, dict(self.options), schema)

    return Binlog


class BinlogPiece(InputPartition):
    """What a task reads. Its `repr` may be seen in Spark's logs."""

    def __repr__(self) -> str:
        return f"BinlogPiece({len(self.value)} bytes)"


class BinlogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Is sent to tasks, before anything was asked of it."""

    def __init__(self, address: str, options: dict[str, str], schema: StructType) -> None:
        self._arguments = address, options, schema
        self._made: Any = None

    @property
    def _reader(self) -> Any:
        if self._made is None:
            self._made = _application().Reader(*self._arguments)
        return self._made

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(_application().settings_of(*self._arguments[:2]).size)

    def initialOffset(self) -> dict[str, Any]:
        found: dict[str, Any] = self._reader.initial()
        return found

    def prepareForTriggerAvailableNow(self) -> None:
        self._reader.aim()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        found: dict[str, Any] = self._reader.latest(start, limit)
        return found

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [BinlogPiece(piece) for piece in self._reader.pieces(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        rows: Iterator[pyarrow.RecordBatch] = _application().rows_of(partition.value)
        return rows

    def stop(self) -> None:
        if self._made is not None:
            self._made.close()


def _application() -> Any:
    """`bulk/binlog_source.py`. In an installed package it lies out of everybody else's way, and is looked for there
    while it is loaded only."""
    with _LOADING:
        sys.path.insert(0, str(_APP_DIR))
        try:
            module = importlib.import_module("bulk.binlog_source")
        finally:
            sys.path.remove(str(_APP_DIR))
    if not Path(module.__file__ or "").is_relative_to(_APP_DIR):
        raise ImportError(f"{module.__file__} hides Upwell's own package 'bulk'")
    return module
