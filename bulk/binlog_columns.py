"""Values of the change stream as Spark's types, without loss: the type of each column, and the conversion.

The table in docs/bulk.md says the same in words. A value that a Spark type cannot hold is never changed to fit. Its
column is text from the start; at a date with a zero in it the stream stops and says what to set.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from bulk.binlog_follow import Stopped
from planner.session.virtual_columns import told_by_rows
from sqltypes.expression import Row
from sqltypes.schema import Column, SqlType, Table
from sqltypes.temporal import time_text

DATES = ("typed", "text")
SPARK_DIGITS = 38  # of its DECIMAL

_INTEGERS: dict[tuple[str, bool], DataType] = {
    ("tinyint", False): ByteType(),
    ("tinyint", True): ShortType(),
    ("smallint", False): ShortType(),
    ("smallint", True): IntegerType(),
    ("mediumint", False): IntegerType(),
    ("mediumint", True): IntegerType(),
    ("int", False): IntegerType(),
    ("int", True): LongType(),
    ("bigint", False): LongType(),
    ("bigint", True): DecimalType(20, 0),
    ("year", False): ShortType(),
    ("year", True): ShortType(),
}
_DATES: dict[str, DataType] = {"date": DateType(), "datetime": TimestampNTZType(), "timestamp": TimestampType()}
_OTHERS: dict[str, DataType] = {
    "float": FloatType(),
    "double": DoubleType(),
    "vector": ArrayType(FloatType(), containsNull=False),
}


def spark_type(type_: SqlType, dates: str) -> DataType:
    """The type of a column. `dates`: one of `DATES`."""
    if type_.is_integer:
        return _INTEGERS[type_.name, type_.unsigned]
    if type_.name == "decimal":
        digits = type_.precision or 10
        return DecimalType(digits, type_.scale or 0) if digits <= SPARK_DIGITS else StringType()
    if type_.name == "bit":
        return LongType() if (type_.length or 1) < 64 else DecimalType(20, 0)
    if type_.name in _DATES:
        return _DATES[type_.name] if dates == "typed" else StringType()
    if type_.name in _OTHERS:
        return _OTHERS[type_.name]
    return BinaryType() if type_.is_binary else StringType()


def schema_of(tables: Sequence[Table], typed: bool, dates: str) -> StructType:
    """The rows of the source. `typed`: the columns of the one table; else each row is a map of texts. A VIRTUAL column
    is left out where the reader's session would compute another value than the writer's did."""
    image: DataType = MapType(StringType(), StringType())
    if typed:
        (table,) = tables
        image = StructType([StructField(c.name, spark_type(c.type, dates)) for c in told_by_rows(table)])
    return StructType(
        [
            StructField("gtid", StringType()),
            StructField("committed_at", TimestampType()),
            StructField("transaction", LongType()),
            StructField("row", LongType()),
            StructField("database", StringType()),
            StructField("table", StringType()),
            StructField("operation", StringType()),
            StructField("before", image),
            StructField("after", image),
        ]
    )


Convert = Callable[[Sequence[Any]], pa.Array]


@dataclass(slots=True)
class Images:
    """Rows of one table -> an array of them; None where there is none. `columns`: by their position in a row."""

    type: pa.DataType
    columns: list[tuple[int, Convert]]

    def array(self, rows: Sequence[Row | None]) -> pa.Array:
        missing = pa.array([row is None for row in rows], pa.bool_())
        arrays = [convert([None if row is None else row[at] for row in rows]) for at, convert in self.columns]
        return pa.StructArray.from_arrays(arrays, fields=list(self.type), mask=missing)


def images_of(table: Table, dates: str) -> Images:
    image = schema_of((table,), True, dates)["after"].dataType
    assert isinstance(image, StructType)
    wanted = pa.struct(list(to_arrow_schema(image, timezone="UTC")))
    told = told_by_rows(table)
    types = [field.type for field in wanted]
    converters = [_converter(table, column, type_, dates) for column, type_ in zip(told, types, strict=True)]
    return Images(wanted, [(table.columns.index(column), each) for column, each in zip(told, converters, strict=True)])


def _converter(table: Table, column: Column, wanted: pa.DataType, dates: str) -> Convert:
    type_ = column.type
    if type_.name in _DATES and dates == "typed":
        return _date_converter(f"{table.qualified}.{column.name}", wanted)
    text: Callable[[Any], Any] | None = None
    if type_.name == "decimal" and pa.types.is_string(wanted):
        text = decimal_text
    elif type_.name == "time":
        text = lambda value: time_text(value, type_.scale or 0)  # noqa: E731
    elif type_.name == "vector":
        text = floats
    if text is None:
        return lambda values: pa.array(values, wanted)
    convert = text
    return lambda values: pa.array([None if value is None else convert(value) for value in values], wanted)


def decimal_text(value: Any) -> str:
    return f"{value:f}"


def floats(value: bytes) -> list[float]:
    """A VECTOR's numbers."""
    return list(struct.unpack(f"<{len(value) // 4}f", value))


def _date_converter(name: str, wanted: pa.DataType) -> Convert:
    plain = pa.date32() if pa.types.is_date(wanted) else pa.timestamp("us")

    def convert(values: Sequence[str | None]) -> pa.Array:
        texts = pa.array(values, pa.string())
        try:
            return texts.cast(plain).cast(wanted)
        except pa.ArrowInvalid:
            found = next((value for value in values if value is not None and not _is_date(value, plain)), "")
            raise Stopped(
                f"{name} has {found!r}, which no date of Spark's can be: with .option('dates', 'text') dates and times"
                " are texts as MySQL prints them (the types of the query's rows change with it, so begin a new query)"
            ) from None

    return convert


def _is_date(value: str, plain: pa.DataType) -> bool:
    try:
        pa.array([value], pa.string()).cast(plain)
    except pa.ArrowInvalid:
        return False
    return True


def texts_of(table: Table) -> Callable[[Row], list[tuple[str, str | None]]]:
    """A row as names and texts."""
    columns = [(table.columns.index(column), column.name, _text(column.type)) for column in told_by_rows(table)]

    def texts(row: Row) -> list[tuple[str, str | None]]:
        return [(name, None if row[at] is None else text(row[at])) for at, name, text in columns]

    return texts


def _text(type_: SqlType) -> Callable[[Any], str]:
    if type_.name == "decimal":
        return decimal_text
    if type_.name == "time":
        return lambda value: time_text(value, type_.scale or 0)
    if type_.is_binary:
        return lambda value: value.hex().upper()
    return repr if type_.is_approximate else str
