"""Aggregates over one joined table are computed in that table, before the join.

    SELECT a.id, a.title, COUNT(v.id) FROM articles a LEFT JOIN votes v ON v.article_id = a.id WHERE a.id = ? GROUP BY
    a.id SELECT a.id, a.title, COALESCE(g.n, 0) FROM articles a
      LEFT JOIN (SELECT article_id, COUNT(id) AS n FROM votes GROUP BY article_id) g ON g.article_id = a.id WHERE a.id
      = ?

Right only if the rest of the join has one row for each group: the groups determine a unique key of it. Then a count
is held where all the table's rows of the key would have been.
"""

from __future__ import annotations

from dataclasses import replace

from planner.maintain.rewrites.decorrelate_scalar import correlation, group_values
from planner.tree.logical import (
    AGGREGATE,
    Base,
    Block,
    Grouped,
    Join,
    above_grouping,
    fresh_alias,
    own_aggregates,
    parameters_of,
    substitute,
    to_own,
)
from planner.tree.plan import Aggregate
from planner.tree.provenance import certain_conditions, constants, determined, is_unique_in, name_of, pinned_columns
from sqltypes.errors import EvaluationError
from sqltypes.expression import ColumnRef, Expr, columns_of, sources_of
from sqltypes.functions import call
from sqltypes.interpreter import evaluate


def push_down_aggregate(block: Block) -> Block:
    """The block unchanged where the aggregates are not over one table, or the rest may have several rows for a
    group."""
    if not block.grouped or not block.group or len(block.joins) < 2:
        return block
    if any(_is_dated(ref) for part in block.having for ref in columns_of(part)):
        return block
    for join in reversed(block.joins):
        pushed = _push(block, join)
        if pushed is not None:
            return pushed
    return block


def _is_dated(ref: ColumnRef) -> bool:
    """HAVING is asked of the groups' table, where MySQL may have 0000-00-00 for 2024-00-00, and not of the rows."""
    return ref.source != AGGREGATE and ref.type.name in ("date", "datetime")


def _push(block: Block, join: Join) -> Block | None:
    if not isinstance(join.source, Base) or not _only_aggregated(block, join) or not _one_row_per_group(block, join):
        return None
    if block.joins[0] is join and any(other.outer for other in block.joins):
        return None
    if join.outer and not all(_ignores_nothing(aggregate) for aggregate in block.aggregates):
        return None
    parts = _conditions(block, join)
    if parts is None:
        return None
    keys, own = parts
    table = join.source.table
    alias = fresh_alias(f"{join.alias}_groups", {other.alias for other in block.joins})
    grouped = Grouped(
        table,
        tuple(column.name for column, _ in keys),
        own_aggregates(block.aggregates, join.alias, table),
        tuple(to_own(part, join.alias, table) for part in own),
    )
    on = tuple(
        call("=", (ColumnRef(alias, column.name, column.type, column.nullable or join.outer), value))
        for column, value in keys
    )
    moved = {id(part) for part in _own_pool(block, join)}
    rest = tuple(
        replace(other, on=tuple(part for part in other.on if id(part) not in moved))
        for other in block.joins
        if other is not join
    )
    # An inner join's ON may also speak of other tables, or of none.
    others = () if join.outer else tuple(part for part in join.on if id(part) not in moved)
    # A LEFT JOIN's missing partner is one row to COUNT(*).
    by = group_values(block.aggregates, alias, count_of_nothing=1 if join.outer else None)
    return replace(
        block,
        joins=(*rest, Join(alias, grouped, join.outer, on)),
        where=(
            *(part for part in block.where if id(part) not in moved),
            *others,
            *(substitute(part, by) for part in block.having),
        ),
        grouped=False,
        group=(),
        aggregates=(),
        having=(),
        outputs=tuple(replace(output, expr=substitute(output.expr, by)) for output in block.outputs),
        order=tuple(replace(term, expr=substitute(term.expr, by)) for term in block.order),
    ).with_note(f"the aggregates over {table.name} are kept by ({', '.join(grouped.group)}), below the join")


def _ignores_nothing(aggregate: Aggregate) -> bool:
    """Whether the row of NULLs that stands for a missing partner adds nothing: SUM(CASE WHEN b.x > 1 THEN 1 ELSE 0 END)
    is 0 over it, and NULL over no row."""
    if aggregate.argument is None:
        return True
    try:
        return evaluate(aggregate.argument, lambda column: None) is None
    except EvaluationError:
        return False


def _only_aggregated(block: Block, join: Join) -> bool:
    """Whether the table's columns are read by its own and its equality conditions and by the aggregates alone."""
    arguments = [aggregate.argument for aggregate in block.aggregates if aggregate.argument is not None]
    if any(sources_of(argument) != {join.alias} or parameters_of(argument) for argument in arguments):
        return False
    if not arguments and not isinstance(join.source, Base):
        return False
    elsewhere = [*block.group, *above_grouping(block)]
    elsewhere += [part for other in block.joins if other.outer and other is not join for part in other.on]
    if any(join.alias in sources_of(expr) for expr in elsewhere):
        return False
    return not join.outer or not any(join.alias in sources_of(part) for part in certain_conditions(block))


def _one_row_per_group(block: Block, join: Join) -> bool:
    """Whether the groups' columns determine one row of every other table."""
    others = tuple(other for other in block.joins if other is not join)
    rest = replace(
        block, joins=others, where=tuple(p for p in certain_conditions(block) if join.alias not in sources_of(p))
    )
    rest = replace(rest, joins=tuple(other if other.outer else replace(other, on=()) for other in others))
    group = [expr for expr in block.group if isinstance(expr, ColumnRef)]
    # An IN-list's column counts only if the group has it: else two of its keys may be one group.
    scalar = pinned_columns(rest, with_lists=False)
    known = determined(rest, group, [*scalar, *constants(rest)])
    return all(is_unique_in(other, {name for alias, name in known if alias == other.alias}) for other in others)


def _own_pool(block: Block, join: Join) -> list[Expr]:
    """The conditions that speak of the table."""
    pool = list(join.on) if join.outer else certain_conditions(block)
    return [part for part in pool if join.alias in sources_of(part)]


def _conditions(block: Block, join: Join) -> tuple[list[tuple[ColumnRef, Expr]], list[Expr]] | None:
    """(equalities with other tables, conditions on the table alone), or None where there are others."""
    keys: list[tuple[ColumnRef, Expr]] = []
    own: list[Expr] = []
    if join.outer and any(join.alias not in sources_of(part) for part in join.on):
        return None
    for part in _own_pool(block, join):
        found = correlation(part, join.alias)
        if found is not None and not any(name_of(found[0]) == name_of(column) for column, _ in keys):
            keys.append(found)
        elif sources_of(part) == {join.alias} and not parameters_of(part):
            own.append(part)
        else:
            return None
    return (keys, own) if any(columns_of(value) for _, value in keys) else None
