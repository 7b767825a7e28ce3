"""What stands in the place of the functions of `planner/text/clock.py` once the clock is read."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import prod

from planner.text.clock import DAYS_OF, MAY_HAVE, MONTHS, SECONDS, Clock, Function, Moved, To, finds, is_number
from planner.text.clock_items import name_of
from planner.text.scan import Token, scan

_DIGITS = frozenset("0123456")
_FORMAT = re.compile(r"'(?:%[YymdHisST]|[-: /.\d])*'", re.ASCII)
EPOCH = datetime(1970, 1, 1)
FIRST_YEAR, LAST_YEAR = 1971, 2037  # of which all servers have UNIX_TIMESTAMP()


def read(
    function: Function,
    texts: Sequence[str],
    local: datetime,
    utc: datetime,
    *,
    steady: bool = True,
    micros: int | None = None,
) -> str | None:
    """The literal that the function is when the clock says that; None where that is not understood, or out of MySQL's
    range. `texts`: those of its `texts`. `local`, `utc`: whole seconds, without a zone. `steady`: at any other moment
    the one is as far ahead of the other. `micros`: of the second; None: not known."""
    given = dict(zip(function.texts, texts, strict=True))
    digits = _digits(function, given)
    if digits is None or (digits and micros is None):
        return None
    try:
        value, kind, seconds = _stepped(function, given, local, utc, steady=steady)
    except (ValueError, OverflowError):
        return None
    if kind is To.UNIX:
        return str(seconds)
    if function.format is not None:
        return _formatted(value, given[function.format])
    if function.part == "year":
        return f"YEAR(DATE '{value.year}-01-01')"
    if function.part:
        return str(getattr(value, function.part))
    if kind is To.MOMENT and digits and micros is not None:
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}.{f'{micros:06}'[:digits]}'"
    return None if digits and kind is not To.DAY else _LITERALS[kind].format(value)


def _digits(function: Function, given: Mapping[int, str]) -> int | None:
    """How many of the fraction it has; None where that is not understood."""
    texts = [given[token] for token in function.digits]
    if not all(text in _DIGITS for text in texts):
        return None
    digits = max(map(int, texts), default=0)
    plain = function.is_moment or (function.part and function.clock is not Clock.UNIX) or function.format is not None
    return digits if plain or not digits else None


def _stepped(
    function: Function, given: Mapping[int, str], local: datetime, utc: datetime, *, steady: bool
) -> tuple[datetime, To, int]:
    """(the moment, what it is now, or seconds since 1970 where it is that). Raises ValueError, OverflowError."""
    value = local if function.clock is Clock.LOCAL else utc
    kind = To.UNIX if function.clock is Clock.UNIX else To.MOMENT
    seconds = int((utc - EPOCH).total_seconds())
    for each in function.steps:
        if isinstance(each, Moved):
            if not all(is_number(given[token], each.unit) for token in each.numbers):
                raise ValueError(given)
            count = each.sign * prod(int(given[token].strip("'")) for token in each.numbers)
            if kind is To.UNIX:
                seconds += count
            else:
                value = _add(value, each.unit, count)
                kind = To.MOMENT if each.unit in SECONDS else kind
        elif each is To.UNIX:
            if not steady:
                raise ValueError(value)
            seconds, kind = _unix(value - (local - utc)), each
        else:
            value, kind = _made(value, each)
    return value, kind, seconds


_LITERALS = {
    To.DAY: "DATE '{:%Y-%m-%d}'",
    To.MOMENT: "TIMESTAMP '{:%Y-%m-%d %H:%M:%S}'",
    To.TIME: f"TIME(TIMESTAMP '{EPOCH:%Y-%m-%d} {{:%H:%M:%S}}')",
}


def _unix(utc: datetime) -> int:
    """Raises ValueError where MySQL's servers differ."""
    if not FIRST_YEAR <= utc.year <= LAST_YEAR:
        raise ValueError(utc)
    return int((utc - EPOCH).total_seconds())


def _made(value: datetime, to: To) -> tuple[datetime, To]:
    if to is To.LAST_DAY:
        value = value.replace(day=monthrange(value.year, value.month)[1])
    if to in (To.DAY, To.LAST_DAY):
        return value.replace(hour=0, minute=0, second=0), To.DAY
    return value, to


def _formatted(value: datetime, format_: str) -> str | None:
    """By DATE_FORMAT(), in what means the same to `strftime`."""
    if _FORMAT.fullmatch(format_) is None:
        return None
    return value.strftime(format_.replace("%i", "%M").replace("%s", "%S"))


def _add(value: datetime, unit: str, count: int) -> datetime:
    """As MySQL does. Raises ValueError, OverflowError."""
    if unit in SECONDS:
        value += timedelta(seconds=count * SECONDS[unit])
    elif unit in DAYS_OF:
        value += timedelta(days=count * DAYS_OF[unit])
    else:
        months = value.year * 12 + value.month - 1 + count * MONTHS[unit]
        year, month = divmod(months, 12)
        value = value.replace(year=year, month=month + 1, day=min(value.day, monthrange(year, month + 1)[1]))
    if value.year < 1000:  # of which MySQL and strftime do not write the same
        raise ValueError(value)
    return value


def _parameter(function: Function) -> str:
    if function.part == "year":
        return "YEAR(?)"
    return "TIME(?)" if To.TIME in function.steps else "?"


_SOME = datetime(2024, 6, 15, 12, 0, 0)


def item_name(sql: str, tokens: Sequence[Token], function: Function) -> str | None:
    """As `name_of`, of the item that gets a name behind this function; "" where none does."""
    if function.item is None:
        return ""
    return name_of(sql[tokens[function.item.first].start : tokens[function.item.end - 1].end])


def with_parameters(sql: str) -> str:
    """The text with `?` for each function of the clock, if all that are seen are understood. Raises ParseError."""
    if MAY_HAVE.search(sql.encode()) is None:
        return sql
    tokens = scan(sql)
    found = finds(tokens) or []
    if any(read(each, [tokens[at].text for at in each.texts], _SOME, _SOME, micros=0) is None for each in found):
        return sql
    names = [item_name(sql, tokens, function) for function in found]
    if None in names:
        return sql
    for function, name in zip(reversed(found), reversed(names), strict=True):
        if function.item is not None:
            behind = tokens[function.item.end - 1].end
            sql = f"{sql[:behind]}{name}{sql[behind:]}"
        start, end = tokens[function.first].start, tokens[function.end - 1].end
        sql = f"{sql[:start]}{_parameter(function)}{sql[end:]}"
    return sql
