"""Grouping: in the arrangement where one table's groups answer the query, else over the rows that the reader
derives."""

from __future__ import annotations

from dataclasses import replace

from planner.maintain.build_parts import KeyParts, Reading, conjunction, output_columns, require_group_keeps_lists
from planner.tree.expressions import Parameters
from planner.tree.logical import (
    AGGREGATE,
    Block,
    NotMaintained,
    above_grouping,
    own_aggregates,
    parameters_of,
    substitute,
    to_own,
    transform,
)
from planner.tree.plan import Aggregate, AggregateArrangement, AggregateFunction, OrderTerm, Reader
from planner.tree.provenance import (
    Pin,
    certain_conditions,
    constants,
    determined,
    name_of,
    pin_of,
    pinned_columns,
    telling,
)
from planner.tree.reasons import because
from sqltypes.bounds import bounds_of
from sqltypes.build import literal
from sqltypes.expression import ColumnRef, Expr, columns_of
from sqltypes.functions import call
from sqltypes.schema import Table

_COUNTS = (AggregateFunction.COUNT, AggregateFunction.COUNT_STAR)


def list_pins(block: Block) -> list[Pin]:
    """The IN-lists that are key parts."""
    pins = [pin for part in certain_conditions(block) if (pin := pin_of(part)) is not None]
    return [pin for pin in pins if pin.parameter.index in block.list_parameters]


def extra_group_columns(block: Block) -> tuple[ColumnRef, ...]:
    """Columns read above the grouping that are not grouped by: one value for each group, or the query is not
    maintained."""
    group = set(block.group)
    refs = dict.fromkeys(
        ref
        for expr in above_grouping(block)
        for ref in _columns_above(expr, group)
        if ref.source != AGGREGATE and ref not in group
    )
    columns = [expr for expr in block.group if isinstance(expr, ColumnRef)]
    known = determined(block, columns, [*pinned_columns(block, with_lists=True), *constants(block)])
    for ref in refs:
        if name_of(ref) not in known:
            raise NotMaintained(because("expression", f"{ref.name} is not determined by GROUP BY"))
    return tuple(refs)


def _columns_above(expr: Expr, group: set[Expr]) -> frozenset[ColumnRef]:
    """The columns of an expression, those inside of grouped expressions left out."""
    return columns_of(transform(expr, lambda node: literal(None) if node in group else None))


def check_lists(block: Block) -> None:
    """Raises NotMaintained where a group may have rows of several keys of an IN-list, or each key a row of its own:
    without GROUP BY there is one over nothing, too."""
    lists = list_pins(block)
    if lists and not block.group:
        raise NotMaintained(because("group_across_list", lists[0].column.name))
    columns = [expr for expr in block.group if isinstance(expr, ColumnRef)]
    known = determined(block, columns, [*pinned_columns(block, with_lists=False), *constants(block)])
    require_group_keeps_lists(known, lists)


def distinct_outputs(block: Block) -> tuple[int, ...] | None:
    """What a DISTINCT compares: positions among the outputs. None: it is no SELECT DISTINCT."""
    return telling(block, [output.expr for output in block.outputs]) if block.distinct else None


def grouped_reader(block: Block, reader: Reader) -> Reader:
    """The reader with the block's grouping over its joined rows."""
    check_lists(block)
    extra = extra_group_columns(block)
    if extra and not block.group:
        raise NotMaintained(because("expression", f"{extra[0].name} beside an aggregate over all rows"))
    group = (*block.group, *extra)
    by_expr: dict[Expr, Expr] = {
        expr: ColumnRef("group", f"g{index}", expr.type, expr.nullable) for index, expr in enumerate(group)
    }

    def above(expr: Expr) -> Expr:
        return transform(expr, by_expr.get)

    return replace(
        reader,
        aggregated=True,
        group=group,
        group_by=telling(block, block.group),
        aggregates=block.aggregates,
        having=conjunction([above(part) for part in block.having]),
        output=output_columns(replace(output, expr=above(output.expr)) for output in block.outputs),
        distinct=distinct_outputs(block),
        order=tuple(OrderTerm(above(term.expr), term.descending) for term in block.order),
    )


def single_table_groups(
    block: Block, table: Table, reading: Reading, parameters: Parameters
) -> tuple[Reader, KeyParts] | None:
    """The reader over an arrangement of the table's groups, or None where rows must be held: parameters that are no
    key, groups by expressions."""
    arguments = [aggregate.argument for aggregate in block.aggregates if aggregate.argument is not None]
    plain = all(isinstance(expr, ColumnRef) for expr in block.group)
    if reading.residual or not plain or any(parameters_of(argument) for argument in arguments):
        # Without a key it is a look at all rows each time, but for a range of them.
        if not reading.pins and not bounds_of(conjunction(reading.residual)):
            raise NotMaintained(because("group_expression"))
        return None
    check_lists(block)
    alias = block.joins[0].alias
    key = tuple(pin.column.name for pin in reading.pins)
    columns = [*(expr.name for expr in block.group if isinstance(expr, ColumnRef))]
    columns += [ref.name for ref in extra_group_columns(block) if ref.source == alias]
    group = tuple(dict.fromkeys((*key, *columns)))
    arrangement = AggregateArrangement(
        table,
        key,
        group,
        own_aggregates(block.aggregates, alias, table),
        conjunction([to_own(part, alias, table) for part in reading.own]),
    )
    parts = KeyParts.of(reading.pins, (), block, parameters)
    reader = Reader(alias, arrangement, tuple(range(len(key))), limit=block.limit)
    if block.group:
        return _group_rows(block, reader, alias), parts
    return _one_row(block, reader, alias), parts


def _group_rows(block: Block, reader: Reader, alias: str) -> Reader:
    """Each group of the arrangement is a row of the answer."""
    by: dict[tuple[str, str], Expr] = {
        (AGGREGATE, aggregate.name): ColumnRef(alias, aggregate.name, aggregate.type, aggregate.function not in _COUNTS)
        for aggregate in block.aggregates
    }
    return replace(
        reader,
        filter=conjunction([substitute(part, by) for part in block.having]),
        output=output_columns(replace(output, expr=substitute(output.expr, by)) for output in block.outputs),
        distinct=distinct_outputs(block),
        order=tuple(OrderTerm(substitute(term.expr, by), term.descending) for term in block.order),
    )


def _one_row(block: Block, reader: Reader, alias: str) -> Reader:
    """No GROUP BY: exactly one row, even over nothing.

    The arrangement has at most one group for a key. MAX over its one value is that value with its type, and NULL over
    no group; a count is then 0. Columns of the key are the same in every row, but there is no row to take them from
    where the group does not exist.
    """
    outer: list[Aggregate] = []
    by: dict[tuple[str, str], Expr] = {}
    for aggregate in block.aggregates:
        inner = ColumnRef(alias, aggregate.name, aggregate.type, aggregate.function not in _COUNTS)
        outer.append(Aggregate(AggregateFunction.MAX, inner, aggregate.type, aggregate.name))
        value: Expr = ColumnRef(AGGREGATE, aggregate.name, aggregate.type, True)
        if aggregate.function in _COUNTS:
            value = call("coalesce", (value, literal(0)))
        by[AGGREGATE, aggregate.name] = value
    for ref in extra_group_columns(block):
        name = f"key {ref.name.lower()}"
        outer.append(Aggregate(AggregateFunction.MAX, ref, ref.type, name))
        by[ref.source, ref.name] = ColumnRef(AGGREGATE, name, ref.type, True)
    return replace(
        reader,
        aggregated=True,
        aggregates=tuple(outer),
        having=conjunction([substitute(part, by) for part in block.having]),
        output=output_columns(replace(output, expr=substitute(output.expr, by)) for output in block.outputs),
        order=tuple(OrderTerm(substitute(term.expr, by), term.descending) for term in block.order),
    )
