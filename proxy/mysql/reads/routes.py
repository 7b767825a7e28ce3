"""What the listener knows of a text, whatever session it comes from: its kind, whom it is noted for, its caches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple, cast

from planner.session.needs import LOCAL
from planner.text.hints import MARK
from proxy.auto.passed_reads import ProxiedTexts
from proxy.mysql.reads.announced import Heads
from proxy.mysql.reads.bound_types import BOUND_BEFORE, MOST_PARAMETERS, TEXTS, TOO_MANY, Types
from proxy.mysql.reads.local_rows import local_format
from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.state.effects import Effects, effects_of
from proxy.mysql.state.session_variables import ALWAYS
from proxy.mysql.text.statement_kind import Statement
from proxy.mysql.text.text_matcher import Steer
from proxy.mysql.wire.bound_values import NULL_TYPE, UNSIGNED
from proxy.mysql.wire.rows import BINARY, BINARY_EOF, TEXT, TEXT_EOF
from proxy.port.api import ParameterInfo, ParameterValue
from proxy.port.reasons import NO_REASON, Reason, Why
from proxy.port.session import SessionCache, SessionSystem
from proxy.read.together import Several
from sqltypes.comparison import EXACT_DOUBLE, SAFE_DIGITS
from sqltypes.errors import ComparedElsewhere, UpwellError
from sqltypes.expression import Key, Value
from sqltypes.parameters import AsBound, Moment
from sqltypes.schema import INTEGER_TYPES, SqlType
from sqltypes.zone import Zone

NO_CACHE = Reason.NOT_CACHED.why("no cache matches")
SKIPPED = Reason.ASKED.why("the query asks to skip the cache")
NULL_BEFORE = "NULL was bound, of no type, beside a parameter whose type no column tells"
NULL_SHOWN = "NULL is bound for what is shown: MySQL announces columns by what was bound before"
SIGN = 1 << 63  # with it a whole number of 64 bits is another one with a sign than without
FAILED_BEFORE = Reason.PARAMETERS.why(
    "MySQL has answered the execution before with an error, and may answer this one with it, too"
)
KEYS = 2000  # that are remembered of one statement
LONGEST_KEY = 2048  # bytes of a text, or of an execution's parameters, that is remembered with its key
EXACTLY_EQUAL = frozenset({int, str})  # of these types equal values are the same
FORMATS = {
    (False, False): TEXT,
    (False, True): TEXT_EOF,
    (True, False): BINARY,
    (True, True): BINARY_EOF,
}


DATED = frozenset({"date", "datetime", "timestamp", "time"})
EXACT = INTEGER_TYPES | {"decimal", "bit"}
NUMBERS = (EXACT | {"float", "double", "year"}) - {"bit"}


@dataclass(slots=True, eq=False)
class Route:
    """What the listener knows of a statement. What follows from its kind is found out once."""

    statement: Statement
    is_command: bool = False  # it may be Upwell's own SQL
    by_clock: bool = False  # it may have functions of the clock (`planner/text/clock.py`)
    effects: Effects = field(init=False)  # what it does to its session
    asks: bool = False  # it may ask about the session alone (`questions.py`)
    spelled: bool = False  # a column's name has backticks (`proxy/mysql/state/ansi_quotes.py`)
    noted: ProxiedTexts | None = None  # whom it is noted for; None: no read that could be cached
    large: bool = False  # it was not looked up among the caches: it may be a cached read
    # Of texts that were hits, by them or by their values.
    keys: dict[bytes | tuple[ParameterValue, ...] | None, Key] = field(default_factory=dict)
    heads: Heads = field(default_factory=Heads)
    _opened: dict[tuple[str, bool, bool, Zone | None], SessionCache] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.effects = effects_of(self.statement)

    def opened(
        self, system: SessionSystem, cache: str, *, binary: bool, eof: bool, clocks: Zone | None = None
    ) -> SessionCache:
        """The cache in a session's wire format. A route does not outlive its caches: prepared statements that differ in
        a LIMIT, or in their session's hint, share it and have one each. `clocks`: the session's; None: those of
        UTC."""
        found = self._opened.get((cache, binary, eof, clocks))
        if found is None:
            found = system.caches.open(cache, name := FORMATS[binary, eof])
            if clocks is not None and LOCAL in found.needs:
                found = system.caches.open(cache, local_format(system, name, clocks))
            self._opened[cache, binary, eof, clocks] = found
        return found

    def needs(self, system: SessionSystem, cache: str, *, eof: bool) -> frozenset[str]:
        """Session variables on which the cache's answers depend."""
        return self.opened(system, cache, binary=False, eof=eof).needs

    def learn(self, text: bytes, cache: SessionCache, values: Sequence[ParameterValue]) -> Key | None:
        """The key of a text, remembered; None where there is none. A route does not outlive the cache's plan. Of texts
        with comments, which may be others each time, what is remembered is found by their values."""
        place: bytes | tuple[ParameterValue, ...] | None = text if len(text) <= LONGEST_KEY else None
        if b"/*" in text and place is not None:
            place = tuple(values) if EXACTLY_EQUAL.issuperset(map(type, values)) else None
            known = self.keys.get(place)
            if known is not None and (known.__class__ is not Several or known.keys):
                return known
        try:
            key = cache.bound(values)
        except UpwellError:
            return None
        if key is not None and place is not None:
            if len(self.keys) >= KEYS:
                self.keys.clear()
            self.keys[place] = key
        return key


@dataclass(frozen=True, slots=True)
class Sentinel:
    """Stands for a parameter's value, to see where the cache wants it."""

    index: int


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?: [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)?")
_TIME = re.compile(r"-?[0-9]{2,3}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?")
_FORMS = {"number": _NUMBER, "bit": _NUMBER, "day": _DAY, "time": _TIME}

_OF_STRINGS = frozenset({"null", "string"})
_FAMILIES = {
    "number": _OF_STRINGS | {"number"},
    "bit": frozenset({"number"}),  # by the first one that is bound MySQL reads strings from then on
    "day": _OF_STRINGS | {"day", "time"},
    "time": _OF_STRINGS | {"time"},
}
"""Of the types that may be bound, by the type of the column; `_OF_STRINGS` for all others."""
_MOMENTS = {0x07: "day", 0x0A: "day", 0x0C: "day", 0x0B: "time", NULL_TYPE: "null"}
REALS = frozenset({0x04, 0x05})
FRACTIONS = REALS | {0xF6}


def _family(type_: int) -> str:
    plain = type_ & 0xFF
    return _MOMENTS.get(plain) or ("string" if plain in TEXTS else "number")


class Judged(NamedTuple):
    """What the first types of a statement's parameters (`first`) mean for what these are compared with."""

    first: Types
    refused: bool  # MySQL compares in another type than the cache's query does
    doubles: bool  # it compares exact numbers as DOUBLE
    fractions: bool  # something else than whole numbers, strings and moments is bound


NOT_JUDGED = Judged((), False, False, False)


@dataclass(slots=True)
class Compared:
    """A statement's parameters by what they are compared with. `families`: of types that each may be bound."""

    families: dict[int, frozenset[str]] = field(default_factory=dict)
    forms: list[tuple[int, re.Pattern[str]]] = field(default_factory=list)  # of a string for a number, a date or a time
    exact: list[int] = field(default_factory=list)  # numbers that are no FLOAT or DOUBLE
    listed: list[int] = field(default_factory=list)  # of these, those of IN-lists
    _judged: Judged = NOT_JUDGED  # of the types that were asked about last

    def add(self, at: int, kind: str, *, listed: bool) -> None:
        """Parameter `at` is compared with a column of this type."""
        name = "number" if kind in NUMBERS else "day" if kind in DATED and kind != "time" else kind
        families = _FAMILIES.get(name, _OF_STRINGS)
        self.families[at] = families & self.families.get(at, families)
        form = _FORMS.get(name)
        if form is not None:
            self.forms.append((at, form))
        if kind in EXACT:
            self.exact.append(at)
            self.listed += [at] if listed else []

    def judge(self, first: Types) -> Judged:
        """Measured: of each type of column, with each type bound (`integration/prepared/test_bound_before.py`)."""
        if self._judged.first != first:
            refused = any(_family(first[at]) not in allowed for at, allowed in self.families.items())
            fractions = not FRACTIONS.isdisjoint(first)
            as_double = REALS | (TEXTS if fractions else frozenset())
            doubles = any(first[at] & 0xFF in as_double for at in self.exact)
            self._judged = Judged(first, refused, doubles, fractions)
        return self._judged

    def are_too_fine(self, values: Sequence[Value]) -> bool:
        """Whether MySQL may find other rows if it compares them as DOUBLE. It does so of all that one is compared with
        in an IN-list."""
        return any(map(_is_too_fine, map(values.__getitem__, self.exact)))

    def has_signs(self, values: Sequence[Value]) -> bool:
        """Whether a whole number of a list is one that only numbers with a sign have, or only those without. Where a
        list has had numbers of other types beside whole ones, MySQL takes it for that of the other kind."""
        return any(map(_has_sign, map(values.__getitem__, self.listed)))

    def are_odd(self, values: Sequence[Value]) -> bool:
        """Whether a number, a date or a time is written otherwise than most write it (`'5 '`): such a string may turn
        how MySQL resolves the statement, also for later values. MySQL has to see each."""
        for at, form in self.forms:
            value = values[at]
            if isinstance(value, str) and form.fullmatch(value) is None:
                return True
        return False


class Learned(NamedTuple):
    """Of an execution that was a hit. `types`, `kinds`: of the statement behind it. `values`: of the cache's
    parameters; `given`: what was bound."""

    key: Key
    types: Types | None
    kinds: tuple[int, ...]
    values: tuple[ParameterValue, ...]
    given: tuple[Value, ...]


@dataclass(slots=True, eq=False)
class Target:
    """What a prepared statement is for, as of a version of the caches. `cache` None: for no cache, and `why`."""

    route: Route
    version: int
    why: Why = NO_REASON
    forced: bool = False
    text: bytes = b""  # as it is looked up
    hint: bytes = b""  # that it has for the session's sql_mode
    cache: SessionCache | None = None
    template: tuple[object, ...] = ()
    same: bool = False  # the cache's parameters are the statement's, in order
    plain_int: bool = False
    list_end: int = 0  # where the list is the only parameter, of how many values, which are the statement's in order
    dates: tuple[bool, ...] = ()  # of the cache's parameters, whether it is compared with a date or time
    compared: Compared = field(default_factory=Compared)
    sent: frozenset[int] = frozenset()  # those of the statement's parameters whose type no column tells
    tells: tuple[int, ...] = ()  # likewise: that may tell how MySQL announces columns
    # Of executions that were hits, by the types bound before and the bytes.
    keys: dict[tuple[Types | None, bytes], Learned] = field(default_factory=dict)

    def learn(
        self,
        before: Types | None,
        payload: bytes,
        given: Sequence[Value],
        values: Sequence[ParameterValue],
        statement: PreparedStatement,
    ) -> None:
        """An execution is about to be answered. `given`: its values; `values`: the cache's.
        Raises ComparedElsewhere."""
        bound = statement.bound
        bound.behind = True
        if self.cache is None or len(payload) > LONGEST_KEY or self.list_end:
            return
        compared = self.compared
        if compared.are_too_fine(given) or (compared.listed and compared.has_signs(given)):
            return
        key = self.cache.bound(values)
        if key is not None:
            bound.fits = True
            if len(self.keys) >= KEYS:
                self.keys.clear()
            self.keys[before, payload] = Learned(key, bound.types, bound.kinds, tuple(values), tuple(given))

    def resolved_otherwise(self, statement: PreparedStatement) -> Why:
        """Why MySQL may have resolved a statement in another way than the cache's query; "" if it has not."""
        if self.cache is None:
            return NO_REASON
        if statement.bound.turned:
            return statement.bound.turned
        if statement.failed:
            return FAILED_BEFORE
        if self.compared.judge(statement.bound.first).refused:
            return BOUND_BEFORE
        found = statement.differed and statement.differed.intersection((*ALWAYS, *self.cache.needs))
        if not found and self.hint and statement.hint != self.hint:
            found = frozenset({"sql_mode, or the collation of literals,"})
        if not found:
            return NO_REASON
        return Reason.SETTING.why(f"{min(found)} was another when the statement was prepared")

    def takes(self, statement: PreparedStatement, given: tuple[Value, ...]) -> bool:
        """Whether an execution with these values is one of the cache's query."""
        try:
            return not self.resolved_otherwise(statement) and len(self.bind(given, statement)) >= 0
        except UpwellError:
            return False

    def _elsewhere(self, values: tuple[Value, ...], statement: PreparedStatement) -> str:
        """Why MySQL compares these values by what was bound before; "" if it does not."""
        judged = self.compared.judge(statement.bound.first)
        if judged.doubles and self.compared.are_too_fine(values):
            return "MySQL compares as DOUBLE where one is bound, and this number is no DOUBLE"
        if statement.bound.nulled and (self.tells or self.sent):
            return NULL_BEFORE
        if self.compared.are_odd(values):
            return "a string that is no plain number, date or time: MySQL may go on comparing by it"
        if None in values and any(values[at] is None for at in self.tells):
            return NULL_SHOWN
        if judged.fractions and self.compared.has_signs(values):
            return "MySQL takes a number of the list for another one where a fraction is bound"
        return ""

    def bind(self, values: tuple[Value, ...], statement: PreparedStatement) -> tuple[ParameterValue, ...]:
        """The cache's parameters of an execution's. Raises ComparedElsewhere."""
        why, types = self._elsewhere(values, statement), statement.bound.types
        if why:
            raise ComparedElsewhere(why)
        if self.sent:
            values = tuple(self._as_bound(at, value, types) for at, value in enumerate(values))
        if self.list_end:
            bound: tuple[ParameterValue, ...] = (values,)
        else:
            bound = values if self.same else tuple(_filled(item, values) for item in self.template)
        if types and not _MOMENTS.keys().isdisjoint(types):
            for value, dated in zip(bound, self.dates, strict=False):
                if not dated and any(isinstance(one, Moment) for one in (value if type(value) is tuple else (value,))):
                    raise ComparedElsewhere("a date or time is bound for what is none")
        return bound

    def told_types(self, statement: PreparedStatement) -> tuple[int, ...]:
        """With which types those parameters are bound. Requires: the execution has been looked at."""
        types = statement.bound.types
        return tuple(types[at] for at in self.tells) if types else ()

    def _as_bound(self, at: int, value: Value, types: Types | None) -> Value:
        if at not in self.sent:
            return value
        return cast(Value, AsBound(value, unsigned=types is not None and bool(types[at] & UNSIGNED)))


def _is_too_fine(value: Value) -> bool:
    if isinstance(value, Decimal):
        return len(value.as_tuple().digits) > SAFE_DIGITS or value != value.to_integral_value()
    return isinstance(value, int) and abs(value) >= EXACT_DOUBLE


def _has_sign(value: Value) -> bool:
    return isinstance(value, int) and not 0 <= value < SIGN


def _filled(item: object, values: Sequence[ParameterValue]) -> ParameterValue:
    if isinstance(item, Sentinel):
        return values[item.index]
    if isinstance(item, tuple):
        return tuple(_filled(one, values) for one in item)
    return item


_FLAGGED_LATER = re.compile(r"\b(?:bin|oct|conv)\s*\(", re.IGNORECASE)
"""Functions that set their column's UNSIGNED flag when they are computed: MySQL tells it from the second execution."""


def _rounded(type_: SqlType) -> bool:
    """Whether the text protocol rounds such values. Answers held in evict mode come by it."""
    return type_.name == "float" or (type_.name == "double" and type_.scale is not None)


def target_of(
    statement: PreparedStatement,
    route: Route,
    system: SessionSystem,
    *,
    eof: bool,
    steer: Steer = Steer.NOT,
    text: bytes,
    hint: bytes = b"",
    clocks: Zone | None = None,
) -> Target:
    """For which cache a prepared statement is. One whose cache fixes a constant where the statement has a parameter is
    for none: MySQL answers it. `text`: the statement's, with what the clock says, and with the hint. `clocks`: the
    session's."""
    target = Target(route, system.caches.version, text=text, hint=hint, forced=steer is Steer.FORCE)
    if steer is Steer.SKIP:
        target.why = SKIPPED
        return target
    if statement.parameters > MOST_PARAMETERS:
        target.why = TOO_MANY
        return target
    sentinels = tuple(Sentinel(index) for index in range(statement.parameters))
    try:
        sql = text.decode()
        found = system.caches.match(sql, statement.database, sentinels)
    except UnicodeDecodeError:
        target.why = Reason.SETTING.why("the text is not valid UTF-8")
        return target
    if found is None:
        target.why = NO_CACHE
        return target
    if not hint and MARK in sql:
        target.why = Reason.SETTING.why("the text tells a collation, as those of Upwell's own fills do")
        return target
    name, template = found
    cache = route.opened(system, name, binary=True, eof=eof, clocks=clocks)
    info = cache.info
    if info.mode == "evict" and any(_rounded(column.type) for column in info.columns):
        target.why = Reason.PARAMETERS.why("FLOAT and DOUBLE of an answer held as text have lost digits")
        return target
    if _FLAGGED_LATER.search(sql):
        target.why = Reason.COLUMNS.why(
            "MySQL announces what BIN, OCT and CONV give otherwise once a statement has been executed"
        )
        return target
    target.cache, target.template, target.plain_int = cache, tuple(template), cache.plain_int
    target.same = target.template == sentinels
    target.dates = tuple(item.type.name in DATED or item.sent.null for item in info.parameters)
    target.compared = _compared_with(template, [item.type.name for item in info.parameters])
    target.list_end = len(sentinels) if cache.lists and target.template == (sentinels,) else 0
    untyped = [item for item, of in zip(template, info.parameters, strict=True) if _is_sent(of)]
    ones = [one for item in untyped for one in (item if isinstance(item, tuple) else (item,))]
    target.sent = frozenset(one.index for one in ones if isinstance(one, Sentinel))
    shown = [template[at] for at in cache.tells]
    target.tells = tuple(one.index for one in shown if isinstance(one, Sentinel))
    return target


def _is_sent(parameter: ParameterInfo) -> bool:
    """Whether it counts as what it is bound, for no column tells its type."""
    return not (parameter.type.is_known or parameter.sent.null)


def _compared_with(template: Sequence[object], types: Sequence[str]) -> Compared:
    """`types`: of the cache's parameters, which `template` is of."""
    found = Compared()
    for item, name in zip(template, types, strict=False):
        if name == "literal":
            continue
        for one in item if isinstance(item, tuple) else (item,):
            if isinstance(one, Sentinel):
                found.add(one.index, name, listed=isinstance(item, tuple))
    return found
