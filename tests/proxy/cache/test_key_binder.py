"""How many keys one read may ask for."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from planner.tree.plan import Mode
from proxy.cache.key_binder import COMBINED, MOST_COMBINATIONS, MOST_KEYS, TOO_MANY, KeyBinder, _is_exact
from proxy.port.api import ParameterValue
from sqltypes.comparison import EXACT_DOUBLE, SAFE_DIGITS
from sqltypes.errors import BadParameters, ComparedElsewhere
from sqltypes.expression import Key, Value
from sqltypes.schema import SqlType
from tests.support.engine_rig import Rig

ONE = "SELECT id, v FROM t WHERE k IN (?...)"
TWO = "SELECT id, v FROM t WHERE k IN (?...) AND v IN (?...)"
BESIDE = "SELECT id, v FROM t WHERE k IN (?...) AND id = ?"
WORDED = "SELECT id, word FROM s WHERE id IN (?...) AND word = ?"
EVICTED = "SELECT MIN(id) FROM t WHERE k IN (?...) AND v IN (?...)"


def numbers(count: int) -> ParameterValue:
    return tuple(range(count))


def binder(query: str) -> KeyBinder:
    reader = Rig(query).readers[0]
    return KeyBinder(reader.plan, reader)


def test_lists_give_a_bounded_number_of_keys_together() -> None:
    two = binder(TWO)
    for given in ((100, 100), (1000, 1000), (2, MOST_COMBINATIONS // 2 + 1), (MOST_COMBINATIONS + 1, 1)):
        assert two.too_many([numbers(count) for count in given]) == COMBINED, given
    for given in ((20, 20), (MOST_COMBINATIONS, 1), (1, MOST_COMBINATIONS), (2, MOST_COMBINATIONS // 2), (0, 1000)):
        assert two.too_many([numbers(count) for count in given]) == "", given
    assert two.too_many([numbers(MOST_KEYS + 1), numbers(1)]) == TOO_MANY
    assert two.too_many([7, numbers(MOST_COMBINATIONS)]) == "", "one value is a list of one"
    assert len(two.bind([numbers(20), numbers(20)]).keys) == 400


def test_one_list_gives_as_many_keys_as_before() -> None:
    for query, beside in ((ONE, ()), (BESIDE, (3,))):
        one = binder(query)
        assert one.too_many([numbers(MOST_KEYS), *beside]) == ""
        assert one.too_many([numbers(MOST_KEYS + 1), *beside]) == TOO_MANY


def test_lists_of_evict_mode_give_one_key() -> None:
    evicted = binder(EVICTED)
    assert Rig(EVICTED).readers[0].plan.mode is Mode.EVICT
    assert evicted.too_many([numbers(MOST_KEYS), numbers(MOST_KEYS)]) == ""
    assert len(evicted.bind([numbers(100), numbers(100)]).keys) == 1


def test_a_list_of_equal_values_is_still_one_in_evict_mode() -> None:
    """Measured: of a FLOAT(7,2) 0.1, `IN (0.1)` is true and `IN (0.1, 0.1)` is not."""
    evicted = binder(EVICTED)
    ((one, _),) = evicted.bind([(5,), (7,)]).keys
    ((several, _),) = evicted.bind([(5, 5, 5), (7,)]).keys
    assert (one, several) == (((5,), (7,)), ((5, 5), (7,)))
    assert evicted.bind([(6, 5, 6), (7,)]).keys == evicted.bind([(5, 6), (7,)]).keys


def test_a_fraction_for_an_integer_is_passed_on_where_mysqls_answer_is_held() -> None:
    """By an index MySQL finds integers for 1.5e0 in the ON of an outer join."""
    evicted, maintained = binder("SELECT MIN(id), RANK() OVER () FROM t WHERE k = ? GROUP BY v"), binder(ONE)
    for value in (1.5, "1.5", Decimal("1.5")):
        with pytest.raises(ComparedElsewhere):
            evicted.bind([value])
        assert len(maintained.bind([(value,)]).keys) == 1
    assert evicted.bind(["1.0"]).keys == evicted.bind([1]).keys
    with pytest.raises(ComparedElsewhere):
        binder(EVICTED).bind([(1.5, 2.5), (7,)])


def test_a_wrong_number_of_parameters_is_told_by_who_binds() -> None:
    with_two = binder(TWO)
    assert with_two.too_many([numbers(3)] * 3) == ""
    with pytest.raises(BadParameters, match="3 parameters were given"):
        with_two.bind([numbers(3)] * 3)


@pytest.mark.parametrize(
    ("query", "given"),
    [
        (ONE, ((3, 1, 2),)),
        (ONE, ((3, 1, 3),)),
        (TWO, ((3, 1, 2), (9, 8))),
        (TWO, ((3, 1, 3), (8, 8, 9))),
        (BESIDE, ((3, 1, 2), 7)),
        (WORDED, ((3, 1, 2), "Kaffee")),
    ],
)
def test_the_quick_way_to_the_keys_of_lists_finds_those_that_are_bound(
    query: str, given: tuple[ParameterValue, ...]
) -> None:
    lists = binder(query)
    assert lists.quick_keys is not None
    assert list(lists.quick_keys(given) or ()) == [key for key, _ in lists.bind(given).keys]


@pytest.mark.parametrize(
    ("query", "given"),
    [
        (TWO, ((3, "1"), (9,))),  # of several types
        (TWO, ((3, None), (9,))),
        (TWO, ((3, True), (9,))),
        (TWO, (3, (9,))),  # no list
        (TWO, (numbers(100), numbers(100))),
        (TWO, ((3,),)),
        (BESIDE, ((3, 1), None)),
        (BESIDE, (numbers(MOST_KEYS + 1), 3)),
        (BESIDE, ((), 3)),
    ],
)
def test_other_lists_are_left_to_who_binds(query: str, given: tuple[ParameterValue, ...]) -> None:
    quick_keys = binder(query).quick_keys
    assert quick_keys is not None and quick_keys(given) is None


@pytest.mark.parametrize(
    ("query", "lists", "given", "keys"),
    [
        (ONE, ((0, False),), [(3, 1, 2, 1)], [1, 2, 3]),
        (ONE, ((0, True),), [(3, 1, 2)], [3, 2, 1]),
        (ONE, (), [(3, 1, 3)], [3, 1]),
        (TWO, ((0, False), (1, True)), [(2, 1), (3, 5)], [(1, 5), (1, 3), (2, 5), (2, 3)]),
        (TWO, ((1, True), (0, False)), [(2, 1), (3, 5)], [(1, 5), (2, 5), (1, 3), (2, 3)]),
        (BESIDE, ((0, True),), [(2, 4, 2), 9], [(4, 9), (2, 9)]),
    ],
)
def test_keys_come_as_mysql_reads_by_the_lists(
    query: str, lists: tuple[tuple[int, bool], ...], given: list[ParameterValue], keys: list[Key]
) -> None:
    reader = Rig(query).readers[0]
    read = KeyBinder(replace(reader.plan, reader=replace(reader.plan.reader, lists=lists)), reader)
    assert read.quick_keys is not None
    assert list(read.quick_keys(given) or ()) == keys
    assert [key for key, _ in read.bind(given).keys] == keys


def test_lists_that_are_no_keys_have_no_quick_way() -> None:
    assert binder(EVICTED).quick_keys is None


@pytest.mark.parametrize(
    ("kinds", "converted", "type_", "exact"),
    [
        ({int, str}, [1, EXACT_DOUBLE - 1, None], SqlType("bigint"), True),
        ({int, str}, [1, EXACT_DOUBLE], SqlType("bigint"), False),
        ({int, str}, [1, -EXACT_DOUBLE], SqlType("bigint"), False),
        ({int, float}, [1, 1.5], SqlType("int"), False),
        ({int, str}, [0, 1], SqlType("bigint", unsigned=True), True),
        ({int, str}, [1, -1], SqlType("bigint", unsigned=True), False),
        ({int, Decimal}, [Decimal("1.5")], SqlType("decimal", precision=SAFE_DIGITS, scale=2), True),
        ({int, Decimal}, [Decimal("1.5")], SqlType("decimal", precision=SAFE_DIGITS + 1, scale=2), False),
        ({int, str}, [1.5, 2.0], SqlType("double"), True),
        ({int, str}, ["1", "a"], SqlType("varchar", length=9, collation="utf8mb4_bin"), False),
        ({int, bytes}, [1, 2], SqlType("bigint"), False),
    ],
)
def test_a_list_of_several_types_is_exact_where_each_comparison_is(
    kinds: set[type], converted: list[Value], type_: SqlType, exact: bool
) -> None:
    assert _is_exact(kinds, converted, type_) is exact
