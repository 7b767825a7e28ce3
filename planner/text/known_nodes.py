"""Which of the parser's nodes, and which of their arguments, the planner reads.

The parser marks many things by an argument: `x NOT LIKE y` is a `Like` whose `negate` is set. An argument that nobody
here reads would be ignored, and the query computed as if it were not there. So every class that the planner takes
apart stands in a table with the arguments that are read. A tree with anything else is not trusted: its answers are
held as MySQL gives them, and any change of its tables empties them.

A function that stands in no table is never taken apart. Only the columns and subqueries below it count, and those are
found in whatever arguments they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

_CLAUSES = "with_ order limit offset"

# Each line: classes, a colon, the arguments that are read.
_TABLE = f"""
    Column: this table db
    Identifier: this quoted
    Literal: this is_string
    Boolean Placeholder Paren Not Neg: this
    Null:
    EQ NullSafeEQ NEQ LT LTE GT GTE And Or Xor Add Sub Mul IntDiv Mod: this expression
    Div: this expression typed safe
    Like: this expression negate
    In: this expressions query
    Between: this low high
    Is: this expression
    Case: this ifs default
    If: this true false
    Cast: this to
    DataType: this expressions nested kind
    DataTypeParam: this
    Any All Exists: this
    Count: this expressions big_int
    Sum Avg: this
    Min Max: this expressions
    Distinct: expressions
    Coalesce Greatest Least: this expressions
    Nullif: this expression
    Abs Sign Lower Upper: this
    Floor Ceil: this decimals to
    Concat: expressions safe coalesce
    Length: this binary encoding
    Anonymous: this expressions

    Select: {_CLAUSES} expressions distinct operation_modifiers hint from_ joins laterals where group having windows
    Union Except Intersect: {_CLAUSES} this expression distinct
    Subquery: {_CLAUSES} this alias joins
    From Where Having: this
    Join: this on side kind using method
    Table: this alias db joins hints partition
    Partition: expressions
    IndexTableHint: this target expressions
    Hint: expressions
    Lateral: this view outer alias
    TableAlias: this columns
    Alias: this alias
    CTE: this alias
    With: expressions recursive
    Star:
    Group: expressions rollup
    Rollup: expressions
    Order: this expressions
    Ordered: this desc nulls_first
    Limit Offset: expression

    Window: this partition_by order spec alias over first
    WindowSpec: kind start start_side end end_side
    IgnoreNulls RespectNulls: this
    Tuple Values: expressions
    Escape Collate: this expression
    BitwiseAnd BitwiseOr BitwiseXor BitwiseLeftShift BitwiseRightShift: this expression
    BitwiseNot: this
    Interval: this unit
    IntervalSpan: this expression
    Var HexString BitString National: this
    Introducer Dot JSONKeyValue: this expression
    JSONPath: expressions
    JSONPathRoot JSONPathWildcard:
    JSONPathKey JSONPathSubscript JSONPathRecursive: this
    JSONPathSlice: start end step
"""


def _read(table: str) -> dict[str, frozenset[str]]:
    read: dict[str, frozenset[str]] = {}
    for line in filter(None, map(str.strip, table.splitlines())):
        classes, _, arguments = line.partition(":")
        read |= dict.fromkeys(classes.split(), frozenset(arguments.split()))
    return read


READ: Mapping[str, frozenset[str]] = _read(_TABLE)
"""Class of the parser -> the arguments of it that the planner reads."""

# They say how MySQL is to compute the answer, not what it is.
_MODIFIERS = frozenset(
    ["STRAIGHT_JOIN", "HIGH_PRIORITY", "SQL_SMALL_RESULT", "SQL_BIG_RESULT", "SQL_BUFFER_RESULT", "SQL_NO_CACHE"]
)


def unread(node: exp.Expr) -> str:
    """What of the node the planner does not read, "" where it reads all: `Like.negate`, `Lateral`.

    The nodes below it are not looked at. A function that stands in no table counts as read.
    """
    name = type(node).__name__
    known = READ.get(name)
    if known is None:
        return "" if isinstance(node, exp.Func) else name
    for argument, value in node.args.items():
        if argument not in known and value is not None and value is not False and value != []:
            return f"{name}.{argument}"
    return _unread_value(node) if isinstance(node, (exp.Select, exp.Hint, exp.Ordered)) else ""


def _unread_value(node: exp.Expr) -> str:
    """An argument that is read, with a value that is not."""
    if isinstance(node, exp.Select):
        for modifier in node.args.get("operation_modifiers") or ():
            if str(modifier).upper() not in _MODIFIERS:
                return f"Select.{modifier}"
    if isinstance(node, exp.Hint) and any(call.name.lower() == "set_var" for call in node.find_all(exp.Anonymous)):
        return "Hint.SET_VAR"
    if isinstance(node, exp.Ordered) and bool(node.args.get("nulls_first")) == bool(node.args.get("desc")):
        return "Ordered.nulls_first"  # MySQL has NULL first, and last where the order is descending
    return ""
