"""The binlog's bytes of one value -> its canonical form (the table in `sqltypes/schema.py`). Pure functions.

Dates and times are packed bit fields, big-endian where they are "2" types; fractions come in units of two digits.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

_TWO = tuple(f"{n:02d}" for n in range(100))
_MINUTES = tuple(f" {m >> 6:02d}:{m & 63:02d}:" for m in range(2048))
_DATETIME_OFFSET = 0x8000000000
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_DAYS: dict[int, str] = {}  # days that were printed already: a stream names few different ones
_EPOCH_DAYS: dict[int, str] = {}
_CACHED_DAYS = 20_000

int_from = int.from_bytes


def date(raw: bytes) -> str:
    packed = int_from(raw, "little")
    return f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}"


def datetime_text(digits: int) -> Callable[[bytes], str]:
    """DATETIME(digits)."""
    if digits == 0:

        def whole(raw: bytes) -> str:
            packed = int_from(raw, "big") - _DATETIME_OFFSET
            day = packed >> 17
            return (_DAYS.get(day) or _day(day)) + _MINUTES[packed >> 6 & 2047] + _TWO[packed & 63]

        return whole
    stored = (digits + 1) // 2 * 2
    bits = stored * 4
    offset, mask = _DATETIME_OFFSET << bits, (1 << bits) - 1
    pattern = f"%s%s%s.%0{stored}d"
    size = 20 + digits

    def fractional(raw: bytes) -> str:
        packed = int_from(raw, "big") - offset
        whole = packed >> bits
        day = whole >> 17
        text = pattern % (_DAYS.get(day) or _day(day), _MINUTES[whole >> 6 & 2047], _TWO[whole & 63], packed & mask)
        return text if stored == digits else text[:size]

    return fractional


def _day(day: int) -> str:
    year, month = divmod(day >> 5, 13)
    text = f"{year:04d}-{month:02d}-{day & 31:02d}"
    if len(_DAYS) < _CACHED_DAYS:
        _DAYS[day] = text
    return text


def timestamp_text(digits: int) -> Callable[[bytes], str]:
    """TIMESTAMP(digits), in UTC; zero is MySQL's zero date."""
    fraction = fraction_text(digits)

    def text(raw: bytes) -> str:
        seconds = int_from(raw[:4], "big")
        if seconds == 0:
            return "0000-00-00 00:00:00" + fraction(raw[4:])
        days, rest = divmod(seconds, 86400)
        hours, rest = divmod(rest, 3600)
        day = _EPOCH_DAYS.get(days) or _epoch_day(days)
        return day + _MINUTES[hours << 6 | rest // 60] + _TWO[rest % 60] + fraction(raw[4:])

    return text


def _epoch_day(days: int) -> str:
    # Days since 1970-01-01 to the civil calendar: shifted to 0000-03-01, so that the leap day ends a year.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    text = f"{year:04d}-{month:02d}-{day_of_year - (153 * shifted + 2) // 5 + 1:02d}"
    if len(_EPOCH_DAYS) < _CACHED_DAYS:
        _EPOCH_DAYS[days] = text
    return text


def fraction_text(digits: int) -> Callable[[bytes], str]:
    """The point and the digits behind it; the bytes count in units of 2, 4 or 6 digits."""
    if digits == 0:
        return lambda raw: ""
    stored = (digits + 1) // 2 * 2
    return lambda raw: f".{int_from(raw, 'big'):0{stored}d}"[: digits + 1]


def time_microseconds(digits: int) -> Callable[[bytes], int]:
    """TIME(digits). Whole and fraction are one number with one sign: the fraction of a negative time borrows."""
    bits = (digits + 1) // 2 * 8
    offset = 0x800000 << bits
    mask = (1 << bits) - 1
    unit = int(10 ** (6 - (digits + 1) // 2 * 2))

    def microseconds(raw: bytes) -> int:
        packed = int_from(raw, "big") - offset
        size = abs(packed)
        whole = size >> bits
        seconds = (whole >> 12 & 0x3FF) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63)
        total = seconds * 1_000_000 + (size & mask) * unit
        return -total if packed < 0 else total

    return microseconds


def decimal_size(precision: int, scale: int) -> int:
    """Bytes of a DECIMAL(precision, scale)."""
    whole = precision - scale
    return whole // 9 * 4 + _DIGIT_BYTES[whole % 9] + scale // 9 * 4 + _DIGIT_BYTES[scale % 9]


def decimal_value(precision: int, scale: int) -> Callable[[bytes], Decimal]:
    """DECIMAL(precision, scale): nine digits in four bytes, the sign in the highest bit, negatives inverted."""
    whole = precision - scale
    groups = _groups(whole % 9, whole // 9, scale // 9, scale % 9)
    size = decimal_size(precision, scale)
    bits = size * 8
    sign, ones = 1 << (bits - 1), (1 << bits) - 1
    known: dict[bytes, Decimal] = {}

    def value(raw: bytes) -> Decimal:
        found = known.get(raw)
        if found is not None:
            return found
        packed = int_from(raw, "big")
        negative = not packed & sign
        packed = (packed ^ sign) ^ (ones if negative else 0)
        inner = packed.to_bytes(size, "big")
        digits = "".join(f"{int_from(inner[a:b], 'big'):0{width}d}" for a, b, width in groups)
        at = len(digits) - scale
        text = f"{'-' if negative else ''}{digits[:at] or '0'}"
        # From text, not by arithmetic: the decimal context would round beyond 28 digits.
        found = Decimal(f"{text}.{digits[at:]}" if scale else text)
        if len(known) < 1000:
            known[raw] = found
        return found

    return value


def _groups(first: int, whole: int, fraction: int, last: int) -> list[tuple[int, int, int]]:
    """(start, end, digits) of every group in the bytes."""
    widths = ([first] if first else []) + [9] * (whole + fraction) + ([last] if last else [])
    groups, at = [], 0
    for width in widths:
        size = _DIGIT_BYTES[width] if width < 9 else 4
        groups.append((at, at + size, width))
        at += size
    return groups


def year(number: int) -> int:
    return number + 1900 if number else 0


def set_text(members: tuple[str, ...]) -> Callable[[bytes], str]:
    """SET: a bit a member, the first member lowest."""
    known: dict[bytes, str] = {}

    def text(raw: bytes) -> str:
        found = known.get(raw)
        if found is None:
            bits = int_from(raw, "little")
            if bits >> len(members):
                raise ValueError(f"a SET of {len(members)} members with the bits {bits:#x}")
            found = ",".join(member for n, member in enumerate(members) if bits >> n & 1)
            if len(known) < 1000:
                known[raw] = found
        return found

    return text
