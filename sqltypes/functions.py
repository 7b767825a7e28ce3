"""Typed calls: the result of an operator or function in MySQL, or a refusal if it is not reproduced exactly.

`call(op, args)` is the one constructor of `Call` nodes. It brings the arguments into the domain in which MySQL computes
(`comparison.py`, `conditions.py`). It rewrites sugar (BETWEEN, NULLIF, IF, IFNULL, MOD, <> of lists), so the result is
not always a Call of that `op`. The result has MySQL's type and nullability. UnsupportedQuery has the code "function",
"comparison_type", "collation", "parameter_type" or "decimal_scale".

A parameter whose type is "null" takes the type of what it is compared with; see the parameters of the result
(`expression.walk`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqltypes.arithmetic import DIVISION_SCALE, MAX_DIGITS, MAX_SCALE, WORD_DIGITS
from sqltypes.casts import cast_call, converted, scale_varies
from sqltypes.collation import character_set, require
from sqltypes.comparison import aligned, as_double, constant, domain, double_of, one_collation, place, untyped
from sqltypes.conditions import COMPARISONS, Args, any_nullable, between, compare, is_one_of
from sqltypes.errors import UnsupportedQuery
from sqltypes.expression import Call, Expr, Literal, sources_of
from sqltypes.implementations import LONGEST_PATTERN, has_weights
from sqltypes.schema import BIGINT, BIGINT_UNSIGNED, DOUBLE, NULL, SqlType

BOOLEANS = COMPARISONS | {"and", "or", "xor", "not", "is_null", "is_true", "is_false", "in", "like"}
INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "mediumint": 7, "int": 10, "bigint": 19, "year": 4, "bit": 20}
SINGLE_BYTE = frozenset({"latin1", "ascii"})


def call(op: str, args: Sequence[Expr]) -> Expr:
    """The call of an operator or function by its name in `expression.Call`. CAST is `build.cast`.

    Raises UnsupportedQuery where MySQL's result is not reproduced exactly.
    """
    constructor = _CONSTRUCTORS.get(op)
    if constructor is None:
        raise UnsupportedQuery("function", f"{op.upper()} is not reproduced")
    low, high = _ARITY.get(op, (2, 2))
    if not low <= len(args) <= high:
        raise UnsupportedQuery("function", f"{op.upper()} is given {len(args)} arguments")
    return constructor(op, tuple(args))


def refuse(op: str, *args: Expr) -> UnsupportedQuery:
    """The refusal of an operator over arguments of these types."""
    types = ", ".join(arg.type.name.upper() for arg in args)
    return UnsupportedQuery("function", f"{op.upper()} of ({types}) is not reproduced")


# -------------------------------------------------------------------------------------------------------------- logic


def _condition(op: str, arg: Expr) -> Expr:
    if untyped(arg):
        raise UnsupportedQuery("parameter_type", "a parameter stands where a condition is expected")
    if arg.type.is_numeric or arg.type.name == "null":
        return arg
    raise refuse(op, arg)


def _logic(op: str, args: Args) -> Expr:
    conditions = tuple(_condition(op, arg) for arg in args)
    if len(conditions) == 1 and op in ("and", "or"):
        return conditions[0]
    return Call(op, conditions, BIGINT, any_nullable(conditions))


def _test(op: str, args: Args) -> Expr:
    (arg,) = args
    if op != "is_null":
        arg = _condition(op, arg)
    elif untyped(arg):
        raise UnsupportedQuery("parameter_type", "a parameter is tested for NULL")
    return Call(op, (arg,), BIGINT, False)


def _like(op: str, args: Args) -> Expr:
    """The pattern is constant; an escape character other than the backslash is the third argument."""
    value, pattern = args[:2]
    escape = args[2] if len(args) > 2 else None
    if escape is not None and not (isinstance(escape, Literal) and isinstance(escape.value, str)):
        raise UnsupportedQuery("function", "LIKE with an escape that is not a literal")
    if escape is not None and len(str(escape.value)) != 1:
        raise UnsupportedQuery("function", "LIKE with an escape that is not one character")
    if not constant(pattern) or not (value.type.is_string or value.type.is_binary):
        raise refuse(op, value, pattern)
    value, pattern = aligned(value, pattern)
    if isinstance(pattern, Literal) and isinstance(pattern.value, str | bytes) and len(pattern.value) > LONGEST_PATTERN:
        raise UnsupportedQuery("function", f"a LIKE pattern of more than {LONGEST_PATTERN} characters")
    if value.type.is_string:
        require(value.type.collation)
        text = pattern.value if isinstance(pattern, Literal) else None
        if text is not None and not _provable(value.type, str(text)):
            raise UnsupportedQuery("collation", "a LIKE pattern with characters other than ASCII", place(pattern))
    rest = () if escape is None else (escape,)
    return Call(op, (value, pattern, *rest), BIGINT, any_nullable((value, pattern)))


def _provable(type_: SqlType, pattern: str) -> bool:
    return (type_.collation or "").endswith("_bin") or type_.collation == "binary" or has_weights(pattern)


# ---------------------------------------------------------------------------------------------------------- arithmetic


def _number(op: str, arg: Expr, others: Args) -> Expr:
    """An operand. A bare NULL is refused: MySQL types what it makes of it in ways of its own."""
    if untyped(arg):
        raise UnsupportedQuery("parameter_type", f"a parameter is an operand of {op.upper()}")
    if not arg.type.is_numeric:
        raise refuse(op, *others)
    return arg


def decimal_digits(type_: SqlType) -> tuple[int, int]:
    """(precision, scale) of an exact number as a DECIMAL."""
    if type_.name == "decimal":
        return type_.precision or 10, type_.scale or 0
    digits = INTEGER_DIGITS.get(type_.name, 19)
    return (20 if type_.name == "bigint" and type_.unsigned else digits), 0


def decimal_type(precision: int, scale: int) -> SqlType:
    """DECIMAL(precision, scale), the precision cut at what MySQL has. Raises where the scale would be cut."""
    if scale > MAX_SCALE:
        raise UnsupportedQuery("decimal_scale", f"a DECIMAL result with {scale} digits behind the point")
    return SqlType("decimal", precision=min(precision, MAX_DIGITS), scale=scale)


def _arithmetic(op: str, args: Args) -> Expr:
    left, right = (_number(op, arg, args) for arg in args)
    nullable = any_nullable(args) or op in ("/", "div", "%")
    if left.type.is_approximate or right.type.is_approximate:
        if op == "div":
            raise refuse(op, *args)
        return Call(op, (as_double(left), as_double(right)), double_of(args), nullable)
    type_ = _exact_type(op, left.type, right.type)
    if op == "/" and (type_.scale or 0) >= WORD_DIGITS and (scale_varies(left) or scale_varies(right)):
        raise UnsupportedQuery("function", "division of a DECIMAL whose scale varies from row to row")
    return Call(op, (left, right), type_, nullable)


def _exact_type(op: str, left: SqlType, right: SqlType) -> SqlType:
    (p1, s1), (p2, s2) = decimal_digits(left), decimal_digits(right)
    either_unsigned = _unsigned(left) or _unsigned(right)
    if op == "div":
        return BIGINT_UNSIGNED if either_unsigned else BIGINT
    if op == "/":
        return decimal_type(p1 + s2 + DIVISION_SCALE, min(s1 + DIVISION_SCALE, MAX_SCALE))
    unsigned = _unsigned(left) if op == "%" else either_unsigned
    if "decimal" not in (left.name, right.name):
        return BIGINT_UNSIGNED if unsigned else BIGINT
    if op == "*":
        return decimal_type(p1 + p2, s1 + s2)
    scale = max(s1, s2)
    whole = max(p1 - s1, p2 - s2)
    return decimal_type(whole + scale + (op != "%"), scale)


def _unsigned(type_: SqlType) -> bool:
    return type_.unsigned or type_.name in ("bit", "year")


def _negate(op: str, args: Args) -> Expr:
    arg = _number(op, args[0], args)
    if not sources_of(arg) and isinstance(arg, Call):
        raise refuse(op, arg)  # of a negative integer constant MySQL makes a DECIMAL
    if isinstance(arg, Literal) and arg.type.is_approximate and not arg.value:
        raise refuse(op, arg)  # -0e0 equals 0, but through an index it finds nothing
    return Call(op, (arg,), _plain_number(arg), arg.nullable)


def _plain_number(arg: Expr) -> SqlType:
    type_ = arg.type
    if type_.is_approximate:
        return double_of((arg,))
    if type_.name == "decimal":
        return replace(type_, unsigned=False)
    return BIGINT


def _absolute(op: str, args: Args) -> Expr:
    arg = _number(op, args[0], args)
    type_ = BIGINT_UNSIGNED if arg.type.name != "decimal" and _unsigned(arg.type) else _plain_number(arg)
    return Call(op, (arg,), type_, arg.nullable)


def _sign(op: str, args: Args) -> Expr:
    arg = _number(op, args[0], args)
    return Call(op, (arg,), BIGINT, arg.nullable)


def _whole(op: str, args: Args) -> Expr:
    """FLOOR and CEIL: of a DECIMAL a BIGINT where its whole digits surely fit one, else a DECIMAL without fraction."""
    arg = _number(op, args[0], args)
    if arg.type.is_integer or arg.type.name == "bit":
        return Call(op, (arg,), BIGINT_UNSIGNED if _unsigned(arg.type) else BIGINT, arg.nullable)
    if arg.type.is_approximate:
        return Call(op, (arg,), DOUBLE, arg.nullable)
    precision, scale = decimal_digits(arg.type)
    whole = precision - scale
    if whole > 17:
        raise refuse(op, arg)
    return Call(op, (arg,), BIGINT, arg.nullable)


# -------------------------------------------------------------------------------------------------------------- choice


def common_type(op: str, args: Sequence[Expr]) -> tuple[SqlType, Args]:
    """The type of CASE, COALESCE and their kind over these results, and the results converted to it."""
    typed = [arg for arg in args if arg.type.name != "null"]
    if any(untyped(arg) for arg in args):
        raise UnsupportedQuery("parameter_type", f"a parameter is a result of {op.upper()}")
    if not typed:
        return NULL, tuple(args)
    if any(arg.type.name == "bit" for arg in typed):
        raise refuse(op, *args)  # of a BIT MySQL gives digits, or its bytes, or a DECIMAL of its bytes
    domains = {domain(arg.type) for arg in typed}
    if len({arg.type for arg in typed}) == 1 and not typed[0].type.members:
        return typed[0].type, tuple(args)
    if domains == {"string"}:
        results = iter(one_collation(typed))
        lengths = [arg.type.length for arg in typed]
        length = None if None in lengths else max(length or 0 for length in lengths)
        collation = one_collation(typed)[0].type.collation
        type_ = SqlType("varchar", length=length, collation=collation)
        return type_, tuple(arg if arg.type.name == "null" else next(results) for arg in args)
    if not domains <= {"exact", "double"}:
        raise refuse(op, *args)
    type_ = double_of(typed) if "double" in domains else _common_exact(typed)
    return type_, tuple(converted(arg, type_) for arg in args)


def _common_exact(args: Sequence[Expr]) -> SqlType:
    types = [arg.type for arg in args]
    unsigned = {_unsigned(type_) for type_ in types}
    digits = [decimal_digits(type_) for type_ in types]
    scale = max(scale for _, scale in digits)
    whole = max(precision - scale for precision, scale in digits)
    if any(type_.name == "decimal" for type_ in types) or (unsigned == {True, False} and whole > 19):
        return decimal_type(whole + scale, scale)
    return BIGINT_UNSIGNED if unsigned == {True} else BIGINT


def _case(op: str, args: Args) -> Expr:
    """(condition, value)*, otherwise."""
    if len(args) % 2 == 0:
        args = (*args, Literal(None, NULL))
    conditions = [_condition(op, arg) for arg in args[:-1:2]]
    results = [*args[1:-1:2], args[-1]]
    if any(value.type.zerofill for value in results):
        raise refuse(op, *results)  # MySQL shows it with zeros, or without
    type_, values = common_type(op, results)
    flat = [part for pair in zip(conditions, values[:-1], strict=True) for part in pair]
    return Call("case", (*flat, values[-1]), type_, any_nullable(values))


def _coalesce(op: str, args: Args) -> Expr:
    type_, values = common_type(op, args)
    return Call("coalesce", values, type_, all(value.nullable for value in values))


def _if(op: str, args: Args) -> Expr:
    return _case("case", args)


def _nullif(op: str, args: Args) -> Expr:
    """NULLIF. Of a TIME it is a string, which orders differently, and of a ZEROFILL number it may have zeros: both are
    refused. Of an ENUM or SET it is the text."""
    value, other = args
    if value.type.name in ("null", "time") or value.type.zerofill:
        raise refuse(op, *args)
    type_ = replace(value.type, name="varchar", members=()) if value.type.members else value.type
    return Call("case", (call("=", [value, other]), Literal(None, NULL), value), type_, True)


def _extreme(op: str, args: Args) -> Expr:
    if any(arg.type.name == "null" for arg in args):
        raise refuse(op, *args)
    type_, values = common_type(op, args)
    if domain(type_) not in ("exact", "double", "string"):
        raise refuse(op, *args)
    if type_.is_string:
        require(type_.collation)
    return Call(op, values, type_, any_nullable(values))


# ------------------------------------------------------------------------------------------------------------- strings


def _string(op: str, arg: Expr) -> Expr:
    if not arg.type.is_string:
        raise refuse(op, arg)
    return arg


def _length(op: str, args: Args) -> Expr:
    (arg,) = args
    if arg.type.is_string:
        charset = character_set(arg.type.collation or "")
        if charset not in SINGLE_BYTE and charset not in ("utf8mb4", "utf8mb3"):
            raise refuse(op, arg)
    elif not arg.type.is_binary or arg.type.name in ("geometry", "vector"):
        raise refuse(op, arg)
    return Call(op, (arg,), BIGINT, arg.nullable)


def _fold(op: str, args: Args) -> Expr:
    arg = _string(op, args[0])
    return Call(op, (arg,), SqlType("varchar", length=arg.type.length, collation=arg.type.collation), arg.nullable)


def _concat(op: str, args: Args) -> Expr:
    results = one_collation([_string(op, arg) for arg in args])
    lengths = [arg.type.length for arg in results]
    length = None if None in lengths else sum(length or 0 for length in lengths)
    return Call(
        op, results, SqlType("varchar", length=length, collation=results[0].type.collation), any_nullable(results)
    )


# ---------------------------------------------------------------------------------------------------------- aggregates


def aggregate_type(function: str, argument: SqlType | None) -> tuple[SqlType, bool]:
    """The type and nullability of COUNT(*), COUNT, SUM, AVG, MIN or MAX of an argument of that type.

    Raises UnsupportedQuery where the aggregate's value is not reproduced from the argument's values.
    """
    name = function.lower()
    if name in ("count(*)", "count"):
        return BIGINT, False
    assert argument is not None, "only COUNT(*) has no argument"
    if name in ("min", "max"):
        # Members are compared by text, and where an index gives the least and the greatest by number; of a ZEROFILL
        # number MySQL shows the zeros by its plan.
        if argument.members or argument.zerofill:
            raise UnsupportedQuery("function", f"{function.upper()} of {argument.name.upper()} is not reproduced")
        if domain(argument) == "string":
            require(argument.collation)
        return argument, True
    if name not in ("sum", "avg") or not (argument.is_numeric or argument.name == "null"):
        raise UnsupportedQuery("function", f"{function.upper()} of {argument.name.upper()} is not reproduced")
    if argument.is_approximate or argument.name == "null":
        return DOUBLE, True
    precision, scale = decimal_digits(argument)
    if name == "sum":
        return decimal_type(precision + SUM_DIGITS, scale), True
    return decimal_type(precision + DIVISION_SCALE, min(scale + DIVISION_SCALE, MAX_SCALE)), True


SUM_DIGITS = 22  # by which MySQL widens the type of a SUM


def sum_is_cut(argument: SqlType) -> bool:
    """Whether a SUM may have more digits than a DECIMAL: MySQL cuts what it returns, and computes with all of it."""
    return not argument.is_approximate and decimal_digits(argument)[0] + SUM_DIGITS > MAX_DIGITS


def _synonym(op: str) -> Callable[[str, Args], Expr]:
    return lambda _, args: call(op, args)


MANY = 1 << 16
_ARITY = {
    **dict.fromkeys(("and", "or", "coalesce", "concat"), (1, MANY)),
    **dict.fromkeys(("in", "case", "greatest", "least"), (2, MANY)),
    **dict.fromkeys(("between", "if"), (3, 3)),
    **dict.fromkeys(
        ("not", "is_null", "is_true", "is_false", "neg", "abs", "sign", "floor", "ceil", "ceiling"), (1, 1)
    ),
    **dict.fromkeys(
        ("length", "octet_length", "char_length", "character_length", "lower", "lcase", "upper", "ucase"), (1, 1)
    ),
    "like": (2, 3),
}
_CONSTRUCTORS: dict[str, Callable[[str, Args], Expr]] = {
    **dict.fromkeys(COMPARISONS, compare),
    **dict.fromkeys(("and", "or", "xor", "not"), _logic),
    **dict.fromkeys(("is_null", "is_true", "is_false"), _test),
    **dict.fromkeys(("+", "-", "*", "/", "div", "%"), _arithmetic),
    **dict.fromkeys(("floor", "ceil"), _whole),
    **dict.fromkeys(("greatest", "least"), _extreme),
    **dict.fromkeys(("length", "char_length"), _length),
    **dict.fromkeys(("lower", "upper"), _fold),
    "between": between,
    "in": is_one_of,
    "like": _like,
    "neg": _negate,
    "abs": _absolute,
    "sign": _sign,
    "case": _case,
    "coalesce": _coalesce,
    "ifnull": _coalesce,
    "if": _if,
    "nullif": _nullif,
    "concat": _concat,
    "mod": _synonym("%"),
    "ceiling": _synonym("ceil"),
    "octet_length": _synonym("length"),
    "character_length": _synonym("char_length"),
    "lcase": _synonym("lower"),
    "ucase": _synonym("upper"),
}
FUNCTIONS = frozenset(_CONSTRUCTORS)  # every name that `call` knows

__all__ = [
    "BOOLEANS",
    "COMPARISONS",
    "FUNCTIONS",
    "aggregate_type",
    "call",
    "cast_call",
    "common_type",
    "decimal_digits",
]
