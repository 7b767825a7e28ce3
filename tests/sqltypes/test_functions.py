"""Types of calls, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from sqltypes.build import cast, column, conjunction, literal, parameter
from sqltypes.casts import scale_varies
from sqltypes.errors import UnsupportedQuery
from sqltypes.expression import Call, ColumnRef, Expr, ParamRef, walk
from sqltypes.functions import aggregate_type, call
from sqltypes.schema import BIGINT, BIGINT_UNSIGNED, DOUBLE, SqlType
from tests.support.expressions import AI_CI, TABLE


def ref(name: str) -> Expr:
    return column("r", TABLE, name)


def decimal(precision: int, scale: int) -> SqlType:
    return SqlType("decimal", precision=precision, scale=scale)


YEAR, BITS = (ColumnRef("t", name, SqlType(name, length=64), True) for name in ("year", "bit"))


@pytest.mark.parametrize(
    ("op", "args", "type_", "nullable"),
    [
        ("+", ("b", "b"), BIGINT, False),
        ("+", ("i", "u"), BIGINT_UNSIGNED, True),
        ("+", ("d", "b"), decimal(22, 2), True),
        ("*", ("d", "e"), decimal(30, 8), True),
        ("/", ("b", "id"), decimal(23, 4), True),
        ("-", ("d", "f"), DOUBLE, True),
        ("=", ("b", "id"), BIGINT, False),
        ("<=>", ("d", "f"), BIGINT, False),
        ("coalesce", ("d", "e"), decimal(20, 6), False),
        ("length", ("s",), BIGINT, True),
    ],
)
def test_type_and_nullability(op: str, args: tuple[str, ...], type_: SqlType, nullable: bool) -> None:
    found = call(op, [ref(name) for name in args])
    assert (found.type, found.nullable) == (type_, nullable)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: call("=", [ref("s"), literal(1)]), "comparison_type"),
        (lambda: call("=", [ref("b"), literal("x")]), "comparison_type"),
        (lambda: call("<", [ref("s"), column("r", TABLE, "t")]), "comparison_type"),
        (lambda: call("=", [ref("t"), literal("yesterday")]), "comparison_type"),
        (lambda: call("=", [ref("k"), ref("t")]), "comparison_type"),
        (lambda: call("=", [ref("n"), literal("\u4e00")]), "collation"),
        (lambda: call("like", [ref("s"), literal("\u00e4%")]), "collation"),
        (lambda: call("like", [ref("s"), ref("n")]), "function"),
        (lambda: call("like", [ref("s"), literal("a" * 501)]), "function"),
        (lambda: call("in", [YEAR, call("+", [literal(1), literal(0)])]), "comparison_type"),
        (lambda: call("=", [BITS, literal(-1)]), "comparison_type"),
        (lambda: call("=", [call("neg", [literal(1)]), BITS]), "comparison_type"),
        (lambda: call("=", [parameter(0), parameter(1)]), "parameter_type"),
        (lambda: call("+", [ref("b"), parameter(0)]), "parameter_type"),
        (lambda: call("+", [ref("s"), ref("b")]), "function"),
        (lambda: call("soundex", [ref("s")]), "function"),
        (lambda: call("coalesce", [ref("s"), ref("b")]), "function"),
        (lambda: call("in", [ref("b"), ref("u"), ref("id")]), "comparison_type"),
        (lambda: cast(ref("s"), BIGINT), "function"),
        (lambda: aggregate_type("max", SqlType("json")), "comparison_type"),
        (lambda: aggregate_type("sum", SqlType("varchar", collation=AI_CI)), "function"),
        (lambda: aggregate_type("min", SqlType("varchar", collation="utf8mb4_sv_0900_ai_ci")), "collation"),
    ],
)
def test_what_mysql_computes_by_other_rules_is_refused(make: Callable[[], object], code: str) -> None:
    with pytest.raises(UnsupportedQuery) as caught:
        make()
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("function", "argument", "type_"),
    [
        ("count(*)", None, BIGINT),
        ("sum", SqlType("int"), decimal(32, 0)),
        ("sum", BIGINT_UNSIGNED, decimal(42, 0)),
        ("sum", decimal(10, 2), decimal(32, 2)),
        ("avg", decimal(10, 2), decimal(14, 6)),
        ("avg", SqlType("int"), decimal(14, 4)),
        ("sum", DOUBLE, DOUBLE),
        ("max", SqlType("date"), SqlType("date")),
    ],
)
def test_type_of_an_aggregate(function: str, argument: SqlType | None, type_: SqlType) -> None:
    assert aggregate_type(function, argument) == (type_, function != "count(*)")


def test_date_literal_takes_the_form_of_the_column() -> None:
    at = call("=", [ref("t"), literal("2020-01-02")])
    assert isinstance(at, Call) and at.args[1].value == "2020-01-02 00:00:00"  # type: ignore[union-attr]  # a Literal


@pytest.mark.parametrize(
    ("column", "constant"), [("t", "2020-01-02 00:00:00.5"), ("w", "2020-01-02 00:00:00.0005"), ("k", "01:00:00.5")]
)
@pytest.mark.parametrize("op", ["=", "<=>", "<", ">=", "in", "between"])
def test_a_constant_finer_than_the_column_is_mysqls_to_compare(column: str, constant: str, op: str) -> None:
    with pytest.raises(UnsupportedQuery):
        call(op, [ref(column), literal(constant), literal(constant)][: 3 if op == "between" else 2])


def test_parameters_of_an_in_list_take_the_columns_type() -> None:
    made = call("in", [ref("n"), parameter(0), parameter(1)])
    assert {node.type for node in walk(made) if isinstance(node, ParamRef)} == {ref("n").type}


def test_division_by_a_choice_of_scales_is_refused_where_digits_could_differ() -> None:
    choice = call("coalesce", [ref("d"), ref("e")])
    assert scale_varies(choice)
    assert not scale_varies(call("coalesce", [ref("e"), ref("e")]))
    with pytest.raises(UnsupportedQuery):
        call("/", [choice, ref("id")])


def test_conjunction_is_flat_and_of_nothing_is_none() -> None:
    one = call("=", [ref("b"), literal(1)])
    both = call("and", [one, one])
    flat = conjunction([both, one])
    assert isinstance(flat, Call) and flat.args == (one, one, one)
    assert conjunction([]) is None


def test_number_beyond_64_bits_is_a_decimal() -> None:
    assert literal(2**64).type == decimal(20, 0)
    assert literal(2**63).type == BIGINT_UNSIGNED
    assert literal(Decimal("0.05")).type == decimal(3, 2)
