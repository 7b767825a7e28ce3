"""Pieces of readers: key parts, columns that an arrangement keeps, outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.tree.expressions import Parameters
from planner.tree.logical import Block, NotMaintained, Output, parameters_of
from planner.tree.plan import KeyPart, OutputColumn
from planner.tree.provenance import Pin
from planner.tree.reasons import because
from sqltypes import build
from sqltypes.expression import Expr, columns_of
from sqltypes.schema import Table


@dataclass(frozen=True)
class Reading:
    """The conditions of a query on one table. `pins`: its key, in the order of the parameters. `own`: on this table
    alone, without parameters. `residual`: the rest."""

    pins: list[Pin]
    own: list[Expr]
    residual: list[Expr]


@dataclass(frozen=True)
class KeyParts:
    """The reader's key: the root arrangement's parts first, in its order, then the parameters used elsewhere."""

    parts: tuple[KeyPart, ...]

    @staticmethod
    def of(pins: Sequence[Pin], elsewhere: Iterable[Expr], block: Block, parameters: Parameters) -> KeyParts:
        """Raises NotMaintained where a parameter that shapes the answer is in none of them."""
        parts = [
            KeyPart(
                pin.column.name,
                pin.column.type,
                pin.parameter.index,
                pin.null_safe,
                pin.parameter.index in block.list_parameters,
            )
            for pin in pins
        ]
        have = {part.parameter for part in parts}
        computed = [output.expr for output in block.outputs] + [term.expr for term in block.order]
        computed += [aggregate.argument for aggregate in block.aggregates if aggregate.argument is not None]
        others = {
            index for expr in (*elsewhere, *computed, *block.group, *block.having) for index in parameters_of(expr)
        }
        for index in sorted(others - have):
            name = parameters.columns.get(index, f"parameter {index + 1}")
            parts.append(KeyPart(name, parameters.types[index], index, False, index in block.list_parameters))
        return KeyParts(tuple(parts))


def conjunction(parts: Sequence[Expr]) -> Expr | None:
    return build.conjunction(list(parts))


def used_columns(alias: str, table: Table, exprs: Iterable[Expr]) -> tuple[str, ...]:
    """The columns of the table under the alias that the expressions read, in table order; at least one, for a row to
    be a row."""
    names = {ref.name.lower() for expr in exprs for ref in columns_of(expr) if ref.source == alias}
    columns = tuple([column.name for column in table.columns if column.name.lower() in names])
    return columns or table.primary_key[:1] or (table.columns[0].name,)


def output_columns(outputs: Iterable[Output]) -> tuple[OutputColumn, ...]:
    return tuple([OutputColumn(output.name, output.expr, output.expr.type, output.expr.nullable) for output in outputs])


def require_group_keeps_lists(known: set[tuple[str, str]], lists: Iterable[Pin]) -> None:
    """Raises NotMaintained where two values of an IN-list may share a group (or a DISTINCT row)."""
    for pin in lists:
        if (pin.column.source, pin.column.name.lower()) not in known:
            raise NotMaintained(because("group_across_list", pin.column.name))
