"""Dates with a zero in them, such as 2024-00-00, or of no calendar, such as 2024-02-31, where what MySQL makes of them
depends on its plan.

MySQL's default sql_mode stores 0000-00-00 for them: in the temporary table of a GROUP BY, a DISTINCT or the ORDER BY of
a join, and in the key by which it looks a row up in an index. Whether there is such a table or key, the plan says. So
there such a date is not computed with: the read is MySQL's to answer. Where what was filled may be what such a table
gave, 0000-00-00 itself is no better. Nor is it where an aggregate is compared, or is the least or largest, of a
DATETIME or TIMESTAMP that is no plain column: MySQL may make NULL of it then.

The least or largest of YEARs, if it is zero, MySQL shows as 0000 from such a table, and else as 0.
"""

from __future__ import annotations

from dataclasses import replace

from planner.tree.logical import AGGREGATE, transform
from planner.tree.plan import (
    Aggregate,
    AggregateArrangement,
    AggregateFunction,
    AnswerArrangement,
    Lookup,
    QueryPlan,
    Reader,
)
from sqltypes.expression import Call, ColumnRef, Expr, columns_of
from sqltypes.functions import COMPARISONS
from sqltypes.schema import SqlType

DATED = frozenset({"date", "datetime", "timestamp"})
COMPARED = COMPARISONS | {"in"}
EXTREMES = (AggregateFunction.MIN, AggregateFunction.MAX)


def with_whole_dates(plan: QueryPlan) -> QueryPlan:
    """The plan whose reader refuses dates with a zero in them where they count."""
    reader = plan.reader
    if isinstance(reader.root, AnswerArrangement):
        return plan
    reader = _compared(replace(reader, lookups=tuple(map(_lookup, reader.lookups))))
    if reader.aggregated:
        group, aggregates = tuple(map(_in_table, reader.group)), tuple(map(_aggregate, reader.aggregates))
        reader = replace(reader, group=group, aggregates=aggregates)
    elif reader.lookups and any(isinstance(each, AggregateArrangement) for each in plan.arrangements):
        reader = _shown(reader)  # the query's own GROUP BY may be below the join here, which MySQL has above it
    elif reader.distinct is not None or (reader.lookups and reader.order):
        reader = _shown(reader)
    return replace(plan, reader=reader)


def _compared(reader: Reader) -> Reader:
    """Aggregates in comparisons are whole dates."""
    computed = {AGGREGATE}
    computed.update(lookup.alias for lookup in reader.lookups if isinstance(lookup.arrangement, AggregateArrangement))
    if isinstance(reader.root, AggregateArrangement):
        computed.add(reader.alias)

    def whole(node: Expr) -> Expr | None:
        return _refused(node, "no_zero") if isinstance(node, ColumnRef) and _dated(node) else None

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Call) and node.op in COMPARED and any(ref.source in computed for ref in columns_of(node)):
            return replace(node, args=tuple(transform(arg, whole) for arg in node.args))
        return None

    def of(expr: Expr | None) -> Expr | None:
        return None if expr is None else transform(expr, change)

    return replace(
        reader,
        lookups=tuple(replace(lookup, on=of(lookup.on)) for lookup in reader.lookups),
        filter=of(reader.filter),
        having=of(reader.having),
        output=tuple(replace(column, expr=transform(column.expr, change)) for column in reader.output),
        order=tuple(replace(term, expr=transform(term.expr, change)) for term in reader.order),
    )


def _lookup(lookup: Lookup) -> Lookup:
    return replace(lookup, key=tuple(_refused(expr, "no_zero") if _dated(expr) else expr for expr in lookup.key))


def _aggregate(aggregate: Aggregate) -> Aggregate:
    if aggregate.argument is None or aggregate.function not in EXTREMES:
        return aggregate
    if _is_computed_moment(aggregate) or aggregate.argument.type.name == "year":
        return replace(aggregate, argument=_refused(aggregate.argument, "no_zero"))
    return replace(aggregate, argument=_in_table(aggregate.argument))


def _is_computed_moment(aggregate: Aggregate) -> bool:
    argument = aggregate.argument
    return argument is not None and not isinstance(argument, ColumnRef) and argument.type.is_moment


def _shown(reader: Reader) -> Reader:
    return replace(
        reader,
        output=tuple(replace(column, expr=_in_table(column.expr)) for column in reader.output),
        order=tuple(replace(term, expr=_in_table(term.expr)) for term in reader.order),
    )


def _in_table(expr: Expr) -> Expr:
    """An expression over what may go through a temporary table."""
    return transform(
        expr, lambda node: _refused(node, "no_partial") if isinstance(node, ColumnRef) and _dated(node) else None
    )


def _refused(expr: Expr, op: str) -> Expr:
    return Call(op, (expr,), expr.type, expr.nullable)


def _dated(expr: Expr) -> bool:
    return expr.type.name in DATED


def dated_places(plan: AggregateArrangement) -> tuple[int, ...]:
    """Of the values of a group, those that may have gone through the temporary table of the fill. The key is one value
    for all groups."""
    types: list[SqlType | None] = [None if name in plan.key else plan.table.column(name).type for name in plan.group]
    places = [at for at, type_ in enumerate(types) if type_ is not None and type_.name in DATED]
    for at, aggregate in enumerate(plan.aggregates, len(types)):
        dated = aggregate.type.name in DATED or aggregate.type.name == "year" or _is_computed_moment(aggregate)
        if aggregate.function in EXTREMES and dated:
            places.append(at)
    return tuple(places)
