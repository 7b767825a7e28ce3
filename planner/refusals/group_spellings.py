"""What tells spellings apart that are one group: 'a', 'A' and 'a ' by most collations.

Which of them stands for the group is MySQL's choice. So is whether a condition on it is asked of each row, before they
are grouped, or of the group.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from planner.tree.logical import Block, Grouped, NotMaintained, above_grouping
from planner.tree.reasons import because
from sqltypes.expression import Call, ColumnRef, Expr
from sqltypes.schema import SqlType

# What says the same of all spellings that are equal, if it compares by the column's own collation.
_ALIKE = frozenset({"=", "<=>", "<>", "<", "<=", ">", ">=", "in", "between", "is_null"})
_EXACT = frozenset({"utf8mb4_0900_bin", "binary"})  # collations by which only the same is equal


def require_no_spellings(block: Block) -> None:
    """Raises NotMaintained where something behind a grouping tells apart what is one group."""
    groups = {expr for expr in block.group if _is_loose(expr.type)}
    columns = {
        ColumnRef(join.alias, column.name, column.type, nullable)
        for join in block.joins
        if isinstance(join.source, Grouped)
        for column in join.source.group_columns()
        for nullable in (False, True)
        if _is_loose(column.type)
    }
    if not groups and not columns:
        return
    rows = [*block.where, *(part for join in block.joins for part in join.on)]
    if any(_tells_apart(condition, columns) for condition in rows) or any(
        _tells_apart(expr, groups | columns) for expr in above_grouping(block)
    ):
        raise NotMaintained(because("expression", "what tells equal spellings of a group apart"))


def _is_loose(type_: SqlType) -> bool:
    return type_.is_string and not type_.members and type_.collation not in _EXACT


def _tells_apart(expr: Expr, grouped: AbstractSet[Expr]) -> bool:
    if not isinstance(expr, Call) or expr in grouped:
        return False
    if any(arg in grouped for arg in expr.args):
        collations = {arg.type.collation for arg in expr.args if arg.type.is_string}
        if expr.op not in _ALIKE or len(collations) != 1:
            return True
    return any(_tells_apart(arg, grouped) for arg in expr.args)
