"""Of which family an expression's value is (`planner/tree/by_index.py`), as far as text and types of columns tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import exp

from planner.tree.by_index import DATES, NUMBERS, STRINGS, Family, Nature, Side
from planner.tree.function_table import (
    BY_FAMILY,
    CASTS,
    CHOOSING,
    COMPUTED,
    DATE_ARITHMETIC,
    OF_ITS_VALUE,
)
from planner.tree.kinds import date_of, results_of
from planner.tree.untyped import AsSent

Columns = Callable[[exp.Column], Side]
_FINE = (Family.MOMENT, Family.TIME)


def side_of(node: exp.Expr, columns: Columns) -> Side:
    """What the expression is as one side of a comparison. `columns`: tells what a column is."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return columns(node)
    constant = _constant(node)
    if constant is not None:
        return constant
    if isinstance(node, AsSent):
        return Side(Family.UNKNOWN, None, Nature.COMPUTED)
    if isinstance(node, exp.Placeholder):
        return Side(Family.UNKNOWN, 0, Nature.PARAMETER)
    return _computed(node, columns)


def _constant(node: exp.Expr) -> Side | None:
    """Of a literal; None where it is none."""
    if isinstance(node, exp.Null):
        return Side(Family.NULL, 0, Nature.CONSTANT)
    if isinstance(node, exp.Boolean):
        return Side(Family.INTEGER, 0, Nature.CONSTANT, str(int(bool(node.this))))
    if isinstance(node, exp.Neg) and isinstance(node.this.unnest(), exp.Literal):
        inner = _constant(node.this.unnest())
        assert inner is not None
        return None if inner.family not in NUMBERS else Side(inner.family, 0, Nature.CONSTANT, f"-{inner.text}")
    if isinstance(node, exp.Literal):
        text = str(node.this)
        return Side(Family.TEXT if node.is_string else _of_number(text), 0, Nature.CONSTANT, text)
    if isinstance(node, exp.HexString | exp.BitString):
        return Side(Family.BYTES, 0, Nature.CONSTANT, str(node.this))
    if isinstance(node, exp.National):
        return Side(Family.TEXT, 0, Nature.CONSTANT, str(node.this))
    if isinstance(node, exp.Introducer) and isinstance(node.expression, exp.Literal):
        return Side(Family.TEXT, 0, Nature.CONSTANT, str(node.expression.this))
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        family = {"DATE": Family.DATE, "TIMESTAMPTZ": Family.MOMENT, "TIME": Family.TIME}.get(node.to.this.name)
        if family is not None and not node.to.expressions:
            text = str(node.this.this)
            return Side(family, len(text.partition(".")[2].rstrip("0")), Nature.CONSTANT, text)
    return None


def _of_number(text: str) -> Family:
    if "e" in text.lower():
        return Family.FLOAT
    return Family.DECIMAL if "." in text else Family.INTEGER


def _computed(node: exp.Expr, columns: Columns) -> Side:
    return Side(*_family(node, columns), Nature.COMPUTED)


def _family(node: exp.Expr, columns: Columns) -> tuple[Family, int | None]:
    """And the digits of the fraction; None where these are not known."""
    if isinstance(node, exp.Cast):
        return _cast(node)
    for family, functions in BY_FAMILY:
        if isinstance(node, functions.classes):
            return family, _scale(node, columns) if family in _FINE else 0
    based = date_of(node) if isinstance(node, (exp.Add, exp.Sub, *DATE_ARITHMETIC)) else None
    if based is not None:
        return _moved(node, side_of(based, columns))
    if isinstance(node, COMPUTED):
        return _number(node, columns), 0
    if isinstance(node, CHOOSING):
        return one_of(side_of(part, columns) for part in results_of(node))
    if isinstance(node, (*OF_ITS_VALUE, exp.Distinct)) and isinstance(node.this, exp.Expr):
        side = side_of(node.this, columns)
        if side.family is Family.MEMBER and isinstance(node, exp.Min | exp.Max):
            return Family.UNKNOWN, None  # by an index the first by number, else by text
        return side.family, side.scale
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    return next((family for family, functions in BY_FAMILY if name in functions.names), Family.UNKNOWN), None


def _scale(node: exp.Expr, columns: Columns) -> int | None:
    """Of a moment or time that is made of something."""
    made_of = side_of(node.this, columns)
    return made_of.scale if made_of.family in DATES | {Family.TIME} else None


def _cast(node: exp.Cast) -> tuple[Family, int]:
    sizes = [int(size.name) for size in node.to.find_all(exp.Literal)]
    family = CASTS.get(node.to.this.name, Family.TEXT)
    return family, sizes[0] if sizes and family in (Family.MOMENT, Family.TIME) else 0


def _moved(node: exp.Expr, base: Side) -> tuple[Family, int | None]:
    """A date or time to which an interval is added: of a date it may be a moment, of a string it is a string whose
    value is a date."""
    if base.family in DATES or base.family is Family.TIME:
        unit = " ".join(str(part) for part in node.find_all(exp.Var)).upper()
        family = base.family if base.family is Family.TIME else Family.MOMENT
        exact = "SECOND" not in unit and base.scale is not None
        return family, base.scale if exact or _whole_interval(node) else None
    return Family.UNKNOWN, None


def _whole_interval(node: exp.Expr) -> bool:
    """Whether whole seconds are added."""
    texts = [str(part.this) for part in node.find_all(exp.Literal)]
    units = {str(part).upper() for part in node.find_all(exp.Var)}
    return all(text.isdigit() for text in texts) and not any("MICRO" in unit for unit in units)


def _number(node: exp.Expr, columns: Columns) -> Family:
    """Of arithmetic, and of a function of a number."""
    below = [node.left, node.right] if isinstance(node, exp.Binary) else results_of(node)
    families = {side_of(part, columns).family for part in below}
    if families & (STRINGS | {Family.FLOAT, Family.UNKNOWN, Family.JSON}):
        return Family.FLOAT
    exact = isinstance(node, exp.Sum | exp.Avg | exp.Div) or not families <= {Family.INTEGER, Family.NULL}
    return Family.DECIMAL if exact else Family.INTEGER


def one_of(sides: Iterable[Side]) -> tuple[Family, int | None]:
    """What is one of these."""
    found = [side for side in sides if side.family is not Family.NULL]
    families = {side.family for side in found}
    scales = [side.scale for side in found]
    scale = None if None in scales else max((side.scale or 0 for side in found), default=0)
    if len(families) == 1:
        (family,) = families
        return family, scale
    if families <= DATES:
        return Family.MOMENT, scale
    if families and families <= NUMBERS:
        return (Family.FLOAT if Family.FLOAT in families else Family.DECIMAL), 0
    return (Family.TEXT, 0) if families & STRINGS else (Family.UNKNOWN, None)
