"""From a rewritten block to the reader that derives its answers: which arrangements, by which keys, and what is left
to compute.

The root is the table that most key parameters restrict; every other table is looked up by its equalities with tables
already there.
Conditions on one table alone go into its arrangement; the rest is computed when an answer is derived. Raises
NotMaintained with the reason where there is no such reader, or where it would hold much more than it saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from planner.fill.whole import SMALL_TABLE
from planner.maintain.build_group import distinct_outputs, grouped_reader, single_table_groups
from planner.maintain.build_parts import (
    KeyParts,
    Reading,
    conjunction,
    output_columns,
    require_group_keeps_lists,
    used_columns,
)
from planner.maintain.first_rows import in_the_order_of_reading
from planner.maintain.reading_order import in_reading_order
from planner.refusals.group_spellings import require_no_spellings
from planner.tree.expressions import Parameters
from planner.tree.logical import (
    Base,
    Block,
    Grouped,
    Join,
    NotMaintained,
    expressions,
    hashes_alike,
    parameters_of,
    to_own,
)
from planner.tree.plan import (
    AggregateArrangement,
    Lookup,
    OrderTerm,
    Reader,
    RowsArrangement,
    TopKArrangement,
)
from planner.tree.provenance import (
    Classes,
    Pin,
    certain_conditions,
    determined,
    is_unique_in,
    pin_of,
    pinned_columns,
    telling,
)
from planner.tree.reasons import because
from sqltypes.collation import require
from sqltypes.comparison import domain
from sqltypes.errors import UnsupportedQuery
from sqltypes.expression import Call, ColumnRef, Expr, Literal, ParamRef, columns_of, sources_of
from sqltypes.ordering import mostly_sorted_whole
from sqltypes.schema import SqlType, Table


@dataclass
class Built:
    """A reader with its key and the decisions that led to it."""

    reader: Reader
    key: KeyParts
    notes: list[str] = field(default_factory=list)


def build(block: Block, parameters: Parameters) -> Built:
    """Requires: the block is rewritten, without derived tables and scalar subqueries."""
    if not block.joins:
        raise UnsupportedQuery("no_table", "the query reads no table, so there is nothing to keep current")
    _require_keyed_lists(block)
    _require_comparable(block)
    _require_shown_alone(block)
    require_no_spellings(block)
    block = in_the_order_of_reading(block)
    notes = list(block.notes)
    if len(block.joins) == 1 and isinstance(block.joins[0].source, Base):
        built = _single(block, parameters, notes)
    else:
        built = _joined(block, parameters, notes)
    return replace(built, reader=in_reading_order(block, built.reader, built.key))


def _require_keyed_lists(block: Block) -> None:
    """Raises NotMaintained for IN-lists of parameters that are no top-level condition on a column: only those are one
    lookup for each value. A DISTINCT row must not be able to come from two of the values."""
    if not block.list_parameters:
        return
    pins = [pin for part in certain_conditions(block) if (pin := pin_of(part)) is not None]
    as_key = {pin.parameter.index for pin in pins}
    everywhere = [
        index for expr in expressions(block) for index in parameters_of(expr) if index in block.list_parameters
    ]
    if not set(everywhere) <= as_key or len(everywhere) != len(set(everywhere)):
        raise NotMaintained(because("list_position"))
    if block.distinct:
        shown = [output.expr for output in block.outputs if isinstance(output.expr, ColumnRef)]
        known = determined(block, shown, pinned_columns(block, with_lists=False))
        require_group_keeps_lists(known, [pin for pin in pins if pin.parameter.index in block.list_parameters])


def _require_comparable(block: Block) -> None:
    """Raises UnsupportedQuery where groups, DISTINCT rows or an order would need values of a type compared that is
    not reproduced."""
    shown = [output.expr for output in block.outputs if block.distinct]
    grouped = [exprs[at] for exprs in (block.group, shown) for at in telling(block, exprs)]
    grouped += [
        column for join in block.joins if isinstance(join.source, Grouped) for column in join.source.group_columns()
    ]
    compared = [*grouped, *[term.expr for term in block.order]]
    if any([expr.type.is_approximate for expr in grouped]):
        # MySQL keeps them apart in a hash table and together in a sort.
        raise NotMaintained(because("expression", "0 and -0 in GROUP BY or DISTINCT"))
    if any([not isinstance(term.expr, ColumnRef) and term.expr.type.is_moment for term in block.order]):
        raise NotMaintained(because("expression", "an order by a computed DATETIME, in which 0000-00-00 is NULL"))
    if any(["" in expr.type.members for expr in compared]):
        # An ENUM's own '' and that of a value that it does not have are apart in MySQL's order, and alike as texts.
        raise NotMaintained(because("expression", "an order or groups of an ENUM or SET that has the member ''"))
    for expr in compared:
        if domain(expr.type) == "string":
            require(expr.type.collation)
    for expr in grouped:
        if domain(expr.type) == "string" and not mostly_sorted_whole(expr.type):
            # Of such groups MySQL makes several where they come interleaved out of a sort.
            raise NotMaintained(because("expression", f"groups of long strings under {expr.type.collation}"))


def _require_shown_alone(block: Block) -> None:
    """Raises NotMaintained where a FLOAT(m,d) or DOUBLE(m,d) is more than shown or ordered by: what MySQL computes from
    it has d digits behind the point or all of them, FLOAT or DOUBLE, by its plan. Likewise for an ENUM that has the
    member '', which MySQL tells by an index from what the ENUM does not have, and otherwise not."""
    below = [join.source for join in block.joins if isinstance(join.source, Grouped)]
    computed = expressions(replace(block, group=(), outputs=(), order=()))
    computed += [expr for each in below for expr in each.filter]
    computed += [aggregate.argument for each in below for aggregate in each.aggregates if aggregate.argument]
    shown = [*block.group, *[output.expr for output in block.outputs], *[term.expr for term in block.order]]
    computed += [expr for expr in shown if not isinstance(expr, ColumnRef)]
    for expr in computed:
        types = [ref.type for ref in columns_of(expr)]
        if any([type_.has_fixed_digits for type_ in types]):
            raise NotMaintained(because("expression", "a FLOAT(m,d) or DOUBLE(m,d) that is computed with"))
        if any([type_.has_two_empty for type_ in types]):
            raise NotMaintained(because("expression", "an ENUM that has the member '' and is compared"))


# -- one table --------------------------------------------------------------------------------------------------------


def _single(block: Block, parameters: Parameters, notes: list[str]) -> Built:
    join = block.joins[0]
    assert isinstance(join.source, Base)
    table = join.source.table
    reading = split_conditions(block, join)
    if block.grouped:
        made = single_table_groups(block, table, reading, parameters)
        if made is not None:
            return Built(made[0], made[1], notes)
    root = _rows_or_top(block, join, table, reading)
    key = KeyParts.of([*reading.pins], reading.residual, block, parameters)
    reader = Reader(
        join.alias,
        root,
        tuple(range(len(reading.pins))),
        filter=conjunction(reading.residual),
        order=block.order,
        limit=block.limit,
    )
    return Built(_finished(block, reader), key, notes)


def split_conditions(block: Block, join: Join) -> Reading:
    """The conditions on one table by what they are for: key, arrangement's filter, or the rest."""
    pins: list[Pin] = []
    own: list[Expr] = []
    residual: list[Expr] = []
    for part in certain_conditions(block):
        pin = pin_of(part)
        if pin is not None and pin.column.source == join.alias and pin.column.name not in {p.column.name for p in pins}:
            pins.append(pin)
        elif sources_of(part) <= {join.alias} and not parameters_of(part):
            own.append(part)
        else:
            residual.append(part)
    pins.sort(key=lambda pin: pin.parameter.index)
    return Reading(pins, own, residual)


def _rows_or_top(block: Block, join: Join, table: Table, reading: Reading) -> RowsArrangement | TopKArrangement:
    key = tuple([pin.column.name for pin in reading.pins])
    filter_ = conjunction([to_own(part, join.alias, table) for part in reading.own])
    needed = [*expressions(replace(block, where=tuple(reading.residual)))]
    columns = used_columns(join.alias, table, needed)
    limit = block.limit
    constant = limit is not None and isinstance(limit.count, int) and isinstance(limit.offset, int)
    top = constant and not (reading.residual or block.distinct or block.grouped)
    # With a key but without an order, any of the key's rows will do: to fetch them in a certain one would cost more.
    wanted = not key or (block.order and not _at_most_one_row(table, key))
    if top and wanted and table.primary_key:
        assert limit is not None and isinstance(limit.count, int) and isinstance(limit.offset, int)
        order = tuple(OrderTerm(to_own(term.expr, join.alias, table), term.descending) for term in block.order)
        return TopKArrangement(table, key, columns, order, limit.count + limit.offset, filter_)
    if not key and table.rows_estimate >= SMALL_TABLE:
        raise NotMaintained(because("large_table", table.name))
    return RowsArrangement(table, key, columns, filter_)


def _at_most_one_row(table: Table, key: tuple[str, ...]) -> bool:
    names = {name.lower() for name in key}
    return any(
        unique and names >= {name.lower() for name in unique} for unique in (table.primary_key, *table.unique_keys)
    )


def _finished(block: Block, reader: Reader) -> Reader:
    """The reader with grouping, outputs, DISTINCT."""
    if block.grouped:
        return grouped_reader(block, reader)
    return replace(reader, output=output_columns(block.outputs), distinct=distinct_outputs(block))


# -- joins ------------------------------------------------------------------------------------------------------------


def _joined(block: Block, parameters: Parameters, notes: list[str]) -> Built:
    candidates = _root_candidates(block) or _all_groups(block)
    if not candidates:
        raise NotMaintained(because("join_no_key"))
    reason: NotMaintained | None = None
    for join in candidates:
        try:
            return _from_root(block, join, parameters, notes)
        except NotMaintained as failed:
            reason = reason or failed
    assert reason is not None
    raise reason


def _root_candidates(block: Block) -> list[Join]:
    """Tables that key parameters restrict, the most restricted first, in the order of FROM among equals."""

    def score(join: Join) -> tuple[int, int]:
        names = [
            pin.column.name
            for part in certain_conditions(block)
            if (pin := pin_of(part)) is not None and pin.column.source == join.alias
        ]
        if isinstance(join.source, Grouped):
            names = [name for name in names if name in join.source.group]
        return len(set(names)), int(is_unique_in(join, [name.lower() for name in names]))

    scored = [(score(join), join) for join in block.joins if not join.outer]
    return [join for points, join in sorted(scored, key=lambda item: item[0], reverse=True) if points[0]]


def _all_groups(block: Block) -> Sequence[Join]:
    """The groups of a derived table that is read alone: without a key they are held whole, as for GROUP BY with
    HAVING, and what is asked of them is asked at the read."""
    alone = len(block.joins) == 1 and not block.grouped and not block.joins[0].outer
    return block.joins if alone and isinstance(block.joins[0].source, Grouped) else ()


def _from_root(block: Block, root: Join, parameters: Parameters, notes: list[str]) -> Built:
    reading = split_conditions(block, root)
    if isinstance(root.source, Grouped):
        reading = _only_group_keys(reading, root.source)
    chain = _Chain(block, root, list(reading.residual))
    chain.place_all()
    lookups, residual = chain.finished()
    arrangement = _arrangement(
        root, tuple(pin.column.name for pin in reading.pins), reading.own, chain.needed(residual)
    )
    if block.grouped:
        chain.check_fan_out()
    key = KeyParts.of(
        reading.pins,
        [*residual, *(part for lookup in lookups for part in (*lookup.key, lookup.on) if part)],
        block,
        parameters,
    )
    reader = Reader(
        root.alias,
        arrangement,
        tuple(range(len(reading.pins))),
        lookups,
        conjunction(residual),
        order=block.order,
        limit=block.limit,
    )
    return Built(
        _finished(block, reader), key, [*notes, f"root {root.alias}: restricted by {len(reading.pins)} parameters"]
    )


def _only_group_keys(reading: Reading, source: Grouped) -> Reading:
    """Conditions on aggregates cannot be filters of the arrangement that computes them."""
    group = set(source.group)
    pins = [pin for pin in reading.pins if pin.column.name in group]
    late = [pin.condition for pin in reading.pins if pin.column.name not in group]
    return Reading(pins, [], [*reading.residual, *late, *reading.own])


def _arrangement(
    join: Join, key: tuple[str, ...], own: Sequence[Expr], needed: Sequence[Expr]
) -> RowsArrangement | AggregateArrangement:
    source = join.source
    if isinstance(source, Grouped):
        group = (*key, *(name for name in source.group if name not in key))
        return AggregateArrangement(source.table, key, group, source.aggregates, conjunction(source.filter))
    assert isinstance(source, Base)
    filter_ = conjunction([to_own(part, join.alias, source.table) for part in own])
    return RowsArrangement(source.table, key, used_columns(join.alias, source.table, needed), filter_)


@dataclass
class _Draft:
    """A lookup whose arrangement's columns are not known yet."""

    join: Join
    key: list[tuple[ColumnRef, Expr]]
    own: list[Expr]
    on: list[Expr]


class _Chain:
    """Lookups in an order in which each finds its key in what is there before.

    Invariant: `pool` holds the certain conditions that no arrangement's key or filter has taken; what is left at the
    end is the reader's filter.
    """

    def __init__(self, block: Block, root: Join, pool: list[Expr]) -> None:
        self._block = block
        self._root = root
        self._pool = pool
        self._drafts: list[_Draft] = []
        self._placed = {root.alias}
        self._classes = Classes(certain_conditions(block))

    def place_all(self) -> None:
        """Raises NotMaintained where a table has no equality with those before."""
        left = [join for join in self._block.joins if join is not self._root]
        while left:
            join = next((join for join in left if self._ready(join)), None)
            if join is None:
                raise NotMaintained(because("join_no_equality", left[0].alias))
            left.remove(join)
            self._place(join)

    def _ready(self, join: Join) -> bool:
        if join.outer:
            around = {alias for part in join.on for alias in sources_of(part)} - {join.alias}
            return around <= self._placed and any(self._key(join, part) for part in join.on)
        return any(self._key(join, part) for part in self._pool)

    def _key(self, join: Join, part: Expr) -> tuple[ColumnRef, Expr] | None:
        """(own column, value from before) of an equality by which the table can be looked up."""
        if not isinstance(part, Call) or part.op != "=":
            return None
        for column, value in (part.args, part.args[::-1]):
            if not isinstance(column, ColumnRef) or column.source != join.alias or isinstance(value, Literal):
                continue
            if isinstance(join.source, Grouped) and column.name not in join.source.group:
                continue
            if sources_of(value) <= self._placed and _is_lookup_value(column.type, value):
                return column, value
        return None

    def _place(self, join: Join) -> None:
        draft = _Draft(join, [], [], [])
        parts = list(join.on) if join.outer else [part for part in self._pool if join.alias in sources_of(part)]
        for part in parts:
            found = self._key(join, part)
            if found is not None and found[0].name not in {column.name for column, _ in draft.key}:
                draft.key.append(found)
            elif isinstance(join.source, Base) and sources_of(part) == {join.alias} and not parameters_of(part):
                draft.own.append(part)
            elif join.outer:
                draft.on.append(part)
            else:
                continue
            if not join.outer:
                self._pool = [other for other in self._pool if other is not part]
        draft.key.sort(key=lambda item: item[0].name)
        self._drafts.append(draft)
        self._placed.add(join.alias)

    def finished(self) -> tuple[tuple[Lookup, ...], list[Expr]]:
        """The lookups, and the conditions left for the reader."""
        return tuple(self._lookup(draft) for draft in self._drafts), list(self._pool)

    def _lookup(self, draft: _Draft) -> Lookup:
        names = tuple(column.name for column, _ in draft.key)
        arrangement = _arrangement(draft.join, names, draft.own, self.needed(self._pool))
        values = tuple(value for _, value in draft.key)
        return Lookup(
            draft.join.alias, arrangement, values, draft.join.outer, conjunction(draft.on), self._direct(draft)
        )

    def needed(self, residual: Sequence[Expr]) -> list[Expr]:
        """All expressions over joined rows, by which arrangements know their columns."""
        block = replace(
            self._block,
            where=tuple(residual),
            joins=tuple(replace(join, on=()) for join in self._block.joins),
        )
        return [
            *expressions(block),
            *(value for draft in self._drafts for _, value in draft.key),
            *(part for draft in self._drafts for part in draft.on),
        ]

    def _direct(self, draft: _Draft) -> tuple[Expr, ...] | None:
        """The lookup's key from parameters alone, where equalities give it."""
        direct: list[Expr] = []
        for _, value in draft.key:
            if isinstance(value, ColumnRef):
                parameter = self._classes.parameter(value)
                if parameter is None:
                    return None
                direct.append(parameter)
            elif isinstance(value, ParamRef | Literal):
                direct.append(value)
            else:
                return None
        return tuple(direct)

    def check_fan_out(self) -> None:
        """Raises NotMaintained where rows below an aggregate are many for each row that looks them up."""
        tables = {join.alias: join.source.table for join in self._block.joins if not hasattr(join.source, "block")}
        for draft in self._drafts:
            if not isinstance(draft.join.source, Base):
                continue
            table = draft.join.source.table
            if is_unique_in(draft.join, [column.name.lower() for column, _ in draft.key]):
                continue
            around = [tables[value.source] for _, value in draft.key if isinstance(value, ColumnRef)]
            rows = table.rows_estimate / max([1, *(other.rows_estimate for other in around)])
            if rows > FAN_OUT:
                raise NotMaintained(because("fan_out", f"about {rows:.0f} rows of {table.name} for each row"))


FAN_OUT = 64  # rows: more of them below an aggregate, for each row above, are not worth holding


def _is_lookup_value(type_: SqlType, value: Expr) -> bool:
    return hashes_alike(type_, value.type)
