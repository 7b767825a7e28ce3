"""Dates, date-times and times as text and as canonical values.

Canonical texts of DATE, DATETIME and TIMESTAMP compare as plain strings in MySQL's order. That also holds between the
types and between different fractional digits, once `comparable` has written a midnight as the date alone and cut
trailing zeros of the fraction. Only full, valid literals are taken; MySQL's many lenient forms are left to MySQL.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

from sqltypes.schema import SqlType

MAX_TIME = (838 * 3600 + 59 * 60 + 59) * 1_000_000  # the largest TIME, in microseconds
_DATE_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?)?", re.ASCII)
_TIME = re.compile(r"(-?)(\d{1,3}):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?", re.ASCII)


def parse_datetime(text: str) -> str | None:
    """The `comparable` form of a date or date-time literal, None where it is not a full and valid one."""
    match = _DATE_TIME.fullmatch(text.strip(" "))
    if match is None:
        return None
    day, clock, fraction = match.groups()
    try:
        if date.fromisoformat(day).year < 1:
            return None
        if clock is not None:
            datetime.fromisoformat(f"{day} {clock}")
    except ValueError:
        return None
    return comparable(day if clock is None else f"{day} {clock}.{fraction or '0'}")


def comparable(text: str) -> str:
    """A canonical DATE, DATETIME or TIMESTAMP in the form in which all of them compare as strings."""
    if len(text) > 19:
        text = text.rstrip("0").rstrip(".")
    return text.removesuffix(" 00:00:00")


def as_datetime(text: str, scale: int) -> str:
    """A DATE, DATETIME or comparable form, as DATETIME(scale). Requires: no more fractional digits than `scale`."""
    if len(text) == 10:
        text += " 00:00:00"
    if not scale:
        return text
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction:0<{scale}}"


def fraction_digits(text: str) -> int:
    """Fractional digits of a date-time's text."""
    return max(0, len(text) - 20)


def parse_time(text: str) -> int | None:
    """Microseconds of a TIME literal [-]HH:MM[:SS[.fraction]], None where it is not one or is out of range."""
    match = _TIME.fullmatch(text.strip(" "))
    if match is None:
        return None
    sign, hours, minutes, seconds, fraction = match.groups()
    if int(minutes) > 59 or int(seconds or 0) > 59:
        return None
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)
    value = whole * 1_000_000 + int((fraction or "0").ljust(6, "0"))
    if value > MAX_TIME:
        return None
    return -value if sign else value


def time_text(microseconds: int, scale: int = 0) -> str:
    """A TIME(scale) as MySQL prints it: '-838:59:59.000000'."""
    whole, fraction = divmod(abs(microseconds), 1_000_000)
    minutes, seconds = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{'-' if microseconds < 0 else ''}{hours:02}:{minutes:02}:{seconds:02}"
    return f"{text}.{fraction:06}"[: len(text) + 1 + scale] if scale else text


def timedelta_microseconds(value: timedelta) -> int:
    """Exact, unlike total_seconds()."""
    return (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds


def time_literal(microseconds: int) -> str:
    """A TIME as MySQL's literal, with a fraction only where there is one."""
    return time_text(microseconds, 6 if microseconds % 1_000_000 else 0)


def datetime_text(text: str, target: SqlType) -> str | None:
    """A comparable text as a DATE or DATETIME(n) value; None where digits of the fraction would be lost."""
    if target.name == "date":
        return text[:10]
    scale = target.scale or 0
    return as_datetime(text, scale) if fraction_digits(text) <= scale else None
