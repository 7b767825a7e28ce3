"""Parameters by which MySQL tells of what type a column of the answer is, and how long.

Measured (MySQL 9.7): in a text the literal decides, digit by digit: `n * 2` is announced shorter than `n * 200`, and
`n * 002` longer than `n * 2`. In a prepared statement the types decide with which its parameters are bound, and were
bound before; the values do not, but for strings beside numbers, which are taken for what they look like, and for what
strings before them have looked like.

What is only compared, or decides between two values, tells nothing: a comparison is a number of one digit.
"""

from __future__ import annotations

from sqlglot import exp

from planner.text.parse import parameter_number

SPANS = (exp.DateDiff, exp.TimestampDiff)
"""Whose value MySQL announces alike, whatever dates they are given."""
_ALIKE = (
    *(exp.EQ, exp.NullSafeEQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.In, exp.Between, exp.Is),
    *(exp.And, exp.Or, exp.Xor, exp.Not, exp.Count, *SPANS),
)
"""What is announced alike, whatever it is made of."""


def tells_columns(tree: exp.Query) -> frozenset[int]:
    """The numbers of these parameters."""
    return frozenset(parameter_number(node) for node in tree.find_all(exp.Placeholder) if _tells(node))


def _tells(node: exp.Expr) -> bool:
    parent = node.parent
    while isinstance(parent, exp.Expr) and not isinstance(parent, exp.Where | exp.Having | exp.Join | exp.Limit):
        if isinstance(parent, exp.Select):
            return any(item is node for item in parent.expressions)
        if isinstance(parent, exp.Values):
            return True
        if isinstance(parent, _ALIKE) or (isinstance(parent, exp.If | exp.Case) and parent.this is node):
            return False
        node, parent = parent, parent.parent
    return False
