"""Parameters whose type no column tells: an answer is held by the literals that stand in their places.

What MySQL makes of such a literal depends on its kind: `n & '3'`, `n & 3` and `n & 3e0` are three questions. So the
key is the literal itself, with its kind and digits, and MySQL is asked with it as it was sent. What is bound to a
prepared statement MySQL reads in yet another way. Its key says so (`BOUND`), and MySQL is asked by PREPARE and EXECUTE
with a variable of that kind and value, which it reads as what is bound
(`integration/prepared/test_untyped_parameters.py`).

Which literal it will be is not known when the query is planned: every check is made with a literal of each kind in its
place. Where such a parameter is compared with a column, it is known only with the literal whether MySQL may find other
rows by an index (`planner/tree/by_index.py`): that is asked when it is bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum

from sqlglot import exp

from planner.text.parse import parameter_number
from planner.text.scan import scan
from planner.tree.announced_by import SPANS
from planner.tree.by_index import Asked, Family, Nature, Side, differs
from planner.tree.reasons import refuse
from sqltypes.errors import ComparedElsewhere, ParseError
from sqltypes.expression import Value
from sqltypes.parameters import AsBound, Moment
from sqltypes.temporal import parse_datetime
from sqltypes.values import client_literal

AsSent = exp.Parameter
"""A parameter whose type no column tells. The parser makes such nodes of variables, which no cached query has."""


@dataclass(frozen=True, slots=True)
class Beside:
    """A comparison of such a parameter with a column, or with something that is computed."""

    column: Side
    asked: Asked


class Around(IntEnum):
    """What stands beside a parameter: in what it is compared with, or what is computed with it. The larger counts."""

    TEXTS = 0  # strings and JSON alone
    NUMBERS = 1  # numbers, too
    DATES = 2  # what may be a date or a time, too


@dataclass(frozen=True, slots=True)
class Sent:
    """What is asked of the literals of such a parameter. `beside`: what it is compared with; `bound`: it is one of
    BETWEEN, and so never NULL; `dated`: it may be DATE'...' or TIMESTAMP'...'; `around`: what stands beside it;
    `list`: it is an IN-list's; `shown`: the time from it or to it is shown, and it is one of these two; `tells`: as of
    `Parameter`; `null`: all that is asked of it is whether it is NULL; `foreign`: the query's literals are of another
    character set than utf8mb4."""

    beside: tuple[Beside, ...] = ()
    bound: bool = False
    dated: bool = True
    around: Around = Around.DATES
    list: bool = False
    shown: bool = False
    tells: bool = False
    null: bool = False
    foreign: bool = False


TYPED = Sent()
"""Of the other parameters."""
Note = Callable[[int, Beside], None]  # of the parameter with this number

SAMPLES: tuple[Callable[[], exp.Expr], ...] = (
    exp.Null,
    lambda: exp.Literal.number(1),
    lambda: exp.Literal.number("1.5"),
    lambda: exp.Literal.number("1.5e0"),
    lambda: exp.Literal.string("a"),
)
"""Each makes a literal of another kind. A string of bytes is none: hardly anybody sends one, and beside it much more
depends on the session."""
MOMENTS: tuple[Callable[[], exp.Expr], ...] = (
    lambda: exp.cast(exp.Literal.string("2024-02-29"), exp.DType.DATE),
    lambda: exp.cast(exp.Literal.string("2024-02-29 12:34:56"), exp.DType.TIMESTAMPTZ),
)
"""DATE'...' and TIMESTAMP'...', which not each place takes that takes the others."""
_FRACTION = re.compile(r"\s*[-+]?\d*(\.|\d[eE])", re.ASCII)
_OFFSET = re.compile(r"[+-]\d{1,2}:\d\d\s*\Z", re.ASCII)  # of a date-time, which is one of the session's time zone


def marked(tree: exp.Query, numbers: Collection[int]) -> exp.Query:
    """A copy of the tree, in which these parameters are `AsSent`. Raises UnsupportedQuery where one would be a position
    as a literal."""
    tree = tree.copy()
    for node in _found(tree, numbers):
        if isinstance(_around(node), exp.Ordered | exp.Order | exp.Group):
            raise refuse("parameter_type", f"parameter {parameter_number(node) + 1}, which may be a position")
        node.replace(AsSent(this=node.this))
    return tree


def with_sample(tree: exp.Query, numbers: Collection[int], sample: Callable[[], exp.Expr]) -> exp.Query:
    """A copy of the tree with a literal in the place of each of these parameters, of a list with two. A bound of
    BETWEEN stays where the literal is NULL: it is never that (`is_bound`)."""
    tree = tree.copy()
    for node in _found(tree, numbers):
        if isinstance(node.parent, exp.In) and node.parent.this is not node:
            node.parent.append("expressions", sample())
        if not (is_bound(node) and isinstance(sample(), exp.Null)):
            node.replace(sample())
    return tree


def bounds(tree: exp.Query) -> frozenset[int]:
    """The parameters in a bound of BETWEEN. How MySQL reads NULL there depends on its plan."""
    return frozenset(parameter_number(node) for node in tree.find_all(exp.Placeholder) if is_bound(node))


def is_bound(node: exp.Expr) -> bool:
    parent = node.parent
    while isinstance(parent, exp.Expr) and not isinstance(parent, exp.Query):
        if isinstance(parent, exp.Between):
            return node is not parent.this
        node, parent = parent, parent.parent
    return False


def asked_whether_null(tree: exp.Query) -> frozenset[int]:
    """The parameters of `? IS NULL`."""
    asked = [node.this.unnest() for node in tree.find_all(exp.Is) if isinstance(node.expression, exp.Null)]
    return frozenset(parameter_number(node) for node in asked if isinstance(node, exp.Placeholder))


BEFORE = "a value is bound for which it may count what was bound before"
BOUND_AND_SHOWN = "a DECIMAL, or a string beside a number, is bound for what is shown, and may tell its type and digits"
BOUND = "?"
"""Before the literal of a value that was bound: no literal begins so."""


def key_of(value: Value, sent: Sent) -> str:
    """The literal that a client has sent, as it is sent to MySQL. Raises ComparedElsewhere where it is MySQL's."""
    if sent.null:
        return "NULL" if _is_null(value) else "1"
    if isinstance(value, Literal):
        return str(value)
    if isinstance(value, AsBound):
        if sent.around is Around.DATES and _is_date(value.value) and not (sent.list or sent.tells):
            return _literal_of(value.value, sent)  # which MySQL takes for the same there, and not beside strings
        return BOUND + _bound_literal(value, sent)
    return _literal_of(value, sent)


def _is_null(value: Value) -> bool:
    given = value.value if isinstance(value, AsBound) else value
    return given is None or (isinstance(given, Literal) and given == "NULL")


class Literal(str):
    """The literal itself, as a key has it."""

    __slots__ = ()


def as_in_key(value: Value) -> Value:
    """A literal that is the text of one, as keys are written to files; other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        tokens = scan(value.removeprefix(BOUND))
    except ParseError:
        return value
    kinds = [token.kind for token in tokens]
    word = tokens[0].text.upper() if tokens else ""
    signed = word == "-" and kinds[1:] == ["number"]
    dated = word in ("DATE", "TIMESTAMP") and kinds[1:] == ["string"]
    one = kinds in (["string"], ["number"]) or (word == "NULL" and len(kinds) == 1)
    return Literal(value) if one or signed or dated else value


def _bound_literal(bound: AsBound, sent: Sent) -> str:
    value = bound.value
    if value is None or isinstance(value, Moment):  # a variable that is NULL has another type, and none is a time
        raise ComparedElsewhere("NULL, a time or no whole date is bound where no column tells the type")
    if sent.foreign:  # the text of a PREPARE is converted as MySQL converts no other
        raise ComparedElsewhere("a value is bound beside literals of another character set than utf8mb4")
    if sent.list or bound.unsigned or not may_be_bound(value, sent.around):
        raise ComparedElsewhere(BEFORE)
    if sent.tells and (
        isinstance(value, Decimal) or (isinstance(value, str) and sent.around is not Around.TEXTS)
    ):  # behind '1.5' MySQL goes on with a DECIMAL
        raise ComparedElsewhere(BOUND_AND_SHOWN)
    return _literal_of(value, sent)


def _is_date(value: Value) -> bool:
    """Whether it is bound as a date or date-time, and one of the calendar: of others a literal is an error."""
    return isinstance(value, Moment) and value.has_date and parse_datetime(value) is not None


def may_be_bound(value: Value, beside: Around) -> bool:
    """Whether what was bound before does not count for it. `value`: a string, or a number with a sign."""
    if beside is Around.DATES:
        return isinstance(value, str) and parse_datetime(value) is not None and value == value.strip()
    return beside is Around.TEXTS or not isinstance(value, str) or _FRACTION.match(value) is None


def _literal_of(value: Value, sent: Sent) -> str:
    if sent.shown and not isinstance(value, Moment):
        raise ComparedElsewhere("a literal that is no date is given in a select item")
    if isinstance(value, bytes):
        raise ComparedElsewhere("a string of bytes is given where no column tells the type")
    if value is None and sent.bound:
        raise ComparedElsewhere("NULL is given for a bound of BETWEEN, which MySQL reads by its plan")
    if isinstance(value, str) and _OFFSET.search(value) is not None:
        raise ComparedElsewhere("a date-time with an offset is given, which is one of the session's time zone")
    if isinstance(value, Moment) and not sent.dated:
        raise ComparedElsewhere("a date is given where a time may be compared with it, by the current date")
    if any(differs(each.column, _side(value), each.asked) for each in sent.beside):
        raise ComparedElsewhere("by an index MySQL finds other rows for this literal than without one")
    return client_literal(value)


def _side(value: Value) -> Side:
    match value:
        case None:
            return Side(Family.NULL, 0, Nature.CONSTANT)
        case Moment():
            family = Family.DATE if len(value) == 10 else Family.MOMENT
            return Side(family, len(value.partition(".")[2].rstrip("0")), Nature.CONSTANT, value)
        case str():
            return Side(Family.TEXT, 0, Nature.CONSTANT, value)
    family = {int: Family.INTEGER, bool: Family.INTEGER, Decimal: Family.DECIMAL}.get(type(value), Family.FLOAT)
    return Side(family, 0, Nature.CONSTANT, client_literal(value))


def _found(tree: exp.Expr, numbers: Collection[int]) -> Iterator[exp.Placeholder]:
    yield from [node for node in tree.find_all(exp.Placeholder) if parameter_number(node) in numbers]


def _around(node: exp.Expr) -> exp.Expr | None:
    parent = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    return parent


def is_span(node: exp.Expr) -> bool:
    """Whether the time from it or to it is shown."""
    return is_shown(node) and isinstance(node.parent, SPANS)


def is_shown(node: exp.Expr) -> bool:
    """Whether it stands in a select item."""
    parent = node.parent
    while parent is not None:
        if isinstance(parent, exp.Select) and any(item is node for item in parent.expressions):
            return True
        node, parent = parent, parent.parent
    return False
