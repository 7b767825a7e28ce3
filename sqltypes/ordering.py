"""Order as ORDER BY's: NULLs first, strings by collation, ENUM by index, SET by bits; descending is the exact reverse.

A sort in MySQL uses only the first max_sort_length bytes of a PAD SPACE string's weights: at least 1,024 in a session
that has hits (`proxy/mysql/state/session_variables.py`). An index uses all of them. So a longer string has no key in
the order.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import total_ordering
from typing import Any

from sqltypes.collation import pads, sort_key
from sqltypes.errors import EvaluationError, UnprovenString, UnsupportedQuery
from sqltypes.schema import SqlType

Apply = Callable[[Any], Any]
SORTED = 1024  # bytes
MOST_WEIGHTS = 8  # of one character


@total_ordering
class Reversed:
    """Compares the other way round."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)


def order_key(type_: SqlType, nullable: bool, descending: bool) -> Apply | None:
    """What turns a value of the type into a key in the order; None: the value itself.

    Raises UnsupportedQuery for types whose order is not reproduced.
    """
    base = _base(type_)
    numeric = type_.is_numeric or type_.name == "time" or bool(type_.members)
    if descending and type_.name == "decimal":
        base = _negated_decimal  # unary minus would round to the context's 28 digits
    elif descending and numeric:
        base = _negated(base)
    elif descending:
        base = _reversed(base)
    return _with_nulls(base, descending) if nullable else base


def _base(type_: SqlType) -> Apply | None:
    if type_.name == "enum":
        return _indexed({member: index for index, member in enumerate(type_.members, 1)} | {"": 0})
    if type_.name == "set":
        return _bits(type_.members)
    if type_.is_string:
        key = sort_key(type_.collation)
        return key if sorted_whole(type_) else _sorted_key(key, _sorted_weights(type_.collation or ""))
    if type_.name in ("json", "geometry", "vector"):
        raise UnsupportedQuery("order_type", f"the order of {type_.name.upper()} values is not reproduced")
    return None


def sorted_whole(type_: SqlType) -> bool:
    """Whether MySQL surely sorts by the whole of such a string."""
    collation = type_.collation or ""
    if not pads(collation) or type_.members:
        return True
    most = MOST_WEIGHTS if "_unicode_" in collation else 1
    return type_.length is not None and type_.length * most <= _sorted_weights(collation)


def mostly_sorted_whole(type_: SqlType) -> bool:
    """The same, but for strings of characters that have several weights each."""
    collation = type_.collation or ""
    return sorted_whole(type_) or (type_.length is not None and type_.length <= _sorted_weights(collation))


def require_sorted_whole(type_: SqlType) -> Callable[[str | None], None]:
    """What raises UnprovenString for a string that MySQL does not sort by as a whole."""
    key, short = order_key(type_, False, False), _sorted_weights(type_.collation or "") // MOST_WEIGHTS
    assert key is not None, "the type is of a string"

    def require(text: str | None) -> None:
        if text is not None and len(text) > short:
            key(text)

    return require


def _sorted_weights(collation: str) -> int:
    if collation.startswith(("latin1", "ascii")):
        return SORTED
    return SORTED // 3 if collation.endswith("_bin") else SORTED // 2


def _sorted_key(key: Callable[[str], str], most: int) -> Apply:
    def sorted_key(text: str) -> str:
        found = key(text)
        if len(found) > most:
            raise UnprovenString(f"order of a string of {len(found)} characters under PAD SPACE: {text[:40]!r}")
        return found

    return sorted_key


def _indexed(indexes: dict[str, int]) -> Apply:
    def index(value: str) -> int:
        found = indexes.get(value)
        if found is None:
            raise EvaluationError(f"not a member of the ENUM: {value[:40]!r}")
        return found

    return index


def _bits(members: tuple[str, ...]) -> Apply:
    bit = _indexed({member: 1 << position for position, member in enumerate(members)})
    return lambda value: sum(bit(member) for member in value.split(",")) if value else 0


def _negated_decimal(value: Decimal) -> Decimal:
    return value.copy_negate()


def _negated(base: Apply | None) -> Apply:
    if base is None:
        return lambda value: -value
    return lambda value: -base(value)


def _reversed(base: Apply | None) -> Apply:
    return Reversed if base is None else lambda value: Reversed(base(value))


def _with_nulls(base: Apply | None, descending: bool) -> Apply:
    """NULL is below every value; `base` has already reversed the values."""
    null, present = ((1,), 0) if descending else ((0,), 1)
    if base is None:
        return lambda value: null if value is None else (present, value)
    return lambda value: null if value is None else (present, base(value))
