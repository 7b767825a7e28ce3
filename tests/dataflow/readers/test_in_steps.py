"""An answer that is derived, loaded or sorted in steps is the one that is made in one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

import dataflow.held.bag
import dataflow.readers.in_steps
import dataflow.readers.ranges
from dataflow.entries import Held, Linking, dependents_of, touch
from dataflow.messages import Pair
from dataflow.readers.derivation import read_in_order
from dataflow.readers.in_steps import FIRST, HeldRows, answered, at_once, finished
from sqltypes.errors import UnprovenString
from sqltypes.expression import Row
from tests.support.engine_rig import Rig, gtids

QUERIES = (
    "SELECT id, v FROM t WHERE k = ?",
    "SELECT id, v FROM t WHERE k = ? ORDER BY v, id DESC",
    "SELECT v, COUNT(*), MAX(id) FROM t WHERE k = ? GROUP BY v",
    "SELECT DISTINCT v FROM t WHERE k = ? ORDER BY v LIMIT 3",
    "SELECT v, COUNT(*) AS c FROM t WHERE k = ? GROUP BY v HAVING c > 2 ORDER BY c, v",
    "SELECT id, v FROM t WHERE k = ? AND v > 2 ORDER BY v",
)
JOINS = (
    "SELECT t.id, w.v FROM t JOIN w ON w.id = t.v WHERE t.k = ?",
    "SELECT t.id, w.v FROM t LEFT JOIN w ON w.id = t.v WHERE t.k = ? ORDER BY w.v, t.id",
    "SELECT w.v, COUNT(*), SUM(t.id) FROM t JOIN w ON w.id = t.v WHERE t.k = ? GROUP BY w.v",
    "SELECT COUNT(*) FROM t JOIN w ON w.id = t.v WHERE t.k = ?",
)
RNG = random.Random(5)
TABLE = {number: (number, 1, RNG.randrange(8)) for number in range(100)}


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataflow.readers.in_steps, "AT_ONCE", 3)


def joined(query: str) -> Rig:
    made = Rig(query)
    made.read(1)
    (request,) = made.asked()
    wide: list[Row] = [(number, number * 7) for number in range(0, 8, 2)]
    made.answer(request, [(k, *rest) for id_, k, v in TABLE.values() for rest in [(id_, v)]], wide, lower=gtids(1))
    return made


@pytest.mark.parametrize("query", [*QUERIES, *JOINS])
def test_in_steps_and_in_one_are_the_same(query: str) -> None:
    made = joined(query) if " JOIN " in query else Rig(query)
    if " JOIN " not in query:
        made.fill_from(TABLE, 1)
    reader = made.readers[0]
    keys = [(reader.key_of((1,)), (1,))]
    expected = reader.answer(keys)
    assert expected
    assert at_once(answered(reader, keys, reader.held_levels)) == expected
    assert at_once(answered(reader, keys * 2, reader.held_levels)) == reader.answer(keys * 2)
    assert at_once(finished(reader, [], (1,))) == reader.program.finish([], (1,))
    held = made.engine.sieve.hold(reader, *keys[0])
    assert held is not None
    found = HeldRows(reader, held, (1,))
    at_once(found.steps())
    assert found.rows == expected and found.version == held.version is not None
    made.engine.check_invariants()


@pytest.mark.parametrize("query", [QUERIES[0], "SELECT id, v FROM t WHERE k = ? AND v > 2"])
def test_rows_that_have_changed_come_in_the_order_of_reading(query: str) -> None:
    made = Rig(query)
    made.fill_from(TABLE, 1)
    made.change(2, (TABLE[1], (1, 1, 7)))
    reader = made.readers[0]
    keys = [(reader.key_of((1,)), (1,))]
    found = at_once(answered(reader, keys, reader.held_levels))
    assert found is not None and found == reader.answer(keys)
    assert (1, 7) in found and [id_ for id_, _ in found] == [
        id_ for id_ in range(100) if any(row[0] == id_ for row in found)
    ]


def test_where_the_place_of_a_row_is_not_known_rows_stay_as_they_are() -> None:
    def unknown(row: Row, params: Row = ()) -> int:
        raise UnprovenString("not in any order")

    rows: list[Row] = [(2,), (1,)]
    assert read_in_order(unknown, rows) == rows and read_in_order(FIRST, rows) == [(1,), (2,)]
    made = Rig(QUERIES[0])
    made.fill_from(TABLE, 1)
    reader = made.readers[0]
    reader.program = replace(reader.program, reading=unknown)
    keys = [(reader.key_of((1,)), (1,))]
    assert len(reader.answer(keys) or ()) == len(TABLE)
    assert at_once(answered(reader, keys, reader.held_levels)) == reader.answer(keys)


def test_a_hole_is_told() -> None:
    made = Rig(QUERIES[0])
    reader = made.readers[0]
    assert at_once(answered(reader, [(5, (5,))], reader.held_levels)) is None


@pytest.mark.parametrize("query", QUERIES[:2])
@pytest.mark.parametrize("stored", [True, False])
def test_a_change_between_two_steps_leaves_no_answer(query: str, stored: bool) -> None:
    """At each of the steps: what comes of it is no answer, or the key has another list of encodings."""
    for at in range(1, 200):
        made = Rig(query)
        made.fill_from(TABLE, 1)
        reader = made.readers[0]
        if stored:
            assert made.hit(1) is not None
        held = reader.entries[1]
        if not stored:
            held.stale()
        found = HeldRows(reader, held, (1,))
        steps = found.steps()
        if sum(1 for _, _ in zip(range(at), steps, strict=False)) < at:
            return
        made.change(2, ((1, 1, TABLE[1][2]), (1, 1, 99)))
        for _ in steps:
            pass
        assert found.version is None or held.version != found.version
        made.engine.check_invariants()
    raise AssertionError("it does not end")


def test_a_key_that_was_let_go_is_watched_by_nobody() -> None:
    made = Rig(QUERIES[0])
    made.engine.memory.remains.few = 0
    made.fill_from(TABLE, 1)
    reader = made.readers[0]
    held = reader.entries[1]
    held.stale()
    reader.let_go()
    for _ in HeldRows(reader, held, (1,)).steps():
        made.engine.check_invariants()
    assert not reader.watches


def test_a_key_that_goes_between_two_steps_stays_away() -> None:
    made = Rig(QUERIES[0])
    made.fill_from(TABLE, 1)
    held = made.readers[0].entries[1]
    held.stale()
    found = HeldRows(made.readers[0], held, (1,))
    steps = found.steps()
    next(steps)
    made.readers[0].drop(held)
    for _ in steps:
        pass
    assert found.rows is None and not found.holes
    made.engine.check_invariants()
    assert made.engine.memory.used == 0


def test_an_entry_that_goes_between_two_steps_is_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each of the steps, those that put the rows of its range in order among them."""
    monkeypatch.setattr(dataflow.readers.ranges, "WORTH", 50)
    monkeypatch.setattr(dataflow.readers.ranges, "SHORT", 50)
    monkeypatch.setattr(dataflow.held.bag, "AT_ONCE", 3)
    for at in range(1, 200):
        made = Rig("SELECT id, v FROM t WHERE k = ? AND v > ? ORDER BY v")
        made.fill_from(TABLE, 1, 2)
        reader = made.readers[0]
        (held,), (entry,) = reader.entries.values(), reader.held_levels[0].values()
        held.stale()
        found = HeldRows(reader, held, (1, 2))
        steps = found.steps()
        if not run_on(steps, at):
            return
        assert at > 1 or not entry.content.orders
        reader.program.root.discard(entry)
        assert not run_on(steps, 1000)
        assert found.version is None or held.version != found.version
        made.engine.check_invariants()
    raise AssertionError("it does not end")


@pytest.mark.parametrize("query", [*QUERIES, "SELECT id, ROW_NUMBER() OVER (ORDER BY v) AS r FROM t WHERE k = ?"])
def test_an_entry_is_loaded_in_parts_as_in_one(query: str) -> None:
    made = Rig(query)
    node = made.readers[0].nodes[0]
    width = 4 if "GROUP BY" in query else 2
    rows: list[Row] = [tuple([number % 60, *[number] * (width - 1)]) for number in range(60)]
    if "GROUP BY" not in query and "ROW_NUMBER" not in query:
        rows += rows[:30]
    steps = node.load_in_parts((1,) if "ROW_NUMBER" in query else 1, list(rows), 7)
    parted = at_once(steps)
    whole = node.load(parted.key, list(rows))
    assert parted.size == whole.size
    shown = [list(node.rows(entry.content)) for entry in (parted, whole)]
    assert shown[0] == shown[1]
    assert [row for part in node.rows_in_parts(parted.content, 7) for row in part] == shown[0]


def large_join() -> tuple[Rig, Held]:
    """A key whose answer is made of some entries, and is stale; a change of its rows has led to one that another key
    had."""
    made = joined(JOINS[1])
    made.read(2)
    (request,) = made.asked()
    made.answer(request, [(2, 200, 9)], [(9, 63)], lower=gtids(1))
    made.change(2, ((1, 1, TABLE[1][2]), (1, 1, 9)))
    held = made.readers[0].entries[made.readers[0].key_of((1,))]
    assert held.version is None and len(held.deps) > 4
    return made, held


def drop_other(made: Rig) -> None:
    made.readers[0].drop(made.readers[0].entries[2])


def run_on(steps: Iterator[None], most: int) -> bool:
    """Makes so many steps. Whether there are more."""
    return sum(1 for _ in islice(steps, most)) == most


@pytest.mark.parametrize(
    ("pair", "table"),
    [
        (((1, 1, 9), (1, 1, 99)), "test.t"),
        (((9, 0, 63), (9, 0, 64)), "test.w"),
        (((0, 0, 0), (0, 0, 1)), "test.w"),
        (((6, 0, 42), (6, 0, 43)), "test.w"),
        ((None, (5, 0, 1)), "test.w"),
    ],
)
def test_a_change_while_a_key_is_linked_leaves_no_answer_or_is_in_it(pair: Pair, table: str) -> None:
    for at in range(1, 500):
        made, held = large_join()
        reader = made.readers[0]
        found = HeldRows(reader, held, (1,))
        steps = found.steps()
        if not run_on(steps, at):
            return
        made.change(3, pair, table=table)
        run_on(steps, 1000)
        if held.version is not None and held.version == found.version:
            assert found.rows == reader.answer([(held.key, (1,))])
        assert held.watch is None
        made.engine.check_invariants()
        body, rows = made.hit(1), reader.answer([(held.key, (1,))])
        assert body is None or body == repr(rows).encode()
    raise AssertionError("it does not end")


def test_a_change_after_a_key_was_linked_in_steps_takes_its_answer_away() -> None:
    """Of each of its entries."""
    number, among = 0, 1
    while number < among:
        made, held = large_join()
        at_once(HeldRows(made.readers[0], held, (1,)).steps())
        assert held.version is not None
        among = len(held.deps)
        touch(held.deps[number])
        assert held.version is None
        number += 1
    assert among > 4


def test_what_a_key_does_not_need_any_more_is_let_go_when_it_is_linked_in_steps() -> None:
    made, held = large_join()
    at_once(HeldRows(made.readers[0], held, (1,)).steps())
    before = set(held.deps)
    drop_other(made)
    pairs: list[Pair] = [(row if row[0] != 1 else (1, 1, 9), (row[0], 1, 3)) for row in TABLE.values()]
    made.change(3, *pairs)
    used = made.engine.memory.used
    at_once(HeldRows(made.readers[0], held, (1,)).steps())
    assert held.version is not None and len(held.deps) == 2 < len(before)
    assert sum(1 for entry in before if entry.content is not None) == 2
    assert made.engine.memory.used < used
    made.engine.check_invariants()


def test_two_link_a_key_at_once_and_a_third_goes_away() -> None:
    made, held = large_join()
    expected = made.readers[0].answer([(held.key, (1,))])
    watched: list[int] = []
    held.watch = lambda: watched.append(1)
    all_found = [HeldRows(made.readers[0], held, (1,)) for _ in range(3)]
    first, second, third = [found.steps() for found in all_found]
    for _ in range(250):
        run_on(third, 1)
        run_on(first, 1)
        run_on(second, 1)
        if isinstance(held.watch, Linking):
            third.close()
    run_on(first, 10_000)
    run_on(second, 10_000)
    assert [found.rows for found in all_found] == [expected, expected, None]
    assert held.watch is not None and not isinstance(held.watch, Linking)
    made.change(3, ((1, 1, 9), (1, 1, 4)))
    assert watched and held.version is None
    made.engine.check_invariants()


def test_a_key_that_goes_while_it_is_linked_leaves_nothing() -> None:
    for at in range(1, 500):
        made, held = large_join()
        steps = HeldRows(made.readers[0], held, (1,)).steps()
        if not run_on(steps, at):
            return
        made.readers[0].drop(held)
        run_on(steps, 1000)
        drop_other(made)
        made.engine.check_invariants()
        assert made.engine.memory.used == 0 and held.deps == ()
    raise AssertionError("it does not end")


def test_a_key_that_is_let_go_while_it_is_linked_has_no_answer() -> None:
    """Its entries may stay, and change."""
    seen = 0
    for at in range(1, 500):
        made, held = large_join()
        found = HeldRows(made.readers[0], held, (1,))
        steps = found.steps()
        if not run_on(steps, at):
            break
        linking = isinstance(held.watch, Linking)
        made.readers[0].let_go()
        run_on(steps, 1000)
        seen += linking
        assert not linking or (found.rows is None and held.version is None)
        made.engine.memory.remains.take_apart(1000)
        assert made.engine.memory.used == 0
    assert seen > 3


def test_a_key_that_somebody_else_links_to_others_meanwhile_is_derived_again() -> None:
    seen = 0
    for at in range(1, 500):
        made, held = large_join()
        found = HeldRows(made.readers[0], held, (1,))
        steps = found.steps()
        if not run_on(steps, at):
            break
        before, linking = held.deps, isinstance(held.watch, Linking)
        made.engine.sieve.hold(made.readers[0], held.key, (1,))
        run_on(steps, 1000)
        if linking and held.deps is not before and found.rows is None:
            seen += 1
        assert len(set(held.deps)) == len(held.deps)
        assert all(held in dependents_of(entry) for entry in held.deps)
        made.engine.check_invariants()
    assert seen


@pytest.mark.parametrize("meanwhile", ["nothing", "filled again", "changed"])
def test_a_key_of_many_entries_that_goes_leaves_them_a_few_at_a_time(meanwhile: str) -> None:
    made, held = large_join()
    remains, engine = made.engine.memory.remains, made.engine
    at_once(HeldRows(made.readers[0], held, (1,)).steps())
    drop_other(made)
    remains.few_deps = 3
    made.readers[0].drop(held)
    assert made.readers[0].entries == {} and engine.memory.used > 0
    remains.take_apart(2)
    engine.check_invariants()
    if meanwhile == "changed":
        made.change(3, ((6, 0, 42), (6, 0, 43)), table="test.w")
    if meanwhile == "filled again":
        made.read(1)
        (request,) = made.asked()
        wide: list[Row] = [(number, number * 7) for number in (*range(0, 8, 2), 9)]
        rows: list[Row] = [(1, number, v if number != 1 else 9) for number, _, v in TABLE.values()]
        made.answer(request, rows, wide, lower=gtids(1, 2))
    while remains:
        remains.take_apart(1)
        engine.check_invariants()
    if meanwhile == "filled again":
        assert made.held(1) and made.hit(1) is not None
    else:
        assert engine.memory.used == 0


def test_eviction_counts_what_a_key_of_many_entries_leaves_and_no_other_key_goes() -> None:
    made, held = large_join()
    engine = made.engine
    engine.memory.remains.few_deps = 3
    used = engine.memory.used
    made.read(5)
    (request,) = made.asked()
    made.answer(request, [], [], lower=gtids(1, 2))
    assert made.hit(5) is not None
    engine.sieve.evict_to(engine.memory.used - used // 2)
    assert not held.alive and engine.sieve.evicted == 1 and made.hit(5) is not None
