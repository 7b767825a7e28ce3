"""Whether a tree of operators is the one that MySQL's grammar gives.

The parser knows the operators of many databases, and binds some of them otherwise than MySQL: `a = b < c` is
`(a = b) < c` in MySQL, and `a = (b < c)` in its tree. MySQL has one tree for a text: the one in which no operator
stands below one that binds more tightly, unless there are brackets between them. So the parser's tree is held to that.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

# How tightly an operator binds. All that is no operator, and all in brackets, binds most tightly.
OR, XOR, AND, NOT, TRUTH, COMPARISON, PREDICATE = range(1, 8)
BIT_OR, BIT_AND, SHIFT, SUM, PRODUCT, POWER, SIGN, COLLATED, OPERAND = range(8, 17)

Operator = tuple[int, Mapping[str, int]]


def _operator(level: int, left: int, right: int) -> Operator:
    return level, {"this": left, "expression": right}


_OPERATORS: dict[type[exp.Expr], Operator] = {
    exp.Or: _operator(OR, OR, XOR),
    exp.Xor: _operator(XOR, XOR, AND),
    exp.And: _operator(AND, AND, NOT),
    exp.Not: (NOT, {"this": NOT}),
    exp.Is: (TRUTH, {"this": COMPARISON}),
    **dict.fromkeys(
        (exp.EQ, exp.NullSafeEQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
        _operator(COMPARISON, COMPARISON, PREDICATE),
    ),
    exp.In: (PREDICATE, {"this": BIT_OR}),
    exp.JSONArrayContains: (PREDICATE, {"this": BIT_OR}),
    exp.Between: (PREDICATE, {"this": BIT_OR, "low": BIT_OR, "high": PREDICATE}),
    exp.Like: _operator(PREDICATE, BIT_OR, SIGN),
    exp.Escape: _operator(PREDICATE, PREDICATE, SIGN),
    exp.RegexpLike: _operator(PREDICATE, BIT_OR, BIT_OR),
    exp.BitwiseOr: _operator(BIT_OR, BIT_OR, BIT_AND),
    exp.BitwiseAnd: _operator(BIT_AND, BIT_AND, SHIFT),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), _operator(SHIFT, SHIFT, SUM)),
    **dict.fromkeys((exp.Add, exp.Sub), _operator(SUM, SUM, PRODUCT)),
    **dict.fromkeys((exp.Mul, exp.Div, exp.IntDiv, exp.Mod), _operator(PRODUCT, PRODUCT, POWER)),
    exp.BitwiseXor: _operator(POWER, POWER, SIGN),
    **dict.fromkeys((exp.Neg, exp.BitwiseNot), (SIGN, {"this": SIGN})),
    exp.Collate: (COLLATED, {"this": COLLATED}),
}
OPERATORS = frozenset({*_OPERATORS, exp.Cast})
"""The classes of nodes that may have an operand in a wrong place."""
_BINARY: Operator = (COLLATED, {"this": COLLATED})  # BINARY x, which the parser writes as a CAST


def _of(node: exp.Expr) -> Operator:
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return COMPARISON, {"this": COMPARISON}
    if isinstance(node, exp.Cast) and node.args["to"].this == exp.DType.BINARY and not node.args["to"].expressions:
        return _BINARY
    return _OPERATORS.get(type(node), (OPERAND, {}))


def _bare(operand: exp.Expr, level: int) -> exp.Expr:
    """The operand of a comparison without its brackets: the parser puts some there that the text has not."""
    while TRUTH <= level <= PREDICATE and isinstance(operand, exp.Paren):
        operand = operand.this
    return operand


def misplaced(node: exp.Expr) -> str:
    """The operand of the node that MySQL may not have read as its own: `EQ.expression`; "" where there is none.

    A comparison of comparisons is told even if the text has brackets around them.
    """
    level, operands = _of(node)
    for argument, least in operands.items():
        operand = node.args.get(argument)
        if isinstance(operand, exp.Expr) and _of(_bare(operand, level))[0] < least:
            return f"{type(node).__name__}.{argument}"
    return ""
