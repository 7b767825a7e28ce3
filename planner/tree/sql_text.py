"""Typed expressions as MySQL's text, for upqueries and for EXPLAIN."""

from __future__ import annotations

from collections.abc import Callable

from sqltypes.expression import Call, ColumnRef, Expr, Literal, ParamRef
from sqltypes.schema import SqlType, Table
from sqltypes.values import sql_literal

_INFIX = frozenset({"=", "<=>", "<>", "<", "<=", ">", ">=", "and", "or", "xor", "+", "-", "*", "/", "div", "%"})
_PRECEDENCE = {"or": 1, "xor": 2, "and": 3, "not": 4, "*": 8, "/": 8, "div": 8, "%": 8, "+": 7, "-": 7}
_COMPARISON = 5  # of all others that are not bracketed by themselves
_ATOM = 9
# Put in by `sqltypes` to bring both sides of a comparison into one form, which MySQL does unasked.
_IMPLICIT = frozenset({"collate", "comparable", "widen"})

ColumnText = Callable[[ColumnRef], str]


def quoted_name(name: str) -> str:
    """An identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def relation_name(schema: str, name: str) -> str:
    """A table or view, qualified and quoted."""
    return f"{quoted_name(schema)}.{quoted_name(name)}"


def table_name(table: Table) -> str:
    return relation_name(table.schema, table.name)


def from_table(table: Table, alias: str = "") -> str:
    """A table as an entry of FROM."""
    return table_name(table) + (f" AS {quoted_name(alias)}" if alias else "") + table.hint


def own_column(ref: ColumnRef) -> str:
    """A column without its alias: the arrangement's own table is the only one."""
    return quoted_name(ref.name)


def plain_column(ref: ColumnRef) -> str:
    """A column for people to read."""
    return f"{ref.source}.{ref.name}" if ref.source else ref.name


def expr_sql(
    expr: Expr, column: ColumnText = own_column, parameter: Callable[[ParamRef], str] = lambda ref: "?"
) -> str:
    """The text of an expression; brackets only where precedence asks for them."""
    return _text(expr, column, parameter)[0]


def condition_sql(expr: Expr) -> str:
    """The text of a condition on an arrangement's own table, fit to stand between ANDs."""
    text, level = _text(expr, own_column, lambda ref: "?")
    return text if level >= _PRECEDENCE["and"] else f"({text})"


def _text(expr: Expr, column: ColumnText, parameter: Callable[[ParamRef], str]) -> tuple[str, int]:
    match expr:
        case ColumnRef():
            return column(expr), _ATOM
        case ParamRef():
            return parameter(expr), _ATOM
        case Literal():
            return sql_literal(expr.value, expr.type), _ATOM

    def text(arg: Expr, above: int = 0) -> str:
        found, level = _text(arg, column, parameter)
        return found if level > above else f"({found})"

    return _call(expr, text)


def _call(expr: Call, text: Callable[..., str]) -> tuple[str, int]:
    op, args = expr.op, expr.args
    if op in _IMPLICIT:
        return text(args[0]), 0 if isinstance(args[0], Call) else _ATOM
    if op in ("and", "or"):
        level = _PRECEDENCE[op]
        return f" {op.upper()} ".join(text(arg, level) for arg in args), level
    if op in _INFIX:
        level = _PRECEDENCE.get(op, _COMPARISON)
        return f"{text(args[0], level)} {op.upper()} {text(args[1], level)}", level
    match op:
        case "not" if isinstance(args[0], Call) and args[0].op == "is_null":
            return f"{text(args[0].args[0], _COMPARISON)} IS NOT NULL", _COMPARISON
        case "not":
            return f"NOT {text(args[0], _PRECEDENCE['not'])}", _PRECEDENCE["not"]
        case "neg":
            return f"-{text(args[0], _PRECEDENCE['*'])}", _PRECEDENCE["*"]
        case "is_null" | "is_true" | "is_false":
            return f"{text(args[0], _COMPARISON)} {op.upper().replace('_', ' ')}", _COMPARISON
        case "in":
            return f"{text(args[0], _COMPARISON)} IN ({', '.join(map(text, args[1:]))})", _COMPARISON
        case "like":
            escape = f" ESCAPE {text(args[2])}" if len(args) > 2 else ""
            return f"{text(args[0], _COMPARISON)} LIKE {text(args[1], _COMPARISON)}{escape}", _COMPARISON
        case "case":
            branches = " ".join(f"WHEN {text(args[at])} THEN {text(args[at + 1])}" for at in range(0, len(args) - 1, 2))
            return f"CASE {branches} ELSE {text(args[-1])} END", _ATOM
        case "cast":
            return f"CAST({text(args[0])} AS {cast_target(expr.type)})", _ATOM
    return f"{op.upper()}({', '.join(map(text, args))})", _ATOM


def cast_target(type_: SqlType) -> str:
    """What CAST calls a type."""
    if type_.is_integer:
        return "UNSIGNED" if type_.unsigned else "SIGNED"
    match type_.name:
        case "decimal":
            return f"DECIMAL({type_.precision or 65},{type_.scale or 0})"
        case "datetime" | "timestamp":
            return f"DATETIME({type_.scale})" if type_.scale else "DATETIME"
        case "varchar" | "char":
            return "CHAR" if type_.length is None else f"CHAR({type_.length})"
    return type_.name.upper()
