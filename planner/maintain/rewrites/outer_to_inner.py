"""LEFT JOIN whose missing partner the WHERE clause would drop anyway.

    SELECT ... FROM a LEFT JOIN b ON b.x = a.x WHERE b.y = 1
    SELECT ... FROM a JOIN b ON b.x = a.x WHERE b.y = 1

MySQL does the same; for the plan it means that the table may be looked up first and its conditions become filters.
"""

from __future__ import annotations

from dataclasses import replace

from planner.tree.logical import Block
from sqltypes.expression import Call, ColumnRef, Expr

# NULL in, NULL out: a condition over such an expression is not true for a missing partner.
_STRICT = frozenset(
    {"=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "div", "%", "neg", "not", "like", "between", "cast"}
)


def outer_to_inner(block: Block) -> Block:
    """Repeats while a join turned inner gives its ON clause the force of a WHERE clause."""
    joins = list(block.joins)
    changed = True
    while changed:
        changed = False
        certain = [*block.where, *(part for join in joins if not join.outer for part in join.on)]
        for index, join in enumerate(joins):
            if join.outer and any(rejects_missing(part, join.alias) for part in certain):
                joins[index] = replace(join, outer=False)
                changed = True
    return replace(block, joins=tuple(joins))


def rejects_missing(condition: Expr, alias: str) -> bool:
    """Whether the condition cannot be true where all columns of `alias` are NULL."""
    if not isinstance(condition, Call):
        return False
    if condition.op == "and":
        return any(rejects_missing(arg, alias) for arg in condition.args)
    if condition.op == "or":
        return all(rejects_missing(arg, alias) for arg in condition.args)
    if condition.op == "not" and isinstance(condition.args[0], Call) and condition.args[0].op == "is_null":
        return _null_in_null_out(condition.args[0].args[0], alias)
    if condition.op == "in":
        return _null_in_null_out(condition.args[0], alias)
    return condition.op in _STRICT and _null_in_null_out(condition, alias)


def _null_in_null_out(expr: Expr, alias: str) -> bool:
    if isinstance(expr, ColumnRef):
        return expr.source == alias
    return isinstance(expr, Call) and expr.op in _STRICT and any(_null_in_null_out(arg, alias) for arg in expr.args)
