"""What is compared with several values at once, and with a tolerance."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from sqltypes.build import cast, literal, parameter
from sqltypes.conditions import whens
from sqltypes.errors import UnsupportedQuery
from sqltypes.expression import Call, ColumnRef, Expr, ParamRef
from sqltypes.functions import aggregate_type, call
from sqltypes.schema import DOUBLE, SqlType
from tests.support.expressions import MEMBERS

AI_CI, GENERAL, BIN = "utf8mb4_0900_ai_ci", "utf8mb4_general_ci", "utf8mb4_bin"
TYPES = {
    "fm": SqlType("float", scale=2),
    "dm": SqlType("double", scale=2),
    "f": SqlType("float"),
    "i": SqlType("int"),
    "b": SqlType("bigint"),
    "u": SqlType("bigint", unsigned=True),
    "z": SqlType("bigint", unsigned=True, zerofill=True),
    "b1": SqlType("bit", length=1),
    "b64": SqlType("bit", length=64),
    "y": SqlType("year"),
    "s": SqlType("varchar", length=9, collation=AI_CI),
    "g": SqlType("varchar", length=9, collation=GENERAL),
    "x": SqlType("varchar", length=9, collation=BIN),
    "v": SqlType("varbinary", length=9),
    "m": SqlType("enum", collation=AI_CI, members=MEMBERS),
    "t": SqlType("datetime", scale=0),
    "k": SqlType("time", scale=0),
}
TENTH = literal(Decimal("0.1"))


def ref(name: str) -> Expr:
    return ColumnRef("r", name, TYPES[name], True)


@pytest.mark.parametrize("op", ["=", "<=>", "<>", "<", "<=", ">", ">=", "nullif", "in"])
@pytest.mark.parametrize("fixed", ["fm", "dm"])
def test_floats_of_fixed_digits_are_compared_with_a_tolerance(op: str, fixed: str) -> None:
    made = [ref(fixed), call("+", [ref(fixed), literal(0)]), call("coalesce", [ref(fixed), literal(0)])]
    made += [call("neg", [ref(fixed)]), call("abs", [ref(fixed)]), call("case", [literal(1), ref(fixed), literal(0)])]
    for value in made:
        for other in (TENTH, literal(1), parameter(0), ref("i"), ref("fm"), ref("dm")):
            with pytest.raises(UnsupportedQuery, match="tolerance"):
                call(op, [value, other])


def test_beside_a_float_of_any_digits_they_are_compared_exactly() -> None:
    for other in (ref("f"), literal(0.1), cast(ref("i"), DOUBLE)):
        assert isinstance(call("=", [ref("fm"), other]), Call)
    assert isinstance(call("=", [cast(ref("fm"), DOUBLE), TENTH]), Call)


@pytest.mark.parametrize(
    "make",
    [
        lambda: call("in", [ref("u"), literal(1), ref("b")]),
        lambda: call("in", [ref("z"), literal(1), ref("b")]),
        lambda: call("in", [ref("b64"), literal(1), ref("i")]),
        lambda: call("in", [ref("b"), literal(1), ref("b64")]),
        lambda: whens(ref("u"), [literal(-1)]),
        lambda: whens(ref("z"), [ref("b")]),
        lambda: whens(literal(2**63), [ref("b")]),
    ],
)
def test_signs_are_not_told_apart(make: Callable[[], object]) -> None:
    with pytest.raises(UnsupportedQuery, match="signed integers"):
        make()


def test_signs_of_which_one_only_occurs() -> None:
    for needle, item in (("u", "y"), ("b1", "b"), ("u", "z"), ("b64", "u"), ("i", "b")):
        assert call("in", [ref(needle), literal(1), ref(item)]) and whens(ref(needle), [ref(item), literal(1)])


def test_the_sign_of_a_parameter_is_not_known() -> None:
    for subject in ("b", "u", "i", "b64"):
        with pytest.raises(UnsupportedQuery, match="sign is not known"):
            whens(ref(subject), [ParamRef(0, TYPES[subject])])
        with pytest.raises(UnsupportedQuery, match="sign"):
            call("in", [ref(subject), ParamRef(0, TYPES[subject]), ref(subject)])
        assert call("in", [ref(subject), ParamRef(0, TYPES[subject]), literal(1)])  # constants alone are told apart
    assert whens(ref("s"), [ParamRef(0, TYPES["s"])])


@pytest.mark.parametrize(
    "items", [("s", "v"), ("s", "t"), ("t", "v"), ("x", "k"), ("t", "k")], ids=lambda items: " ".join(items)
)
def test_a_string_beside_values_of_several_kinds(items: tuple[str, ...]) -> None:
    for needle in (literal("2024-01-01 00:00:00"), ref("s")):
        with pytest.raises(UnsupportedQuery):
            call("in", [needle, *map(ref, items)])
        with pytest.raises(UnsupportedQuery):
            whens(needle, [*map(ref, items)])


def test_case_compares_in_one_collation() -> None:
    conditions = whens(ref("x"), [ref("g"), literal("X"), literal(None)])
    assert {arg.type.collation for condition in conditions for arg in condition.args if arg.type.is_string} == {BIN}


@pytest.mark.parametrize("other", ["between", "case"])
def test_where_each_pair_alone_would_be_compared_in_another_collation(other: str) -> None:
    """A fill writes them as pairs, and MySQL would find other rows."""
    for values in ([ref("x"), literal("X")], [literal("X"), ref("x")], [call("upper", [ref("g")]), ref("x")]):
        with pytest.raises(UnsupportedQuery, match="several collations"):
            whens(ref("g"), values) if other == "case" else call("between", [ref("g"), *values])


def test_case_compares_dates_only_where_its_subject_is_one() -> None:
    assert whens(ref("t"), [literal("2024-01-01"), ref("t")])
    for other in ("t", "k"):
        with pytest.raises(UnsupportedQuery, match="WHEN a date or time"):
            whens(literal("2024-01-01"), [ref(other)])


def test_nullif_is_a_string_where_mysql_makes_one_of_it() -> None:
    with pytest.raises(UnsupportedQuery):
        call("nullif", [ref("k"), literal("10:00:00")])
    made = call("nullif", [ref("m"), literal("beta")])
    assert (made.type.name, made.type.members, made.type.collation) == ("varchar", (), AI_CI)


@pytest.mark.parametrize("function", ["MIN", "MAX"])
def test_least_and_greatest_member_depend_on_an_index(function: str) -> None:
    with pytest.raises(UnsupportedQuery):
        aggregate_type(function, TYPES["m"])


def test_zeros_of_a_zerofill_number_depend_on_mysqls_plan() -> None:
    with pytest.raises(UnsupportedQuery):
        aggregate_type("MIN", TYPES["z"])
    with pytest.raises(UnsupportedQuery):
        call("if", [ref("i"), ref("z"), literal(1)])
