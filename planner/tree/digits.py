"""Values of which MySQL shows other digits than it computes with, as its plan goes.

An AVG of exact numbers has at least nine digits behind the point while MySQL computes with it, and those of its type
where it is shown or where its plan keeps it in a temporary table: `AVG(x) * 3` is 4.0000 or 3.9999. A CASE over
DECIMALs of several scales shows the chosen result's own digits, and those of its type out of a temporary table: 2 or
2.00.
"""

from __future__ import annotations

from planner.tree.logical import AGGREGATE, SCALAR, Block, Derived, NotMaintained
from planner.tree.plan import Aggregate, AggregateFunction
from planner.tree.reasons import because
from sqltypes.arithmetic import DIVISION_SCALE, WORD_DIGITS
from sqltypes.casts import scale_varies
from sqltypes.expression import Call, ColumnRef, Expr, columns_of, walk
from sqltypes.functions import decimal_digits


def require_certain_digits(block: Block) -> None:
    """Raises NotMaintained where MySQL's plan decides about digits of what the block computes."""
    shown = [*[output.expr for output in block.outputs], *block.group]
    computed = [*block.where, *block.having, *[term.expr for term in block.order]]
    computed += [part for join in block.joins for part in join.on]
    arguments = [aggregate.argument for aggregate in block.aggregates if aggregate.argument is not None]
    made = bool(block.aggregates or block.scalars or [join for join in block.joins if isinstance(join.source, Derived)])
    if made and any(
        _is_average(column, block)
        for expr in (*filter(lambda expr: not _shows_average(expr), shown), *computed, *arguments)
        for column in columns_of(expr)
    ):
        raise NotMaintained(because("digits", "an AVG within an expression, HAVING or ORDER BY"))
    if any([isinstance(expr, Call) and expr.op == "case" and scale_varies(expr) for expr in shown]):
        raise NotMaintained(because("digits", "a CASE or IF over DECIMALs of several scales"))
    divided = {ref for expr in (*shown, *computed) for ref in _divided(expr)} if block.aggregates else set[str]()
    for aggregate in block.aggregates:
        average = aggregate.function is AggregateFunction.AVG
        varied = aggregate.argument is not None and scale_varies(aggregate.argument)
        if varied and (average or aggregate.name in divided) and _long(aggregate):
            raise NotMaintained(because("digits", "a quotient of DECIMALs of several scales"))


def _divided(expr: Expr) -> set[str]:
    """The aggregates of which a quotient is made."""
    quotients = [node for node in walk(expr) if isinstance(node, Call) and node.op == "/"]
    return {ref.name for node in quotients for ref in columns_of(node) if ref.source == AGGREGATE}


def _long(aggregate: Aggregate) -> bool:
    """Whether quotients may be cut at other words of digits: with fewer digits the words are the same."""
    assert aggregate.argument is not None
    return decimal_digits(aggregate.argument.type)[1] + DIVISION_SCALE > WORD_DIGITS


def _shows_average(expr: Expr) -> bool:
    """Whether a value itself is shown, and nothing that is computed from it. It is then rounded to its type."""
    if isinstance(expr, Call) and expr.op == "coalesce":
        first, *others = expr.args
        return isinstance(first, ColumnRef) and not any(columns_of(other) for other in others)
    return isinstance(expr, ColumnRef)


def _is_average(column: ColumnRef, block: Block) -> bool:
    """Whether it may have more digits than its type."""
    if column.source == AGGREGATE:
        found = next(aggregate for aggregate in block.aggregates if aggregate.name == column.name)
        return found.function is AggregateFunction.AVG and column.type.name == "decimal"
    if column.source == SCALAR:
        inner = block.scalars[column.name]
        return _has_average(inner.outputs[0].expr, inner)
    source = next((join.source for join in block.joins if join.alias == column.source), None)
    if not isinstance(source, Derived) or source.block.grouped:
        return False  # groups of a derived table are always kept in a temporary table
    at = [name.lower() for name in source.columns].index(column.name.lower())
    return _has_average(source.block.outputs[at].expr, source.block)


def _has_average(expr: Expr, block: Block) -> bool:
    return any(_is_average(column, block) for column in columns_of(expr))
