"""What the stream must deliver for an arrangement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.tree.plan import AggregateArrangement, AnswerArrangement, RowsArrangement, TopKArrangement
from planner.tree.plan import Arrangement as ArrangementPlan
from sqltypes.expression import Expr, columns_of
from sqltypes.schema import ZONE_TABLES, Table


def wanted_columns(plan: ArrangementPlan) -> Iterator[tuple[Table, frozenset[str]]]:
    """The columns of each table that an arrangement reads from changes, lower case. Changes of MySQL's tables of time
    zones come unasked (`vstream/binlog/decode.py`)."""
    if isinstance(plan, AnswerArrangement):
        for input_ in plan.inputs:
            if input_.table in ZONE_TABLES:
                continue
            conditions = (input_.filter, input_.tells, None if input_.cut is None else input_.cut.column)
            exprs = (*input_.used, *(expr for expr in conditions if expr is not None))
            names = [name for name in input_.key_columns if name is not None]
            yield input_.table, _names(names, exprs)
        return
    exprs = (plan.filter,) if plan.filter is not None else ()
    match plan:
        case RowsArrangement():
            names = [*plan.key, *plan.columns]
        case AggregateArrangement():
            names = [*plan.key, *plan.group]
            exprs = (*exprs, *(aggregate.argument for aggregate in plan.aggregates if aggregate.argument is not None))
        case TopKArrangement():
            names = [*plan.key, *plan.columns, *plan.table.primary_key]
            exprs = (*exprs, *(term.expr for term in plan.order))
    yield plan.table, _names(names, exprs)


def _names(names: Iterable[str], exprs: Iterable[Expr]) -> frozenset[str]:
    return frozenset(name.lower() for name in names) | {
        column.name.lower() for expr in exprs for column in columns_of(expr)
    }
