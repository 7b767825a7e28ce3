"""Which rows are the first ones where a query has LIMIT and no ORDER BY: those that MySQL reads first.

MySQL reads in the order of the index that it takes. Within equal values that is the order of the primary key. So the
first rows are known where each index that MySQL may take has that order. Where it may take another, its own plan
decides, and the query is held in evict mode with MySQL's own answer. Without LIMIT all rows are in the answer, and
`planner/maintain/reading_order.py` says in which order.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import replace

from sqlglot import exp

from planner.maintain.reading_order import asked_of, column_of, covers, used_of, without
from planner.tree.logical import Base, Block, NotMaintained, parameters_of
from planner.tree.plan import OrderTerm
from planner.tree.provenance import certain_conditions, constant_of, determined, is_unique_in, name_of, pinned_columns
from planner.tree.reasons import because
from sqltypes.expression import Expr, columns_of


def takes_the_first(tree: exp.Expr) -> bool:
    """Whether some SELECT of it has LIMIT and no ORDER BY."""
    return any(
        node.args.get("limit") is not None and node.args.get("order") is None for node in tree.find_all(exp.Query)
    )


def in_the_order_of_reading(block: Block) -> Block:
    """The block with the order in which MySQL reads, where LIMIT chooses among rows that no ORDER BY tells apart.
    Raises NotMaintained where that order is not known. Rows that tie in an ORDER BY are no matter here."""
    if block.limit is None or (block.grouped and not block.group):
        return block
    constants = [column for part in certain_conditions(block) if (column := constant_of(part)) is not None]
    known = determined(block, (), [*pinned_columns(block, with_lists=False), *constants])

    def is_known(expr: Expr) -> bool:
        return {name_of(column) for column in columns_of(expr)} <= known and not parameters_of(expr)

    if not all(is_known(term.expr) for term in block.order) or _gives_one_row(block, known, is_known):
        return block
    order = _primary_order(block, {name for _, name in known})
    if order is None:
        raise NotMaintained(because("first_rows"))
    return replace(block, order=order)


def _gives_one_row(block: Block, known: AbstractSet[tuple[str, str]], is_known: Callable[[Expr], bool]) -> bool:
    if block.grouped:
        return all(map(is_known, block.group))
    if block.distinct and all(is_known(output.expr) for output in block.outputs):
        return True
    return all(is_unique_in(join, {name for alias, name in known if alias == join.alias}) for join in block.joins)


def _primary_order(block: Block, known: AbstractSet[str]) -> tuple[OrderTerm, ...] | None:
    """That of the primary key; None where MySQL may read in another. `known`: columns with one value, in lower case."""
    if len(block.joins) > 1 or block.grouped or block.distinct:
        return None
    (join,) = block.joins
    if not isinstance(join.source, Base) or not join.source.table.primary_key or join.source.table.functional:
        return None
    table = join.source.table
    order = table.order_by(table.indexes.index(table.primary_key)) if table.primary_key in table.indexes else ()
    if not order or not all(part.whole for part in order):
        return None
    asked, used = asked_of(block, join), used_of(block, join)
    for at, index in enumerate(table.indexes):
        may_be_taken = index[0].lower() in asked or covers(table, index, used)
        if may_be_taken and without(table.order_by(at), known) != without(order, known):
            return None
    return tuple(OrderTerm(column_of(join, part.name), part.falling) for part in order)
