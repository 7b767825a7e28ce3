"""Adds access logs up with Spark. DataFrames alone, so that a cluster and Spark Connect run the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from bulk.access_rows import COLUMNS, LISTED
from bulk.log_files import LogFiles
from bulk.ranking import HOUR, READS_UNIT, SCORE_UNIT, Asked, KeySum, Part, Sums

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

OF_KEYS = ("cache", "database", "query", "key")
OF_PARTS = ("proxy", "cache", "database", "query", "outcome", "reason")


def sums_of(session: SparkSession, logs: LogFiles, asked: Asked) -> Sums:
    """Files that turn out to be damaged are skipped. Raises what Spark raises."""
    while True:
        try:
            return _sums_of(session, logs, asked)
        except Exception:
            if not logs.skip_damaged():
                raise


def _sums_of(session: SparkSession, logs: LogFiles, asked: Asked) -> Sums:
    from pyspark.sql import functions as F

    since = -1 if asked.hours is None else logs.newest - round(asked.hours * HOUR)
    paths = [location_of(file.path) for file in logs.files if file.newest >= since]
    if not paths:
        return Sums([], [])
    schema = ", ".join(f"`{name}` {type_}" for name, type_ in COLUMNS.items())
    reader = session.read.schema(schema).option("parquet.page.verify-checksum.enabled", "true")
    rows = reader.parquet(*paths).withColumn("time", F.unix_micros("time")).filter(F.col("time") >= since)
    parts = [Part(**row) for row in _parts(rows).toArrow().to_pylist()]
    return Sums(parts, [KeySum(**row) for row in _keys(rows, asked, logs.newest).toArrow().to_pylist()])


def location_of(path: Path) -> str:
    """As Spark takes it: characters of patterns stand for themselves."""
    return "file://" + re.sub(r"([\\{}\[\]*?])", r"\\\1", str(path))


def _whole(value: Column, unit: int) -> Column:
    from pyspark.sql import functions as F

    return F.floor(value * float(unit) + 0.5).cast("bigint")


def _parts(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    reason = F.when(F.col("cache").isNull(), F.col("reason")).otherwise("")
    return (
        rows.withColumn("reason", reason)
        .groupBy(*OF_PARTS)
        .agg(
            F.sum(F.when(F.col("outcome") == LISTED, 0).otherwise(1)).alias("rows"),
            F.sum(_whole(F.col("weight"), READS_UNIT)).alias("reads"),
            F.sum(_whole(F.col("weight") * F.col("us"), 1)).alias("us"),
            F.min("time").alias("oldest"),
            F.max("time").alias("newest"),
        )
    )


def _keys(rows: DataFrame, asked: Asked, newest: int) -> DataFrame:
    """The first of each cache."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    hours = (F.lit(newest) - F.col("time")) / float(HOUR)
    weight = F.col("weight") * F.col("keys")
    score = weight * F.pow(F.lit(0.5), hours / asked.half_life)
    added_up = (
        rows.filter(F.col("cache").isNotNull() & F.col("key").isNotNull())
        .groupBy(*OF_KEYS)
        .agg(
            F.sum(_whole(score, SCORE_UNIT)).alias("score"),
            F.sum(_whole(weight, READS_UNIT)).alias("reads"),
        )
    )
    order = Window.partitionBy(*OF_KEYS[:3]).orderBy(F.col("score").desc(), F.col("key"))
    numbered = added_up.withColumn("place", F.row_number().over(order))
    return numbered.filter(F.col("place") <= asked.top).drop("place")
