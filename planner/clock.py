"""Functions of the clock in a text, and what stands in their place once the clock is read.

MySQL reads its clock once for a statement. So a text with `NOW() - INTERVAL 7 DAY` asks what the text with
TIMESTAMP'...' in its place asks, and that one can be cached as any other. `finds` says where such functions stand:

| function | becomes |
| --- | --- |
| NOW(), CURRENT_TIMESTAMP, LOCALTIME, LOCALTIMESTAMP, UTC_TIMESTAMP | TIMESTAMP'...' |
| CURDATE(), CURRENT_DATE, UTC_DATE | DATE'...' |
| DATE() of these | DATE'...' |
| MONTH(), DAY(), DAYOFMONTH() of these | a number |
| YEAR() of these, which gives a YEAR | YEAR(DATE'...') of its first day |
| these plus or minus INTERVAL, also by DATE_ADD, DATE_SUB, ADDDATE, SUBDATE | as what is added to |
| UNIX_TIMESTAMP(), plus or minus a whole number | a number |

NOW(6), SYSDATE(), CURTIME() and their like stay. So does a whole text in which one stands where a literal is something
else than an expression of the same value:

* in a select item: MySQL announces a column by what it is made of;
* a number in ORDER BY or GROUP BY: it may be the position of a column;
* in LIMIT, behind LIKE or ESCAPE, or in the frame of a window, where MySQL accepts no function, or not all that becomes
  one literal.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from planner.scan import Token, is_keyword, scan, words

MAY_HAVE = re.compile(
    rb"\b(?:now|curdate|current_date|current_timestamp|localtime|localtimestamp|utc_timestamp|utc_date|unix_timestamp)\b",
    re.IGNORECASE,
)
"""Texts without a match have no function of the clock that is understood."""
MOST_DIGITS = 10  # of a number of units, or of seconds
_OPERATORS = frozenset({"+", "-", "*", "/", "%", "^", "&", "|", "~", "<<", ">>", "!", "||"})
_OPERATOR_WORDS = ("DIV", "MOD", "BINARY")
_LOCAL = words("now current_timestamp localtime localtimestamp")
_BARE = words("current_timestamp localtime localtimestamp utc_timestamp current_date utc_date")
_DAYS = words("curdate current_date utc_date")
_UTC = words("utc_timestamp utc_date")
_MOVED = {"date_add": 1, "adddate": 1, "date_sub": -1, "subdate": -1}
_PARTS = {"year": "year", "month": "month", "day": "day", "dayofmonth": "day"}
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}
_DAYS_OF = {"DAY": 1, "WEEK": 7}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
EPOCH = datetime(1970, 1, 1)


class Clock(Enum):
    LOCAL = "local"  # in the session's time zone
    UTC = "utc"
    UNIX = "unix"  # seconds


@dataclass(frozen=True, slots=True)
class Moved:
    """Plus or minus so many units; `number` is the token that says how many. `unit` "": seconds, of UNIX."""

    sign: int
    number: int
    unit: str = ""


TO_DAY = Moved(0, 0)
"""The time of day is cut off."""


@dataclass(frozen=True, slots=True)
class Function:
    """One expression of the clock. `first`, `end`: its tokens. `part`: of the date."""

    first: int
    end: int
    clock: Clock
    moved: tuple[Moved, ...] = ()
    part: str = ""

    @property
    def is_number(self) -> bool:
        """Whether it becomes a number."""
        return self.clock is Clock.UNIX or self.part not in ("", "year")

    @property
    def numbers(self) -> tuple[int, ...]:
        """The tokens of which `read` wants the values."""
        return tuple(each.number for each in self.moved if each is not TO_DAY)


class Clause(Enum):
    """Where in a text an expression stands, as far as that matters."""

    ITEMS = "select items"
    ORDER = "ORDER BY or GROUP BY"
    LIMIT = "LIMIT"
    OTHER = "elsewhere"


def finds(tokens: Sequence[Token]) -> list[Function] | None:
    """All expressions of the clock, in order; None where one stands where no literal can stand in its place. `tokens`:
    of `scan`."""
    found: list[Function] = []
    walk = _Clauses()
    at = 0
    while at < len(tokens):
        function = _expression(tokens, at)
        if function is None:
            walk.token(tokens[at], tokens[at - 1].text == "." if at else False)
            at += 1
        elif _is_barred(tokens, function, walk.clause):
            return None
        else:
            found.append(function)
            at = function.end
    return found


def _is_barred(tokens: Sequence[Token], function: Function, clause: Clause) -> bool:
    if clause is Clause.OTHER or (clause is Clause.ORDER and not function.is_number):
        before = function.first - 1
        framed = function.end < len(tokens) and is_keyword(tokens[function.end], "PRECEDING", "FOLLOWING")
        return framed or (before >= 0 and is_keyword(tokens[before], "LIKE", "ESCAPE"))
    return True


class _Clauses:
    """In which clause the text is."""

    def __init__(self) -> None:
        self.clause = Clause.OTHER
        self._selects = False  # a SELECT stands in this bracket
        self._outer: list[tuple[Clause, bool]] = []

    def token(self, token: Token, after_dot: bool) -> None:
        if token.text == "(":
            self._outer.append((self.clause, self._selects))
            self._selects = False
        elif token.text == ")":
            self.clause, self._selects = self._outer.pop() if self._outer else (Clause.OTHER, False)
        elif after_dot:
            return
        elif is_keyword(token, "SELECT"):
            self.clause, self._selects = Clause.ITEMS, True
        elif is_keyword(token, "ORDER", "GROUP") and not (self.clause is Clause.ITEMS and not self._selects):
            self.clause = Clause.ORDER
        elif is_keyword(token, "LIMIT"):
            self.clause = Clause.LIMIT
        elif self._selects and is_keyword(token, "FROM", "HAVING"):
            self.clause = Clause.OTHER


def _expression(tokens: Sequence[Token], at: int) -> Function | None:
    """The expression that begins there."""
    found = _term(tokens, at)
    if found is None or found.part or (at and _is_operator(tokens[at - 1])):
        return found
    while found.end + 1 < len(tokens) and tokens[found.end].text in ("+", "-"):
        sign = 1 if tokens[found.end].text == "+" else -1
        if found.clock is Clock.UNIX:
            further = found.end + 2 if _is_whole(tokens, found.end + 1) else 0
            moved = Moved(sign, found.end + 1)
        else:
            further, moved = _interval(tokens, found.end + 1, sign)
        if not further or _binds_tighter(tokens, further):
            break
        found = replace(found, end=further, moved=(*found.moved, moved))
    return found


def _is_operator(token: Token) -> bool:
    """Whether an operator, to which what stands behind it belongs before a sum is made of that."""
    return token.text in _OPERATORS or is_keyword(token, *_OPERATOR_WORDS)


def _binds_tighter(tokens: Sequence[Token], at: int) -> bool:
    """Whether what stands before belongs to an operator behind it first."""
    return at < len(tokens) and (
        tokens[at].text in ("*", "/", "%", "^", "||") or is_keyword(tokens[at], "DIV", "MOD", "COLLATE")
    )


def _term(tokens: Sequence[Token], at: int) -> Function | None:
    token = tokens[at]
    if token.kind != "word" or (at and tokens[at - 1].text in (".", "@")):
        return None
    name = token.text.lower()
    bracket = _text(tokens, at + 1) == "("
    called = bracket and tokens[at + 1].start == token.end  # else it may be a function of the database's
    if called and _text(tokens, at + 2) == ")":
        if name == "unix_timestamp":
            return Function(at, at + 3, Clock.UNIX)
        return _of_no_argument(name, at, at + 3) if name in _LOCAL | _DAYS | _UTC else None
    if not called:
        return _of_no_argument(name, at, at + 1) if name in _BARE and not bracket else None
    if name not in _MOVED and name not in _PARTS and name != "date":
        return None
    inner = _expression(tokens, at + 2) if at + 2 < len(tokens) else None
    if inner is None or inner.part or inner.clock is Clock.UNIX:
        return None
    if name in _MOVED:
        further, moved = _interval(tokens, inner.end + 1, _MOVED[name])
        if _text(tokens, inner.end) != "," or not further or _text(tokens, further) != ")":
            return None
        return replace(inner, first=at, end=further + 1, moved=(*inner.moved, moved))
    if _text(tokens, inner.end) != ")":
        return None
    if name == "date":
        return replace(inner, first=at, end=inner.end + 1, moved=(*inner.moved, TO_DAY))
    return replace(inner, first=at, end=inner.end + 1, part=_PARTS[name])


def _of_no_argument(name: str, first: int, end: int) -> Function:
    clock = Clock.UTC if name in _UTC else Clock.LOCAL
    return Function(first, end, clock, (TO_DAY,) if name in _DAYS else ())


def _interval(tokens: Sequence[Token], at: int, sign: int) -> tuple[int, Moved]:
    """(the token behind it, or 0 where there is none that is understood; what it adds)."""
    if not (at + 2 < len(tokens) and is_keyword(tokens[at], "INTERVAL") and _is_whole(tokens, at + 1)):
        return 0, Moved(sign, 0)
    unit = tokens[at + 2].text.upper()
    known = unit in _SECONDS or unit in _DAYS_OF or unit in _MONTHS
    return (at + 3 if known else 0), Moved(sign, at + 1, unit)


def _is_whole(tokens: Sequence[Token], at: int) -> bool:
    return at < len(tokens) and tokens[at].kind == "number" and is_number(tokens[at].text)


def is_number(text: str) -> bool:
    """Whether it is a number of units, or of seconds, that is understood."""
    return text.isdecimal() and len(text) <= MOST_DIGITS


def _text(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text if at < len(tokens) else ""


# ----------------------------------------------------------------------------------------------------------------------


def read(function: Function, numbers: Sequence[int], local: datetime, utc: datetime) -> str | None:
    """The literal that the function is when the clock says that; None where it is out of MySQL's range. `numbers`: the
    values of its `numbers`. `local`, `utc`: whole seconds, without a zone."""
    given = iter(numbers)
    if function.clock is Clock.UNIX:
        seconds = int((utc - EPOCH).total_seconds())
        return str(seconds + sum(each.sign * next(given) for each in function.moved))
    value, is_day = local if function.clock is Clock.LOCAL else utc, False
    try:
        for each in function.moved:
            if each is TO_DAY:
                value, is_day = value.replace(hour=0, minute=0, second=0), True
            else:
                value = _add(value, each, next(given))
                is_day = is_day and each.unit not in _SECONDS
    except (ValueError, OverflowError):
        return None
    if function.part == "year":
        return f"YEAR(DATE '{value.year}-01-01')"
    if function.part:
        return str(getattr(value, function.part))
    return f"DATE '{value:%Y-%m-%d}'" if is_day else f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}'"


def _add(value: datetime, moved: Moved, number: int) -> datetime:
    """As MySQL does. Raises ValueError, OverflowError."""
    count = moved.sign * number
    if moved.unit in _SECONDS:
        value += timedelta(seconds=count * _SECONDS[moved.unit])
    elif moved.unit in _DAYS_OF:
        value += timedelta(days=count * _DAYS_OF[moved.unit])
    else:
        months = value.year * 12 + value.month - 1 + count * _MONTHS[moved.unit]
        year, month = divmod(months, 12)
        value = value.replace(year=year, month=month + 1, day=min(value.day, monthrange(year, month + 1)[1]))
    if value.year < 1000:  # of which MySQL and strftime do not write the same
        raise ValueError(value)
    return value


def with_parameters(sql: str) -> str:
    """The text with `?` for each function of the clock, as far as they are understood. Raises ParseError."""
    if MAY_HAVE.search(sql.encode()) is None:
        return sql
    tokens = scan(sql)
    for function in reversed(finds(tokens) or ()):
        start, end = tokens[function.first].start, tokens[function.end - 1].end
        sql = f"{sql[:start]}{'YEAR(?)' if function.part == 'year' else '?'}{sql[end:]}"
    return sql
