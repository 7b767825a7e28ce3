"""Groups of one table whose rows spell what the answer shows of them otherwise: such an answer is MySQL's to give.

A group knows of each of its columns whether all its rows spell it alike (`AggregateArrangement.spelled`). Where the
column is compared, looked up or not used at all, that says nothing; where it is shown it must be so.
"""

from __future__ import annotations

from dataclasses import replace

from planner.tree.logical import transform
from planner.tree.plan import AggregateArrangement, QueryPlan, one_spelling_of
from sqltypes.expression import Call, ColumnRef, Expr
from sqltypes.schema import BIGINT


def with_one_spelling(plan: QueryPlan) -> QueryPlan:
    """The plan whose reader shows a group's column only if all rows of the group spell it alike."""
    reader = plan.reader
    sources = [(reader.alias, reader.root), *((lookup.alias, lookup.arrangement) for lookup in reader.lookups)]
    spelled = {
        (alias, name.lower()): ColumnRef(alias, one_spelling_of(name), BIGINT, True)
        for alias, arrangement in sources
        if isinstance(arrangement, AggregateArrangement)
        for name in arrangement.spelled
    }
    if not spelled:
        return plan

    def shown(node: Expr) -> Expr | None:
        one = spelled.get((node.source, node.name.lower())) if isinstance(node, ColumnRef) else None
        return None if one is None else Call("one_spelling", (node, one), node.type, node.nullable)

    return replace(
        plan,
        reader=replace(
            reader,
            group=tuple(transform(expr, shown) for expr in reader.group),
            aggregates=tuple(
                aggregate
                if aggregate.argument is None
                else replace(aggregate, argument=transform(aggregate.argument, shown))
                for aggregate in reader.aggregates
            ),
            output=tuple(replace(column, expr=transform(column.expr, shown)) for column in reader.output),
        ),
    )
