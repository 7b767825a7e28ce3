"""Every operator and function over every type, with NULL in every position: a value, a refusal, or EvaluationError.

What else an implementation raised would cut the client's session or stop the change stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from sqltypes.build import cast
from sqltypes.compile import compile_predicate, compile_row, compile_sort_key
from sqltypes.errors import BadParameters, EvaluationError, UnsupportedQuery
from sqltypes.expression import ColumnRef, Expr, Literal, ParamRef, Value
from sqltypes.functions import _ARITY, COMPARISONS, FUNCTIONS, call
from sqltypes.interpreter import evaluate
from sqltypes.parameters import convert_operand, convert_parameter
from sqltypes.schema import NULL, SqlType

AI, BIN, LATIN, TURKISH = "utf8mb4_0900_ai_ci", "utf8mb4_bin", "latin1_swedish_ci", "utf8mb4_turkish_ci"
D = Decimal
VALUES: dict[SqlType, tuple[Value, ...]] = {
    NULL: (),
    SqlType("tinyint"): (0, 1, -128, 127),
    SqlType("int"): (0, 7, -(2**31)),
    SqlType("bigint"): (0, -1, 2**63 - 1, -(2**63)),
    SqlType("bigint", unsigned=True): (0, 3, 2**64 - 1),
    SqlType("year"): (0, 1901, 2155),
    SqlType("bit", length=1): (0, 1),
    SqlType("bit", length=64): (0, 65, 2**64 - 1),
    SqlType("decimal", precision=10, scale=2): (D("0.00"), D("-0.01"), D("99999999.99")),
    SqlType("decimal", precision=65, scale=30): (D("0E-30"), D("9" * 35 + "." + "9" * 30)),
    SqlType("decimal", precision=65, scale=0): (D(0), D("9" * 65)),
    SqlType("float"): (0.0, -0.0, 1.5, 3.4028234663852886e38),
    SqlType("double"): (0.0, -0.0, 0.1, -1.7976931348623157e308, 5e-324, 1e22),
    SqlType("char", length=9, collation=AI): ("", "a", "A ", "\u00e4", "%_\\", "\U0001f600", "1"),
    SqlType("varchar", length=9, collation=BIN): ("", "a", "\x00\x7f", "\\"),
    SqlType("varchar", length=9, collation=LATIN): ("", "a", "\u00e4", "%"),
    SqlType("varchar", length=9, collation=TURKISH): ("", "i", "I", "\u0130"),
    SqlType("text", collation=AI): ("", "long" * 99),
    SqlType("enum", collation=AI, members=("b", "a")): ("", "b", "a"),
    SqlType("set", collation=AI, members=("b", "a")): ("", "b", "b,a"),
    SqlType("binary", length=3): (b"\0\0\0", b"a\xff\\"),
    SqlType("varbinary", length=9): (b"", b"%", b"\xff\\"),
    SqlType("blob"): (b"", b"x" * 99),
    SqlType("date"): ("0000-00-00", "2024-02-00", "2024-02-29", "9999-12-31"),
    SqlType("datetime", scale=0): ("0000-00-00 00:00:00", "2024-02-29 23:59:59", "9999-12-31 23:59:59"),
    SqlType("datetime", scale=6): ("2024-00-00 00:00:00.000000", "2024-02-29 12:00:00.000001"),
    SqlType("timestamp", scale=3): ("0000-00-00 00:00:00.000", "2038-01-19 03:14:07.000"),
    SqlType("time", scale=0): (0, -1_000_000, 3020399_000000),
    SqlType("time", scale=6): (1, -1),
    SqlType("json"): ("{}", "[1, null]", '"a"', "null"),
    SqlType("geometry"): (b"\0" * 25,),
}  # fmt: skip
TARGETS = (
    *(SqlType("bigint", unsigned=unsigned) for unsigned in (False, True)),
    SqlType("double"),
    SqlType("date"),
    *(SqlType("datetime", scale=scale) for scale in (0, 3, 6)),
    SqlType("decimal", precision=10, scale=0),
    SqlType("decimal", precision=65, scale=30),
    SqlType("varchar", collation=AI),
)
GIVEN: tuple[Any, ...] = (
    None, 0, 1, -1, 2**64, 1.5, -0.0, 1e300, D("0.5"), D("1e30"), "", "a", " 1 ", "1e0", "2024-02-29", "10:00:00.5",
    "\u00e4\U0001f600", "%\\", b"", b"\xff", True, 10**64, -(10**65), 10**400, "9" * 400, "1e400", D(10**64), "%" * 600,
)  # fmt: skip
COMPARED = {*COMPARISONS, "in", "between", "like", "nullif"}  # beside the first operand a parameter takes its type
COMPUTED = {"+", "-", "*"}  # and beside these that of the other operand, of which it is a value
Slot = tuple[Expr, tuple[Value, ...]]
Operands = tuple[Slot, ...]


def slots(index: int) -> list[Slot]:
    """What can stand as operand `index`: each type as a column and as literals; with its values."""
    found: list[Slot] = [(ParamRef(index, NULL), ())]
    for type_, values in VALUES.items():
        found += [(Literal(value, type_), ()) for value in (None, *values[:3])]
        if type_ is not NULL:
            found.append((ColumnRef("r", f"c{index}", type_, True), (None, *values)))
            found.append((ColumnRef("r", f"c{index}", type_, False), values))
    return found


def with_parameter(op: str, operands: Operands, random: Random) -> Operands:
    """The operands, in one of three cases the last one a parameter of the first one's type."""
    convert = convert_parameter if op in COMPARED else convert_operand
    type_ = operands[0][0].type
    if op not in COMPARED | COMPUTED or isinstance(operands[0][0], ParamRef) or random.random() < 0.67:
        return operands
    values: list[Value] = []
    for value in GIVEN:
        with suppress(BadParameters):
            values.append(convert(value, type_))
    parameter = ParamRef(len(operands) - 1, type_)
    return (*operands[:-1], (parameter, tuple(values)))


def cases(op: str, random: Random) -> Iterator[Operands]:
    """Operands of every type once in every position, the others random."""
    low, high = _ARITY.get(op, (2, 2))
    for count in sorted({low, min(high, 3), min(high, low + 1)}):
        pools = [slots(index) for index in range(count)]
        for at, pool in enumerate(pools):
            for slot in pool:
                for _ in range(1 if count == 1 else 3):
                    chosen = (slot if at == other else random.choice(more) for other, more in enumerate(pools))
                    yield with_parameter(op, tuple(chosen), random)


def rows(operands: Operands, random: Random) -> Iterator[list[Value]]:
    """Values of the operands, as a row and as parameters: each value once, the others random."""
    choices = [values for _, values in operands]
    for at, values in enumerate(choices):
        for value in values or (None,):
            full = [random.choice(more) if more else None for more in choices]
            full[at] = value
            yield full


def outcome(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except EvaluationError:
        return EvaluationError


def check(expr: Expr, operands: Operands, random: Random, seen: Counter[str]) -> None:
    layout = {("r", f"c{index}"): index for index in range(len(operands))}
    value, truth = compile_row([expr], layout), compile_predicate(expr, layout)
    for row in rows(operands, random):
        wanted = outcome(evaluate, expr, lambda ref, row=row: row[layout[ref.source, ref.name]], row)
        found = outcome(value, row, row)
        outcome(truth, row, row)
        seen["raised" if wanted is EvaluationError else "null" if wanted is None else "value"] += 1
        if EvaluationError not in (wanted, found):
            assert found == (wanted,), (expr, row)
    with suppress(UnsupportedQuery):  # its order is not reproduced
        by = compile_sort_key([(expr, False)], layout)
        for row in rows(operands, random):
            outcome(by, row, row)


@pytest.mark.parametrize("op", sorted(FUNCTIONS))
def test_every_operand_of_every_function(op: str) -> None:
    random, seen = Random(op), Counter[str]()
    for operands in cases(op, random):
        try:
            expr = call(op, [node for node, _ in operands])
        except UnsupportedQuery:
            seen["refused"] += 1
            continue
        check(expr, operands, random, seen)
    assert seen["value"] and seen["refused"], seen


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_every_operand_of_cast(target: SqlType) -> None:
    random, seen = Random(1), Counter[str]()
    for slot in slots(0):
        try:
            expr = cast(slot[0], target)
        except UnsupportedQuery:
            seen["refused"] += 1
            continue
        check(expr, (slot,), random, seen)
    assert seen["value"] and seen["refused"], seen
