"""A query between the parser and the plan: names resolved, expressions typed, one block for each SELECT.

Rewrites (`planner/maintain/rewrites/`) take a block and give a block; `planner/maintain/build.py` makes the reader of a
block that needs no more rewriting. Aliases are unique within the whole query, so blocks can be merged without renaming.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from planner.tree.plan import Aggregate, OrderTerm, ReadLimit, own
from sqltypes.expression import Call, ColumnRef, Expr, ParamRef, walk
from sqltypes.schema import SqlType, Table

AGGREGATE = "agg"  # the source of aggregate results above the grouping
SCALAR = "scalar"  # the source of the values of scalar subqueries that are not decorrelated yet


class NotMaintained(Exception):
    """The query can be cached, but only in evict mode. The text is the reason, for EXPLAIN."""


@dataclass(frozen=True)
class Base:
    """A base table."""

    table: Table


@dataclass(frozen=True)
class Grouped:
    """Groups of one table. `filter` has the source ""; columns that it gives: `group`, then the aggregates' names."""

    table: Table
    group: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    filter: tuple[Expr, ...]

    def group_columns(self) -> list[ColumnRef]:
        return [own(name, self.table) for name in self.group]


@dataclass(frozen=True)
class Derived:
    """A derived table, view or common table expression that is not inlined yet."""

    block: Block
    columns: tuple[str, ...]


Source = Base | Grouped | Derived


@dataclass(frozen=True)
class Join:
    """One entry of FROM. The first has no `on`. `outer`: LEFT JOIN."""

    alias: str
    source: Source
    outer: bool = False
    on: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Output:
    name: str
    expr: Expr


@dataclass(frozen=True)
class Block:
    """One SELECT. Conjunctions are tuples. Above the grouping, aggregates are ColumnRef("agg", name)."""

    joins: tuple[Join, ...]
    where: tuple[Expr, ...] = ()
    grouped: bool = False
    group: tuple[Expr, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    having: tuple[Expr, ...] = ()
    outputs: tuple[Output, ...] = ()
    distinct: bool = False
    order: tuple[OrderTerm, ...] = ()
    limit: ReadLimit | None = None
    scalars: dict[str, Block] = field(default_factory=dict)
    list_parameters: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()

    def join(self, alias: str) -> Join:
        """The entry of FROM with that alias. Raises StopIteration if there is none."""
        return next(join for join in self.joins if join.alias == alias)

    def with_note(self, note: str) -> Block:
        return replace(self, notes=(*self.notes, note))


def expressions(block: Block) -> list[Expr]:
    """Everything that the block computes, its scalar subqueries not included."""
    return [
        *[expr for join in block.joins for expr in join.on],
        *block.where,
        *block.group,
        *[aggregate.argument for aggregate in block.aggregates if aggregate.argument is not None],
        *above_grouping(block),
    ]


def above_grouping(block: Block) -> list[Expr]:
    """What is computed after grouping: HAVING, outputs, order."""
    return [*block.having, *[output.expr for output in block.outputs], *[term.expr for term in block.order]]


def map_block(block: Block, change: Callable[[Expr], Expr]) -> Block:
    """The block with every expression changed."""
    return replace(
        block,
        joins=tuple(replace(join, on=tuple(map(change, join.on))) for join in block.joins),
        where=tuple(map(change, block.where)),
        group=tuple(map(change, block.group)),
        aggregates=tuple(
            aggregate if aggregate.argument is None else replace(aggregate, argument=change(aggregate.argument))
            for aggregate in block.aggregates
        ),
        having=tuple(map(change, block.having)),
        outputs=tuple(replace(output, expr=change(output.expr)) for output in block.outputs),
        order=tuple(replace(term, expr=change(term.expr)) for term in block.order),
    )


def transform(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with every node for which `change` gives another replaced; replaced nodes are not entered."""
    changed = change(expr)
    if changed is not None:
        return changed
    if isinstance(expr, Call):
        args = tuple(transform(arg, change) for arg in expr.args)
        if args != expr.args:
            return replace(expr, args=args)
    return expr


def substitute(expr: Expr, by: dict[tuple[str, str], Expr]) -> Expr:
    """Replaces columns, known by (source, name)."""
    return transform(expr, lambda node: by.get((node.source, node.name)) if isinstance(node, ColumnRef) else None)


def to_own(expr: Expr, alias: str, table: Table) -> Expr:
    """The expression as an arrangement of `table` states it: the alias becomes ""."""

    def change(node: Expr) -> Expr | None:
        if isinstance(node, ColumnRef) and node.source == alias:
            column = table.column(node.name)
            return ColumnRef("", column.name, column.type, column.nullable)
        return None

    return transform(expr, change)


def own_aggregates(aggregates: Iterable[Aggregate], alias: str, table: Table) -> tuple[Aggregate, ...]:
    """The aggregates as an arrangement of `table` states them; its hidden COUNT(*) needs no statement."""
    return tuple(
        replace(aggregate, argument=to_own(aggregate.argument, alias, table))
        for aggregate in aggregates
        if aggregate.argument is not None
    )


def parameters_of(expr: Expr) -> frozenset[int]:
    return frozenset([node.index for node in walk(expr) if isinstance(node, ParamRef)])


def has_parameter(exprs: Iterable[Expr]) -> bool:
    return any(parameters_of(expr) for expr in exprs)


def hashes_alike(left: SqlType, right: SqlType) -> bool:
    """Whether `=` of the two types is equality of canonical keys, so that one can look the other up.

    MySQL compares integers of every width and sign by value; strings by the collation of both; DECIMALs of any scale
    by value. Where it would compare in another type (a string with a number, DECIMAL with DOUBLE), a lookup would
    miss what the comparison finds.
    """
    if left.is_integer or left.name == "bit":
        return right.is_integer or right.name == "bit"
    if left.is_string and (left.members or right.members):
        return left == right
    if left.is_string:
        return right.is_string and left.collation == right.collation
    if left.is_binary:
        return (right.is_binary and "binary" not in (left.name, right.name)) or left == right
    if left.is_temporal:
        return left.name == right.name and (left.scale or 0) == (right.scale or 0)
    return left.name == right.name == "decimal"


def fresh_alias(wanted: str, taken: set[str]) -> str:
    """`wanted`, or `wanted_2` ... ; entered into `taken`."""
    alias, number = wanted, 1
    while alias in taken or alias in (AGGREGATE, SCALAR, "group", ""):
        number += 1
        alias = f"{wanted}_{number}"
    taken.add(alias)
    return alias


def base_tables(blocks: Sequence[Block]) -> tuple[Table, ...]:
    """All base tables of the blocks, each once, in order."""
    found: dict[Table, None] = {}
    for block in blocks:
        for join in block.joins:
            if isinstance(join.source, Derived):
                found.update(dict.fromkeys(base_tables([join.source.block])))
            else:
                found[join.source.table] = None
        found.update(dict.fromkeys(base_tables(list(block.scalars.values()))))
    return tuple(found)
