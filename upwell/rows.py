"""Typed values and rows: Python's on this side, `upwell.v1` messages on the other.

| MySQL | Python |
| --- | --- |
| integers, YEAR, BIT | int |
| DECIMAL | Decimal |
| FLOAT, DOUBLE | float |
| strings, ENUM, SET, JSON | str |
| BINARY, BLOB, GEOMETRY, VECTOR | bytes |
| DATE | date |
| DATETIME | datetime without a zone |
| TIMESTAMP | datetime in UTC, aware |
| TIME | timedelta |
| NULL | None |

A date that Python cannot say, such as 0000-00-00, comes as MySQL's text. Parameters go the same way: a bool is an
integer, a list, tuple or set is the list of an IN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, ClassVar

from upwell.errors import BadParameters
from upwell.v1 import upwell_pb2 as pb

_MICROSECOND = timedelta(microseconds=1)
MOST_DIGITS = 100  # of a Decimal before its point, or zeros behind it


class Row(tuple[Any, ...]):
    """A row: a tuple whose values are also there by column name, `row.title` or `row["title"]`."""

    __slots__ = ()
    columns: ClassVar[tuple[str, ...]] = ()
    _places: ClassVar[dict[str, int]] = {}

    def __getattr__(self, name: str) -> Any:
        try:
            return self[self._places[name]]
        except KeyError:
            raise AttributeError(f"no column {name!r}: there are {', '.join(self.columns)}") from None

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, self._places[key] if isinstance(key, str) else key)

    def asdict(self) -> dict[str, Any]:
        """Values by column name; of two columns with one name the first."""
        return {name: tuple.__getitem__(self, place) for name, place in self._places.items()}

    def __repr__(self) -> str:
        pairs = ", ".join(f"{name}={value!r}" for name, value in zip(self.columns, self, strict=True))
        return f"Row({pairs})"


RowType = type[Row]


def row_type(columns: Sequence[pb.Column]) -> RowType:
    """The type of the rows of these columns."""
    names = tuple(column.name for column in columns)
    places = {name: place for place, name in reversed(list(enumerate(names)))}
    in_order = {name: places[name] for name in names}
    return type("Row", (Row,), {"__slots__": (), "columns": names, "_places": in_order})


class Answer(list[Row]):
    """The rows of an answer, and where they came from.

    `served`: "hit", "miss" or "passed"; `why`: the reason for "passed". `position`: the GTIDs that the rows surely
    reflect. `horizon`: the GTIDs that they may reflect; mostly the same.
    """

    served: str = ""
    cache: str = ""
    position: str = ""
    horizon: str = ""
    why: str = ""
    columns: tuple[str, ...] = ()

    @property
    def one(self) -> Row | None:
        """The only row, None if there is none. Raises ValueError if there are several."""
        if len(self) > 1:
            raise ValueError(f"{len(self)} rows where at most one was expected")
        return self[0] if self else None


@dataclass(frozen=True, slots=True)
class Event:
    """What a subscriber gets: first the snapshot (`added` holds all rows), then one change for each transaction."""

    snapshot: bool
    removed: list[Row]
    added: list[Row]
    position: str


def _time_or_text(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError:  # 0000-00-00, 2026-02-00: MySQL has dates that Python has not
            return text

    return convert


_date = _time_or_text(date.fromisoformat)
_datetime = _time_or_text(datetime.fromisoformat)
_timestamp = _time_or_text(lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC))

_FROM_WIRE: dict[str | None, Callable[[pb.Value], Any]] = {
    None: lambda value: None,
    "null": lambda value: None,
    "int": lambda value: value.int,
    "uint": lambda value: value.uint,
    "double": lambda value: value.double,
    "string": lambda value: value.string,
    "bytes": lambda value: value.bytes,
    "decimal": lambda value: Decimal(value.decimal),
    "date": lambda value: _date(value.date),
    "datetime": lambda value: _datetime(value.datetime),
    "timestamp": lambda value: _timestamp(value.timestamp),
    "time": lambda value: timedelta(microseconds=value.time),
    "json": lambda value: value.json,
    "list": lambda value: [from_wire(item) for item in value.list.values],
}


def from_wire(value: pb.Value) -> Any:
    """The Python value of a message."""
    return _FROM_WIRE[value.WhichOneof("kind")](value)


def rows_from_wire(rows: Iterable[pb.Row], type: RowType) -> list[Row]:
    convert = _FROM_WIRE
    return [type([convert[value.WhichOneof("kind")](value) for value in row.values]) for row in rows]


def to_wire(value: object) -> pb.Value:
    """The message of a Python value. Raises BadParameters for a type that MySQL has no literal for."""
    make = _TO_WIRE.get(type(value))
    if make is None:
        for kind, candidate in _TO_WIRE.items():
            if isinstance(value, kind):
                make = candidate
                break
        else:
            raise BadParameters(
                f"a parameter of type {type(value).__name__}: int, float, Decimal, str, bytes, date, datetime, time,"
                " timedelta, None, and lists of these are accepted"
            )
    return make(value)


def _integer(value: Any) -> pb.Value:
    if -(1 << 63) <= value < 1 << 63:
        return pb.Value(int=int(value))
    if 0 < value < 1 << 64:
        return pb.Value(uint=value)
    raise BadParameters(f"integer {value} has more than 64 bits: give it as a Decimal")


def _decimal(value: Any) -> pb.Value:
    if abs(value.adjusted()) > MOST_DIGITS:  # of a large exponent as many digits would be written
        raise BadParameters(f"decimal {value!s:.100} is not accepted: MySQL has numbers of 65 digits at most")
    return pb.Value(decimal=format(value, "f"))


def _moment(value: Any) -> pb.Value:
    if value.tzinfo is None:
        return pb.Value(datetime=str(value))
    return pb.Value(timestamp=str(value.astimezone(UTC).replace(tzinfo=None)))


def _clock(value: Any) -> pb.Value:
    since = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
    return pb.Value(time=since // _MICROSECOND)


def _list(value: Any) -> pb.Value:
    return pb.Value(list=pb.List(values=[to_wire(item) for item in value]))


# bool before int and datetime before date: the first that fits is taken for subclasses.
_TO_WIRE: dict[type, Callable[[Any], pb.Value]] = {
    type(None): lambda value: pb.Value(null=pb.NULL_VALUE),
    bool: lambda value: pb.Value(int=int(value)),
    int: _integer,
    float: lambda value: pb.Value(double=value),
    str: lambda value: pb.Value(string=str(value)),
    bytes: lambda value: pb.Value(bytes=value),
    bytearray: lambda value: pb.Value(bytes=bytes(value)),
    memoryview: lambda value: pb.Value(bytes=bytes(value)),
    Decimal: _decimal,
    datetime: _moment,
    date: lambda value: pb.Value(date=value.isoformat()),
    time: _clock,
    timedelta: lambda value: pb.Value(time=value // _MICROSECOND),
    list: _list,
    tuple: _list,
    set: _list,
    frozenset: _list,
}


def key_message(parameters: Iterable[object]) -> pb.Key:
    return pb.Key(parameters=[to_wire(value) for value in parameters])
