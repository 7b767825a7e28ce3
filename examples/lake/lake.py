"""A table of MySQL in a lake: a snapshot and its changes as Parquet, from which it is rebuilt (see README.md).

python -m examples.lake.lake follow --table lobsters.votes --folder FOLDER [--until-now]
python -m examples.lake.lake [follow --until-now] compare --table lobsters.votes --folder FOLDER
"""

from __future__ import annotations

import argparse
import os
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql
from pyspark.sql import functions as f
from pyspark.sql.types import DecimalType, StructType
from pyspark.sql.window import Window

from bulk.session import SparkSettings, open_session, why_unavailable
from external_upquery.address import Upstream, parse_upstream
from upwell.spark import FORMAT, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDER = ("transaction", "row")


class Lake:
    """One table in one folder: `snapshot/`, `changes/`, `checkpoint/`, and the position at which it begins."""

    def __init__(self, spark: SparkSession, upstream: Upstream, table: str, folder: Path) -> None:
        self.spark, self.table, self.folder = spark, table, folder
        self._upstream = upstream

    def _mysql(self) -> pymysql.Connection[Any]:
        one = self._upstream
        return pymysql.connect(host=one.host, port=one.port, user=one.user, password=one.password, charset="utf8mb4")

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with self._mysql() as connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(sql)
            return list(cursor.fetchall())

    def _quoted(self) -> str:
        database, _, name = self.table.partition(".")
        return f"`{database}`.`{name}`"

    def rows_now(self) -> list[tuple[Any, ...]]:
        """The table's rows in MySQL."""
        return self.ask(f"SELECT * FROM {self._quoted()}")

    def keys(self) -> list[str]:
        return [str(row[4]) for row in self.ask(f"SHOW KEYS FROM {self._quoted()} WHERE Key_name = 'PRIMARY'")]

    # -- following ----------------------------------------------------------------------------------------------------

    def stream(self, starting: str) -> DataFrame:
        reader = self.spark.readStream.format(FORMAT).option("table", self.table)
        return reader.option("startingPosition", starting).load()

    def begin(self) -> str:
        """The position at which the lake begins. The first time it is read, and a snapshot taken behind it."""
        file = self.folder / "position"
        if not file.exists():
            position = str(self.ask("SELECT @@global.gtid_executed")[0][0]).replace("\n", "")
            columns = self.stream(position).schema["after"].dataType
            assert isinstance(columns, StructType)
            rows = [_as_spark(row, columns) for row in self.rows_now()]
            self.spark.createDataFrame(rows, columns).write.mode("overwrite").parquet(str(self.folder / "snapshot"))
            file.write_text(position)
        return file.read_text()

    def follow(self, until_now: bool) -> None:
        """Writes changes until it is ended; `until_now`: those that are committed by now."""
        writer = self.stream(self.begin()).writeStream.format("parquet").option("path", str(self.folder / "changes"))
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        trigger = writer.trigger(availableNow=True) if until_now else writer.trigger(processingTime="0 seconds")
        trigger.start().awaitTermination()

    # -- rebuilding ---------------------------------------------------------------------------------------------------

    def rebuilt(self) -> DataFrame:
        """The table as of the last change that was written."""
        keys = self.keys()
        changes = self.spark.read.parquet(str(self.folder / "changes"))
        emptied = changes.where("operation = 'truncate'").select(*ORDER).orderBy(*ORDER, ascending=False).first()
        snapshot = self.spark.read.parquet(str(self.folder / "snapshot"))
        images = snapshot.select(
            *(f.lit(-1).cast("long").alias(name) for name in (*ORDER, "side")),
            f.lit(True).alias("there"),
            f.struct("*").alias("image"),
        )
        for side, there in (("before", False), ("after", True)):  # a key that is changed goes, and comes as another
            images = images.union(
                changes.where(f.col(side).isNotNull()).select(
                    *ORDER, f.lit(int(there)).cast("long").alias("side"), f.lit(there), f.col(side)
                )
            )
        if emptied is not None:
            images = images.where(f.col(ORDER[0]) > emptied[0])
        newest = Window.partitionBy(*(f.col("image")[key] for key in keys)).orderBy(
            *(f.col(name).desc() for name in (*ORDER, "side"))
        )
        last = images.withColumn("age", f.row_number().over(newest)).where("age = 1 AND there")
        return last.select("image.*")

    def compare(self) -> tuple[int, int]:
        """(rows that only the lake has, or has otherwise than MySQL; rows of MySQL)."""
        rebuilt = self.rebuilt()
        ours = sorted(map(repr, map(tuple, rebuilt.collect())))
        theirs = sorted(repr(_as_spark(row, rebuilt.schema)) for row in self.rows_now())
        return sum(one != other for one, other in zip(ours, theirs, strict=False)) + abs(len(ours) - len(theirs)), len(
            theirs
        )


def _as_spark(row: tuple[Any, ...], columns: StructType) -> tuple[Any, ...]:
    """What PyMySQL gives, in the types of Spark's columns (those of the sample's tables)."""
    return tuple(
        Decimal(value) if value is not None and isinstance(column.dataType, DecimalType) else value
        for value, column in zip(row, columns, strict=True)
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="lake")
    parser.add_argument("what", choices=("follow", "compare"), nargs="+")
    parser.add_argument("--table", required=True, help="database.name")
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--until-now", action="store_true", help="end with what is committed now")
    given = parser.parse_args()
    if why := why_unavailable(SparkSettings()):
        print(f"lake: {why}", file=sys.stderr)
        return 2
    given.folder.mkdir(parents=True, exist_ok=True)
    few = {"spark.sql.shuffle.partitions": "2"}  # as many as tasks run at once
    spark = open_session(SparkSettings(folder=str(given.folder / "spark"), more=few))
    register(spark)
    lake = Lake(spark, parse_upstream(os.environ["UPWELL_UPSTREAM"]), given.table, given.folder)
    try:
        if "follow" in given.what:
            lake.follow(given.until_now)
        if "compare" not in given.what:
            return 0
        different, rows = lake.compare()
        print(f"equal: {rows:,} rows" if not different else f"different: {different:,} of {rows:,} rows")
        return 1 if different else 0
    except KeyboardInterrupt:
        return 0
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
