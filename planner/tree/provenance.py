"""Provenance: which columns are equal to which, to which parameters, and what they determine.

Equality classes hold for rows of the query's answer, so they are built from conditions that every such row passes
(WHERE and the ON of inner joins), and of types whose equality is equality of keys (`logical.hashes_alike`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from planner.tree.logical import Base, Block, Grouped, Join, hashes_alike
from sqltypes.expression import Call, ColumnRef, Expr, Literal, ParamRef, columns_of
from sqltypes.spellings import shows_as_is

Name = tuple[str, str]  # (alias, column in lower case)


def name_of(column: ColumnRef) -> Name:
    return column.source, column.name.lower()


def certain_conditions(block: Block) -> list[Expr]:
    """What every joined row of the answer passes."""
    return [*block.where, *[part for join in block.joins if not join.outer for part in join.on]]


@dataclass(frozen=True)
class Pin:
    """`column = parameter` (or `<=>`), stated by the condition."""

    column: ColumnRef
    parameter: ParamRef
    null_safe: bool
    condition: Expr


def pin_of(condition: Expr) -> Pin | None:
    """The condition as an equality of a column and a parameter, or None."""
    if not isinstance(condition, Call) or condition.op not in ("=", "<=>"):
        return None
    for column, parameter in (condition.args, condition.args[::-1]):
        if (
            isinstance(column, ColumnRef)
            and isinstance(parameter, ParamRef)
            and hashes_alike(column.type, parameter.type)
        ):
            return Pin(column, parameter, condition.op == "<=>", condition)
    return None


def equality_of(condition: Expr) -> tuple[ColumnRef, ColumnRef] | None:
    """Both columns of `column = column`, or None."""
    if isinstance(condition, Call) and condition.op == "=":
        left, right = condition.args
        if isinstance(left, ColumnRef) and isinstance(right, ColumnRef) and hashes_alike(left.type, right.type):
            return left, right
    return None


def constant_of(condition: Expr) -> ColumnRef | None:
    """The column of `column = literal`, or None."""
    if isinstance(condition, Call) and condition.op == "=":
        for column, value in (condition.args, condition.args[::-1]):
            if isinstance(column, ColumnRef) and isinstance(value, Literal):
                return column
    return None


class Classes:
    """Equality classes of columns (union-find)."""

    def __init__(self, conditions: Iterable[Expr]) -> None:
        self._parent: dict[Name, Name] = {}
        self._pins: list[Pin] = []
        for condition in conditions:
            pair = equality_of(condition)
            if pair is not None:
                self._parent[self.root(name_of(pair[0]))] = self.root(name_of(pair[1]))
            pin = pin_of(condition)
            if pin is not None and not pin.null_safe:
                self._pins.append(pin)

    def root(self, name: Name) -> Name:
        while (parent := self._parent.get(name, name)) != name:
            name = parent
        return name

    def parameter(self, column: ColumnRef) -> ParamRef | None:
        """The parameter that the column equals by `=`, directly or through other columns; of a type with equal keys."""
        for pin in self._pins:
            same = self.root(name_of(pin.column)) == self.root(name_of(column))
            if same and hashes_alike(pin.parameter.type, column.type):
                return pin.parameter
        return None


def determined(block: Block, start: Iterable[ColumnRef], pinned: Iterable[ColumnRef]) -> set[Name]:
    """Columns that have one value for given values of `start`, `pinned` ones having one anyhow: the closure under
    equalities and unique keys. Columns of a table are all determined once one of its unique keys is."""
    known = {name_of(column) for column in (*start, *pinned)}
    pairs = _equal_pairs(block)
    while True:
        size = len(known)
        for needed, name in pairs:
            if needed <= known:
                known.add(name)
        for join in block.joins:
            if is_unique_in(join, {name for alias, name in known if alias == join.alias}):
                known |= {(join.alias, name.lower()) for name in column_names(join)}
        if len(known) == size:
            return known


def telling(block: Block, exprs: Sequence[Expr]) -> tuple[int, ...]:
    """Positions of the expressions that tell rows of them apart. The rest are columns of rows that those determine: a
    text beside its table's primary key need not be compared."""
    if not exprs:
        return ()
    start = [expr for expr in exprs if isinstance(expr, ColumnRef) and _may_determine(block, expr)]
    known = determined(block, start, ())
    one_row = {
        join.alias for join in block.joins if is_unique_in(join, {name for alias, name in known if alias == join.alias})
    }
    return tuple(
        at
        for at, expr in enumerate(exprs)
        if not (isinstance(expr, ColumnRef) and expr.source in one_row and not _may_determine(block, expr))
    )


def _may_determine(block: Block, column: ColumnRef) -> bool:
    """Whether the column is cheap to compare, and may determine others: an integer, or part of a unique key."""
    if column.type.is_integer:
        return True
    sources = (join.source for join in block.joins if join.alias == column.source)
    keys = [key for source in sources if isinstance(source, Base) for key in source.table.certain_keys]
    return any(column.name.lower() in key for key in keys)


def _equal_pairs(block: Block) -> list[tuple[AbstractSet[Name], Name]]:
    """(if all these are known, so is that)."""
    pairs: list[tuple[AbstractSet[Name], Name]] = []
    for condition in certain_conditions(block):
        pair = equality_of(condition)
        if pair is not None:
            left, right = map(name_of, pair)
            pairs += [({left}, right), ({right}, left)]
    for join in block.joins:
        if not join.outer:
            continue
        # The inner side is equal or NULL, by whether there is a partner at all: all that ON asks of other rows tells,
        # if it asks nothing that tells equal spellings apart.
        rest = (part for part in join.on if equality_of(part) is None)
        if any(
            column.source != join.alias and not shows_as_is(column.type) for part in rest for column in columns_of(part)
        ):
            continue
        asked = {name_of(column) for part in join.on for column in columns_of(part) if column.source != join.alias}
        for condition in join.on:
            pair = equality_of(condition)
            inner = [name_of(column) for column in pair or () if column.source == join.alias]
            if len(inner) == 1:
                pairs.append((asked, inner[0]))
    return pairs


def column_names(join: Join) -> Sequence[str]:
    """The columns that an entry of FROM gives."""
    match join.source:
        case Base(table):
            return [column.name for column in table.columns]
        case Grouped():
            return [*join.source.group, *(aggregate.name for aggregate in join.source.aggregates), "count(*)"]
    return join.source.columns


def is_unique_in(join: Join, names: Iterable[str]) -> bool:
    """Whether at most one row of the entry has given values of these columns."""
    match join.source:
        case Base(table):
            return table.is_unique_in(names)
        case Grouped():
            return {name.lower() for name in names}.issuperset(name.lower() for name in join.source.group)
    return False


def constants(block: Block) -> list[ColumnRef]:
    """Columns that equal a literal in every row of the answer."""
    return [column for condition in certain_conditions(block) if (column := constant_of(condition)) is not None]


def pinned_columns(block: Block, with_lists: bool) -> list[ColumnRef]:
    """Columns that equal a parameter in every row of one key's answer; `with_lists`: IN-lists too, one value at a
    time."""
    pins = [pin for condition in certain_conditions(block) if (pin := pin_of(condition)) is not None]
    return [pin.column for pin in pins if with_lists or pin.parameter.index not in block.list_parameters]
