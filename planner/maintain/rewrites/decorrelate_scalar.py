"""A correlated aggregate subquery becomes a lookup of groups.

    SELECT (SELECT COUNT(*) FROM votes v WHERE v.article_id = a.id AND v.vote = 1) FROM articles a
    SELECT COALESCE(g.`count(*)`, 0) FROM articles a
      LEFT JOIN (SELECT article_id, COUNT(*) FROM votes WHERE vote = 1 GROUP BY article_id) g ON g.article_id = a.id

The subquery has one row for every row around it, and the groups have at most one, so the join neither adds rows nor
drops any. COUNT of nothing is 0, every other aggregate of nothing is NULL, as for a missing partner.
"""

from __future__ import annotations

from dataclasses import replace

from planner.tree.logical import (
    AGGREGATE,
    SCALAR,
    Base,
    Block,
    Grouped,
    Join,
    NotMaintained,
    fresh_alias,
    hashes_alike,
    map_block,
    own_aggregates,
    parameters_of,
    substitute,
    to_own,
)
from planner.tree.plan import Aggregate, AggregateFunction
from planner.tree.reasons import because
from sqltypes.build import literal
from sqltypes.expression import Call, ColumnRef, Expr, ParamRef, columns_of, sources_of
from sqltypes.functions import call


def decorrelate_scalar(block: Block) -> Block:
    """Raises NotMaintained for a subquery of another form."""
    for name, inner in block.scalars.items():
        block = _decorrelate(block, name, inner)
    return replace(block, scalars={})


def _decorrelate(block: Block, name: str, inner: Block) -> Block:
    base = inner.joins[0] if len(inner.joins) == 1 else None
    plain = inner.grouped and not (inner.group or inner.having or inner.scalars or inner.limit or inner.distinct)
    if base is None or not isinstance(base.source, Base) or not plain:
        raise NotMaintained(because("subquery"))
    table = base.source.table
    keys: dict[str, Expr] = {}
    own: list[Expr] = []
    for part in inner.where:
        found = correlation(part, base.alias)
        if found is not None and found[0].name not in keys:
            keys[found[0].name] = found[1]
        elif sources_of(part) <= {base.alias} and not parameters_of(part):
            own.append(to_own(part, base.alias, table))
        else:
            raise NotMaintained(because("subquery"))
    if not keys:
        raise NotMaintained(because("subquery", "not correlated by equality"))
    alias = fresh_alias(f"{base.alias}_groups", {join.alias for join in block.joins})
    grouped = Grouped(table, tuple(keys), own_aggregates(inner.aggregates, base.alias, table), tuple(own))
    on = tuple(
        call("=", (ColumnRef(alias, column, table.column(column).type, True), value)) for column, value in keys.items()
    )
    value = substitute(inner.outputs[0].expr, group_values(inner.aggregates, alias, count_of_nothing=0))
    if columns_of(value) and not all(ref.source == alias for ref in columns_of(value)):
        raise NotMaintained(because("subquery"))
    block = map_block(block, lambda expr: substitute(expr, {(SCALAR, name): value}))
    return replace(block, joins=(*block.joins, Join(alias, grouped, True, on))).with_note(
        f"the subquery over {table.name} is decorrelated by ({', '.join(keys)})"
    )


def correlation(condition: Expr, alias: str) -> tuple[ColumnRef, Expr] | None:
    """(own column, value from outside) of an equality that can be looked up, or None."""
    if not isinstance(condition, Call) or condition.op != "=":
        return None
    for column, value in (condition.args, condition.args[::-1]):
        if not isinstance(column, ColumnRef) or column.source != alias or not isinstance(value, ColumnRef | ParamRef):
            continue
        if alias not in sources_of(value) and hashes_alike(column.type, value.type):
            return column, value
    return None


def group_values(
    aggregates: tuple[Aggregate, ...], alias: str, count_of_nothing: int | None
) -> dict[tuple[str, str], Expr]:
    """What replaces each aggregate of a block once its groups are looked up under `alias`.

    `count_of_nothing`: what COUNT(*) is for a missing partner, None where there is always one (an inner join).
    """
    by: dict[tuple[str, str], Expr] = {}
    for aggregate in aggregates:
        outer = count_of_nothing is not None
        counts = aggregate.function in (AggregateFunction.COUNT, AggregateFunction.COUNT_STAR)
        ref: Expr = ColumnRef(alias, aggregate.name, aggregate.type, outer or not counts)
        if counts and outer:
            empty = count_of_nothing if aggregate.function is AggregateFunction.COUNT_STAR else 0
            ref = call("coalesce", (ref, literal(empty)))
        by[AGGREGATE, aggregate.name] = ref
    return by
