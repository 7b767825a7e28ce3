"""Functions of the clock in a text, and what stands in their place once the clock is read.

MySQL reads its clock once for a statement. So a text with `NOW() - INTERVAL 7 DAY` asks what the text with
TIMESTAMP'...' in its place asks, and that one can be cached as any other. `finds` says where such functions stand:

| function | becomes |
| --- | --- |
| NOW(), CURRENT_TIMESTAMP, LOCALTIME, LOCALTIMESTAMP, UTC_TIMESTAMP; with digits, too | TIMESTAMP'...' |
| CURDATE(), CURRENT_DATE, UTC_DATE | DATE'...' |
| CURTIME(), CURRENT_TIME, UTC_TIME; TIME() of NOW() | TIME(TIMESTAMP'...') of one day |
| DATE(), LAST_DAY() of a date or moment, CAST(... AS DATE) | DATE'...' |
| TIMESTAMP() of these | TIMESTAMP'...' |
| MONTH(), DAY(), DAYOFMONTH() of these | a number |
| YEAR() of these, which gives a YEAR | YEAR(DATE'...') of its first day |
| DATE_FORMAT() of these, in a format of `_FORMAT` | a string |
| these plus or minus INTERVAL, also by DATE_ADD, DATE_SUB, ADDDATE, SUBDATE, TIMESTAMPADD | as what is added to |
| UNIX_TIMESTAMP(), also of these, plus or minus whole numbers | a number |

CURTIME(6), UNIX_TIMESTAMP(NOW(6)) and SYSDATE() stay. So does a whole text in which one stands where a literal is
something else than an expression of the same value:

* in a select item, unless it is only compared, an argument of DATEDIFF() or TIMESTAMPDIFF(), or the same all day
  (`CURDATE()`, `YEAR(NOW())`). An item without a name gets its text as one (`Function.item`);
* a number in ORDER BY or GROUP BY: it may be the position of a column;
* in LIMIT, behind LIKE or ESCAPE, or in the frame of a window, where MySQL accepts no function, or not all that becomes
  one literal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from planner.text.clock_items import Item, item_at
from planner.text.scan import Token, is_keyword, words

MAY_HAVE = re.compile(
    rb"\b(?:now|cur(?:date|time)|current_(?:date|time|timestamp)|localtime(?:stamp)?|utc_(?:timestamp|date|time)"
    rb"|unix_timestamp)\b",
    re.IGNORECASE,
)
"""Texts without a match have no function of the clock that is understood."""
_OPERATORS = frozenset({"+", "-", "*", "/", "%", "^", "&", "|", "~", "<<", ">>", "!", "||"})
_OPERATOR_WORDS = ("DIV", "MOD", "BINARY")
_COMPARED = frozenset({"=", "<=>", "<", "<=", ">", ">=", "<>", "!="})
_LOCAL = words("now current_timestamp localtime localtimestamp")
_BARE = words("current_timestamp localtime localtimestamp utc_timestamp current_date utc_date current_time utc_time")
_DAYS = words("curdate current_date utc_date")
_TIMES = words("curtime current_time utc_time")
_UTC = words("utc_timestamp utc_date utc_time")
_NAMES = _LOCAL | _DAYS | _TIMES | _UTC
_MOVED = {"date_add": 1, "adddate": 1, "date_sub": -1, "subdate": -1}
_BY_DAYS = words("adddate subdate")
_PARTS = {
    **{"year": "year", "month": "month", "day": "day", "dayofmonth": "day"},
    **{"hour": "hour", "minute": "minute"},
}
_OF_A_DAY = words(
    "datediff to_days week weekofyear yearweek weekday dayofweek dayofyear dayname monthname quarter last_day"
)
"""Functions to which only the date of what they are given matters."""
_SPANS = words("datediff timestampdiff")
_DAY_FORMAT = re.compile(r"'(?:%[Yymd]|[- /.\d])*'", re.ASCII)
SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}
DAYS_OF = {"DAY": 1, "WEEK": 7}
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_NUMBER = re.compile(r"\d{1,10}|'-?\d{1,10}'", re.ASCII)


class Clock(Enum):
    LOCAL = "local"  # in the session's time zone
    UTC = "utc"
    UNIX = "unix"  # seconds


@dataclass(frozen=True, slots=True)
class Moved:
    """Plus or minus so many units; `numbers`: the tokens whose product says how many. `unit` "": seconds of UNIX."""

    sign: int
    numbers: tuple[int, ...]
    unit: str = ""


class To(Enum):
    """What else is made of a moment."""

    DAY = "the time of day is cut off"
    LAST_DAY = "the last day of its month"
    MOMENT = "a date with a time of day"
    TIME = "the time of day"
    UNIX = "seconds since 1970"


@dataclass(frozen=True, slots=True)
class Function:
    """One expression of the clock. `first`, `end`: its tokens. `part`: of the date; `format`: the token that has it;
    `digits`: the token that tells how many digits of the fraction it has; `item`: the select item whose last such
    expression it is, where that has no name of its own."""

    first: int
    end: int
    clock: Clock
    steps: tuple[Moved | To, ...] = ()
    part: str = ""
    format: int | None = None
    digits: tuple[int, ...] = ()
    item: Item | None = None

    @property
    def is_unix(self) -> bool:
        return self.clock is Clock.UNIX or To.UNIX in self.steps

    @property
    def is_number(self) -> bool:
        """Whether it becomes a number."""
        return self.is_unix or self.part not in ("", "year")

    @property
    def is_moment(self) -> bool:
        """Whether it is a date or a moment, of which more can be made."""
        return not (self.is_unix or self.part or self.format is not None or To.TIME in self.steps)

    @property
    def texts(self) -> tuple[int, ...]:
        """The tokens of which `read` wants the texts."""
        moved = [number for each in self.steps if isinstance(each, Moved) for number in each.numbers]
        return tuple(sorted({*moved, *self.digits, *(() if self.format is None else (self.format,))}))


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
            walk.token(tokens, at)
            at += 1
        elif _is_barred(tokens, function, walk.clause):
            item = item_at(tokens, function.first, walk.brackets) if walk.clause is Clause.ITEMS else None
            if item is None or not (_is_compared(tokens, function, walk) or _is_of_day(tokens, function)):
                return None
            if not item.named:
                if found and found[-1].item == item:
                    found[-1] = replace(found[-1], item=None)
                function = replace(function, item=item)
            found.append(_as_day(tokens, function) if walk.call in _OF_A_DAY else function)
            at = function.end
        else:
            found.append(_as_day(tokens, function) if walk.call in _OF_A_DAY else function)
            at = function.end
    return found


def _as_day(tokens: Sequence[Token], function: Function) -> Function:
    """Of an argument of which only the date matters: its literal is the same all day."""
    alone = _text(tokens, function.first - 1) in ("(", ",") and _text(tokens, function.end) in (",", ")")
    return replace(function, steps=(*function.steps, To.DAY)) if alone and function.is_moment else function


def _is_compared(tokens: Sequence[Token], function: Function, walk: _Clauses) -> bool:
    """Whether it is only compared, or the end of a time that is shown."""
    beside = (_text(tokens, function.first - 1), _text(tokens, function.end))
    spanned = walk.call in _SPANS and beside[0] in ("(", ",") and beside[1] in (")", ",") and function.is_moment
    if _COMPARED.isdisjoint(beside) and not spanned:
        return False
    return not any(
        text in _OPERATORS or text.upper() in _OPERATOR_WORDS or text.upper() == "COLLATE" for text in beside
    )


def _is_of_day(tokens: Sequence[Token], function: Function) -> bool:
    """Whether it is the same all day."""
    if function.is_unix or function.digits or To.TIME in function.steps:
        return False
    if function.end < len(tokens) and is_keyword(tokens[function.end], "COLLATE"):
        return False
    for step in function.steps:
        if step in (To.DAY, To.LAST_DAY):
            return True
        if not isinstance(step, Moved) or step.unit not in {*DAYS_OF, *MONTHS}:
            return False
    if function.format is not None:
        return _DAY_FORMAT.fullmatch(_text(tokens, function.format)) is not None
    return function.part in ("year", "month", "day")


def _is_barred(tokens: Sequence[Token], function: Function, clause: Clause) -> bool:
    if clause is Clause.OTHER or (clause is Clause.ORDER and not function.is_number):
        before = function.first - 1
        framed = function.end < len(tokens) and is_keyword(tokens[function.end], "PRECEDING", "FOLLOWING")
        return framed or (before >= 0 and is_keyword(tokens[before], "LIKE", "ESCAPE"))
    return True


class _Clauses:
    """In which clause the text is. `call`: the function in whose brackets, "" where these are others."""

    def __init__(self) -> None:
        self.clause = Clause.OTHER
        self.call = ""
        self._selects = False  # a SELECT stands in this bracket
        self._outer: list[tuple[Clause, bool, str]] = []

    @property
    def brackets(self) -> int:
        """How many are open within the SELECT."""
        if self._selects:
            return 0
        for number, (_, selects, _) in enumerate(reversed(self._outer), 1):
            if selects:
                return number
        return 0

    def token(self, tokens: Sequence[Token], at: int) -> None:
        token, before = tokens[at], tokens[at - 1] if at else None
        if token.text == "(":
            self._outer.append((self.clause, self._selects, self.call))
            called = before is not None and before.kind == "word" and before.end == token.start
            self._selects, self.call = False, before.text.lower() if called and before is not None else ""
        elif token.text == ")":
            self.clause, self._selects, self.call = self._outer.pop() if self._outer else (Clause.OTHER, False, "")
        elif before is not None and before.text == ".":
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
    found = _bracketed(tokens, at) if tokens[at].text == "(" else _term(tokens, at)
    if found is None or found.part or (at and _is_operator(tokens[at - 1])):
        return found
    while found.end + 1 < len(tokens) and tokens[found.end].text in ("+", "-"):
        sign = 1 if tokens[found.end].text == "+" else -1
        if found.is_unix:
            further, moved = _seconds(tokens, found.end + 1, sign)
        elif found.is_moment:
            further, moved = _interval(tokens, found.end + 1, sign)
        else:
            break
        if not further or _binds_tighter(tokens, further):
            break
        found = replace(found, end=further, steps=(*found.steps, moved))
    return found


def _bracketed(tokens: Sequence[Token], at: int) -> Function | None:
    """One in brackets of its own, which are none of a call or a list."""
    if not (at and tokens[at - 1].text in _COMPARED):
        return None
    inner = _expression(tokens, at + 1) if at + 1 < len(tokens) else None
    if inner is None or _text(tokens, inner.end) != ")":
        return None
    return replace(inner, first=at, end=inner.end + 1)


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
    if not (bracket and tokens[at + 1].start == token.end):  # else it may be a function of the database's
        return _of_clock(name, at, at + 1) if name in _BARE and not bracket else None
    if name in _NAMES or (name == "unix_timestamp" and _text(tokens, at + 2) == ")"):
        has_digits = name not in _DAYS and at + 2 < len(tokens) and tokens[at + 2].kind == "number"
        behind = at + 3 if has_digits else at + 2
        if _text(tokens, behind) != ")":
            return None
        return _of_clock(name, at, behind + 1, (at + 2,) if has_digits else ())
    if name == "timestampadd":
        return _of_timestampadd(tokens, at)
    inner = _expression(tokens, at + 2) if name in _CALLS and at + 2 < len(tokens) else None
    return None if inner is None or not inner.is_moment else _of_call(tokens, name, at, inner)


_TO = {
    **{"date": To.DAY, "last_day": To.LAST_DAY, "timestamp": To.MOMENT, "time": To.TIME, "unix_timestamp": To.UNIX},
}
_CALLS = frozenset({*_MOVED, *_PARTS, *_TO, "cast", "date_format"})


def _of_call(tokens: Sequence[Token], name: str, at: int, inner: Function) -> Function | None:
    """Of a function whose first argument is one of the clock."""
    behind, steps, part, format_ = inner.end, inner.steps, "", None
    if name in _MOVED:
        if _text(tokens, behind) != ",":
            return None
        further, moved = _interval(tokens, behind + 1, _MOVED[name])
        if not further and name in _BY_DAYS:
            further, moved = _units(tokens, behind + 1, _MOVED[name], "DAY")
        if not further:
            return None
        behind, steps = further, (*steps, moved)
    elif name == "cast":
        to = {"DATE": To.DAY, "DATETIME": To.MOMENT}.get(_text(tokens, behind + 1).upper())
        rounds = to is To.MOMENT and inner.digits
        if not is_keyword(tokens[behind], "AS") or to is None or rounds:
            return None
        behind, steps = behind + 2, (*steps, to)
    elif name == "date_format":
        format_ = behind + 1
        if _text(tokens, behind) != "," or _text(tokens, format_)[:1] != "'":
            return None
        behind += 2
    elif name in _PARTS:
        part = _PARTS[name]
    elif name == "time" and (inner.steps or inner.clock is Clock.UTC):  # of a date MySQL makes none
        return None
    else:
        steps = (*steps, _TO[name])
    if _text(tokens, behind) != ")":
        return None
    return replace(inner, first=at, end=behind + 1, steps=steps, part=part, format=format_)


def _of_timestampadd(tokens: Sequence[Token], at: int) -> Function | None:
    unit = _text(tokens, at + 2).upper()
    if unit not in _UNITS or _text(tokens, at + 3) != ",":
        return None
    further, moved = _units(tokens, at + 4, 1, unit)
    inner = _expression(tokens, further + 1) if further and _text(tokens, further) == "," else None
    if inner is None or not inner.is_moment or _text(tokens, inner.end) != ")":
        return None
    return replace(inner, first=at, end=inner.end + 1, steps=(*inner.steps, moved))


def _of_clock(name: str, first: int, end: int, digits: tuple[int, ...] = ()) -> Function:
    if name == "unix_timestamp":
        return Function(first, end, Clock.UNIX)
    steps = (To.DAY,) if name in _DAYS else (To.TIME,) if name in _TIMES else ()
    return Function(first, end, Clock.UTC if name in _UTC else Clock.LOCAL, steps, digits=digits)


_UNITS = frozenset({*SECONDS, *DAYS_OF, *MONTHS})


def _interval(tokens: Sequence[Token], at: int, sign: int) -> tuple[int, Moved]:
    """(the token behind it, or 0 where there is none that is understood; what it adds)."""
    if not (at < len(tokens) and is_keyword(tokens[at], "INTERVAL")):
        return 0, Moved(sign, ())
    further, moved = _units(tokens, at + 1, sign, "")
    unit = _text(tokens, further).upper()
    known = further and unit in _UNITS and is_number(_text(tokens, further - 1), unit)
    return (further + 1 if known else 0), replace(moved, unit=unit)


def _units(tokens: Sequence[Token], at: int, sign: int, unit: str) -> tuple[int, Moved]:
    """Of so many units, which may have a minus."""
    if _text(tokens, at) == "-":
        sign, at = -sign, at + 1
    known = is_number(_text(tokens, at), unit)
    return (at + 1 if known else 0), Moved(sign, (at,), unit)


def _seconds(tokens: Sequence[Token], at: int, sign: int) -> tuple[int, Moved]:
    """Of whole numbers of seconds, multiplied with each other."""
    numbers: list[int] = []
    while at < len(tokens) and tokens[at].kind == "number" and tokens[at].text.isdecimal():
        numbers.append(at)
        at += 1
        if _text(tokens, at) != "*":
            return at, Moved(sign, tuple(numbers))
        at += 1
    return 0, Moved(sign, ())


def _text(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text if 0 <= at < len(tokens) else ""


def is_number(text: str, unit: str) -> bool:
    """Whether so many units are understood. With seconds of a string MySQL gives six digits of the fraction."""
    return _NUMBER.fullmatch(text) is not None and not (unit == "SECOND" and text[0] == "'")
