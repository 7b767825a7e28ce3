"""In which order MySQL gives rows that no ORDER BY puts in one: that in which it reads them.

By an index that is the order of all of its columns, each ascending or descending, and then of the primary key. Columns
that have one value drop out. MySQL chooses the index, by the rows that it expects to find. Here the one is taken by
which most of the conditions can be looked up. Where MySQL takes another the order is another, as SQL allows.

The answer for a list is that of its values one after the other, so it has the order of the index where the lists' own
columns come first in it.
"""

from __future__ import annotations

from collections.abc import Container
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import takewhile

from planner.maintain.build_parts import KeyParts
from planner.tree.logical import Base, Block, Join, expressions
from planner.tree.plan import AggregateArrangement, OrderTerm, Reader, RowsArrangement, root_columns
from planner.tree.provenance import certain_conditions, constants
from sqltypes.collation import supported
from sqltypes.expression import ColumnRef, columns_of
from sqltypes.schema import IndexPart, SqlType, Table

Order = tuple[IndexPart, ...]


def in_reading_order(block: Block, reader: Reader, key: KeyParts) -> Reader:
    """The reader with the order of one key's rows, and of a list's keys, as far as they are known."""
    join = next(join for join in block.joins if join.alias == reader.alias)
    root = reader.root
    if (
        not isinstance(join.source, Base)
        or reader.order
        or not isinstance(root, RowsArrangement | AggregateArrangement)
    ):
        return reader
    table = join.source.table
    keyed = {name.lower(): reader.root_key[at] for at, name in enumerate(root.key)}
    lists = {name: at for name, at in keyed.items() if key.parts[at].list}
    fixed = {column.name.lower() for column in constants(block) if column.source == join.alias}
    fixed |= keyed.keys() - lists.keys()
    order = _likely(table, asked_of(block, join), {*fixed, *lists}, used_of(block, join))
    first = known_part(table, without(order, fixed))[: len(lists)]
    rows = known_part(table, without(order, {*fixed, *lists}))
    if isinstance(root, AggregateArrangement):
        rows = _of_groups(rows, {name.lower() for name in root.group} - fixed - lists.keys())
    shown = {name.lower() for name in root_columns(root)}
    told = takewhile(lambda part: part.name in shown, rows)
    return replace(
        reader,
        reading=tuple(OrderTerm(column_of(join, part.name), part.falling) for part in told),
        lists=tuple((lists[part.name], part.falling) for part in first)
        if {part.name for part in first} == lists.keys()
        else (),
    )


def _likely(table: Table, asked: Container[str], sought: Container[str], used: AbstractSet[str]) -> Order:
    """The order of the index by which MySQL probably reads. `asked`: columns that conditions name; `sought`: those for
    which they say values; `used`: all that the query reads of the table."""

    def worth(at: int) -> tuple[int, bool]:
        names = [name.lower() for name in table.indexes[at]]
        known = len(list(takewhile(lambda name: name in sought, names)))
        return known, known < len(names) and names[known] in asked

    places = range(len(table.indexes))
    best = max(places, key=worth, default=None)
    if best is None:
        return ()
    if worth(best) == (0, False):  # all rows are read, by the smallest index that has what is used, if there is one
        best = min(
            (at for at in places if covers(table, table.indexes[at], used)),
            key=lambda at: (table.indexes[at] == table.primary_key, len(table.indexes[at])),
            default=None,
        )
    return table.order_by(best) if best is not None else ()


def asked_of(block: Block, join: Join) -> set[str]:
    """The columns of the table that conditions name, in lower case."""
    asked = [ref for part in certain_conditions(block) for ref in columns_of(part)]
    return {ref.name.lower() for ref in asked if ref.source == join.alias}


def used_of(block: Block, join: Join) -> set[str]:
    """The columns of the table that the query reads, in lower case."""
    return {ref.name.lower() for expr in expressions(block) for ref in columns_of(expr) if ref.source == join.alias}


def covers(table: Table, index: tuple[str, ...], used: AbstractSet[str]) -> bool:
    """Whether the index has all that is used: entries have the primary key; that of the table has everything."""
    return index == table.primary_key or used <= {name.lower() for name in (*index, *table.primary_key)}


def without(order: Order, known: Container[str]) -> Order:
    """What is left of an order where these columns have one value each."""
    return tuple([part for part in order if part.name not in known])


def known_part(table: Table, order: Order) -> Order:
    """The first terms of it, as far as they are known and reproduced."""
    return tuple(takewhile(lambda part: part.whole and _is_ordered(table.column(part.name).type), order))


def _is_ordered(type_: SqlType) -> bool:
    if type_.is_string and not type_.members:
        return supported(type_.collation)
    return not type_.has_two_empty


def column_of(join: Join, name: str) -> ColumnRef:
    """The column of a base table, by its alias. Requires: the entry of FROM is one."""
    assert isinstance(join.source, Base)
    column = join.source.table.column(name)
    return ColumnRef(join.alias, column.name, column.type, column.nullable)


def _of_groups(rows: Order, columns: AbstractSet[str]) -> Order:
    """The order of groups of these columns: where they are not the first ones MySQL makes a table of the groups."""
    first = rows[: len(columns)]
    return first if {part.name for part in first} == columns else ()
