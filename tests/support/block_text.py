"""A block of the planner as text, for the fixtures of its rewrites."""

from __future__ import annotations

from planner.tree.logical import Base, Block, Derived, Grouped, Join
from planner.tree.plan import AggregateFunction
from planner.tree.sql_text import expr_sql, plain_column
from sqltypes.expression import Call, Expr


def block_text(block: Block) -> str:
    """Close to SQL; groups of a table are `(table by columns: aggregates)`."""
    aggregates = {("agg", aggregate.name): aggregate for aggregate in block.aggregates}
    shown = [f"{_text(output.expr)} AS {output.name}" for output in block.outputs]
    parts = ["SELECT", "DISTINCT" if block.distinct else "", ", ".join(shown), "FROM", _joins(block.joins)]
    if block.where:
        parts += ["WHERE", _conjunction(block.where)]
    if block.group:
        parts += ["GROUP BY", ", ".join(map(_text, block.group))]
    if block.having:
        parts += ["HAVING", _conjunction(block.having)]
    if block.order:
        parts += [
            "ORDER BY",
            ", ".join(_text(term.expr) + (" DESC" if term.descending else "") for term in block.order),
        ]
    named = [
        f"{name} = {aggregate.function.name}({_text(aggregate.argument)})"
        for (_, name), aggregate in aggregates.items()
        if aggregate.argument is not None
    ]
    if named:
        parts.append(f"[{', '.join(named)}]")
    for name, scalar in block.scalars.items():
        parts.append(f"[{name} = ({block_text(scalar)})]")
    return " ".join(part for part in parts if part)


def _joins(joins: tuple[Join, ...]) -> str:
    out = ""
    for join in joins:
        word = "" if not out else " LEFT JOIN " if join.outer else " JOIN "
        on = f" ON {_conjunction(join.on)}" if join.on else ""
        out += f"{word}{_source(join)} {join.alias}{on}"
    return out


def _source(join: Join) -> str:
    match join.source:
        case Base(table):
            return table.name
        case Derived(block, _):
            return f"({block_text(block)})"
        case Grouped(table, group, aggregates, filter_):
            shown = [
                f"{aggregate.name} = {aggregate.function.name}({_text(aggregate.argument)})"
                for aggregate in aggregates
                if aggregate.argument is not None and aggregate.function is not AggregateFunction.COUNT_STAR
            ]
            where = f" if {_conjunction(filter_)}" if filter_ else ""
            return f"({table.name}{where} by {', '.join(group)}: {', '.join([*shown, 'count(*)'])})"


def _conjunction(parts: tuple[Expr, ...]) -> str:
    return " AND ".join(
        f"({_text(part)})" if isinstance(part, Call) and part.op == "or" else _text(part) for part in parts
    )


def _text(expr: Expr) -> str:
    return expr_sql(expr, plain_column, lambda ref: f"?{ref.index + 1}")
