"""Values as JSON, and parameters as callers of HTTP give them. docs/http.md has the table."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from proxy.grpc.rows import value_kind
from proxy.port.api import ParameterInfo
from sqltypes.errors import BadParameters
from sqltypes.expression import Row, Value
from sqltypes.schema import ResultColumn, SqlType
from sqltypes.temporal import time_literal
from upwell.errors import BadParameters as NotAccepted
from upwell.key_text import value_of
from upwell.rows import key_message
from upwell.v1 import upwell_pb2 as pb

VALUES = 5_000  # of one key and its lists: it is read in one step
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")  # Python takes 1_0, and other digits
EXACT = (1 << 53) - 1  # of integers: JavaScript has those up to it, and makes others of larger ones


def _integer(value: int) -> int | str:
    return value if -EXACT <= value <= EXACT else str(value)


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _decimal(value: str | Decimal) -> str:
    return value if isinstance(value, str) else format(value, "f")


_SPELLED: dict[str, Callable[[Any], object]] = {
    "int": _integer,
    "uint": _integer,
    "bytes": _bytes,
    "decimal": _decimal,
    "time": time_literal,
    "null": lambda value: None,
}
"""By the kind of a `Value`; the others are as they are."""


def _as_it_is(value: object) -> object:
    return value


def of_wire(row: pb.Row) -> list[object]:
    """A row of an answer."""
    kinds = [(value, value.WhichOneof("kind")) for value in row.values]
    return [_SPELLED.get(str(kind), _as_it_is)(getattr(value, str(kind))) for value, kind in kinds]


class Spelling:
    """Of rows of these columns, as a subscription has them."""

    def __init__(self, columns: Sequence[ResultColumn]) -> None:
        self.columns = [{"name": column.name, "type": column.type.name} for column in columns]
        self._each = [_SPELLED.get(value_kind(column.type), _as_it_is) for column in columns]

    def row(self, row: Row) -> list[object]:
        return [None if value is None else spell(value) for spell, value in zip(self._each, row, strict=True)]

    def one(self, place: int, value: Value) -> object:
        """A value of the column at that place."""
        return None if value is None else self._each[place](value)


def text(value: object) -> str:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# -- parameters --------------------------------------------------------------------------------------------------------


def key_of_texts(given: Sequence[str], parameters: Sequence[ParameterInfo]) -> pb.Key:
    """A key of the texts that an address has: numbers where the cache has numbers. Raises BadParameters."""
    types: Iterable[SqlType | None] = (parameter.type for parameter in parameters)
    padded = [*types, *[None] * len(given)]
    try:
        return key_message(_of_text(one, type_) for one, type_ in zip(given, padded, strict=False))
    except NotAccepted as error:
        raise BadParameters(str(error)) from None


def seconds(given: object) -> float:
    """Raises TypeError, ValueError, ArithmeticError."""
    if isinstance(given, str) and not _NUMBER.fullmatch(given):
        raise ValueError
    return float(given)  # type: ignore[arg-type]  # else it raises TypeError


def _of_text(given: str, type_: SqlType | None) -> object:
    """What is no number stays a text: whoever reads it says what would be accepted."""
    make: Callable[[str], object] = str
    if type_ is not None and (type_.is_integer or type_.name == "bit"):
        make = int
    elif type_ is not None and type_.is_approximate:
        make = float
    elif type_ is not None and type_.name == "decimal":
        make = Decimal
    try:
        return make(given) if _NUMBER.fullmatch(given) else given
    except (ValueError, ArithmeticError):
        return given


def key_of_json(given: object) -> pb.Key:
    """A key as JSON: its parameters in a list, or the only one. Raises BadParameters."""
    parameters = given if isinstance(given, list) else [given]
    try:
        if (values := _values(parameters)) > VALUES:
            raise BadParameters(f"a key of {values} values: up to {VALUES} are accepted")
        return key_message(map(value_of, parameters))
    except RecursionError:
        raise BadParameters("a key with lists in lists of lists is not accepted") from None
    except (ValueError, NotAccepted) as error:
        raise BadParameters(f"the key {json.dumps(given):.200} is not accepted: {error}") from None


def _values(given: list[object]) -> int:
    return sum(_values(one) if isinstance(one, list) else 1 for one in given)
