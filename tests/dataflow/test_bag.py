"""A large bag of rows and its orders: what is in a range, whatever has come and gone, while an order is made, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow.held import bag as bags
from dataflow.held.bag import ORDER_BYTES, Bag
from sqltypes.expression import Row

VALUES = st.one_of(st.none(), st.integers(0, 9))
ROWS = st.tuples(VALUES, st.integers(0, 3))
BOUNDS = st.one_of(st.none(), st.integers(-1, 10))
STEPS = st.lists(
    st.one_of(st.tuples(st.just("come"), ROWS), st.just(("go", None)), st.just(("step", None))), max_size=60
)


def all_of(bag: Bag) -> Counter[Row]:
    return Counter(bag.all())


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bags, "AT_ONCE", 2)


def made(bag: Bag, at: int) -> int:
    """The order, made at once."""
    making = bag.put_in_order(at)
    while True:
        try:
            next(making)
        except StopIteration as ended:
            return int(ended.value)


@given(st.lists(ROWS, max_size=20), STEPS, BOUNDS, BOUNDS)
def test_a_range_has_the_rows_between(
    rows: list[Row], steps: list[tuple[str, Row | None]], low: int | None, high: int | None
) -> None:
    bag, held = Bag(rows), Counter(rows)
    making: Generator[None, None, int] | None = bag.put_in_order(0)
    size = 0
    for what, row in steps:
        if what == "come" and row is not None:
            held[row] += 1
            size += bag.add(row)
        elif what == "go" and held:
            gone = min(held, key=repr)
            size -= bag.take(gone)
            held -= Counter([gone])
        elif making is not None:
            try:
                next(making)
            except StopIteration as ended:
                size, making = int(ended.value), None
        bag.check_invariants()
    if making is not None:
        making.close()
        size = made(bag, 0)
    bag.check_invariants()
    assert all_of(bag) == held
    assert size == ORDER_BYTES * len(bag.orders[0]), "what is counted is what it takes"
    found = Counter(bag.between(0, low, high))
    assert found == Counter(
        {
            row: count
            for row, count in held.items()
            if isinstance(value := row[0], int) and (low is None or value >= low) and (high is None or value <= high)
        }
    )
    assert bag.count(0, low, high) == found.total()


def test_a_copy_has_what_the_bag_has_and_goes_its_own_way() -> None:
    bag = Bag([(1, 1), (2, 1), (2, 1)])
    size = made(bag, 0)
    other = bag.copy()
    assert bag.order_size == size and other.order_size == 0, "its orders would be a long step"
    made(other, 0)
    other.take((2, 1))
    other.add((3, 3))
    bag.check_invariants()
    other.check_invariants()
    assert bag.between(0, 2, 3) == [(2, 1), (2, 1)] and other.between(0, 2, 3) == [(2, 1), (3, 3)]


class Counting(int):
    """Counts how often it is compared with another one."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counting.compared += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_a_row_of_a_value_that_very_many_have_is_found_at_once() -> None:
    rows = [(Counting(n), 0) for n in range(3000)]
    bag = Bag(rows)
    bag.put_in_order_now(1)
    Counting.compared = 0
    for n in range(0, 3000, 30):
        bag.take((Counting(n), 0))
        bag.add((Counting(n), 0))
    assert Counting.compared < 100 * 50
    bag.check_invariants()


def test_rows_count_as_often_as_they_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    bag = Bag([(n % 5, 0) for n in range(100)])
    made(bag, 0)
    assert bag.count(0, 1, 2) == len(bag.between(0, 1, 2)) == 40
    assert bag.count(0, 7, 9) == 0
    monkeypatch.setattr(bags, "COUNTED", 1)
    assert bag.count(0, 1, 2) >= 40, "where that is long to count it is at most so many"
    assert bag.count(0, 2, 2) == 20


@given(st.lists(ROWS, max_size=20), st.integers(1, 5))
def test_its_rows_come_in_parts_of_so_many(rows: list[Row], most: int) -> None:
    parts = list(Bag(rows).in_parts(most))
    assert Counter(row for part in parts for row in part) == Counter(rows)
    assert all(0 < len(part) <= most for part in parts)


@pytest.mark.parametrize("times", [1, 2])
def test_what_comes_and_goes_between_parts_is_in_none(times: int) -> None:
    rows = [(n, 0) for n in range(9)] * times
    bag = Bag(rows)
    parts = bag.in_parts(2)
    found = list(next(parts))
    bag.take((8, 0))
    bag.add((9, 0))
    for part in parts:
        found += part
    assert Counter(found) == Counter(rows)


def test_one_makes_an_order_and_who_comes_meanwhile_does_without() -> None:
    bag = Bag([(n, 0) for n in range(9)])
    first = bag.put_in_order(0)
    next(first)
    assert made(bag, 0) == 0 and not bag.orders
    first.close()
    assert made(bag, 0) == 9 * ORDER_BYTES


def test_an_order_that_too_much_comes_in_between_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bags, "MOST_WAITING", 3)
    bag = Bag([(n, 0) for n in range(9)])
    making = bag.put_in_order(0)
    next(making)
    for n in range(10, 20):
        bag.add((n, 0))
    with pytest.raises(StopIteration) as ended:
        while True:
            next(making)
    assert ended.value.value == 0 and not bag.orders
    assert made(bag, 0) == 19 * ORDER_BYTES


def test_what_is_not_there_cannot_be_taken() -> None:
    with pytest.raises(KeyError):
        Bag([(1, 1)]).take((2, 2))
