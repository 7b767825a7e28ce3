"""Derived tables, views and common table expressions become part of the query around them.

    SELECT d.x FROM (SELECT a.x, a.k FROM a JOIN b ON b.k = a.k WHERE a.y = 1) d WHERE d.k = ?
    SELECT a.x FROM a JOIN b ON b.k = a.k WHERE a.y = 1 AND a.k = ?

One over a single table with GROUP BY becomes a lookup of that table's groups, with its HAVING as a condition on them.
Everything else stays in evict mode.
"""

from __future__ import annotations

from dataclasses import replace

from planner.tree.logical import (
    AGGREGATE,
    Base,
    Block,
    Derived,
    Grouped,
    Join,
    NotMaintained,
    has_parameter,
    map_block,
    own_aggregates,
    substitute,
    to_own,
)
from planner.tree.reasons import because
from sqltypes.expression import ColumnRef, Expr, columns_of


def inline_derived(block: Block) -> Block:
    """Inlines from the inside out. Raises NotMaintained for a derived table of another form."""
    for join in block.joins:
        if isinstance(join.source, Derived):
            inner = inline_derived(join.source.block)
            block = _inline(block, join, inner, join.source.columns)
    return block


def _inline(block: Block, join: Join, inner: Block, columns: tuple[str, ...]) -> Block:
    if inner.distinct or inner.limit is not None or not inner.joins or (inner.having and join.outer):
        raise NotMaintained(because("derived", join.alias))
    if inner.grouped:
        return _as_groups(block, join, inner, columns)
    if join.outer:
        return _into_outer_join(block, join, inner, columns)
    by = {(join.alias, name): output.expr for name, output in zip(columns, inner.outputs, strict=True)}
    block = _substituted(block, by)
    on = block.join(join.alias).on
    index = next(i for i, other in enumerate(block.joins) if other.alias == join.alias)
    return replace(
        block,
        joins=(*block.joins[:index], *inner.joins, *block.joins[index + 1 :]),
        where=(*block.where, *on, *inner.where),
        scalars={**block.scalars, **_renamed_scalars(block, inner)},
    ).with_note(f"{join.alias} is inlined")


def _renamed_scalars(block: Block, inner: Block) -> dict[str, Block]:
    if inner.scalars and block.scalars:
        raise NotMaintained(because("derived", "subqueries inside and outside of a derived table"))
    return inner.scalars


def _substituted(block: Block, by: dict[tuple[str, str], Expr]) -> Block:
    """The block and the subqueries that name its columns."""
    changed = map_block(block, lambda expr: substitute(expr, by))
    return replace(changed, scalars={name: _substituted(inner, by) for name, inner in block.scalars.items()})


def _into_outer_join(block: Block, join: Join, inner: Block, columns: tuple[str, ...]) -> Block:
    """Only over one table, and only plain columns: any other output would have to become NULL for a missing partner."""
    if len(inner.joins) != 1 or inner.scalars or not all(isinstance(o.expr, ColumnRef) for o in inner.outputs):
        raise NotMaintained(because("derived", f"{join.alias} in a LEFT JOIN"))
    by: dict[tuple[str, str], Expr] = {}
    for name, output in zip(columns, inner.outputs, strict=True):
        assert isinstance(output.expr, ColumnRef)
        by[join.alias, name] = replace(output.expr, nullable=True)
    block = _substituted(block, by)
    on = (*block.join(join.alias).on, *inner.where)
    merged = Join(inner.joins[0].alias, inner.joins[0].source, True, on)
    return replace(
        block, joins=tuple(merged if other.alias == join.alias else other for other in block.joins)
    ).with_note(f"{join.alias} is inlined")


def _as_groups(block: Block, join: Join, inner: Block, columns: tuple[str, ...]) -> Block:
    base = inner.joins[0]
    group = [expr for expr in inner.group if isinstance(expr, ColumnRef)]
    plain = (
        len(inner.joins) == 1 and isinstance(base.source, Base) and not inner.scalars and len(group) == len(inner.group)
    )
    if not plain or not group or has_parameter(inner.where):
        raise NotMaintained(because("derived", join.alias))
    assert isinstance(base.source, Base)
    names = {expr.name for expr in group}
    if any(ref.source != AGGREGATE for part in inner.having for ref in columns_of(part)):
        raise NotMaintained(because("derived", f"HAVING of {join.alias} names a column"))
    by: dict[tuple[str, str], Expr] = {}
    for name, output in zip(columns, inner.outputs, strict=True):
        if any(ref.source != AGGREGATE and ref.name not in names for ref in columns_of(output.expr)):
            raise NotMaintained(because("derived", f"{output.name} is not grouped by"))
        if join.outer and not isinstance(output.expr, ColumnRef):
            raise NotMaintained(because("derived", f"{join.alias} in a LEFT JOIN"))
        by[join.alias, name] = _above(output.expr, join)
    grouped = Grouped(
        base.source.table,
        tuple(dict.fromkeys(expr.name for expr in group)),
        own_aggregates(inner.aggregates, base.alias, base.source.table),
        tuple(to_own(part, base.alias, base.source.table) for part in inner.where),
    )
    block = _substituted(block, by)
    return replace(
        block,
        joins=tuple(replace(other, source=grouped) if other.alias == join.alias else other for other in block.joins),
        where=(*block.where, *(_above(part, join) for part in inner.having)),
    ).with_note(f"{join.alias} is looked up in groups of {base.source.table.name}")


def _above(expr: Expr, join: Join) -> Expr:
    """An output of the grouped table, as the query around sees it."""
    by: dict[tuple[str, str], Expr] = {
        (ref.source, ref.name): ColumnRef(join.alias, ref.name, ref.type, ref.nullable or join.outer)
        for ref in columns_of(expr)
    }
    return substitute(expr, by)
