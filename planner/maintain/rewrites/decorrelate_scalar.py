"""A correlated subquery of one value becomes a lookup.

    SELECT (SELECT COUNT(*) FROM votes v WHERE v.article_id = a.id AND v.vote = 1) FROM articles a
    SELECT COALESCE(g.`count(*)`, 0) FROM articles a
      LEFT JOIN (SELECT article_id, COUNT(*) FROM votes WHERE vote = 1 GROUP BY article_id) g ON g.article_id = a.id

    SELECT (SELECT u.name FROM users u WHERE u.id = a.user_id) FROM articles a
    SELECT u.name FROM articles a LEFT JOIN users u ON u.id = a.user_id

An aggregate has one row for every row around it, and the groups have at most one. A unique key has at most one row. So
the join neither adds rows nor drops any. COUNT of nothing is 0, every other value of nothing is NULL, as for a missing
partner.

A condition of WHERE that the count is more than 0, which EXISTS is, drops the rows that have no group. Where no
parameter restricts another table, the groups are joined by an inner join, for a parameter within the subquery to be
the key:

    SELECT a.id FROM articles a WHERE EXISTS (SELECT 1 FROM votes v WHERE v.article_id = a.id AND v.user_id = ?)
    SELECT a.id FROM articles a
      JOIN (SELECT article_id, user_id FROM votes GROUP BY article_id, user_id) g
      ON g.article_id = a.id AND g.user_id = ?
"""

from __future__ import annotations

from dataclasses import replace

from planner.maintain.rewrites.inline_derived import inline_derived
from planner.tree.existence import COUNTED, takes_some
from planner.tree.logical import (
    AGGREGATE,
    SCALAR,
    Base,
    Block,
    Grouped,
    Join,
    NotMaintained,
    expressions,
    fresh_alias,
    has_parameter,
    hashes_alike,
    map_block,
    own_aggregates,
    parameters_of,
    substitute,
    to_own,
)
from planner.tree.plan import Aggregate, AggregateFunction
from planner.tree.provenance import is_unique_in, pinned_columns
from planner.tree.reasons import because
from sqltypes.build import literal
from sqltypes.expression import Call, ColumnRef, Expr, Literal, ParamRef, columns_of, sources_of
from sqltypes.functions import call
from sqltypes.schema import Table


def decorrelate_scalar(block: Block) -> Block:
    """Raises NotMaintained for a subquery of another form."""
    if not block.joins:
        return _instead_of_nothing(block)
    for name, inner in block.scalars.items():
        block = _decorrelate(block, name, inline_derived(inner))
    return replace(block, scalars={})


def _instead_of_nothing(block: Block) -> Block:
    """Without FROM, `SELECT EXISTS (SELECT ...)` is `SELECT COUNT(*) > 0 ...`, which has one row, too."""
    if not block.scalars:
        return block
    if len(block.scalars) > 1 or block.where or block.grouped or block.limit is not None:
        raise NotMaintained(because("subquery", "without FROM"))
    ((name, inner),) = block.scalars.items()
    inner = inline_derived(inner)
    if not inner.grouped or inner.group or inner.having or inner.scalars or inner.limit is not None:
        raise NotMaintained(because("subquery", "without FROM"))
    value = {(SCALAR, name): inner.outputs[0].expr}
    outputs = tuple(replace(output, expr=substitute(output.expr, value)) for output in block.outputs)
    return replace(inner, outputs=outputs, distinct=False, order=())


def _decorrelate(block: Block, name: str, inner: Block) -> Block:
    base = inner.joins[0] if len(inner.joins) == 1 else None
    plain = not (inner.group or inner.having or inner.scalars or inner.distinct)
    if base is None or not isinstance(base.source, Base) or not plain:
        raise NotMaintained(because("subquery"))
    if any(parameters_of(part) & block.list_parameters for part in inner.where):
        raise NotMaintained(because("list_position"))  # one row for all of its values, not one for each
    if not inner.grouped:
        return _by_unique_key(block, name, inner, base)
    if inner.limit is not None:
        raise NotMaintained(because("subquery"))
    return _by_groups(block, name, inner, base, base.source.table)


def _by_unique_key(block: Block, name: str, inner: Block, base: Join) -> Block:
    """A column of at most one row, which the equalities with what is around tell."""
    column = inner.outputs[0].expr
    keys = {found[0].name for part in inner.where if (found := correlation(part, base.alias)) is not None}
    shown = isinstance(column, ColumnRef) and column.source == base.alias and takes_some(inner.limit)
    if not shown or not is_unique_in(base, keys) or has_parameter(term.expr for term in inner.order):
        raise NotMaintained(because("subquery", "a row that no unique key tells"))
    assert isinstance(column, ColumnRef)
    own = {ref for part in inner.where for ref in columns_of(part) if ref.source == base.alias}
    joined: dict[tuple[str, str], Expr] = {(ref.source, ref.name): replace(ref, nullable=True) for ref in own}
    on = tuple(substitute(part, joined) for part in inner.where)
    block = map_block(block, lambda expr: substitute(expr, {(SCALAR, name): replace(column, nullable=True)}))
    return replace(block, joins=(*block.joins, Join(base.alias, base.source, True, on))).with_note(
        f"the subquery over {base.alias} is a LEFT JOIN by a unique key"
    )


def _by_groups(block: Block, name: str, inner: Block, base: Join, table: Table) -> Block:
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
    required = _without_requirement(block, name, inner)
    if required is not None and not pinned_columns(block, with_lists=True) and any(map(columns_of, keys.values())):
        return replace(required, joins=(*block.joins, Join(alias, grouped, False, on))).with_note(
            f"the rows have a group of {table.name} by ({', '.join(keys)})"
        )
    value = substitute(inner.outputs[0].expr, group_values(inner.aggregates, alias, count_of_nothing=0))
    if columns_of(value) and not all(ref.source == alias for ref in columns_of(value)):
        raise NotMaintained(because("subquery"))
    block = map_block(block, lambda expr: substitute(expr, {(SCALAR, name): value}))
    return replace(block, joins=(*block.joins, Join(alias, grouped, True, on))).with_note(
        f"the subquery over {table.name} is decorrelated by ({', '.join(keys)})"
    )


def _without_requirement(block: Block, name: str, inner: Block) -> Block | None:
    """The block without its condition of WHERE that the subquery has rows; None where the count is used otherwise."""
    if inner.outputs[0].expr != COUNTED:
        return None

    def requires(part: Expr) -> bool:
        if not isinstance(part, Call) or part.op != ">":
            return False
        count, least = part.args
        return _is_value(count, name) and isinstance(least, Literal) and least.value == 0

    rest = replace(block, where=tuple(part for part in block.where if not requires(part)))
    used = [ref for expr in expressions(rest) for ref in columns_of(expr) if _is_value(ref, name)]
    return rest if len(rest.where) < len(block.where) and not used else None


def _is_value(expr: Expr, name: str) -> bool:
    return isinstance(expr, ColumnRef) and (expr.source, expr.name) == (SCALAR, name)


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
