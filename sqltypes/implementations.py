"""What the strict operators and functions compute: Python functions over values that are not NULL.

Strict: NULL if any argument is NULL. The interpreter and the compiled form call the same functions; the real MySQL is
their oracle (`integration/planner_truth/test_expressions_mysql.py`). The operators that treat NULL otherwise are in
`interpreter.py`.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

from sqltypes import arithmetic
from sqltypes.arithmetic import finite, signed, unsigned
from sqltypes.casts import conversion, no_partial, no_zero
from sqltypes.collation import character_set, encodes, key_function, sort_key
from sqltypes.errors import EvaluationError, UnprovenString
from sqltypes.expression import Call, Expr, Literal, Value
from sqltypes.schema import SqlType
from sqltypes.spellings import one_spelling
from sqltypes.temporal import comparable

Function = Callable[..., Value]
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<=>": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def comparison_key(type_: SqlType, ordered: bool = False) -> Callable[[Any], Any] | None:
    """What to apply to values of the type before Python compares them; None: nothing.

    `ordered`: for < and its kind. In aligned comparisons ENUM and SET compare as strings.
    """
    if not type_.is_string:
        return None
    found = sort_key(type_.collation) if ordered else key_function(type_.collation)
    return None if found is key_function("binary") else found


def implementation(call: Call) -> Function:
    """The function of a strict call. It may raise EvaluationError."""
    maker = _MAKERS.get(call.op)
    if maker is None:
        raise AssertionError(f"not a strict operator: {call.op}")
    return maker(call)


# ---------------------------------------------------------------------------------------------------------- arithmetic

_EXACT: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "+": (operator.add, arithmetic.decimal_add),
    "-": (operator.sub, arithmetic.decimal_subtract),
    "*": (operator.mul, arithmetic.decimal_multiply),
}


def _arithmetic(call: Call) -> Function:
    of_int, of_decimal = _EXACT[call.op]
    if call.type.is_approximate:
        return lambda left, right: finite(of_int(left, right))
    if call.type.name == "decimal":
        return of_decimal
    if call.type.unsigned:
        return lambda left, right: unsigned(of_int(left, right))
    return lambda left, right: signed(of_int(left, right))


def _divide(call: Call) -> Function:
    if call.type.is_approximate:
        return arithmetic.float_divide
    scale = call.type.scale or 0
    return lambda left, right: arithmetic.decimal_divide(left, right, scale)


def _int_divide(call: Call) -> Function:
    within = unsigned if call.type.unsigned else signed

    def divide(left: int | Decimal, right: int | Decimal) -> int | None:
        quotient = arithmetic.int_divide(left, right)
        if quotient is None:
            return None
        if quotient == arithmetic.SIGNED_MIN and isinstance(left, int) and isinstance(right, int):
            arithmetic.out_of_range("BIGINT")  # MySQL divides the absolute values, and none has this one
        return within(quotient)

    return divide


def _modulo(call: Call) -> Function:
    if call.type.is_approximate:
        return arithmetic.float_modulo
    if call.type.name == "decimal":
        scale = call.type.scale or 0
        return lambda left, right: arithmetic.decimal_modulo(left, right, scale)
    return arithmetic.int_modulo


def _negate(call: Call) -> Function:
    if call.type.name == "decimal":
        return lambda value: value.copy_negate() if value else value
    return operator.neg if call.type.is_approximate else lambda value: signed(-value)


def _absolute(call: Call) -> Function:
    if call.type.is_approximate:
        return abs
    if call.type.name == "decimal":
        return lambda value: value.copy_abs()
    return abs if call.type.unsigned else lambda value: signed(abs(value))


def _sign(call: Call) -> Function:
    return lambda value: (value > 0) - (value < 0)


def _floor(call: Call) -> Function:
    if call.type.is_approximate:
        return lambda value: math.copysign(math.floor(value), value)
    return math.floor


def _ceil(call: Call) -> Function:
    if call.type.is_approximate:
        return lambda value: math.copysign(math.ceil(value), value)  # of -0.5 and -0.0 it is -0.0
    return math.ceil


def _extreme(call: Call) -> Function:
    """Of strings that are equal under the collation, and of 0.0 and -0.0, LEAST gives the first, GREATEST the last."""
    key = comparison_key(call.type, ordered=True)
    if call.op == "least":
        return min if key is None else lambda *values: min(values, key=key)
    if key is None and not call.type.is_approximate:
        return max
    return lambda *values: max(reversed(values), key=key)


# --------------------------------------------------------------------------------------------------------- conversions


def _cast(call: Call) -> Function:
    return conversion(call.args[0].type, call.type)


def _collate(call: Call) -> Function:
    charset = character_set(call.type.collation or "")

    def collate(value: str) -> str:
        if encodes(charset, value):
            return value
        raise UnprovenString(f"a string is not representable in {charset}: {value[:40]!r}")

    return collate


_DOUBTFUL_DAYS = frozenset({"00", "29", "30", "31"})


def _comparable(call: Call) -> Function:
    return _whole_date if call.args[0].type.name == "date" else comparable


def _whole_date(value: str) -> str:
    """A DATE beside a date-time. MySQL makes a date-time of it, of 2024-02-00 and 2024-02-30 by the sql_mode."""
    if value[8:] in _DOUBTFUL_DAYS or value[5:7] == "00":
        try:
            date.fromisoformat(value)
        except ValueError:
            if value != "0000-00-00":
                raise EvaluationError(f"a date that is none is compared with a date-time: {value}") from None
    return value


# ------------------------------------------------------------------------------------------------------------- strings


def _length(call: Call) -> Function:
    type_ = call.args[0].type
    if type_.is_binary or character_set(type_.collation or "") in ("latin1", "ascii"):
        return len
    return lambda value: len(value.encode())


def _char_length(call: Call) -> Function:
    return len


def _ascii_only(value: str) -> str:
    if value.isascii():
        return value
    raise UnprovenString(f"a string with characters other than ASCII: {value[:40]!r}")


def _lower(call: Call) -> Function:
    return lambda value: _ascii_only(value).lower()


def _upper(call: Call) -> Function:
    return lambda value: _ascii_only(value).upper()


def _concat(call: Call) -> Function:
    return lambda *values: "".join(values)


def _like(call: Call) -> Function:
    subject, pattern = call.args[:2]
    exact = (
        subject.type.is_binary or (subject.type.collation or "").endswith("_bin") or subject.type.collation == "binary"
    )
    escape = _escape(call.args)
    if isinstance(pattern, Literal):
        return matcher(pattern.value, escape, exact)
    held: dict[Value, Callable[[Any, Any], int]] = {}

    def like(value: str | bytes, wanted: str | bytes) -> int:
        found = held.get(wanted)
        if found is None:
            held.clear()  # one at a time: a parameter's pattern is the same for a whole answer
            found = held[wanted] = matcher(wanted, escape, exact)
        return found(value, wanted)

    return like


def _escape(args: tuple[Expr, ...]) -> str:
    return str(args[2].value) if len(args) > 2 and isinstance(args[2], Literal) else "\\"


LONGEST_PATTERN = 500  # characters: a regular expression of them is made in a millisecond or two
MOST_LIKE = 2_000_000  # characters of a value times those of a pattern: three milliseconds where nothing fits


def matcher(pattern: Any, escape: str, exact: bool) -> Callable[..., int]:
    """LIKE's test of (value, *ignored) for one pattern. Not `exact`: without case, of ASCII only.

    Raises UnprovenString, here or in the test, where it cannot be sure, or would take long.
    """
    length = len(pattern)
    if length > LONGEST_PATTERN:
        raise UnprovenString(f"LIKE with a pattern of {length} characters")

    def short(value: Any) -> Any:
        if len(value) * length > MOST_LIKE:
            raise UnprovenString(f"LIKE over {len(value)} characters with a pattern of {length}")
        return value

    if isinstance(pattern, bytes):
        test = re.compile(_regex(pattern.decode("latin1"), escape).encode("latin1"), re.DOTALL)
        return lambda value, *_: int(test.fullmatch(short(value)) is not None)
    source = _regex(pattern, escape)
    if exact:
        text = re.compile(source, re.DOTALL)
        return lambda value, *_: int(text.fullmatch(short(value)) is not None)
    _plain(pattern)
    folded = re.compile(source, re.DOTALL | re.IGNORECASE | re.ASCII)
    return lambda value, *_: int(folded.fullmatch(_plain(short(value))) is not None)


_WEIGHTED_ASCII = re.compile(r"[\t-\r -~]*")  # the rest of ASCII has no weight in Unicode collations


def has_weights(value: str) -> bool:
    """Whether LIKE over the string is reproduced, where a collation folds case."""
    return _WEIGHTED_ASCII.fullmatch(value) is not None


def _plain(value: str) -> str:
    if has_weights(value):
        return value
    raise UnprovenString(f"LIKE over characters other than printable ASCII: {value[:40]!r}")


def _regex(pattern: str, escape: str) -> str:
    """Takes each piece between two `%` at the first place where it fits, and never tries another: if the rest fits
    after a later place, it fits after the first one, too. Otherwise the time would grow with the power of the number of
    `%`."""
    pieces: list[list[str]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            pieces[-1].append(re.escape(next(characters, escape)))
        elif character == "%":
            pieces.append([])
        elif character == "_":
            pieces[-1].append(".")
        else:
            pieces[-1].append(re.escape(character))
    first, *others = ("".join(piece) for piece in pieces)
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>.*?{piece})" for piece in middle if piece) + ".*" + last


_MAKERS: dict[str, Callable[[Call], Function]] = {
    "+": _arithmetic,
    "-": _arithmetic,
    "*": _arithmetic,
    "/": _divide,
    "div": _int_divide,
    "%": _modulo,
    "neg": _negate,
    "abs": _absolute,
    "sign": _sign,
    "floor": _floor,
    "ceil": _ceil,
    "greatest": _extreme,
    "least": _extreme,
    "cast": _cast,
    "widen": _cast,
    "no_zero": lambda call: no_zero,
    "no_partial": lambda call: no_partial,
    "one_spelling": lambda call: one_spelling,
    "collate": _collate,
    "comparable": _comparable,
    "length": _length,
    "char_length": _char_length,
    "lower": _lower,
    "upper": _upper,
    "concat": _concat,
    "like": _like,
}

__all__ = [
    "COMPARE",
    "LONGEST_PATTERN",
    "EvaluationError",
    "comparison_key",
    "has_weights",
    "implementation",
    "matcher",
]
