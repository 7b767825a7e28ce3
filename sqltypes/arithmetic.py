"""MySQL's arithmetic on canonical values that are not NULL. None is returned where MySQL's result is NULL (division by
zero).

Each function takes and gives values of one domain: `int`, `Decimal` (exact, with its scale as exponent) or `float`. A
result outside of the domain's range raises EvaluationError, as MySQL's error 1690 does. Decimals are computed exactly:
Python's default context would round at 28 digits, MySQL has 65.
"""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import NoReturn

from sqltypes.errors import EvaluationError

SIGNED_MIN, SIGNED_MAX = -(2**63), 2**63 - 1
UNSIGNED_MAX = 2**64 - 1
MAX_DIGITS = 65  # of a DECIMAL
MAX_SCALE = 30  # of a DECIMAL
DIVISION_SCALE = 4  # div_precision_increment; the upqueries' sessions have the default
WORD_DIGITS = 9  # MySQL keeps decimals in words of nine digits, and cuts a quotient at a word's end
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
_LIMIT = Decimal(10) ** MAX_DIGITS


def out_of_range(what: str) -> NoReturn:
    """MySQL's error 1690."""
    raise EvaluationError(f"{what} value is out of range")


def signed(value: int) -> int:
    """The value, if it is a BIGINT."""
    if SIGNED_MIN <= value <= SIGNED_MAX:
        return value
    out_of_range("BIGINT")


def unsigned(value: int) -> int:
    """The value, if it is a BIGINT UNSIGNED."""
    if 0 <= value <= UNSIGNED_MAX:
        return value
    out_of_range("BIGINT UNSIGNED")


def finite(value: float) -> float:
    """The value, if it is a DOUBLE."""
    if math.isfinite(value):
        return value
    out_of_range("DOUBLE")


def bounded(value: Decimal) -> Decimal:
    """The value, if its digits fit a DECIMAL."""
    if value.adjusted() - _exponent(value) < MAX_DIGITS and -_LIMIT < value < _LIMIT:
        return value
    out_of_range("DECIMAL")


def _exponent(value: Decimal) -> int:
    return min(int(value.as_tuple().exponent), 0)


def scale_of(value: int | Decimal) -> int:
    """Digits behind the point."""
    return 0 if isinstance(value, int) else -_exponent(value)


def decimal_add(left: int | Decimal, right: int | Decimal) -> Decimal:
    """left + right, with the larger scale."""
    return bounded(_EXACT.add(left, right))


def decimal_subtract(left: int | Decimal, right: int | Decimal) -> Decimal:
    """left - right, with the larger scale."""
    return bounded(_EXACT.subtract(left, right))


def decimal_multiply(left: int | Decimal, right: int | Decimal) -> Decimal:
    """left * right, with the sum of the scales. There is no negative zero."""
    return bounded(_positive_zero(_EXACT.multiply(left, right)))


def _positive_zero(value: Decimal) -> Decimal:
    return value if value else value.copy_abs()


def rescale(value: int | Decimal, scale: int) -> Decimal:
    """The value with `scale` digits behind the point, rounded half away from zero as MySQL rounds decimals."""
    return _positive_zero(Decimal(value).quantize(Decimal((0, (1,), -scale)), context=_EXACT))


def decimal_divide(left: int | Decimal, right: int | Decimal, scale: int) -> Decimal | None:
    """left / right with `scale` digits: cut at the end of MySQL's word of digits, then rounded half away from zero."""
    if not right:
        return None
    left_scale, right_scale = scale_of(left), scale_of(right)
    left_words, right_words = _words(left_scale), _words(right_scale)
    more = max(0, DIVISION_SCALE - (left_words - left_scale) - (right_words - right_scale))
    kept = _words(left_words + right_words + more)
    quotient = _EXACT.divide(Decimal(left), Decimal(right))
    cut = quotient.quantize(Decimal((0, (1,), -kept)), rounding=ROUND_DOWN, context=_EXACT)
    return bounded(rescale(cut, scale))


def _words(scale: int) -> int:
    return -(-scale // WORD_DIGITS) * WORD_DIGITS


def average(total: int | Decimal, count: int, scale: int) -> Decimal | None:
    """AVG of exact values from their SUM and COUNT; `scale` is that of AVG's type. NULL over nothing."""
    return decimal_divide(total, count, scale)


def int_divide(left: int | Decimal, right: int | Decimal) -> int | None:
    """DIV: the quotient cut towards zero."""
    if not right:
        return None
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    return int(_EXACT.divide_int(Decimal(left), Decimal(right)))


def int_modulo(left: int, right: int) -> int | None:
    """The remainder, with the sign of the dividend."""
    if not right:
        return None
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def decimal_modulo(left: int | Decimal, right: int | Decimal, scale: int) -> Decimal | None:
    """The remainder with the sign of the dividend and the larger scale."""
    if not right:
        return None
    return rescale(_EXACT.remainder(Decimal(left), Decimal(right)), scale)


def float_divide(left: float, right: float) -> float | None:
    """left / right."""
    return finite(left / right) if right else None


def float_modulo(left: float, right: float) -> float | None:
    """C's fmod."""
    return math.fmod(left, right) if right else None


def decimal_round_to_int(value: Decimal) -> int:
    """The nearest integer, halves away from zero."""
    return int(rescale(value, 0))


def decimal_fit(value: int | Decimal, precision: int, scale: int) -> Decimal:
    """CAST AS DECIMAL(precision, scale). MySQL clamps what does not fit, with a warning; here it is out of range."""
    fitted = rescale(value, scale)
    if fitted.copy_abs() >= Decimal(10) ** (precision - scale):
        out_of_range(f"DECIMAL({precision},{scale})")
    return fitted
