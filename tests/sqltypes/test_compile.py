"""The compiled form of an expression gives what the interpreter gives."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cmp_to_key
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqltypes.build import column, literal, parameter
from sqltypes.compile import Codegen, by_layout, compile_key, compile_predicate, compile_row, compile_sort_key
from sqltypes.errors import EvaluationError
from sqltypes.expression import Expr, Row, Value
from sqltypes.functions import call
from sqltypes.interpreter import evaluate
from sqltypes.schema import BIGINT
from tests.support.expressions import LAYOUT, ROWS, TABLE, Generator

FAILED = object()


def outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except EvaluationError:
        return FAILED


def interpreted(expr: Expr, row: Row, params: Row = ()) -> Value:
    return evaluate(expr, lambda ref: row[LAYOUT[ref.source, ref.name]], params)


@settings(max_examples=300)
@given(st.integers(min_value=0, max_value=2**32))
def test_random_expressions_compiled_and_interpreted_agree(seed: int) -> None:
    generator = Generator(Random(seed))
    sql, expr = generator.any()
    value, truth = compile_row([expr], LAYOUT), compile_predicate(expr, LAYOUT)
    code = Codegen()
    falsity = code.function("f", "r, p=()", [f"return {code.falsity(expr, by_layout(LAYOUT))}"])
    for row in ROWS:
        wanted = outcome(lambda row=row: interpreted(expr, row))  # type: ignore[misc]  # a lambda with a default
        found = outcome(lambda row=row: value(row)[0])  # type: ignore[misc]
        if wanted is FAILED:
            continue  # the compiled form may find a NULL first, and then needs no value of the operand that failed
        assert (found, type(found)) == (wanted, type(wanted)), sql
        if wanted is None or isinstance(wanted, int):
            # A predicate may compute an operand whose value does not matter beside a NULL: its failure makes a hole.
            true = outcome(lambda row=row: truth(row))  # type: ignore[misc]
            false = outcome(lambda row=row: falsity(row))  # type: ignore[misc]
            assert true is FAILED or bool(true) == bool(wanted), sql
            assert false is FAILED or bool(false) == (wanted is not None and not wanted), sql


@settings(max_examples=100)
@given(st.integers(min_value=0, max_value=2**32))
def test_rows_have_equal_keys_iff_null_safe_equal(seed: int) -> None:
    generator = Generator(Random(seed))
    sql, expr = generator.any(2)
    if expr.type.name == "null":
        return
    key = compile_key([expr], LAYOUT)
    same = call("<=>", [parameter(0, expr.type), parameter(1, expr.type)])
    for left in ROWS:
        for right in ROWS:
            values = [outcome(lambda row=row: interpreted(expr, row)) for row in (left, right)]  # type: ignore[misc]
            if FAILED not in values:
                assert (key(left) == key(right)) == bool(interpreted(same, (), tuple(values))), sql


def ref(name: str) -> Expr:
    return column("r", TABLE, name)


def test_no_null_test_is_written_for_columns_that_are_never_null() -> None:
    predicate = compile_predicate(call("=", [ref("b"), literal(3)]), LAYOUT)
    assert "return r[2] == 3" in predicate.source  # type: ignore[attr-defined]  # set by Codegen.function


def test_parameter_without_type_takes_the_columns() -> None:
    expr = call("=", [ref("b"), parameter(0)])
    assert compile_predicate(expr, LAYOUT)(ROWS[1], (-1,))
    assert parameter(0, BIGINT) in expr.args  # type: ignore[union-attr]  # a comparison is a Call


def test_key_of_several_parts_is_a_tuple_and_of_none_the_empty_one() -> None:
    assert compile_key([ref("s"), ref("b")], LAYOUT)(ROWS[2]) == ("abc", 2**63 - 1)
    assert compile_key([], LAYOUT)(ROWS[2]) == ()


def test_absent_predicate_passes_all() -> None:
    assert compile_predicate(None, LAYOUT)(ROWS[0])


def test_sort_places_nulls_first_and_descending_last() -> None:
    ascending = compile_sort_key([(ref("d"), False)], LAYOUT)
    descending = compile_sort_key([(ref("d"), True)], LAYOUT)
    values = sorted(row[LAYOUT["r", "d"]] for row in ROWS if row[LAYOUT["r", "d"]] is not None)  # type: ignore[type-var]
    assert [row[LAYOUT["r", "d"]] for row in sorted(ROWS, key=ascending)] == [None, *values]
    assert [row[LAYOUT["r", "d"]] for row in sorted(ROWS, key=descending)] == [*reversed(values), None]


def test_enum_sorts_by_index() -> None:
    found = [row[LAYOUT["r", "m"]] for row in sorted(ROWS, key=compile_sort_key([(ref("m"), False)], LAYOUT))]
    assert found == [None, "zeta", "zeta", "Alpha", "beta", "beta"]


@pytest.mark.parametrize("name", ["i", "e", "f", "s", "x", "a", "t", "v", "k", "m"])
def test_descending_order_is_the_reverse_of_ascending(name: str) -> None:
    ascending, descending = (compile_sort_key([(ref(name), order)], LAYOUT) for order in (False, True))
    for left in ROWS:
        for right in ROWS:
            assert (ascending(left) < ascending(right)) == (descending(right) < descending(left))


def test_mixed_order_sorts_like_comparisons_one_after_the_other() -> None:
    key = compile_sort_key([(ref("m"), True), (ref("b"), False)], LAYOUT)
    members = {None: 0, "zeta": 1, "Alpha": 2, "beta": 3}

    def compare(left: Row, right: Row) -> int:
        m = members[right[LAYOUT["r", "m"]]] - members[left[LAYOUT["r", "m"]]]  # type: ignore[index]  # a member or None
        return m or (-1 if left[2] < right[2] else 1)  # type: ignore[operator]  # ints

    assert sorted(ROWS, key=key) == sorted(ROWS, key=cmp_to_key(compare))


def test_sort_of_decimals_beyond_28_digits_is_exact() -> None:
    big = Decimal("12345678901234567890123456789012345.1")
    wide = call("+", [ref("e"), literal(big)])
    key = compile_sort_key([(wide, True)], LAYOUT)
    rows = [(*ROWS[0][:6], value, *ROWS[0][7:]) for value in (Decimal("0.000001"), Decimal("0.000002"))]
    assert sorted(rows, key=key) == list(reversed(rows))
